"""Convert a discovered chain to a `Tape`, the class that the decoder's own forward returns; it has one arm (E = 1).

A vertex is an output of a node of the flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...decoder.tape import Contribution, Tape
from .branches import gains_of
from .discovery import Discovery, Site
from .flow import Vertex
from .measured import MeasuredBranch


def tape_of(discovery: Discovery) -> Tape:
    """Return the tape of a discovery: its states, contributions and loss.

    The states are leaf tensors. The loss is a function of them with the recorded value, and its gradients at them are
    those of the model's reverse pass. A state that the loss does not depend on gets no gradient.
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
        for branch, measured in enumerate(site.contributions)
    ]
    gain = _final_gain(discovery)
    return Tape(
        labels=discovery.labels[: len(states)],
        states=states,
        loss=loss,
        valid=discovery.valid,
        contributions=contributions,
        owns_final_gain=gain is not None,
        final_gain=gain,
    )


class _Recorded(torch.autograd.Function):
    """An autograd function that returns the recorded loss, and the recorded adjoints as its gradients."""

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
    gain = _one_vector(discovery, measured.branch.gains)
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


def _final_gain(discovery: Discovery) -> torch.Tensor | None:
    """Return the gain `[1, D]` of the norm between the last state and the head; None unless there is exactly one."""
    flow, cuts, last = discovery.chain.flow, discovery.chain.cuts, discovery.sites[-1].addition.next_state
    if last not in cuts:
        return None
    behind = {vertex[0] for vertex in cuts[: cuts.index(last)]}
    return _one_vector(discovery, [vertex for index in behind for vertex in gains_of(flow, flow.nodes[index])])


def _one_vector(discovery: Discovery, vertices: Sequence[Vertex]) -> torch.Tensor | None:
    """Return the value `[1, D]` of the only vertex that is a vector of the stream's width.

    None unless exactly one is.
    """
    values = [discovery.chain.flow.value(vertex) for vertex in vertices]
    width = discovery.width
    found = [v.reshape(1, -1).detach() for v in values if v is not None and v.numel() == v.shape[-1] == width]
    return found[0] if len(found) == 1 else None
