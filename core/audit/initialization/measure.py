"""Measure writers (matrices that write to the residual stream) and readers (matrices that read it).

Both are measured as they are stored and as the forward uses them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from ...decoder.parameters import Role
from ..trace.branches import MatrixUse
from ..trace.discovery import Discovery, Site
from ..trace.kinds import ATTENTION, FEED_FORWARD
from .slices import slices_of
from .uses import CAST, before, behind, gates, on_matrix, reading
from .weight_stats import ORTHOGONAL, WeightStats, standard_deviation, weight_stats


@dataclass(frozen=True, kw_only=True)
class MatrixStats:
    """One matrix in use, or one slice of a fused tensor.

    `place` is the index of its addition, `branch` that of its branch there, `shape` that of the whole parameter.
    `forward` is the product of the factors that the forward applies before, on and after the matrix, relative to the
    shortcut's, which is `shortcut`. `gates` are the parameters that multiply a writer's branch, `modulated` where a
    condition decides their values. `hidden`: a norm stands between it and the stream. `linear`: the branch is linear in
    the output of this reader, `partly` in a part of it. `joint` and `piece` are the fan_out of the whole parameter and
    of the equal pieces that its output is cut into, 0 where there are none.
    """

    name: str
    part: str
    block: int
    place: int
    branch: int
    kind: str
    writes: bool
    fan_in: int
    fan_out: int
    shape: tuple[int, ...]
    weights: WeightStats
    forward: float = 1.0
    hidden: bool = False
    shortcut: float = 1.0
    gates: tuple[str, ...] = ()
    modulated: bool = False
    linear: bool = False
    partly: bool = False
    joint: int = 0
    piece: int = 0

    def drawn_out(self, *, apart: bool) -> int:
        """Return the fan_out that a draw counts: of the whole parameter, or of one piece where drawn `apart`."""
        return (self.piece if apart else self.joint) or self.fan_out

    @property
    def reads_as(self) -> tuple[Role, ...]:
        """The roles that a reader may have in a recipe's `laws`, by how its branch depends on it."""
        if self.kind == FEED_FORWARD:
            return ("up",) if self.linear else ("gate", "up")
        if self.kind != ATTENTION:
            return ("query", "key", "value", "gate", "up")
        fused: tuple[Role, ...] = ("query", "key", "value")
        return ("value",) if self.linear else fused if self.partly else ("query", "key")

    @property
    def role(self) -> Role:
        """The key of this writer's law in a recipe's `laws`: `down` in a feed-forward branch, else `output`.

        Has no meaning for a reader.
        """
        return "down" if self.kind == FEED_FORWARD else "output"

    @property
    def orthonormal(self) -> bool:
        """Whether its rows or columns are orthonormal: orthogonal, and without any factor."""
        length = self.weights.std * math.sqrt(max(self.fan_in, self.fan_out, *self.shape[-2:]))
        return self.weights.distribution == ORTHOGONAL and abs(length - 1) < CAST

    @property
    def shown(self) -> str:
        """The name, followed by the slice."""
        return self.name + self.part

    @property
    def group(self) -> str:
        """The name with its numbers replaced by `#`, followed by the slice: the same in every block."""
        return pattern(self.name) + self.part

    @property
    def where(self) -> tuple[int, int]:
        """The indices of its addition and its branch."""
        return self.place, self.branch


@dataclass(frozen=True, kw_only=True)
class ModelStats:
    """Every writer and reader of one build, in forward order, each parameter or slice once.

    `outside` maps the names of tables outside the blocks to their standard deviation and number of values. `idle`: some
    branch adds exactly zero.
    """

    blocks: int
    width: int
    writers: tuple[MatrixStats, ...]
    readers: tuple[MatrixStats, ...]
    outside: Mapping[str, tuple[float, int]]
    idle: bool = False

    @property
    def visible(self) -> list[MatrixStats]:
        """The writers whose scale reaches the stream: not zero and not hidden by a norm; infinite ones are included."""
        return [m for m in self.writers if not m.hidden and m.weights.std != 0 and m.forward != 0]

    @property
    def zero(self) -> list[MatrixStats]:
        """The writers that are zero, or that the forward multiplies by zero."""
        return [m for m in self.writers if m.weights.largest == 0 or m.forward == 0]


def pattern(name: str) -> str:
    """Return a parameter's name with its numbers replaced by `#`: the same in every block."""
    return re.sub(r"(?<![^.])\d+(?![^.])", "#", name)


def usable(matrices: Iterable[MatrixStats]) -> list[MatrixStats]:
    """Return the matrices whose standard deviation is positive and finite."""
    return [m for m in matrices if m.weights.finite and m.weights.std > 0]


def grouped(matrices: Iterable[MatrixStats]) -> list[list[MatrixStats]]:
    """Return the matrices in lists of equal `group`, in order of first appearance."""
    groups: dict[str, list[MatrixStats]] = {}
    for matrix in matrices:
        groups.setdefault(matrix.group, []).append(matrix)
    return list(groups.values())


