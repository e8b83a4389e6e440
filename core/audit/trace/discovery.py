"""Discovers the residual stream of a model from one recorded forward.

The stream is a chain of additions. A state is the stream before or after one. A branch adds a contribution; writers are
the matrices that produce it, readers those that multiply the state first. A vertex is an output of a recorded
operation.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from ...errors import AuditError, first_line, no_memory
from ..sandbox.guard import Guard
from .branches import Branch, MatrixUse, branches_of
from .chain import Chain
from .flow import Flow, Vertex
from .inputs import ModelInputs
from .layout import Layout, layout_at
from .loss import Loss, loss_of
from .measured import MeasuredAddition, MeasuredBranch, Missing, Reader, measured_addition
from .names import ParameterNames, block_numbers
from .recorder import DEFAULT_BYTES, Address, Recorder, Recording, Replay, Stop
from .spine import Addition

ATTENTION, MIXER, FEED_FORWARD, PARALLEL, SKIP = "attention", "mixer", "feed_forward", "parallel", "skip"


@dataclass
class Site:
    """One addition to the stream, with its block number, its label and the kinds of its branches.

    `pattern` holds the names of its writers with their numbers replaced by `#`. `measured` is None if it could not be
    measured.
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
        """The kind of the branches if they have one in common, else `parallel`.

        `skip` if only earlier states are added.
        """
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
    """The residual stream that was found in a model: its additions (`sites`), states, adjoints and loss.

    An adjoint is the gradient of the loss with respect to a state, None if there is no path. `problems` are clauses on
    places that could not be read.
    """

    guard: Guard
    inputs: ModelInputs
    names: ParameterNames
    chain: Chain
    layout: Layout
    loss: torch.Tensor
    reduction: str
    sites: list[Site] = field(default_factory=list)
    adjoints: list[torch.Tensor | None] = field(default_factory=list)
    states: list[torch.Tensor] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def width(self) -> int:
        """The number of features of the stream; 0 where no state could be read."""
        return int(self.states[0].shape[-1]) if self.states else 0

    @property
    def labels(self) -> list[str]:
        """The labels of all states in forward order, `input` first."""
        return ["input", *(site.label for site in self.sites)]


def discover(guard: Guard, inputs: ModelInputs, *, max_bytes: int = DEFAULT_BYTES) -> Discovery:
    """Record one forward of the guarded model on `inputs`, and return the `Discovery` of its residual stream.

    Raises `AuditError` if it fails or returns nothing to differentiate, `BudgetError` if it records over `max_bytes`.
    """
    recorder = Recorder(features=inputs.floats, ids=inputs.first, names=guard.names, max_bytes=max_bytes)
    with guard.run(recorder, inputs):
        with recorder, recorder.keeping_saved():
            output = guard.call(inputs.arguments, inputs.keywords)
        return _read(guard, inputs, recorder.recording, loss_of(output, inputs))


def _read(guard: Guard, inputs: ModelInputs, recording: Recording, loss: Loss) -> Discovery:
    inputs = replace(inputs, valid=loss.valid)
    flow = Flow(loss.root, recording, inputs.floats)
    chain = Chain(flow)
    discovery = Discovery(
        guard=guard,
        inputs=inputs,
        names=ParameterNames(guard.model),
        chain=chain,
        layout=Layout(inputs.rows, inputs.positions),
        loss=loss.mean.detach(),
        reduction=loss.reduction,
    )
    if not chain.additions:
        inside = f"; the forward runs inside the custom autograd function {flow.custom[0]}" if flow.custom else ""
        discovery.problems.append(f"no residual addition was found between the batch and the output{inside}")
        return discovery
    discovery.layout = _layout(discovery)
    _name_sites(discovery)
    try:
        _measure(discovery)
    except Missing as missing:
        discovery.problems.append(str(missing))
    _differentiate(discovery, loss.mean)
    return discovery


def replayed(discovery: Discovery, replay: Replay, inputs: ModelInputs | None = None) -> dict[Address, torch.Tensor]:
    """Run the model again and return the tensors that `replay` keeps: a dict from (call, place) to tensor.

    Some are missing if the forward fails because of what was changed, such as a silenced writer or another token.
    """
    given = inputs or discovery.inputs
    with contextlib.suppress(Stop, AuditError), discovery.guard.run(replay, given), replay:
        discovery.guard.call(given.arguments, given.keywords)
    return replay.found


def _layout(discovery: Discovery) -> Layout:
    """Return where rows and positions stand in the stream; tokens are changed where shapes do not show it."""
    chain, layout = discovery.chain, discovery.layout
    shape, before = chain.flow.shape(chain.base), chain.flow.value(chain.base)
    if before is None or chain.flow.address(chain.base) is None:
        return layout
    if layout.normalized(before) is None and len(shape) == 3 and shape[0] == layout.rows:
        return _longer(discovery, before)
    if not layout.ambiguous(shape):
        return layout
    swapped = Layout(layout.rows, layout.positions, positions_first=True)
    changed = _changed(discovery, before, layout.positions - 1)
    moved = []
    for candidate in (layout, swapped):
        difference = None if changed is None else candidate.normalized(changed)
        moved.append(difference is not None and bool(difference[0, -1].any()) and not bool(difference[1:].any()))
    return swapped if moved == [False, True] else layout


def _longer(discovery: Discovery, before: torch.Tensor) -> Layout:
    """Return the layout of a stream longer than the batch: positions stand where their tokens change state 0."""
    layout, picked = discovery.layout, []
    for position in range(layout.positions):
        changed = _changed(discovery, before, position)
        places = [] if changed is None else changed[0].any(dim=-1).nonzero().flatten().tolist()
        if len(places) != 1:
            return layout
        picked += places
    return Layout(layout.rows, int(before.shape[1]), picked=tuple(picked))


