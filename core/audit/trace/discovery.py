"""Discover the residual stream of a model from one recorded forward.

The stream is a chain of additions. A state is the stream before or after one; a branch adds a contribution to it;
writers are the matrices that produce a contribution, readers those that multiply the state first. A vertex is one
output of a node of the recorded graph.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from torch.autograd.graph import GradientEdge

from ..sandbox.guard import Guard
from .branches import Branch, MatrixUse, branches_of
from .chain import Chain
from .flow import Flow, Vertex
from .inputs import ModelInputs
from .kinds import PARALLEL, SKIP, Kinds, gradients
from .layout import Layout, layout_at
from .loss import Loss, loss_of
from .measured import MeasuredAddition, MeasuredBranch, Missing, Reader, measured_addition
from .names import ParameterNames, block_numbers, common_prefix, numbered
from .placing import placed, valid_positions
from .recorder import DEFAULT_BYTES, Recorder, Recording
from .rerun import warm
from .spine import Addition


@dataclass
class Site:
    """One addition, with its place in the model and the kinds of its branches.

    `pattern` holds the names of its writers with their numbers replaced by `#`.
    """

    addition: Addition
    branches: list[Branch]
    kinds: list[str]
    block: int
    label: str
    pattern: tuple[str, ...] = ()
    measured: MeasuredAddition | None = None

    @property
    def kind(self) -> str:
        """The common kind of the branches, `parallel` for several kinds, `skip` where only earlier states are added."""
        if not self.kinds:
            return SKIP
        return self.kinds[0] if len(set(self.kinds)) == 1 else PARALLEL

    @property
    def contributions(self) -> list[MeasuredBranch]:
        """The measured branches; empty where the addition could not be measured."""
        return [] if self.measured is None else self.measured.branches

    @property
    def writers(self) -> list[MatrixUse]:
        """The writers of all branches: the matrices that produce what the addition adds."""
        return [use for branch in self.branches for use in branch.writers]


@dataclass
class Discovery:
    """A stream with its states, adjoints and loss; `problems` names the places that could not be read.

    `valid` `[B, T]` holds the positions of the stream that count. `beside` are the model's other streams, in forward
    order.
    """

    guard: Guard
    inputs: ModelInputs
    names: ParameterNames
    chain: Chain
    layout: Layout
    valid: npt.NDArray[np.bool_]
    loss: torch.Tensor
    reduction: str
    sites: list[Site] = field(default_factory=list)
    adjoints: list[torch.Tensor | None] = field(default_factory=list)
    states: list[torch.Tensor] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    beside: list[Discovery] = field(default_factory=list)

    @property
    def width(self) -> int:
        """The number of features of the stream, by its writers where no state could be read."""
        if self.states:
            return int(self.states[0].shape[-1])
        sizes = Counter(use.fan_out for site in self.sites for use in site.writers)
        return sizes.most_common(1)[0][0] if sizes else 0

    @property
    def name(self) -> str:
        """The part of the model that the stream's writers share in their names, `stream` where they share none."""
        written = self.names.of(p for site in self.sites for use in site.writers for p in use.parameters)
        shared = common_prefix(written)
        if len({site.block for site in self.sites}) == 1 and (inside := numbered(shared)):
            shared = inside[-1][0]
        return shared or "stream"

    @property
    def labels(self) -> list[str]:
        """The labels of all states in forward order, `input` first."""
        return ["input", *(site.label for site in self.sites)]


def discover(guard: Guard, inputs: ModelInputs, *, max_bytes: int = DEFAULT_BYTES) -> Discovery:
    """Run the guarded model, record a second forward of it, and read its streams from the record.

    Raises `AuditError` where it fails or returns nothing to differentiate, `BudgetError` beyond `max_bytes`.
    """
    bears_hooks = warm(guard, inputs)
    recorder = Recorder(features=inputs.floats, max_bytes=max_bytes)
    with guard.run(recorder, inputs):
        with recorder, recorder.keeping_saved() if bears_hooks else nullcontext():
            output = guard.call(inputs.arguments, inputs.keywords)
        return _read(guard, inputs, recorder.recording, loss_of(output, inputs))


def _read(guard: Guard, inputs: ModelInputs, recording: Recording, loss: Loss) -> Discovery:
    inputs = replace(inputs, valid=loss.valid)
    flow = Flow(loss.root, recording, inputs.floats)
    discovery = _stream(guard, inputs, Chain(flow), loss)
    if not discovery.sites:
        inside = f"; the forward runs inside the custom autograd function {flow.custom[0]}" if flow.custom else ""
        discovery.problems.append(f"no residual addition was found between the batch and the output{inside}")
        return discovery
    found = (_stream(guard, inputs, chain, loss) for chain in discovery.chain.beside())
    discovery.beside = [other for other in found if is_stream(other)]
    for one in (discovery, *discovery.beside):
        try:
            _measure(one)
        except Missing as missing:
            one.problems.append(str(missing))
    _differentiate([discovery, *discovery.beside], loss.mean)
    return discovery


