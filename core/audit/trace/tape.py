"""Hand a discovered chain to the observer: the same `Tape` that the decoder's own forward returns, with E = 1."""

from __future__ import annotations

from typing import Any

import torch

from ...decoder.tape import Contribution, Tape
from .discovery import Discovery, Site
from .measured import MeasuredBranch


def tape_of(discovery: Discovery) -> Tape:
    """States, contributions and loss of a discovery.

    The states are leaves; the loss is a function of them whose value and whose derivatives at the recorded point are
    those of the model's reverse pass. A state that the loss does not depend on has no derivative.
    """
    states = [state.detach().clone().unsqueeze(0).requires_grad_() for state in discovery.states]
    reached = [
        (state, adjoint.detach().unsqueeze(0))
        for state, adjoint in zip(states, discovery.adjoints, strict=True)
        if adjoint is not None
    ]
    loss = _Recorded.apply(  # type: ignore[no-untyped-call]
        discovery.loss, [adjoint for _, adjoint in reached], *(state for state, _ in reached)
    )
    contributions = [
        _contribution(discovery, place + 1, site, branch, measured)
        for place, site in enumerate(discovery.sites)
        if site.measured is not None
        for branch, measured in enumerate(site.measured.branches)
    ]
    gain = _final_gain(discovery)
    return Tape(
        labels=discovery.labels[: len(states)],
        states=states,
        loss=loss,
        valid=discovery.inputs.valid,
        contributions=contributions,
        owns_final_gain=gain is not None,
        final_gain=gain,
    )


class _Recorded(torch.autograd.Function):
    """The recorded loss with its recorded derivatives."""

    @staticmethod
    def forward(ctx: Any, loss: torch.Tensor, adjoints: list[torch.Tensor], *states: torch.Tensor) -> torch.Tensor:
        del states
        ctx.adjoints = adjoints
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        factor = gradients[0].reshape(1, 1, 1, 1)
        return (None, None, *(adjoint * factor.to(adjoint.dtype) for adjoint in ctx.adjoints))


def _contribution(discovery: Discovery, number: int, site: Site, branch: int, measured: MeasuredBranch) -> Contribution:
    assert site.measured is not None
    stream = site.measured.stream
    gained = measured.contribution.expand(stream.shape)
    raw = measured.raw if measured.raw.shape == stream.shape else gained
    gain = _gain(discovery, measured)
    return Contribution(
        site=number,
        block=site.block,
        branch=site.kinds[branch],
        raw=raw.unsqueeze(0),
        contribution=gained.unsqueeze(0),
        stream=stream.unsqueeze(0),
        owns_gain=gain is not None,
        gain=gain,
    )


def _gain(discovery: Discovery, measured: MeasuredBranch) -> torch.Tensor | None:
    """The gain `[1, D]` of the norm that reads the stream, where there is exactly one such vector."""
    flow, found = discovery.chain.flow, []
    for vertex in measured.branch.gains:
        value = flow.value(vertex)
        if value is not None and value.numel() == discovery.width and value.shape[-1] == discovery.width:
            found.append(value.reshape(1, -1))
    return found[0].detach() if len(found) == 1 else None


def _final_gain(discovery: Discovery) -> torch.Tensor | None:
    """The gain of the norm between the last state and the head, where there is exactly one such vector."""
    flow, last = discovery.chain.flow, discovery.sites[-1].addition.next_state if discovery.sites else None
    if last is None or last not in discovery.chain.cuts:
        return None
    behind = {vertex[0] for vertex in discovery.chain.cuts[: discovery.chain.cuts.index(last)]}
    found = []
    for index in behind:
        node = flow.nodes[index]
        vectors = node.inputs[1:2] if node.kind == "norm" else node.inputs if node.kind == "scale" else ()
        for vertex in vectors:
            if vertex is None or flow.dynamic(vertex):
                continue
            value = flow.value(vertex)
            if value is not None and value.numel() == discovery.width:
                found.append(value.reshape(1, -1).detach())
    return found[0] if len(found) == 1 else None
