"""The standard deviation that matrices were drawn with before any depth rule: a constant, or a law of their fans."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.audit.conformance.matrices import Stored
from core.audit.conformance.spread import ORTHOGONAL, joint, tolerance

# What a base std may be proportional to, by (fan_in, fan_out).
CONSTANT, FAN_IN, FAN_OUT = "constant", "1/sqrt(fan_in)", "1/sqrt(fan_out)"
LAWS: Mapping[str, Callable[[int, int], float]] = {
    CONSTANT: lambda fan_in, fan_out: 1.0,
    FAN_IN: lambda fan_in, fan_out: 1 / math.sqrt(fan_in),
    "sqrt(2/(fan_in+fan_out))": lambda fan_in, fan_out: math.sqrt(2 / (fan_in + fan_out)),
    FAN_OUT: lambda fan_in, fan_out: 1 / math.sqrt(fan_out),
    # What orthogonal rows or columns come to; of other draws nobody means it.
    "1/sqrt(max(fan_in, fan_out))": lambda fan_in, fan_out: 1 / math.sqrt(max(fan_in, fan_out)),
}
# torch.nn.Linear's own, which is what stands where nobody drew.
TORCH = (FAN_IN, 1 / math.sqrt(3))
# Constants that make a law one that everybody uses: LeCun, torch.nn.Linear's own, He, Xavier, and orthogonal.
NAMED = (
    (FAN_IN, 1.0),
    TORCH,
    (FAN_IN, math.sqrt(2)),
    ("sqrt(2/(fan_in+fan_out))", 1.0),
    ("1/sqrt(max(fan_in, fan_out))", 1.0),
)
# A standard deviation that code writes down instead of reading its configuration.
HARD_CODED = 0.02
TRANSPOSED = ((FAN_OUT, 1.0), (FAN_OUT, 1 / math.sqrt(3)))
# How much worse, in chi-square, a usual law may fit than a constant made to fit: 4.5 standard errors.
WORSE = 20.0
# Configurations name the standard deviation of their draws in these ways.
RANGE_KEYS = ("initializer_range", "init_std", "init_stddev", "initializer_std")

# Where a configuration of several parts keeps its language model.
PARTS = ("text_config", "decoder", "llm_config")


@dataclass(frozen=True, kw_only=True)
class Base:
    """std = `constant` times a law of the fans; `count` values stand behind the constant, 0 where it is declared.

    `agreeing` of `readers` lie on it. `source` says where it comes from; `shrink` is what truncation leaves of it.
    """

    law: str
    constant: float
    source: str
    count: int = 0
    agreeing: int = 0
    readers: int = 0
    shrink: float = 1.0

    def std(self, matrix: Stored) -> float:
        """The standard deviation of that matrix before any depth rule."""
        return self.constant * self.shrink * LAWS[self.law](matrix.fan_in, matrix.fan_out)

    @property
    def tolerance(self) -> float:
        """Sampling tolerance of the constant, in log."""
        return tolerance(self.count) if self.count else 0.0

    def row(self) -> dict[str, Any]:
        """The base as it stands in the document."""
        return {
            "law": self.law,
            "constant": self.constant,
            "source": self.source,
            "readers_agreeing": self.agreeing,
            "readers": self.readers,
            "truncation_shrink": self.shrink,
        }


def usable(matrices: Iterable[Stored]) -> list[Stored]:
    """Matrices that a standard deviation says something of."""
    return [m for m in matrices if m.spread.finite and m.spread.std > 0]


def declared_base(std: float, source: str, readers: Sequence[Stored]) -> Base:
    """A constant base as declared; where the readers show it only after truncation, its shrink is taken along."""
    base = Base(law=CONSTANT, constant=std, source=source, readers=len(readers))
    bases = [replace(base, shrink=shrink) for shrink in shrinks(readers)]
    agreeing = [len(_agreeing(usable(readers), one)) for one in bases]
    best = agreeing.index(max(agreeing))
    return replace(bases[best], agreeing=agreeing[best])


def shrinks(readers: Sequence[Stored]) -> tuple[float, ...]:
    """What truncation may have left of the readers' sigma: all of it, or what their largest values tell."""
    cut = [m.spread.shrink for m in usable(readers) if m.spread.truncation is not None]
    return (1.0, sum(cut) / len(cut)) if cut else (1.0,)


def named_bases(readers: Sequence[Stored]) -> Iterator[Base]:
    """Every base that everybody uses, as it is and as truncation leaves it."""
    for law, constant in NAMED:
        for shrink in shrinks(readers):
            source = named(law, constant) + ("" if shrink == 1.0 else ", truncated")
            yield Base(law=law, constant=constant, source=source, readers=len(readers), shrink=shrink)


