"""The residual stream of a model at its true size, by the stream that was found and proved in a small one.

Both models have one class and one depth, so that their forwards run the same operations in the same order. The values
are those of the large model: every state, contribution, coefficient, adjoint and the loss.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import nn
from torch.autograd.graph import GradientEdge

from ...errors import AuditError
from ..sandbox.guard import Guard, undisturbed
from ..trace.branches import Branch, MatrixUse, fans_of
from ..trace.chain import Chain
from ..trace.discovery import Discovery, Site
from ..trace.flow import Factor, Flow, Vertex
from ..trace.inputs import ModelInputs, model_inputs
from ..trace.layout import layout_at
from ..trace.loss import Loss, loss_of
from ..trace.measured import Missing, Reader, measured_addition
from ..trace.names import ParameterNames
from ..trace.placing import valid_positions
from ..trace.recorder import Address
from .drawing import Drawing
from .streaming import Hollow, Sighting, Streaming


class TrueFlow(Flow):
    """The flow of a small model with the values and shapes of the large one; its other facts are those of both."""

    def __init__(self, flow: Flow, values: Mapping[Vertex, torch.Tensor], parameters: Mapping[int, torch.Tensor]):
        vars(self).update(vars(flow))
        self._values, self._parameters = values, parameters

    def value(self, vertex: Vertex) -> torch.Tensor | None:
        """Return the large model's value of a vertex; None where it was not kept, and for matrices."""
        parameter = self.node(vertex).parameter
        if parameter is None:
            return self._values.get(vertex)
        large = self._parameters.get(id(parameter))
        return None if large is None or large.is_meta else large.detach()

    def shape(self, vertex: Vertex) -> tuple[int, ...]:
        """Return the shape of a vertex's value; the small model's where it was not kept."""
        value = self._values.get(vertex)
        return super().shape(vertex) if value is None else tuple(value.shape)


@dataclass
class TrueReader(Reader):
    """A `Reader` whose factors are the large model's parameters in place of the small one's, by address in memory."""

    vectors: Mapping[tuple[int, int], torch.Tensor] = field(default_factory=dict)

    def scaled(self, value: torch.Tensor, factors: Sequence[Factor], like: Vertex, what: str) -> torch.Tensor:
        """Return `value` times all factors, as the base class does."""
        return super().scaled(value, [self._large(factor) for factor in factors], like, what)

    def _large(self, factor: Factor) -> Factor:
        if not isinstance(factor, torch.Tensor):
            return factor
        return self.vectors.get((factor.data_ptr(), factor.numel()), factor)


def discovery_at_true_size(small: Discovery, model: nn.Module, drawing: Drawing, batch: object) -> Discovery:
    """Run `model` forward and in reverse without holding its matrices, and return its stream, read as in `small`.

    Raises `AuditError` where the names of the parameters differ, or the forward goes another way; `BatchError` where
    the batch does not fit.
    """
    names = ParameterNames(model)
    if list(names.parameters) != list(small.names.parameters) or names.aliases != small.names.aliases:
        raise AuditError("The parameters of the model and of the small one in which its stream was proved differ.")
    sighting = Sighting()
    with undisturbed(small.guard.model) as guard, guard.run(sighting, small.inputs), sighting:
        guard.call(small.inputs.arguments, small.inputs.keywords)
    addresses = dict(_addresses(small, sighting.numbers))
    operands = {
        use.operand: (sighting.numbers[use.call], use.operand[1])
        for use in _uses(small)
        if use.operand is not None and use.call in sighting.numbers
    }
    hollow = Hollow(model, drawing)
    with hollow.installed(), undisturbed(model) as guard:
        inputs = model_inputs(model, batch)
        mode = Streaming(hollow, wanted=addresses.values(), shapes=operands.values(), expected=sighting.names)
        with guard.run(mode, inputs), mode:
            loss = loss_of(guard.call(inputs.arguments, inputs.keywords), inputs)
            adjoints = _adjoints(small, addresses, mode, loss.mean)
    return _assembled(small, guard, names, inputs, loss, addresses, operands, mode, adjoints)


def _uses(small: Discovery) -> Iterator[MatrixUse]:
    for site in small.sites:
        for branch in site.branches:
            yield from (*branch.writers, *branch.readers)


