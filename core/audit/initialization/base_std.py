"""The base: the standard deviation that matrices have before any depth rule, a constant or a function of the fans.

A reader is a matrix that reads the residual stream (begins a branch), a writer one that ends a branch. A reader agrees
with a base if its standard deviation is the base's within sampling error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from .measure import MatrixStats, grouped, usable
from .weight_stats import ORTHOGONAL, combined_tolerance, tolerance


@dataclass(frozen=True)
class FanLaw:
    """A function of (fan_in, fan_out), with its formula as text, that a standard deviation is proportional to."""

    formula: str
    of: Callable[[int, int], float]


CONSTANT = FanLaw("constant", lambda fan_in, fan_out: 1.0)
FAN_IN = FanLaw("1/sqrt(fan_in)", lambda fan_in, fan_out: 1 / math.sqrt(fan_in))
XAVIER = FanLaw("sqrt(2/(fan_in+fan_out))", lambda fan_in, fan_out: math.sqrt(2 / (fan_in + fan_out)))
FAN_OUT = FanLaw("1/sqrt(fan_out)", lambda fan_in, fan_out: 1 / math.sqrt(fan_out))
# The standard deviation of orthogonal rows or columns; no other draw follows it.
LARGER_FAN = FanLaw("1/sqrt(max(fan_in, fan_out))", lambda fan_in, fan_out: 1 / math.sqrt(max(fan_in, fan_out)))
# torch.nn.Linear's own, which stays where no initializer ran.
TORCH = (FAN_IN, 1 / math.sqrt(3))
# Constants in common use: LeCun, torch.nn.Linear's own, He, Xavier, and orthogonal.
NAMED = ((FAN_IN, 1.0), TORCH, (FAN_IN, math.sqrt(2)), (XAVIER, 1.0), (LARGER_FAN, 1.0))
TRANSPOSED = ((FAN_OUT, 1.0), (FAN_OUT, 1 / math.sqrt(3)))
# A standard deviation that code writes down instead of reading its configuration.
HARD_CODED = 0.02
# How much worse, in chi-square, a named law may fit than a constant made to fit: 4.5 standard errors.
WORSE = 20.0
# Configurations name the standard deviation of their draws in these ways, and their language model in those.
RANGE_KEYS = ("initializer_range", "init_std", "init_stddev", "initializer_std")
PARTS = ("text_config", "decoder", "llm_config")


class Origin(Enum):
    """Where a base (the standard deviation of matrices before any depth rule) was read from."""

    DECLARED = "declared by the user"
    CONFIGURED = "a key of the configuration"
    POOLED = "the readers it was pooled from"
    NAMED = "a law in common use"
    WRITERS = "a law in common use that the writers are scaled from, and the readers are not"
    DEPTHS = "what readers at two depths have in common"
    OUTSIDE = "a table outside the blocks"
    NOTHING = "nothing to read it from"


@dataclass(frozen=True, kw_only=True)
class BaseStd:
    """A base standard deviation: constant * shrink * law(fan_in, fan_out).

    - `shrink` is the standard deviation over that before truncation, 1 without truncation.
    - `count` is the number of values that the constant was measured on, 0 if it is exact.
    - `agreeing` of `readers` matrices that read the stream agree with the base.
    - `named`: the constant is one in common use. `key`: the configuration's key or the table's name it was read from.
    - `beside` is the readers' base if the writers have another.
    - `apart`: the pieces of a fused matrix were drawn one by one, so that each has its own fan_out.
    """

    law: FanLaw
    constant: float
    origin: Origin
    key: str = ""
    count: int = 0
    agreeing: int = 0
    readers: int = 0
    shrink: float = 1.0
    named: bool = False
    beside: BaseStd | None = None
    apart: bool = False

    def std(self, matrix: MatrixStats) -> float:
        """Return the standard deviation that this base gives `matrix`, before any depth rule."""
        return self.constant * self.shrink * self.law.of(matrix.fan_in, matrix.drawn_out(apart=self.apart))

    @property
    def tolerance(self) -> float:
        """How far the measured constant may be off by chance, as a difference of logarithms; 0 if it is exact."""
        return tolerance(self.count) if self.count else 0.0


def declared_base(std: float, origin: Origin, readers: Sequence[MatrixStats], key: str = "") -> BaseStd:
    """Return the constant base with standard deviation `std`, declared by the user or found in the configuration.

    If the readers agree with it only after truncation, it includes their `shrink`.
    """
    base = BaseStd(law=CONSTANT, constant=std, origin=origin, key=key, readers=len(readers))
    bases = [replace(base, shrink=shrink) for shrink in shrinks(readers)]
    counted = [replace(one, agreeing=len(_agreeing(usable(readers), one))) for one in bases]
    return max(counted, key=lambda one: one.agreeing)


def configured_base(settings: Mapping[str, Any] | None, readers: Sequence[MatrixStats]) -> BaseStd | None:
    """Return the `BaseStd` that a configuration declares, for example by `initializer_range`; None without one.

    It is the standard deviation of matrices before any depth rule.
    """
    for key in RANGE_KEYS:
        value = (settings or {}).get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
            return declared_base(float(value), Origin.CONFIGURED, readers, key)
    inner = next((value for name in PARTS if isinstance(value := (settings or {}).get(name), Mapping)), None)
    return None if inner is None else configured_base(inner, readers)


def shrinks(readers: Sequence[MatrixStats]) -> tuple[float, ...]:
    """Return the possible ratios of the standard deviation to that before truncation, as a tuple.

    They are 1 and, if some readers show truncation, the mean ratio of those.
    """
    cut = [m.weights.shrink for m in usable(readers) if m.weights.truncation is not None]
    return (1.0, sum(cut) / len(cut)) if cut else (1.0,)


def named_bases(readers: Sequence[MatrixStats]) -> Iterator[BaseStd]:
    """Yield a `BaseStd` for every law in common use, without truncation and with that seen in `readers`.

    Readers are the matrices that begin a branch.
    """
    for law, constant in NAMED:
        for shrink in shrinks(readers):
            yield BaseStd(
                law=law, constant=constant, origin=Origin.NAMED, readers=len(readers), shrink=shrink, named=True
            )


def pooled_base(readers: Sequence[MatrixStats]) -> BaseStd | None:
    """Return the base that the most readers (matrices that read the stream) agree with, within sampling error.

    Among laws with equally many readers, one with a constant in common use wins, because such agreement is rarely
    chance, unless a plain constant fits its readers much better; otherwise a plain constant wins. None if no reader has
    a positive, finite standard deviation.
    """
    known = usable(readers)
    if not known:
        return None
    fits = {law: _cluster(known, law) for law in (CONSTANT, FAN_IN, XAVIER, LARGER_FAN) if _possible(known, law)}
    most = max(len(cluster) for cluster in fits.values())
    for usual in named_bases(readers):
        agreeing = _agreeing(known, usual) if usual.law in fits else []
        if len(agreeing) < most:
            continue
        if _misfit(agreeing, usual) <= _misfit(agreeing, _pooled(CONSTANT, agreeing, readers)) + WORSE:
            return replace(usual, origin=Origin.POOLED, agreeing=len(agreeing))
    law = next(law for law in fits if len(fits[law]) == most)
    return _pooled(law, fits[law], readers)


def equal_laws(readers: Sequence[MatrixStats], base: BaseStd) -> Iterator[BaseStd]:
    """Yield the other bases in common use that at least as many readers agree with as with a base in common use.

    Square matrices do not tell 1/sqrt(fan_in) from Xavier's law, nor does a fused matrix tell whether its pieces were
    drawn one by one.
    """
    known = usable(readers)
    if not base.named:
        return
    for usual in named_bases(readers):
        for apart in (False, True) if usual.law == XAVIER and any(m.piece for m in known) else (False,):
            other = replace(usual, origin=Origin.POOLED, apart=apart)
            agreeing = len(_agreeing(known, other)) if _possible(known, other.law) else 0
            if agreeing >= base.agreeing and (other.law, other.constant, apart) != (base.law, base.constant, False):
                yield replace(other, agreeing=agreeing)


def other_laws(readers: Sequence[MatrixStats], base: BaseStd) -> Iterator[BaseStd]:
    """Yield the laws of the fans that at least as many readers agree with as with a constant base.

    That happens where all readers read one width. Nothing is yielded where `base` is not a constant, or is the constant
    that code usually writes, `HARD_CODED`.
    """
    if base.law != CONSTANT or any(
        abs(math.log(base.constant / (HARD_CODED * shrink))) <= base.tolerance for shrink in shrinks(readers)
    ):
        return
    known = usable(readers)
    for law in (FAN_IN, XAVIER, FAN_OUT, LARGER_FAN):
        cluster = _cluster(known, law) if _possible(known, law) else []
        if len(cluster) >= base.agreeing:
            yield _pooled(law, cluster, readers)


def transposed(readers: Sequence[MatrixStats]) -> BaseStd | None:
    """Return the `BaseStd` proportional to 1 / sqrt(fan_out); None if the readers do not show it.

    Every reader (matrix that begins a branch) must agree with it, and its constant must be in common use.
    """
    known = usable(readers)
    cluster = _cluster(known, FAN_OUT) if known else []
    if not cluster or len(cluster) < len(known):
        return None
    base = _pooled(FAN_OUT, cluster, readers)
    usual = any(abs(math.log(base.constant / constant)) <= base.tolerance for _, constant in TRANSPOSED)
    return replace(base, named=True) if usual else None


def _possible(known: Sequence[MatrixStats], law: FanLaw) -> bool:
    return law != LARGER_FAN or all(m.weights.distribution == ORTHOGONAL for m in known)


def _pooled(law: FanLaw, cluster: Sequence[MatrixStats], readers: Sequence[MatrixStats]) -> BaseStd:
    count = sum(m.weights.count for m in cluster)
    power = sum(m.weights.count * (m.weights.std / law.of(m.fan_in, m.drawn_out(apart=False))) ** 2 for m in cluster)
    return BaseStd(
        law=law,
        constant=math.sqrt(power / count),
        origin=Origin.POOLED,
        count=count,
        agreeing=len(cluster),
        readers=len(readers),
    )


def _misfit(readers: Sequence[MatrixStats], base: BaseStd) -> float:
    """Return the chi-square of log(std of a reader / std of the base) over the readers.

    log(std) of n normal values has variance 1 / 2n.
    """
    return sum(2 * m.weights.count * math.log(m.weights.std / base.std(m)) ** 2 for m in readers)


def _agreeing(known: Sequence[MatrixStats], base: BaseStd) -> list[MatrixStats]:
    return [m for m in known if abs(math.log(m.weights.std / base.std(m))) <= tolerance(m.weights.count)]


def _cluster(known: Sequence[MatrixStats], law: FanLaw) -> list[MatrixStats]:
    """Return the largest set of readers that agree on one constant; of equal sets, that with the larger constant."""
    units = sorted(_units(known, law), key=lambda unit: unit[0])
    best: list[MatrixStats] = []
    for start, (low, first, _) in enumerate(units):
        here: list[MatrixStats] = []
        for value, count, members in units[start:]:
            if math.log(value / low) > combined_tolerance(tolerance(first), tolerance(count)):
                break
            here += members
        if len(here) >= len(best):
            best = here
    return best


def _units(known: Sequence[MatrixStats], law: FanLaw) -> Iterator[tuple[float, int, list[MatrixStats]]]:
    """Yield (constant, number of values, readers): the readers of a group together where they agree, else each alone.

    A constant is known more exactly pooled over the blocks than from one matrix.
    """
    for members in grouped(known):
        pooled = _pooled(law, members, members)
        together = len(_agreeing(members, pooled)) == len(members)
        for unit in [members] if together else [[m] for m in members]:
            own = _pooled(law, unit, unit)
            yield own.constant, own.count, unit