def median(values: Iterable[float]) -> float:
    """Return the median; the larger of the middle two for an even number of values, NaN for none."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else math.nan


def measure(discovery: Discovery) -> ModelStats:
    """Measure every writer and reader of a discovery, and return them with their statistics.

    A matrix that is both counts as a writer, except where slices of it are used.
    """
    written = list(_seen(discovery, "writers"))
    names = {seen.name for seen in written}
    read = [seen for seen in _seen(discovery, "readers") if seen.name not in names or _sliced(seen)]
    both = names & {seen.name for seen in read}
    writers = _measured(discovery, written, True, both)
    taken = {m.shown for m in writers}
    readers = [m for m in _measured(discovery, read, False, both) if m.shown not in taken]
    inside = {m.name for m in (*writers, *readers)}
    outside = {
        name: (standard_deviation(p), p.numel())
        for name, p in discovery.names.parameters.items()
        if p.dim() == 2 and name not in inside and min(p.shape) > 1 and p.is_floating_point()
    }
    blocks = len({site.block for site in discovery.sites})
    idle = any(not bool(branch.contribution.any()) for site in discovery.sites for branch in site.contributions)
    return ModelStats(
        blocks=blocks, width=discovery.width, writers=tuple(writers), readers=tuple(readers), outside=outside, idle=idle
    )


@dataclass(frozen=True)
class _Seen:
    use: MatrixUse
    name: str
    parameter: torch.Tensor
    operand: torch.Tensor | None
    place: int
    branch: int


def _seen(discovery: Discovery, which: str) -> Iterator[_Seen]:
    for place, site in enumerate(discovery.sites):
        for number, branch in enumerate(site.branches):
            for use in getattr(branch, which):
                if use.fan_in is None or (which == "readers" and use.fan_out == 1):
                    # A vector that gives one number, as a router's token, is no matrix of the branch.
                    continue
                for name in discovery.names.of(use.parameters):
                    parameter = discovery.names.parameters[name]
                    if parameter.dim() >= 2 and parameter.numel() and parameter.is_floating_point():
                        operand = use.matrix if len(use.parameters) == 1 else None
                        yield _Seen(use, name, parameter.detach(), operand, place, number)


def _sliced(seen: _Seen) -> bool:
    operand, parameter = seen.operand, seen.parameter
    if operand is None or operand.numel() >= parameter.numel():
        return False
    return operand.untyped_storage().data_ptr() == parameter.untyped_storage().data_ptr()


def _measured(discovery: Discovery, found: Sequence[_Seen], writes: bool, both: set[str]) -> list[MatrixStats]:
    matrices: dict[tuple[str, str], MatrixStats] = {}
    whole: set[str] = set()
    for seen in found:
        site = discovery.sites[seen.place]
        if seen.name in both and seen.operand is not None:
            parts = [(f"[at {seen.operand.storage_offset()}]", seen.operand)]
        elif seen.name in whole:
            continue
        else:
            whole.add(seen.name)
            parts = [(part.label, part.of(seen.parameter)) for part in slices_of(seen.parameter)]
        for label, tensor in parts:
            matrix = _matrix(discovery, seen, site, label, tensor, writes)
            matrices.setdefault((seen.name, label), matrix)
    return list(matrices.values())


def _matrix(
    discovery: Discovery, seen: _Seen, site: Site, label: str, tensor: torch.Tensor, writes: bool
) -> MatrixStats:
    use = seen.use
    assert use.fan_in is not None
    matrix = MatrixStats(
        name=seen.name,
        part=label,
        block=site.block,
        place=seen.place,
        branch=seen.branch,
        kind=site.kinds[seen.branch],
        writes=writes,
        fan_in=use.fan_in,
        fan_out=use.fan_out,
        shape=tuple(seen.parameter.shape),
        weights=weight_stats(tensor),
    )
    branch = site.branches[seen.branch]
    if not writes:
        read = reading(discovery, branch, use)
        joint = _joint(seen, use) if not matrix.part else 0
        return replace(matrix, linear=read.linear, partly=read.partly, joint=joint, piece=read.piece)
    forward = (
        on_matrix(seen.operand, seen.parameter) * before(discovery, use) * behind(discovery, site, seen.branch, use)
    )
    shortcut = site.measured.shortcut if site.measured is not None else None
    return replace(
        matrix,
        forward=forward,
        hidden=branch.norm_out,
        shortcut=1.0 if shortcut is None else abs(shortcut.value),
        gates=gates(discovery, site, seen.branch),
        modulated=bool(branch.gates),
    )


def _joint(seen: _Seen, use: MatrixUse) -> int:
    """Return the fan_out of the whole parameter where the product uses a slice of it; 0 where it uses all."""
    rest, left = divmod(seen.parameter.numel(), use.fan_in or 1)
    return rest if _sliced(seen) and not left else 0
