"""Which numbered blocks of a model the found streams account for, and which they leave out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .branches import Branch, MatrixUse
from .discovery import Discovery
from .names import common_prefix, numbered
from .spine import walk_back

Entry = tuple[str, int]


@dataclass
class _Block:
    """The matrices of one numbered entry of a container that the loss depends on, and whether a stream has one."""

    size: int = 0
    matrices: int = 0
    covered: bool = False


def silent_blocks(discovery: Discovery) -> list[str]:
    """Return the names of blocks that never write to a stream although they have the parameters of blocks that do.

    A block is a numbered entry (`layers.3`) of a container that holds writers or readers of a stream. One between two
    streams (of other widths), whose shortcut passes a matrix, is none.
    """
    used = [entry for name in _used(discovery) for entry in _entry(name)]
    fired = {(container, number) for container, number, _ in used}
    known = {(container, rest) for container, _, rest in used}
    silent = [
        (container, number)
        for name in discovery.names.parameters
        for container, number, rest in _entry(name)
        if (container, number) not in fired and (container, rest) in known
    ]
    first = {container: min(number for other, number in fired if other == container) for container, _ in fired}
    between = {container for container, number in silent if number == first[container] - 1} if silent else set()
    joined = bool(between) and all(_begins_in_a_sum(one) for one in (discovery, *discovery.beside) if one.sites)
    return [
        f"{container}.{number}".lstrip(".")
        for container, number in dict.fromkeys(silent)
        if not (joined and container in between and number == first[container] - 1)
    ]


def left_out(discovery: Discovery) -> tuple[list[str], bool]:
    """Return the numbered blocks whose matrices the loss depends on, but no stream has, and whether they are the most.

    A container of which no block is covered is named as a whole. The second value is True where repeated blocks of
    several matrices that are left out hold more weights than those that are covered.
    """
    blocks = _blocks(discovery)
    left = {entry: block for entry, block in blocks.items() if not block.covered and block.matrices}
    outer = [entry for entry in left if not any(_within(entry, other) for other in left if other != entry)]
    inside = _branch_prefixes(discovery)
    outer = [entry for entry in outer if not any(f"{entry[0]}.".startswith(prefix) for prefix in inside)]
    names: dict[str, None] = {}
    lost = 0
    for container, number in outer:
        beside = [block for (other, _), block in blocks.items() if other == container]
        whole = not any(block.covered for block in beside)
        names.setdefault(container if whole and container else f"{container}.{number}".lstrip("."))
        if whole and len(beside) > 1 and left[container, number].matrices > 1:
            lost += left[container, number].size
    kept = sum(block.size for entry, block in blocks.items() if block.covered and not _has_outer(entry, blocks))
    return list(names), lost > kept


def _blocks(discovery: Discovery) -> dict[Entry, _Block]:
    parameters = discovery.names.parameters
    used = set(_used(discovery))
    live = {id(node.parameter) for node in discovery.chain.flow.nodes if node.parameter is not None}
    blocks: dict[Entry, _Block] = {}
    for name, parameter in parameters.items():
        if parameter.dim() < 2 or id(parameter) not in live:
            continue
        for entry in numbered(name):
            block = blocks.setdefault(entry, _Block())
            block.size += parameter.numel()
            block.matrices += 1
            block.covered |= name in used
    return blocks


def _branch_prefixes(discovery: Discovery) -> set[str]:
    """Return the numbered parts of the model, each with a dot, that hold a whole addition and all that is inside."""
    shared = {
        common_prefix(
            discovery.names.of(p for branch in site.branches for use in _uses(branch) for p in use.parameters)
        )
        for one in (discovery, *discovery.beside)
        for site in one.sites
    }
    return {f"{prefix}." for prefix in shared if numbered(prefix)}


def _uses(branch: Branch) -> Iterable[MatrixUse]:
    return (*branch.writers, *branch.readers, *branch.gates)


def _used(discovery: Discovery) -> Iterable[str]:
    """Return the names of all writers, readers and gates of all streams."""
    uses = [
        use
        for one in (discovery, *discovery.beside)
        for site in one.sites
        for branch in site.branches
        for use in _uses(branch)
    ]
    return discovery.names.of(p for use in uses for p in use.parameters)


def _begins_in_a_sum(discovery: Discovery) -> bool:
    """Return whether the first state is a sum of several different values."""
    chain = discovery.chain
    for vertex in walk_back(chain.step, chain.base):
        node = chain.flow.node(vertex)
        if node.kind == "sum":
            return len({term.vertex for term in node.terms if chain.flow.dynamic(term.vertex)}) > 1
    return False


def _within(entry: Entry, other: Entry) -> bool:
    return f"{entry[0]}.".startswith(f"{other[0]}.{other[1]}.".lstrip("."))


def _has_outer(entry: Entry, blocks: dict[Entry, _Block]) -> bool:
    return any(_within(entry, other) for other in blocks if other != entry)


def _entry(name: str) -> list[tuple[str, int, str]]:
    """Return the outermost numbered container of a name, the number, and the rest of the name.

    Empty where it has no number.
    """
    return [
        (container, number, name.removeprefix(f"{container}.{number}" if container else str(number)))
        for container, number in numbered(name)[:1]
    ]
