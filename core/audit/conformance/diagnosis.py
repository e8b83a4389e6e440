"""Explain the standard deviations of one group of writers: as declared, unscaled, by another law, by another fan."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from core.audit.conformance.base import CONSTANT, FAN_IN, FAN_OUT, HARD_CODED, LAWS, NAMED, Base
from core.audit.conformance.laws import CONVENTIONS, Place, named_stages, stages_of
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


def diagnose(readings: Sequence[Reading], rule: Rule, groups: Sequence[Sequence[Stored]]) -> list[Diagnosis]:
    """Of each group the explanation that fits the whole of it at every depth; failing that, one a writer.

    Of several that fit, the one that explains most groups; of those, the first.
    """
    fitting = [list(_fitting(readings, rule, group)) for group in groups]
    shared = Counter((h.label, h.words) for found in fitting for h in found)
    diagnoses: list[Diagnosis] = []
    left: list[Stored] = []
    for group, found in zip(groups, fitting, strict=True):
        best = max(found, key=lambda h: (h.label == OK, shared[h.label, h.words]), default=None)
        if best is not None:
            diagnoses.append(_diagnosis(readings[0], rule, best, group))
            continue
        # Writers that one constant fits are alike: what each meets by itself is sampling error.
        even = _flat(readings, rule, group).label == FLAT
        apart = [] if even else _one_by_one(readings[0], rule, group)
        diagnoses += apart
        left += [] if apart else group
    return diagnoses + _unknown(readings, rule, left)


def _fitting(readings: Sequence[Reading], rule: Rule, group: Sequence[Stored]) -> Iterator[Hypothesis]:
    for hypothesis in _hypotheses(readings[0], rule, group):
        if all(_fits(reading, hypothesis, group) for reading in readings):
            yield hypothesis


def _one_by_one(first: Reading, rule: Rule, group: Sequence[Stored]) -> list[Diagnosis]:
    """Writers of one group by what explains each; none where that says no more than many things at once."""
    apart: dict[tuple[str, str], list[Stored]] = {}
    for writer in group:
        fitting = (h for h in _apart(first, rule, group) if first.meets(writer, h.factor(first, writer)))
        found = next(fitting, Hypothesis(UNKNOWN, "", _nothing))
        apart.setdefault((found.label, found.words), []).append(writer)
    # One explanation for all that does not hold at another depth is none.
    if len(apart) == 1 or len(apart) > max(2, len(group) // 2):
        return []
    return [
        _diagnosis(first, rule, Hypothesis(label, words, _nothing), members)
        for (label, words), members in apart.items()
    ]


def _unknown(readings: Sequence[Reading], rule: Rule, writers: Sequence[Stored]) -> list[Diagnosis]:
    """What nothing known explains: one constant factor for all where there is one, else for each group."""
    if not writers:
        return []
    together = _flat(readings, rule, writers)
    groups = {m.group: [other for other in writers if other.group == m.group] for m in writers}
    return [together] if together.label == FLAT else [_flat(readings, rule, group) for group in groups.values()]


def ratio_of(reading: Reading, rule: Rule, writers: Sequence[Stored]) -> float:
    """Pooled factor of writers over what the rule asks; infinite where a writer or the quotient is."""
    if any(math.isinf(reading.effective(m)) for m in writers):
        return math.inf
    factors = [reading.declared(rule, m) for m in writers]
    return math.inf if any(f <= 0 for f in factors) else reading.deviation(writers, factors)


def members(reading: Reading, group: Sequence[Stored]) -> list[Stored]:
    """The visible writers of the same groups in another reading."""
    groups = {m.group for m in group}
    return [m for m in visible(reading) if m.group in groups]


def _fits(reading: Reading, hypothesis: Hypothesis, group: Sequence[Stored]) -> bool:
    writers = members(reading, group)
    return reading.fits(writers, [hypothesis.factor(reading, m) for m in writers])


def _diagnosis(reading: Reading, rule: Rule, hypothesis: Hypothesis, writers: Sequence[Stored]) -> Diagnosis:
    return Diagnosis(hypothesis.label, hypothesis.words, tuple(writers), ratio_of(reading, rule, writers))


def _nothing(reading: Reading, matrix: Stored) -> float:
    return math.nan


def _hypotheses(first: Reading, rule: Rule, group: Sequence[Stored]) -> Iterator[Hypothesis]:
    """In the order of what is likely: where standard deviations follow fans, a wrong fan before another depth."""
    yield from _plain(rule)
    told = list(_conventions(first, group, guess=False))
    other_fan = list(_fans(first, rule, group))
    yield from (*other_fan, *told) if fan_law(first.base.law) else (*told, *other_fan)
    yield from _ranges(first, rule)
    yield from _conventions(first, group, guess=True)


def _apart(first: Reading, rule: Rule, group: Sequence[Stored]) -> Iterator[Hypothesis]:
    yield from _plain(rule)
    yield from _conventions(first, group, guess=False)
    yield from _conventions(first, group, guess=True)


def _plain(rule: Rule) -> Iterator[Hypothesis]:
    yield Hypothesis(OK, "", lambda r, m: r.declared(rule, m))
    yield Hypothesis(FORWARD, "", lambda r, m: r.declared(rule, m) * m.forward if m.forward != 1 else math.nan)
    yield Hypothesis(UNSCALED, "", lambda r, m: 1.0 if m.forward == 1 else math.nan)
    yield Hypothesis(TWICE, "", lambda r, m: r.declared(rule, m) ** 2)


def _conventions(first: Reading, group: Sequence[Stored], *, guess: bool) -> Iterator[Hypothesis]:
    """Other depth laws; with `guess` those of stages that no name tells of, which some size of stage often fits."""
    staged = list(stages_of(first.writers, first.blocks))
    named = 1 if named_stages(first.writers) is not None else 0
    for convention in CONVENTIONS:
        by_stage = "S" in convention.name or "s" in convention.name
        numbers = range(named, len(staged)) if guess else range(named)
        for number in numbers if by_stage else () if guess else (-1,):
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
        return reading.declared(rule, matrix) * math.pow(fan_factor(reading, matrix, words), 2 * exponent)

    return factor


def fan_factor(reading: Reading, matrix: Stored, words: str) -> float:
    """The standard deviation by other fans over that by its own, by the base's law; nan where the words name none."""
    fans = other_fans(matrix, reading.width).get(words)
    law = LAWS[FAN_IN if reading.base.law in (CONSTANT, FAN_OUT) else reading.base.law]
    return math.nan if fans is None else law(*fans) / law(matrix.fan_in, matrix.fan_out)