def _stream(guard: Guard, inputs: ModelInputs, chain: Chain, loss: Loss) -> Discovery:
    layout = placed(guard, inputs, chain) if chain.additions else Layout(inputs.rows, inputs.positions)
    discovery = Discovery(
        guard=guard,
        inputs=inputs,
        names=ParameterNames(guard.model),
        chain=chain,
        layout=layout,
        valid=valid_positions(inputs, layout),
        loss=loss.mean.detach(),
        reduction=loss.reduction,
    )
    _name_sites(discovery)
    if _is_difference(discovery):
        discovery.sites.clear()
    return discovery


def _is_difference(discovery: Discovery) -> bool:
    """Return whether the only addition is a difference outside every numbered block, as a loss takes of two values."""
    if len(discovery.sites) != 1:
        return False
    (site,) = discovery.sites
    factors = [site.addition.shortcut.factors, *(branch.factors for branch in site.branches)]
    signs = {math.prod(f for f in each if not isinstance(f, torch.Tensor)) < 0 for each in factors}
    named = [name for branch in site.branches for name in _named(discovery, branch)]
    return len(signs) == 2 and not any(map(numbered, named))


def is_stream(discovery: Discovery) -> bool:
    """Return whether a chain beside the main one counts as a stream: additions with writers, most of them in blocks."""
    written = [discovery.names.of(p for use in site.writers for p in use.parameters) for site in discovery.sites]
    return bool(written) and all(written) and any(numbered(name) for names in written for name in names)


def _name_sites(discovery: Discovery) -> None:
    chain, names = discovery.chain, discovery.names
    kind_of = Kinds(chain, discovery.layout).of
    found = [branches_of(chain, addition, kind_of) for addition in chain.additions]
    written = [
        names.of(p for branch in branches for use in branch.writers for p in use.parameters) for branches in found
    ]
    every = [[name for branch in branches for name in _named(discovery, branch)] for branches in found]
    seen: Counter[str] = Counter()
    kinds = [[kind_of(branch) for branch in branches] for branches in found]
    numbers = block_numbers(every, written, kinds)
    for addition, branches, of, block, writers in zip(chain.additions, found, kinds, numbers, written, strict=True):
        pattern = tuple(sorted({re.sub(r"\d+", "#", name) for name in writers}))
        site = Site(addition, branches, of, block, "", pattern)
        label = f"block.{block}.after_{site.kind}"
        seen[label] += 1
        site.label = label if seen[label] == 1 else f"{label}_{seen[label]}"
        discovery.sites.append(site)


def _named(discovery: Discovery, branch: Branch) -> list[str]:
    """Return the names of a branch's writers and readers, and of the gains that scale what it reads."""
    matrices = [p for use in (*branch.writers, *branch.readers) for p in use.parameters]
    gains = [p for vertex in branch.gains for p in discovery.chain.flow.parameters_of(vertex)]
    return discovery.names.of([*matrices, *gains])


def _measure(discovery: Discovery) -> None:
    """Read every state and addition in forward order. Raises `Missing` at the first that cannot be read."""
    reader = Reader(discovery.chain, discovery.layout, torch.from_numpy(discovery.valid))
    base = reader.value(discovery.chain.base, "the input state")
    discovery.states.append(base)
    if not base.numel():
        raise Missing("the stream has no features")
    for site in discovery.sites:
        site.measured = measured_addition(reader, site.addition, site.branches, site.label)
        state = site.measured.next_state
        discovery.states.append(state)
        if state.shape != base.shape:
            discovery.problems.append(
                f"the state after {site.label} has {state.shape[-1]} features, the input {discovery.width}"
            )


def _differentiate(streams: Sequence[Discovery], loss: torch.Tensor) -> None:
    """Compute the adjoint at every state by one reverse pass; None for a state without a path to the loss."""
    flow = streams[0].chain.flow
    places: list[tuple[Discovery, Vertex]] = [
        (one, vertex)
        for one in streams
        for vertex in (one.chain.base, *(site.addition.next_state for site in one.sites))
    ]
    edges = [flow.edge(vertex) for _, vertex in places]
    found = iter(gradients([loss.sum()], [GradientEdge(*edge) for edge in edges if edge is not None]))
    for edge, (one, vertex) in zip(edges, places, strict=True):
        gradient = next(found) if edge is not None else None
        layout = layout_at(flow, one.layout, vertex)
        one.adjoints.append(None if gradient is None else layout.normalized(gradient))