def pooled_base(readers: Sequence[Stored]) -> Base | None:
    """The base that most readers lie on; None where there is none to read it from.

    Of laws that fit as many readers a constant everybody uses is preferred, for it cannot be met by accident; then a
    plain constant.
    """
    known = usable(readers)
    if not known:
        return None
    fits = {law: _cluster(known, law) for law in LAWS if law != FAN_OUT and _possible(known, law)}
    most = max(len(cluster) for cluster in fits.values())
    for usual in named_bases(readers):
        agreeing = _agreeing(known, usual) if usual.law in fits else []
        if len(agreeing) < most:
            continue
        base = _of(usual.law, agreeing, readers)
        if _misfit(agreeing, usual) <= _misfit(agreeing, _of(CONSTANT, agreeing, readers)) + WORSE:
            return replace(usual, agreeing=len(agreeing), source=f"{base.source}; {usual.source} exactly")
    law = CONSTANT if len(fits[CONSTANT]) == most else next(law for law in fits if len(fits[law]) == most)
    return _of(law, fits[law], readers)


def other_laws(readers: Sequence[Stored], base: Base) -> Iterator[Base]:
    """Laws of the fans that the readers of a constant base lie on as well, for all of them read the width.

    None where the constant is one that code writes down.
    """
    if base.law != CONSTANT or any(
        abs(math.log(base.constant / (HARD_CODED * shrink))) <= base.tolerance for shrink in shrinks(readers)
    ):
        return
    known = usable(readers)
    for law in LAWS:
        if law != CONSTANT and _possible(known, law):
            cluster = _cluster(known, law)
            if len(cluster) >= base.agreeing:
                yield _of(law, cluster, readers)


def _possible(known: Sequence[Stored], law: str) -> bool:
    """Orthogonal matrices alone are drawn by the larger of their fans."""
    return "max" not in law or all(m.spread.distribution == ORTHOGONAL for m in known)


def transposed(readers: Sequence[Stored]) -> Base | None:
    """The base where every reader is drawn by its fan_out with a constant everybody uses; else None."""
    known = usable(readers)
    for law, constant in TRANSPOSED:
        cluster = _cluster(known, law) if known else []
        base = _of(law, cluster, readers) if cluster else None
        if base and len(cluster) == len(known) and abs(math.log(base.constant / constant)) <= base.tolerance:
            return base
    return None


def named(law: str, constant: float) -> str:
    """A law with its constant, in words."""
    return law if constant == 1.0 else f"{constant:.4g} times {law}"


def _of(law: str, cluster: Sequence[Stored], readers: Sequence[Stored]) -> Base:
    count = sum(m.spread.count for m in cluster)
    power = sum(m.spread.count * (m.spread.std / LAWS[law](m.fan_in, m.fan_out)) ** 2 for m in cluster)
    share = "all readers" if len(cluster) == len(readers) else f"{len(cluster)} of {len(readers)} readers"
    return Base(
        law=law,
        constant=math.sqrt(power / count),
        source=f"the pooled std of {share}" + ("" if law == CONSTANT else f", by {law}"),
        count=count,
        agreeing=len(cluster),
        readers=len(readers),
    )


def _misfit(readers: Sequence[Stored], base: Base) -> float:
    """Chi-square of the logarithms: the variance of that of a standard deviation of n normal values is 1 / 2n."""
    return sum(2 * m.spread.count * math.log(m.spread.std / base.std(m)) ** 2 for m in readers)


def _cluster(known: Sequence[Stored], law: str) -> list[Stored]:
    """The largest set of readers that lie on one constant; of sets as large, that with the larger constant."""
    units = sorted(_units(known, law), key=lambda unit: unit[0])
    best: list[Stored] = []
    for start, (low, first, _) in enumerate(units):
        here: list[Stored] = []
        for value, count, members in units[start:]:
            if math.log(value / low) > joint(tolerance(first), tolerance(count)):
                break
            here += members
        if len(here) >= len(best):
            best = here
    return best


def _units(known: Sequence[Stored], law: str) -> list[tuple[float, int, list[Stored]]]:
    """(constant, values behind it, readers): the blocks' readers of one name as one where they agree, else each.

    Pooled over the blocks a constant is known better than from any one matrix.
    """
    groups: dict[str, list[Stored]] = {}
    for m in known:
        groups.setdefault(m.group, []).append(m)
    units = []
    for members in groups.values():
        pooled = _of(law, members, members)
        if all(abs(math.log(m.spread.std / pooled.std(m))) <= tolerance(m.spread.count) for m in members):
            units.append((pooled.constant, pooled.count, members))
        else:
            units += [(m.spread.std / LAWS[law](m.fan_in, m.fan_out), m.spread.count, [m]) for m in members]
    return units


def _agreeing(known: Sequence[Stored], base: Base) -> list[Stored]:
    return [m for m in known if abs(math.log(m.spread.std / base.std(m))) <= tolerance(m.spread.count)]


def configured_std(settings: Mapping[str, Any] | None) -> tuple[float, str] | None:
    """The base standard deviation of a configuration, with its key."""
    for key in RANGE_KEYS:
        value = (settings or {}).get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
            return float(value), key
    inner = next((value for name in PARTS if isinstance(value := (settings or {}).get(name), Mapping)), None)
    return None if inner is None else configured_std(inner)