def _addresses(small: Discovery, numbers: Mapping[int, int]) -> Iterator[tuple[Vertex, Address]]:
    """Yield the vertices whose values are read, with their addresses among the operations that autograd follows."""
    flow = small.chain.flow
    wanted = {small.chain.base}
    for site in small.sites:
        addition = site.addition
        wanted |= {addition.sum, addition.state, addition.next_state}
        terms = (addition.shortcut, *addition.carried, *addition.terms)
        wanted |= {term.leaf for term in terms if term.leaf is not None}
        wanted |= {vertex for branch in site.branches for vertex in (branch.leaf, branch.raw)}
    # Vectors made of parameters: gains.
    wanted |= {
        (index, number)
        for index, node in enumerate(flow.nodes)
        if not node.dynamic
        for number, shape in enumerate(node.shapes)
        if len(shape) < 2
    }
    for vertex in sorted(wanted):
        address = flow.address(vertex)
        if address is not None and address[0] in numbers:
            yield vertex, (numbers[address[0]], address[1])


def _adjoints(
    small: Discovery, addresses: Mapping[Vertex, Address], mode: Sighting, loss: torch.Tensor
) -> dict[Vertex, torch.Tensor]:
    """Return the adjoint at every state of the stream that has one, by vertex."""
    states = [small.chain.base, *(site.addition.next_state for site in small.sites)]
    edges = {v: mode.edges.get(addresses[v]) for v in states if v in addresses}
    found = {vertex: GradientEdge(*edge) for vertex, edge in edges.items() if edge is not None}
    gradients = torch.autograd.grad([loss.sum()], list(found.values()), allow_unused=True)
    return {vertex: g for vertex, g in zip(found, gradients, strict=True) if g is not None}


def _assembled(
    small: Discovery,
    guard: Guard,
    names: ParameterNames,
    inputs: ModelInputs,
    loss: Loss,
    addresses: Mapping[Vertex, Address],
    operands: Mapping[Address, Address],
    mode: Sighting,
    adjoints: Mapping[Vertex, torch.Tensor],
) -> Discovery:
    values = {vertex: mode.found[address] for vertex, address in addresses.items() if address in mode.found}
    large = {id(p): names.parameters[name] for name, p in small.names.parameters.items()}
    chain: Chain = copy.copy(small.chain)
    chain.flow = TrueFlow(small.chain.flow, values, large)
    shapes = {old: tuple(mode.found[new].shape) for old, new in operands.items() if new in mode.found}
    discovery = Discovery(
        guard=guard,
        inputs=replace(inputs, valid=loss.valid),
        names=names,
        chain=chain,
        layout=small.layout,
        valid=valid_positions(replace(inputs, valid=loss.valid), small.layout),
        loss=loss.mean.detach(),
        reduction=loss.reduction,
    )
    for site in small.sites:
        branches = [_branch(chain, branch, large, shapes) for branch in site.branches]
        discovery.sites.append(Site(site.addition, branches, site.kinds, site.block, site.label, site.pattern))
    vectors = {
        (p.data_ptr(), p.numel()): names.parameters[name].detach()
        for name, p in small.names.parameters.items()
        if not names.parameters[name].is_meta
    }
    reader = TrueReader(chain, small.layout, torch.from_numpy(discovery.valid), vectors=vectors)
    _measure(discovery, reader)
    for vertex in (chain.base, *(site.addition.next_state for site in discovery.sites)):
        layout = layout_at(chain.flow, small.layout, vertex)
        discovery.adjoints.append(layout.normalized(adjoints[vertex]) if vertex in adjoints else None)
    return discovery


def _branch(
    chain: Chain, branch: Branch, large: Mapping[int, torch.Tensor], shapes: Mapping[Address, tuple[int, ...]]
) -> Branch:
    """Return a branch with the large model's matrices and fans."""

    def at_size(use: MatrixUse) -> MatrixUse:
        parameters = tuple(large[id(p)] for p in use.parameters if id(p) in large)
        fans: tuple[int | None, int] = use.fan_in, use.fan_out
        if use.operand is not None and use.operand in shapes:
            fans = fans_of(chain.flow.nodes[use.node], shapes[use.operand], use.operand[1])
        return replace(use, parameters=parameters, fan_in=fans[0], fan_out=fans[1], matrix=None)

    return replace(
        branch,
        writers=[at_size(use) for use in branch.writers],
        readers=[at_size(use) for use in branch.readers],
        additive=[large[id(p)] for p in branch.additive if id(p) in large],
    )


def _measure(discovery: Discovery, reader: Reader) -> None:
    """Read every state and addition; at the first that cannot be read, note the problem and stop."""
    try:
        discovery.states.append(reader.value(discovery.chain.base, "the input state"))
        for site in discovery.sites:
            site.measured = measured_addition(reader, site.addition, site.branches, site.label)
            discovery.states.append(site.measured.next_state)
    except Missing as missing:
        discovery.problems.append(str(missing))
