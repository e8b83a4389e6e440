"""Explain the standard deviations of one group of writers: as declared, unscaled, by another law, by another fan."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from core.audit.conformance.base import CONSTANT, HARD_CODED, LAWS, NAMED, Base
from core.audit.conformance.laws import CONVENTIONS, Place, stages_of
from core.audit.conformance.matrices import Stored
from core.audit.conformance.reading import Reading, visible
from core.audit.conformance.rules import Rule, close

OK, UNSCALED, TWICE, FORWARD, CONVENTION, FAN, OWN_FAN, RANGE, FLAT, UNKNOWN = (
    "ok", "unscaled", "twice", "forward", "convention", "fan", "own fan", "range", "flat", "unknown",
)  # fmt: skip
FactorOf = Callable[[Reading, Stored], float]


@dataclass(frozen=True)
class Hypothesis:
    """What a group of writers may follow."""

    label: str
    words: str
    factor: FactorOf


@dataclass(frozen=True)
class Diagnosis:
    """Writers of one group, at the first depth, that one explanation fits; `ratio` is pooled, over the declared."""

    label: str
    words: str
    writers: tuple[Stored, ...]
    ratio: float


def diagnose(readings: Sequence[Reading], rule: Rule, group: Sequence[Stored]) -> list[Diagnosis]:
    """The first explanation that fits the whole group at every depth; failing that, one a writer."""
    first = readings[0]
    for hypothesis in _hypotheses(first, rule, group):
        if all(_fits(reading, hypothesis, group) for reading in readings):
            return [_diagnosis(first, rule, hypothesis, group)]
    apart: dict[tuple[str, str], list[Stored]] = {}
    for writer in group:
        fitting = (h for h in _apart(first, rule, group) if first.meets(writer, h.factor(first, writer)))
        found = next(fitting, Hypothesis(UNKNOWN, "", _nothing))
        apart.setdefault((found.label, found.words), []).append(writer)
    # One explanation for all that does not hold at another depth is none.
    if len(apart) == 1 or len(apart) > max(2, len(group) // 2):
        return [_flat(readings, rule, group)]
    return [
        _diagnosis(first, rule, Hypothesis(label, words, _nothing), members)
        for (label, words), members in apart.items()
    ]


def ratio_of(reading: Reading, rule: Rule, writers: Sequence[Stored]) -> float:
    """Pooled factor of writers over what the rule asks; infinite where a writer or the quotient is."""
    if any(math.isinf(reading.effective(m)) for m in writers):
        return math.inf
    factors = [reading.declared(rule, m) for m in writers]
    return math.inf if any(f <= 0 for f in factors) else reading.deviation(writers, factors)


def members(reading: Reading, group: Sequence[Stored]) -> list[Stored]:
    """The visible writers of the same group in another reading."""
    return [m for m in visible(reading) if m.group == group[0].group]


def _fits(reading: Reading, hypothesis: Hypothesis, group: Sequence[Stored]) -> bool:
    writers = members(reading, group)
    return reading.fits(writers, [hypothesis.factor(reading, m) for m in writers])


def _diagnosis(reading: Reading, rule: Rule, hypothesis: Hypothesis, writers: Sequence[Stored]) -> Diagnosis:
    return Diagnosis(hypothesis.label, hypothesis.words, tuple(writers), ratio_of(reading, rule, writers))


def _nothing(reading: Reading, matrix: Stored) -> float:
    return math.nan


def _hypotheses(first: Reading, rule: Rule, group: Sequence[Stored]) -> Iterator[Hypothesis]:
    yield from _plain(rule)
    yield from _conventions(first, group)
    yield from _fans(first, rule, group)
    yield from _ranges(first, rule)


def _apart(first: Reading, rule: Rule, group: Sequence[Stored]) -> Iterator[Hypothesis]:
    yield from _plain(rule)
    yield from _conventions(first, group)


def _plain(rule: Rule) -> Iterator[Hypothesis]:
    yield Hypothesis(OK, "", lambda r, m: r.declared(rule, m))
    yield Hypothesis(FORWARD, "", lambda r, m: r.declared(rule, m) * m.forward if m.forward != 1 else math.nan)
    yield Hypothesis(UNSCALED, "", lambda r, m: 1.0 if m.forward == 1 else math.nan)
    yield Hypothesis(TWICE, "", lambda r, m: r.declared(rule, m) ** 2)


def _conventions(first: Reading, group: Sequence[Stored]) -> Iterator[Hypothesis]:
    staged = list(stages_of(first.writers, first.blocks))
    for convention in CONVENTIONS:
        by_stage = "S" in convention.name or "s" in convention.name
        for number in range(len(staged)) if by_stage else (-1,):
            yield Hypothesis(CONVENTION, f"{convention.name}: {convention.words}", _placed(convention.factor, number))


def _placed(factor: Callable[[Place], float], number: int) -> FactorOf:
    def of(reading: Reading, matrix: Stored) -> float:
        stage, inner = reading.blocks, matrix.block
        if number >= 0:
            ways = list(stages_of(reading.writers, reading.blocks))
            if number >= len(ways):
                return math.nan
            stage, inner = ways[number].get(matrix.block, (stage, inner))
        return factor(Place(matrix.block, reading.blocks, stage, inner))

    return of


def _fans(first: Reading, rule: Rule, group: Sequence[Stored]) -> Iterator[Hypothesis]:
    """Another fan in the place of the matrix's own, where that would show."""
    for words in other_fans(group[0], first.width):
        yield Hypothesis(FAN, words, _fanned(rule, words, 0.5))
        if first.base.law == CONSTANT and words in ("the width", "its fan_out"):
            # The law does not ask for a fan, and the matrix was drawn by its own all the same.
            yield Hypothesis(OWN_FAN, words, _fanned(rule, words, -0.5))


