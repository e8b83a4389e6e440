"""Prove a discovered chain of additions: by arithmetic at every addition, and by silencing writers.

Writers are the matrices that produce what an addition adds to the stream. With the writers of one addition read as
zeros, every earlier state must keep its bits and the sum must equal the shortcut plus the carried terms (what earlier
states add without a matrix). The first, the middle and the last addition of each kind are tried. The model is never
written to: a second run reads zeros in place of the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from .branches import MatrixUse
from .coverage import left_out, silent_blocks
from .discovery import Discovery, Site
from .flow import Vertex
from .measured import Missing, Reader, difference
from .operations import VIEWS
from .recorder import Address, Replay
from .rerun import replayed

Verdict = Literal["proved", "partial", "failed"]

IDENTITY_TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 5e-3}
INTERVENTION_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Intervention:
    """One run with the writers of an addition silenced, that is, read as zeros.

    `difference` is the largest difference of the sum from shortcut plus carried terms, relative to their largest value.
    `problem` is a clause that says what failed, None where nothing did.
    """

    label: str
    earlier_states_equal: bool = False
    difference: float = math.nan
    problem: str | None = None

    @property
    def passed(self) -> bool:
        """Whether every earlier state kept its bits and the sum equals the shortcut plus the carried terms."""
        return self.problem is None


@dataclass(frozen=True)
class Identity:
    """The verdict on a chain. `reason` is a sentence wherever the verdict is not `proved`, else None.

    `worst_relative_error` is the largest error of all additions, None where no addition was measured.
    """

    verdict: Verdict
    worst_relative_error: float | None
    interventions: list[Intervention]
    reason: str | None


def prove(discovery: Discovery) -> Identity:
    """Prove a discovery: compare every addition with its parts, run the interventions, and look for unused blocks.

    `failed`: no chain, or an addition that is not the sum of its parts. `partial`: any other problem.
    """
    if not discovery.sites:
        return Identity("failed", None, [], _sentence(discovery.problems))
    errors = {site.label: site.measured.error for site in discovery.sites if site.measured is not None}
    worst = max(errors.values(), default=None)
    problems = list(discovery.problems)
    tolerance = _tolerance(discovery)
    for label, error in errors.items():
        if not error <= tolerance:
            problems.append(f"at {label} shortcut and contributions differ from the next state by {error:.2g}")
            return Identity("failed", worst, [], _sentence(problems))
    problems += _left_out(discovery)
    reached = zip(discovery.labels, discovery.adjoints, strict=False)
    problems += [f"the loss has no gradient at {label}" for label, adjoint in reached if adjoint is None]
    tried = chosen_sites(discovery.sites) if len(errors) == len(discovery.sites) else []
    interventions = [_intervene(discovery, site) for site in tried]
    problems += [trial.problem for trial in interventions if trial.problem is not None]
    return Identity("partial" if problems else "proved", worst, interventions, _sentence(problems) or None)


def _left_out(discovery: Discovery) -> list[str]:
    """Return the problems with the blocks that the main stream leaves out; none for a stream beside it."""
    if not discovery.chain.main:
        return []
    problems = [f"{block} never wrote to the stream" for block in silent_blocks(discovery)]
    problems += [
        f"the stream of {discovery.name} is not carried from block to block: it begins anew after {one.labels[-1]}"
        for one in discovery.beside
        if (one.name, one.width, one.layout) == (discovery.name, discovery.width, discovery.layout)
    ]
    names, most = left_out(discovery)
    if most:
        problems.append(f"the blocks of {', '.join(names)} are a part of no stream")
    return problems


def chosen_sites(sites: Sequence[Site]) -> list[Site]:
    """Return the additions to try: the first, middle and last of each kind that has writers, in forward order."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, site in enumerate(sites):
        if site.writers:
            groups.setdefault((*site.kinds, *site.pattern), []).append(place)
    places = {group[place] for group in groups.values() for place in (0, len(group) // 2, -1)}
    return [sites[place] for place in sorted(places)]


def _tolerance(discovery: Discovery) -> float:
    """Return the tolerance of the states' type, or of the autocast's where that is larger."""
    types = [state.dtype for state in discovery.states[:1]]
    types += [discovery.guard.autocast[1]] if discovery.guard.autocast is not None else []
    return max((IDENTITY_TOLERANCE.get(dtype, 1e-5) for dtype in types), default=1e-5)


def _intervene(discovery: Discovery, site: Site) -> Intervention:
    parameters, operands = _silenced(discovery, site)
    if not parameters and not operands:
        return Intervention(site.label, problem=f"{site.label} has no writers to silence")
    flow, place = discovery.chain.flow, discovery.sites.index(site)
    earlier = [discovery.chain.base, *(s.addition.next_state for s in discovery.sites[:place])]
    terms = [site.addition.shortcut, *site.addition.carried]
    stream = [term.leaf for term in terms if term.leaf is not None and flow.dynamic(term.leaf)]
    vertices = [*earlier, site.addition.sum, *stream]
    addresses = [flow.address(vertex) for vertex in vertices]
    wanted = [address for address in addresses if address is not None]
    if len(wanted) < len(vertices):
        return Intervention(site.label, problem=f"{site.label} is computed out of sight and cannot be tried")
    found = replayed(discovery.guard, discovery.inputs, Replay(wanted, parameters=parameters, operands=operands))
    if any(address not in found for address in wanted):
        return Intervention(
            site.label, problem=f"with the writers of {site.label} silenced the forward goes another way"
        )
    values = {vertex: found[address] for vertex, address in zip(vertices, wanted, strict=True)}
    equal = all(_same_bits(flow.value(vertex), values[vertex]) for vertex in earlier)
    difference = _gap(discovery, site, values)
    problem = None
    if not equal:
        problem = f"silencing the writers of {site.label} changes an earlier state"
    elif not difference <= INTERVENTION_TOLERANCE:
        passes = "; part of what it gains passes no matrix" if any(b.passes for b in site.branches) else ""
        problem = (
            f"with the writers of {site.label} silenced the next state still differs from the shortcut by "
            f"{difference:.2g}{passes}"
        )
    return Intervention(site.label, equal, difference, problem)


def _silenced(discovery: Discovery, site: Site) -> tuple[list[torch.Tensor], list[Address]]:
    """Return the parameters to read as zeros, and the addresses of operands to read as zeros at one call each.

    Addresses are used where a parameter is used outside this addition too, or where a matrix is computed from
    parameters.
    """
    uses = site.writers
    parameters = {id(p): p for use in uses for p in use.parameters}
    for branch in site.branches:
        parameters |= {id(p): p for p in branch.additive}
    if not _used_elsewhere(discovery, site, set(parameters)):
        # A matrix computed from parameters (a direction and a length) may be undefined where they are zero.
        made = [use for use in uses if use.operand is not None and _computed(discovery, use)]
        parts = {id(p) for use in made for p in use.parameters}
        return [p for key, p in parameters.items() if key not in parts], [use.operand for use in made if use.operand]
    operands = [use.operand for use in uses if use.operand is not None]
    operands += [operand for branch in site.branches for operand in branch.additive_operands]
    return [], operands


def _computed(discovery: Discovery, use: MatrixUse) -> bool:
    """Return whether a matrix is computed from parameters, and not just a view of one."""
    flow = discovery.chain.flow
    made_of = [flow.node(vertex) for vertex in flow.behind(flow.static(flow.nodes[use.node]))]
    return len(use.parameters) > 1 or any(node.kind != "parameter" and node.name not in VIEWS for node in made_of)


def _used_elsewhere(discovery: Discovery, site: Site, wanted: set[int]) -> bool:
    flow = discovery.chain.flow
    own = {use.node for use in site.writers}
    reached: set[int] = set()
    for index, node in enumerate(flow.nodes):
        hit = node.parameter is not None and id(node.parameter) in wanted
        hit |= any(vertex[0] in reached for vertex in flow.static(node))
        if hit and not node.dynamic:
            reached.add(index)
        elif hit and index not in own and node.kind in ("matrix", "source"):
            return True
    return False


def _same_bits(first: torch.Tensor | None, second: torch.Tensor) -> bool:
    if first is None or first.shape != second.shape or first.dtype != second.dtype:
        return False
    # Compared as integers: a NaN equals itself, and 0.0 is not -0.0.
    whole = {8: torch.int64, 4: torch.int32, 2: torch.int16}[first.element_size()]
    return torch.equal(first.contiguous().view(whole), second.contiguous().view(whole))


def _gap(discovery: Discovery, site: Site, values: dict[Vertex, torch.Tensor]) -> float:
    """Return the largest difference of the sum from shortcut plus carried terms, relative to their largest value.

    NaN where one of them cannot be read.
    """
    kept = torch.from_numpy(discovery.valid)
    reader = Reader(discovery.chain, discovery.layout, kept, values)
    addition = site.addition
    terms = (addition.shortcut, *addition.carried)
    try:
        total = reader.value(addition.sum, site.label)
        stream = sum(reader.term(term, addition.sum, site.label).double() for term in terms)
    except Missing:
        return math.nan
    assert isinstance(stream, torch.Tensor)
    return difference(total, stream, kept)


def _sentence(problems: Sequence[str]) -> str:
    if not problems:
        return ""
    first = problems[0]
    more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
    # A name of the model or of a site begins the sentence as it is.
    word = first.split(" ", 1)[0]
    return (first[0].upper() + first[1:] if word.isalpha() else first) + more + "."
