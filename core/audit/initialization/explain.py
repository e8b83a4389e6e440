"""Explain the standard deviations of groups of writers: as asked, unscaled, by another depth law, by another fan.

A writer is a matrix that writes to the residual stream; a group holds the same writer of every block. The base is the
standard deviation before any depth rule, and a factor is a standard deviation over that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import combinations

from ..trace.kinds import ATTENTION
from .base_std import CONSTANT, FAN_IN, FAN_OUT, HARD_CODED, NAMED, BaseStd, Origin
from .factors import FORWARD_MARGIN, Factors, close
from .laws import (
    CATALOGUE,
    KNOWN_MISTAKES,
    KnownLaw,
    LayerIndex,
    Rule,
    Stages,
    equal_stages,
    named_stages,
)
from .measure import MatrixStats

# Shares of the heads that code may count in place of all: those of gates, or of keys and values.
HEAD_SHARES = (2, 3, 4, 8)


class Cause(Enum):
    """Why a group of writers has its standard deviation: what it follows."""

    AS_ASKED = "what the rule asks"
    COEFFICIENT = "the rule in the weights, with another coefficient in the forward"
    UNSCALED = "the base"
    TWICE_IN_FORWARD = "the rule, and the forward's factor again"
    TWICE = "the rule two times over"
    DEPTH_LAW = "another depth law"
    CONSTANT = "a factor that is no known law's"
    OTHER_FAN = "another fan than its own"
    OWN_FAN = "its own fan where the base counts none"
    OTHER_BASE = "the rule on another base"
    UNKNOWN = "nothing known"


class FanKind(Enum):
    """What code may use as a matrix's fan_in."""

    WIDTH = "the width"
    FAN_OUT = "its fan_out"
    SUM = "fan_in + fan_out"
    CONVOLUTION = "the fans of a convolution"
    FEWER_HEADS = "the features of fewer heads"
    AXES = "a product of axes"


@dataclass(frozen=True)
class Fan:
    """A fan that is used in place of fan_in; `axes` are those whose sizes are multiplied, for a product of axes.

    `share` is the number of equal shares of the heads, of which one is counted.
    """

    kind: FanKind
    axes: tuple[int, ...] = ()
    share: int = 1


@dataclass(frozen=True)
class Constants:
    """One factor for all writers at each depth, to two digits, None where there is none.

    `same`: equal at all depths.
    """

    values: tuple[float | None, ...]
    blocks: tuple[int, ...]
    same: bool


FactorOf = Callable[[Factors, MatrixStats], float]


@dataclass(frozen=True)
class Explanation:
    """Why writers have the standard deviation that they have: a cause, and what its sentence must name.

    `payload` is that: a depth law, a fan, a base or constants. `factor(factors, writer)` is the factor that the cause
    predicts for a writer, NaN where it predicts none. Where several fit equally, the one with the smallest `length` is
    taken.
    """

    cause: Cause
    payload: KnownLaw | Fan | BaseStd | Constants | None = None
    length: int = field(default=0, compare=False)
    factor: FactorOf = field(default=lambda factors, writer: math.nan, compare=False)


# Ways to cut the blocks into stages at each depth: by name, or None, then into stages of equal size.
StagesOf = Mapping[int, Sequence[Stages | None]]


@dataclass(frozen=True)
class Explained:
    """Writers of the audited build that have one explanation in common."""

    explanation: Explanation
    writers: tuple[MatrixStats, ...]

    @property
    def cause(self) -> Cause:
        """The cause of the explanation."""
        return self.explanation.cause


def explain(depths: Sequence[Factors], rule: Rule, groups: Sequence[Sequence[MatrixStats]]) -> tuple[Explained, ...]:
    """Return an explanation for each group that fits all its writers at every depth, else one per writer.

    Where several fit, what the rule asks for is taken first, then the one that fits the most groups, then the shortest.
    """
    first = depths[0]
    stages = {d.blocks: [named_stages(d.stats.writers), *equal_stages(d.blocks)] for d in depths}
    fitting = [
        [
            one
            for one in _hypotheses(first, rule, group, stages)
            if all(d.fits(d.alike(group), partial(one.factor, d)) for d in depths)
        ]
        for group in groups
    ]
    shared = [one for found in fitting for one in found]
    explained: list[Explained] = []
    left: list[MatrixStats] = []
    for group, found in zip(groups, fitting, strict=True):
        if found:
            best = min(found, key=lambda one: (one.cause is not Cause.AS_ASKED, -shared.count(one), one.length))
            explained.append(Explained(best, tuple(group)))
            continue
        # Writers that one constant fits are alike: what each meets by itself is sampling error.
        even = _constant(depths, group).cause is Cause.CONSTANT
        apart = [] if even else _one_by_one(first, rule, group, stages)
        explained += apart
        left += [] if apart else group
    return (*explained, *_unexplained(depths, left))


