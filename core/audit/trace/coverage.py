"""Which numbered blocks of a model the found streams account for, and which they leave out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .branches import Branch, MatrixUse
from .discovery import Discovery
from .names import common_prefix, numbered

Entry = tuple[str, int]


@dataclass
class _Block:
    """The matrices of one numbered entry of a container that the loss depends on, and whether a stream has one."""

    size: int = 0
    matrices: int = 0
    covered: bool = False


def silent_blocks(discovery: Discovery) -> list[str]:
    """Return the names of blocks that never write to a stream although they have the matrices of blocks that do.

    A block is a numbered entry (`layers.3`) of a container that holds writers or readers of a stream. One whose
    matrices have other shapes (between stages of different widths) is none, and neither is a part of a branch.
    """
    parameters = discovery.names.parameters
    used = {entry: parameters[name].shape for name in _used(discovery) for entry in _entry(name)}
    fired = {(container, number) for container, number, _ in used}
    known = {(container, rest, shape) for (container, _, rest), shape in used.items()}
    names = {(container, rest) for container, _, rest in used}
    within = _inside_branches(discovery)
    silent: dict[Entry, bool] = {}
    for name, parameter in parameters.items():
        for container, number, rest in _entry(name):
            if (container, number) not in fired and (container, rest) in names:
                same = (container, rest, parameter.shape) in known and id(parameter) not in within
                silent[container, number] = silent.get((container, number), True) and same
    return [f"{container}.{number}".lstrip(".") for (container, number), same in silent.items() if same]


def _inside_branches(discovery: Discovery) -> set[int]:
    """Return the `id()` of every parameter that is used between the state before an addition and its sum."""
    flow, found = discovery.chain.flow, set[int]()
    for one in (discovery, *discovery.beside):
        for site in one.sites:
            for vertex, _ in flow.upstream(site.addition.sum):
                if vertex[0] <= site.addition.state[0]:
                    break
                found |= {id(p) for source in flow.static(flow.node(vertex)) for p in flow.parameters_of(source)}
    return found


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