def _fanned(rule: Rule, words: str, exponent: float) -> FactorOf:
    def factor(reading: Reading, matrix: Stored) -> float:
        other = other_fans(matrix, reading.width).get(words)
        return math.nan if other is None else reading.declared(rule, matrix) * (matrix.fan_in / other) ** exponent

    return factor


def other_fans(matrix: Stored, width: int) -> dict[str, int]:
    """Counts that code takes for a matrix's fan_in, by name; those equal to the fan_in are left out."""
    found = {"the width": width, "its fan_out": matrix.fan_out, "fan_in + fan_out": matrix.fan_in + matrix.fan_out}
    # A matrix has no other product of axes than the number of its values, which nobody takes for a fan.
    for size in range(2, len(matrix.shape) + 1 if len(matrix.shape) > 2 else 2):
        for axes in combinations(range(len(matrix.shape)), size):
            product = math.prod(matrix.shape[axis] for axis in axes)
            found[" times ".join(f"axis {axis}" for axis in axes)] = product
    return {words: count for words, count in found.items() if count != matrix.fan_in}


def _ranges(first: Reading, rule: Rule) -> Iterator[Hypothesis]:
    if first.base.count or first.base.law != CONSTANT:
        return
    bases = [(CONSTANT, HARD_CODED), *NAMED]
    for law, constant in bases:
        words = f"{constant:.4g}" if law == CONSTANT else f"{constant:.4g} times {law}"
        yield Hypothesis(RANGE, words, _ranged(rule, Base(law=law, constant=constant, source="")))


def _ranged(rule: Rule, other: Base) -> FactorOf:
    def factor(reading: Reading, matrix: Stored) -> float:
        return reading.declared(rule, matrix) * other.std(matrix) / reading.base.std(matrix)

    return factor


def _flat(readings: Sequence[Reading], rule: Rule, group: Sequence[Stored]) -> Diagnosis:
    """Nothing known fits: a constant factor where there is one, and what two depths say about it."""
    constants = []
    for reading in readings:
        writers = members(reading, group)
        constant = reading.deviation(writers, [1.0] * len(writers))
        even = math.isfinite(constant) and reading.fits(writers, [constant] * len(writers))
        constants.append(constant if even else math.nan)
    ratio = ratio_of(readings[0], rule, group)
    if math.isnan(constants[0]):
        return Diagnosis(UNKNOWN, "", tuple(group), ratio)
    words = f"a factor of {constants[0]:.2g} in every block"
    if len(readings) > 1 and not math.isnan(constants[1]):
        one, two = readings[0], readings[1]
        same = close(constants[0], constants[1], one.group_margin(group) + two.group_margin(members(two, group)))
        words += (
            f", the same at {two.blocks} blocks: the depth is not counted at all"
            if same
            else f", and {constants[1]:.2g} at {two.blocks} blocks"
        )
    return Diagnosis(FLAT, words, tuple(group), ratio)


def fan_law(law: str) -> bool:
    """Whether a base depends on fans."""
    return law in LAWS and law != CONSTANT