def other_fans(matrix: Stored, width: int) -> dict[str, tuple[int, int]]:
    """What code takes for a matrix's (fan_in, fan_out), by name; those with its own fan_in are left out."""
    fan_in, fan_out = matrix.fan_in, matrix.fan_out
    found = {
        "the width": (width, fan_out),
        "its fan_out": (fan_out, fan_in),
        "fan_in + fan_out": (fan_in + fan_out, fan_in + fan_out),
    }
    if len(matrix.shape) > 2:
        # A tensor of matrices, taken for a convolution's or for one matrix; a matrix alone has no such products.
        first, second, *rest = matrix.shape
        found["the fans of a convolution"] = (second * math.prod(rest), first * math.prod(rest))
        for size in range(2, len(matrix.shape) + 1):
            for axes in combinations(range(len(matrix.shape)), size):
                product = math.prod(matrix.shape[axis] for axis in axes)
                found[" times ".join(f"axis {axis}" for axis in axes)] = (product, fan_out)
    return {words: fans for words, fans in found.items() if fans[0] != fan_in}


def _ranges(first: Reading, rule: Rule) -> Iterator[Hypothesis]:
    if first.base.count or first.base.law != CONSTANT:
        return
    for law, constant in [(CONSTANT, HARD_CODED), *NAMED]:
        words = f"{constant:.4g}" if law == CONSTANT else f"{constant:.4g} times {law}"
        yield Hypothesis(RANGE, words, _ranged(rule, Base(law=law, constant=constant, source="")))
    if first.pooled is not None:
        yield Hypothesis(RANGE, f"{first.pooled.constant:.4g}, the readers' own,", _ranged(rule, first.pooled))


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