def _one_by_one(first: Factors, rule: Rule, group: Sequence[MatrixStats], stages: StagesOf) -> list[Explained]:
    """Return an explanation per writer of one group; empty where they would be too many, or all the same."""
    causes = (Cause.AS_ASKED, Cause.UNSCALED, Cause.TWICE, Cause.TWICE_IN_FORWARD, Cause.DEPTH_LAW)
    known = [one for one in _hypotheses(first, rule, group, stages) if one.cause in causes]
    apart: dict[Explanation, list[MatrixStats]] = {}
    for writer in group:
        fitting = [one for one in known if first.meets(writer, one.factor(first, writer))]
        best = min(fitting, key=lambda one: one.length, default=Explanation(Cause.UNKNOWN))
        apart.setdefault(best, []).append(writer)
    # One explanation for all that does not hold at another depth is none.
    if len(apart) == 1 or len(apart) > max(2, len(group) // 2):
        return []
    return [Explained(why, tuple(members)) for why, members in apart.items()]


def _unexplained(depths: Sequence[Factors], writers: Sequence[MatrixStats]) -> list[Explained]:
    """Return explanations for writers that follow nothing known: a constant factor for all, else one per group.

    A group without a constant factor gets `Cause.UNKNOWN`.
    """
    together = _constant(depths, writers) if writers else None
    if together is not None and together.cause is Cause.CONSTANT:
        return [Explained(together, tuple(writers))]
    groups = {m.group: tuple(other for other in writers if other.group == m.group) for m in writers}
    return [Explained(_constant(depths, own), own) for own in groups.values()]


def _constant(depths: Sequence[Factors], group: Sequence[MatrixStats]) -> Explanation:
    """Return the constant factor of a group as its explanation, else `Cause.UNKNOWN`."""
    found: list[float] = []
    for depth in depths:
        writers = depth.alike(group)
        constant = writers[0].forward if depth.carried(writers) else depth.deviation(writers, [1.0] * len(writers))
        found.append(constant if math.isfinite(constant) and depth.fits(writers, constant) else math.nan)
    if math.isnan(found[0]):
        return Explanation(Cause.UNKNOWN)
    margin = sum(depth.margin(*depth.alike(group)) for depth in depths)
    same = len(found) > 1 and all(close(one, found[0], margin) for one in found[1:])
    values = tuple(None if math.isnan(value) else float(f"{value:.2g}") for value in found)
    return Explanation(Cause.CONSTANT, Constants(values, tuple(depth.blocks for depth in depths), same))


def _hypotheses(first: Factors, rule: Rule, group: Sequence[MatrixStats], stages: StagesOf) -> Iterator[Explanation]:
    """Yield every explanation to try.

    A wrong fan has a smaller length than a depth law where the base follows the fans.
    """
    yield Explanation(Cause.AS_ASKED, None, 0, lambda f, m: f.asked(rule, m))
    if rule.in_forward:
        yield Explanation(Cause.COEFFICIENT, None, 1, partial(_other_coefficient, rule))
    yield Explanation(
        Cause.TWICE_IN_FORWARD, None, 1, lambda f, m: f.asked(rule, m) * m.forward if m.forward != 1 else math.nan
    )
    yield Explanation(Cause.UNSCALED, None, 2, lambda f, m: 1.0 if m.forward == 1 else math.nan)
    yield Explanation(Cause.TWICE, None, 3, lambda f, m: f.asked(rule, m) ** 2)
    yield from _depth_laws(first, stages)
    yield from _fans(first, rule, group[0])
    yield from _other_bases(first, rule)


def _other_coefficient(rule: Rule, factors: Factors, matrix: MatrixStats) -> float:
    """Return the rule's stored factor with the forward's own; NaN where the forward has the rule's, or none."""
    own = matrix.gates or matrix.forward != 1 or matrix.shortcut != 1
    if not own or close(matrix.forward, rule.forward(matrix.block, factors.blocks), FORWARD_MARGIN):
        return math.nan
    return rule.stored(matrix, factors.stats, factors.base) * matrix.forward


def _depth_laws(first: Factors, stages: StagesOf) -> Iterator[Explanation]:
    """Yield other depth laws. Stages of equal size have the largest length, because some size often fits by chance."""
    for length, laws in ((5, CATALOGUE), (6, KNOWN_MISTAKES)):
        for law in laws:
            # Number 0 is the stages by name, the others are those of equal size.
            for number in range(len(stages[first.blocks])) if law.by_stage else (None,):
                factor = partial(_by_layer, law, stages, number)
                yield Explanation(Cause.DEPTH_LAW, law, 9 if number else length, factor)


def _by_layer(law: KnownLaw, stages: StagesOf, number: int | None, factors: Factors, matrix: MatrixStats) -> float:
    """Return the law's factor with stages number `number`; NaN where this depth has no such stages."""
    ways = stages[factors.blocks]
    way = {} if number is None else ways[number] if number < len(ways) else None
    if way is None:
        return math.nan
    stage, inner = way.get(matrix.block, (factors.blocks, matrix.block))
    return law.factor(LayerIndex(matrix.block, factors.blocks, stage, inner))


def other_fans(matrix: MatrixStats, width: int) -> dict[Fan, tuple[int, int]]:
    """Return what code may use as a matrix's (fan_in, fan_out), by `Fan`; those with the true fan_in are left out."""
    fan_in, fan_out = matrix.fan_in, matrix.fan_out
    found = {
        Fan(FanKind.WIDTH): (width, fan_out),
        Fan(FanKind.FAN_OUT): (fan_out, fan_in),
        Fan(FanKind.SUM): (fan_in + fan_out, fan_in + fan_out),
    }
    if len(matrix.shape) > 2:
        # A tensor of matrices, taken for a convolution's or for one matrix; a matrix alone has no such products.
        first, second, *rest = matrix.shape
        found[Fan(FanKind.CONVOLUTION)] = (second * math.prod(rest), first * math.prod(rest))
        for size in range(2, len(matrix.shape) + 1):
            for axes in combinations(range(len(matrix.shape)), size):
                found[Fan(FanKind.AXES, axes)] = (math.prod(matrix.shape[axis] for axis in axes), fan_out)
    if matrix.writes and matrix.kind == ATTENTION:
        for share in HEAD_SHARES:
            if fan_in % share == 0:
                found.setdefault(Fan(FanKind.FEWER_HEADS, share=share), (fan_in // share, fan_out))
    # A fan of 1 says nothing: any unit draw has it.
    return {fan: fans for fan, fans in found.items() if fans[0] not in (1, fan_in)}


def fan_factor(factors: Factors, matrix: MatrixStats, fan: Fan) -> float:
    """Return the std that a matrix has when drawn with another fan, over that with its true fans.

    NaN where the matrix has no such fan.
    """
    fans = other_fans(matrix, factors.stats.width).get(fan)
    law = FAN_IN if factors.base.law in (CONSTANT, FAN_OUT) else factors.base.law
    return math.nan if fans is None else law.of(*fans) / law.of(matrix.fan_in, matrix.fan_out)


def _fans(first: Factors, rule: Rule, example: MatrixStats) -> Iterator[Explanation]:
    constant = first.base.law == CONSTANT
    for fan in other_fans(example, first.stats.width):
        yield Explanation(Cause.OTHER_FAN, fan, 7 if constant else 4, partial(_by_fan, rule, fan, 1))
        if constant and fan.kind in (FanKind.WIDTH, FanKind.FAN_OUT):
            # The law does not ask for a fan, and the matrix was drawn by its own all the same.
            yield Explanation(Cause.OWN_FAN, fan, 7, partial(_by_fan, rule, fan, -1))


def _by_fan(rule: Rule, fan: Fan, exponent: int, factors: Factors, matrix: MatrixStats) -> float:
    return factors.asked(rule, matrix) * math.pow(fan_factor(factors, matrix, fan), exponent)


def _other_bases(first: Factors, rule: Rule) -> Iterator[Explanation]:
    """Yield the rule on a base in common use, or on the readers' own, where another constant is declared."""
    if first.base.count or first.base.law != CONSTANT:
        return
    bases = [BaseStd(law=law, constant=value, origin=Origin.NAMED) for law, value in ((CONSTANT, HARD_CODED), *NAMED)]
    for base in [*bases, *([first.pooled] if first.pooled is not None else [])]:
        yield Explanation(Cause.OTHER_BASE, base, 8, partial(_by_base, rule, base))


def _by_base(rule: Rule, base: BaseStd, factors: Factors, matrix: MatrixStats) -> float:
    return factors.asked(rule, matrix) * base.std(matrix) / factors.base.std(matrix)
