"""Depth laws that a writer may follow instead of the declared one, each with its name in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from core.audit.conformance.matrices import Stored
from core.audit.names import numbered


@dataclass(frozen=True)
class Place:
    """Where a writer stands: block `block` of `blocks`, and in its stage block `inner` of `stage`."""

    block: int
    blocks: int
    stage: int
    inner: int


Factor = Callable[[Place], float]


@dataclass(frozen=True)
class DepthConvention:
    """A factor by place, with what a person would call it."""

    name: str
    words: str
    factor: Factor


def _root(count: Callable[[Place], float]) -> Factor:
    return lambda place: 1 / math.sqrt(count(place)) if count(place) > 0 else math.inf


CONVENTIONS: tuple[DepthConvention, ...] = (
    DepthConvention("L^(-1/2)", "one addition a block is counted", _root(lambda p: p.blocks)),
    DepthConvention("(2L)^(-1/2)", "two additions a block are counted", _root(lambda p: 2 * p.blocks)),
    DepthConvention("(2l)^(-1/2)", "blocks are counted up from 0, which makes the first infinite",
                    _root(lambda p: 2 * p.block)),
    DepthConvention("l^(-1/2)", "blocks are counted up from 0, which makes the first infinite",
                    _root(lambda p: p.block)),
    DepthConvention("(2(l+1))^(-1/2)", "the block's own index is counted, not the whole depth",
                    _root(lambda p: 2 * (p.block + 1))),
    DepthConvention("(l+1)^(-1/2)", "the block's own index is counted, one addition a block",
                    _root(lambda p: p.block + 1)),
    DepthConvention("(2S)^(-1/2)", "the depth of a stage is counted, not that of the whole model",
                    _root(lambda p: 2 * p.stage)),
    DepthConvention("S^(-1/2)", "the depth of a stage is counted, one addition a block", _root(lambda p: p.stage)),
    DepthConvention("(2(s+1))^(-1/2)", "the block's index is counted anew in every stage",
                    _root(lambda p: 2 * (p.inner + 1))),
    DepthConvention("(s+1)^(-1/2)", "the block's index is counted anew in every stage, one addition a block",
                    _root(lambda p: p.inner + 1)),
    DepthConvention("(2s)^(-1/2)", "the block's index is counted anew from 0 in every stage",
                    _root(lambda p: 2 * p.inner)),
    DepthConvention("s^(-1/2)", "the block's index is counted anew from 0 in every stage", _root(lambda p: p.inner)),
    DepthConvention("(2(L-l))^(-1/2)", "blocks are counted down from the last",
                    _root(lambda p: 2 * (p.blocks - p.block))),
    DepthConvention("(L-l)^(-1/2)", "blocks are counted down from the last, one addition a block",
                    _root(lambda p: p.blocks - p.block)),
    DepthConvention("(2(L+1))^(-1/2)", "one block more than there is is counted", _root(lambda p: 2 * (p.blocks + 1))),
    DepthConvention("(2(L-1))^(-1/2)", "one block less than there is is counted", _root(lambda p: 2 * (p.blocks - 1))),
    DepthConvention("(L+1)^(-1/2)", "one block more than there is is counted, one addition a block",
                    _root(lambda p: p.blocks + 1)),
    DepthConvention("(3L)^(-1/2)", "three additions a block are counted", _root(lambda p: 3 * p.blocks)),
    DepthConvention("(4L)^(-1/2)", "four additions a block are counted", _root(lambda p: 4 * p.blocks)),
    DepthConvention("L^(-1)", "the depth is not under a root", lambda p: 1 / p.blocks),
    DepthConvention("(2L)^(-1)", "the number of additions is not under a root", lambda p: 1 / (2 * p.blocks)),
    DepthConvention("L^(-1/4)", "a fourth root of the depth is taken", lambda p: p.blocks**-0.25),
    DepthConvention("(2L)^(-1/4)", "a fourth root of the additions is taken", lambda p: (2 * p.blocks) ** -0.25),
    DepthConvention("(8L)^(-1/4)", "DeepNet's post-norm gain is used", lambda p: (8 * p.blocks) ** -0.25),
)  # fmt: skip


def stages_of(writers: Sequence[Stored], blocks: int) -> Iterator[dict[int, tuple[int, int]]]:
    """Ways to cut the blocks into stages, block -> (blocks of its stage, index in it): by names, then equal ones."""
    named = named_stages(writers)
    if named is not None:
        yield named
    for size in range(blocks // 2, 1, -1):
        if blocks % size == 0:
            yield {block: (size, block % size) for block in range(blocks)}


def named_stages(writers: Sequence[Stored]) -> dict[int, tuple[int, int]] | None:
    """Stages by names: blocks that stand in several containers, or in a numbered container of numbered ones."""
    containers: dict[str, list[int]] = {}
    for matrix in writers:
        pairs = numbered(matrix.name)
        if not pairs:
            return None
        inner = pairs[1][0] if len(pairs) > 1 and _nested(writers) else pairs[0][0]
        members = containers.setdefault(inner, [])
        if matrix.block not in members:
            members.append(matrix.block)
    if len(containers) < 2 or sum(map(len, containers.values())) != len({m.block for m in writers}):
        return None
    return {block: (len(members), place) for members in containers.values() for place, block in enumerate(members)}


def _nested(writers: Sequence[Stored]) -> bool:
    """Whether the outer number changes less often than the blocks do."""
    outer = {numbered(m.name)[0] for m in writers}
    return len(outer) < len({m.block for m in writers})