def _changed(discovery: Discovery, before: torch.Tensor, position: int) -> torch.Tensor | None:
    """Return 1.0 where the first state changes with one token of row 0, else 0.0; None if it was not recomputed."""
    address = discovery.chain.flow.address(discovery.chain.base)
    assert address is not None
    after = replayed(discovery, Replay([address]), discovery.inputs.moved(0, position)).get(address)
    return None if after is None else (after != before).to(torch.float32)


def _name_sites(discovery: Discovery) -> None:
    chain, names = discovery.chain, discovery.names
    kind_of = partial(_kind, discovery)
    found = [branches_of(chain, addition, kind_of) for addition in chain.additions]
    written = [
        names.of(p for branch in branches for use in branch.writers for p in use.parameters) for branches in found
    ]
    every = [[name for branch in branches for name in _named(discovery, branch)] for branches in found]
    seen: Counter[str] = Counter()
    numbers = block_numbers(every, written)
    for addition, branches, block, writers in zip(chain.additions, found, numbers, written, strict=True):
        pattern = tuple(sorted({re.sub(r"\d+", "#", name) for name in writers}))
        site = Site(addition, branches, [kind_of(branch) for branch in branches], block, "", pattern)
        label = f"block.{block}.after_{site.kind}"
        seen[label] += 1
        site.label = label if seen[label] == 1 else f"{label}_{seen[label]}"
        discovery.sites.append(site)


def _named(discovery: Discovery, branch: Branch) -> list[str]:
    """Return the names of a branch's writers and readers, and of the gains that scale what it reads."""
    matrices = [p for use in (*branch.writers, *branch.readers) for p in use.parameters]
    gains = [p for vertex in branch.gains for p in discovery.chain.flow.parameters_of(vertex)]
    return discovery.names.of([*matrices, *gains])


def _kind(discovery: Discovery, branch: Branch) -> str:
    """Return the kind of a branch: feed-forward if each position depends on no other position, else attention or mixer.

    Where the output has zero gradient (a gate or a writer of zeros), the inputs of its writers are tested instead.
    """
    flow, mixes = discovery.chain.flow, None
    read = [vertex for use in branch.writers for vertex in flow.moving(flow.nodes[use.node])]
    for vertex in (branch.deep, *read) if discovery.inputs.positions > 1 else ():
        mixes = _depends_elsewhere(discovery, vertex, branch.source)
        if mixes is not None:
            break
    if not (branch.softmax if mixes is None else mixes):
        return FEED_FORWARD
    return ATTENTION if branch.softmax else MIXER


def _depends_elsewhere(discovery: Discovery, vertex: Vertex, state: Vertex) -> bool | None:
    """Return whether `vertex` at the last position depends on `state` at another; None without a gradient."""
    flow, layout = discovery.chain.flow, discovery.layout
    output, source = flow.edge(vertex), flow.edge(state)
    if output is None or source is None:
        return None
    marked = torch.zeros(flow.shape(vertex), dtype=flow.node(vertex).dtype)
    view = layout_at(flow, layout, vertex).normalized(marked)
    if view is None:
        return None
    # `normalized` gives a view wherever it can; where it gives a copy, nothing is marked.
    view[:, -1] = 1.0
    if not bool(marked.any()):
        return None
    try:
        (gradient,) = _gradients([GradientEdge(*output)], [GradientEdge(*source)], [marked], retain_graph=True)
    except AuditError:
        # A backward hook may expect the gradients of a whole pass; one is run below.
        return None
    spread = None if gradient is None else layout_at(flow, layout, state).normalized(gradient)
    if spread is None or not bool((spread != 0).any()):
        return None
    return bool((spread[:, :-1] != 0).any())


def _measure(discovery: Discovery) -> None:
    """Read every state and addition in forward order. Raises `Missing` at the first that cannot be read."""
    reader = Reader(discovery.chain, discovery.layout, torch.from_numpy(discovery.inputs.valid))
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


def _differentiate(discovery: Discovery, loss: torch.Tensor) -> None:
    """Compute the adjoint at every state by one reverse pass; None for a state without a path to the loss."""
    flow = discovery.chain.flow
    vertices: list[Vertex] = [discovery.chain.base, *(site.addition.next_state for site in discovery.sites)]
    edges = [flow.edge(vertex) for vertex in vertices]
    found = iter(_gradients([loss.sum()], [GradientEdge(*edge) for edge in edges if edge is not None]))
    for edge, vertex in zip(edges, vertices, strict=True):
        gradient = next(found) if edge is not None else None
        layout = layout_at(flow, discovery.layout, vertex)
        discovery.adjoints.append(None if gradient is None else layout.normalized(gradient))


def _gradients(
    outputs: Sequence[Any], inputs: Sequence[Any], marked: Sequence[Any] | None = None, *, retain_graph: bool = False
) -> tuple[torch.Tensor | None, ...]:
    """Return gradients by one reverse pass, None where there is no path. Raises `AuditError` where it fails."""
    try:
        return torch.autograd.grad(outputs, inputs, marked, retain_graph=retain_graph, allow_unused=True)
    except Exception as error:
        # A hook of the user's may raise anything.
        if no_memory(error):
            raise
        reason = first_line(error).removeprefix("RuntimeError: ")
        raise AuditError(f"The reverse pass of the model fails: {reason}.") from error
