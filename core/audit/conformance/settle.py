"""Settle what is judged against: the declared or recognized rule, and a base that scaled readers do not disguise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from core.audit.conformance.base import CONSTANT, TORCH, Base, named_bases, other_laws, shrinks, transposed, usable
from core.audit.conformance.diagnosis import FLAT, UNKNOWN, diagnose, members
from core.audit.conformance.matrices import Stored
from core.audit.conformance.reading import Reading, rebased, visible
from core.audit.conformance.rules import Rule, close, recognized_rules

# `auto` takes a rule that at least this share of the visible writers meets.
MOST = 0.5
# An embedding of torch's own, which says nothing of the matrices beside it.
UNIT = 0.01
# Recipes that set standard deviations themselves ask for no factor on a base.
ABSOLUTE = ("wang",)
# Forward coefficients are exact but for the rounding of their own type.
CONSTANT_MARGIN = 1e-2


@dataclass(frozen=True)
class Settled:
    """Readings on their final bases, the rule (None where none is declared or recognized), and what was noticed."""

    readings: Sequence[Reading]
    rule: Rule | None
    everything: bool = False
    by_fan_out: bool = False
    unused_range: bool = False


def settle(readings: Sequence[Reading], declared: Rule | None) -> Settled:
    """Try the bases as read; where the rule is not met on them, those that scaled readers would have disguised."""
    rules = [declared] if declared is not None else recognized_rules(readings[0].blocks)
    readings, unused = _without_unused(readings, rules)
    candidates = [readings, *_same_readers(readings)]
    for candidate in candidates:
        met = declared or recognized(candidate)
        if met is not None and _share(candidate[0], met) == 1:
            return Settled(candidate, met, unused_range=unused)
    readings = min(candidates, key=lambda candidate: _explanations(candidate, declared or recognized(candidate)))
    first = readings[0]
    met = recognized(readings) if declared is None else None
    if met is not None:
        return Settled(readings, met, unused_range=unused)
    other = _other_base(readings, rules)
    if other is not None:
        moved = [rebased(r, other) for r in readings]
        return Settled(moved, declared or recognized(moved), unused_range=unused)
    if first.base.count:
        fan_out = transposed(first.readers)
        if fan_out is not None:
            moved = [rebased(r, transposed(r.readers) or fan_out) for r in readings]
            return Settled(moved, declared or recognized(moved), by_fan_out=True)
        # Of many rules and bases one is soon met by chance, so that a guess tries the first alone.
        for rule in rules[:1]:
            found = _disguised(readings, rule, recognize=declared is None)
            if found is not None:
                return found
    return Settled(readings, declared, unused_range=unused)


def recognized(readings: Sequence[Reading]) -> Rule | None:
    """The rule that most writers meet at every depth; None where none is met by half of them."""
    best, share = None, MOST - 2e-9
    for rule in recognized_rules(readings[0].blocks):
        if min(r.blocks for r in readings) < rule.recipe.minimum_blocks or not _readers_meet(readings[0], rule):
            continue
        found = min(_share(reading, rule) for reading in readings)
        if found > share + 1e-9:
            best, share = rule, found
    return best


def _same_readers(readings: Sequence[Reading]) -> Iterator[list[Reading]]:
    """The readings on other laws that the same readers lie on, where the base is read from them."""
    first = readings[0]
    if not first.base.count:
        return
    for base in other_laws(first.readers, first.base):
        own = [next((o for o in other_laws(r.readers, r.base) if o.law == base.law), base) for r in readings]
        yield [rebased(reading, one) for reading, one in zip(readings, own, strict=True)]


def _explanations(readings: Sequence[Reading], rule: Rule | None) -> int:
    """How many different things must be said of the writers on a base; one that nothing known explains weighs most."""
    groups = grouped(visible(readings[0]))
    if rule is None:
        return sum(
            1 for group in groups if not all(r.fits(own := members(r, group), [1.0] * len(own)) for r in readings)
        )
    found = diagnose(readings, rule, groups)
    unexplained = sum(1 for diagnosis in found if diagnosis.label in (UNKNOWN, FLAT))
    return len({(diagnosis.label, diagnosis.words) for diagnosis in found}) + len(groups) * unexplained


def _share(reading: Reading, rule: Rule) -> float:
    """Share of the visible writers that meet a rule, a group at a time where a group meets it as a whole."""
    writers = visible(reading)
    if not writers:
        return 0.0
    met = sum(_members_meeting(reading, rule, group) for group in grouped(writers))
    return met / len(writers)


def _members_meeting(reading: Reading, rule: Rule, group: Sequence[Stored]) -> int:
    """How many of a group count as meeting a rule: all, or some where the others were left at the base.

    A group that stands at the base as a whole meets no rule, however wide its tolerance is.
    """
    factors = [reading.declared(rule, m) for m in group]
    if rule.scales and reading.fits(group, [1.0] * len(group)):
        return 0
    # A rule of the forward is met by the forward; one of weights may be met by either.
    asked = [rule.forward(m.block, reading.blocks) for m in group]
    if any(f != 1 and not close(m.forward, f, CONSTANT_MARGIN) for m, f in zip(group, asked, strict=True)):
        return 0
    if any(m.forward != 1 for m in group) and reading.fits(group, [m.forward for m in group]):
        # Stored at the base, so that the forward's own factor is the whole of it, without sampling error.
        exact = all(close(m.forward, f, CONSTANT_MARGIN) for m, f in zip(group, factors, strict=True))
        return len(group) if exact else 0
    if reading.fits(group, factors):
        return len(group)
    meeting = [m for m, f in zip(group, factors, strict=True) if reading.meets(m, f)]
    others = [m for m in group if m not in meeting]
    if not meeting or not others or not reading.fits(meeting, [reading.declared(rule, m) for m in meeting]):
        return 0
    return len(meeting) if reading.fits(others, [1.0] * len(others)) else 0


def _readers_meet(reading: Reading, rule: Rule) -> bool:
    """Whether readers meet a rule that scales them; rules that leave them alone are not asked."""
    asked = 0
    for matrix in usable(reading.readers):
        factors = rule.readers(matrix, reading.blocks, reading.width, reading.base)
        if all(factor == 1.0 for factor in factors):
            continue
        asked += 1
        if not any(close(reading.stored(matrix), factor, reading.margin(matrix)) for factor in factors):
            return False
    return asked > 0 or not any(role in rule.recipe.laws for role in ("query", "up"))


def grouped(writers: Sequence[Stored]) -> list[list[Stored]]:
    """Writers by what their blocks have in common, in order of first appearance."""
    groups: dict[str, list[Stored]] = {}
    for matrix in writers:
        groups.setdefault(matrix.group, []).append(matrix)
    return list(groups.values())


def _without_unused(readings: Sequence[Reading], rules: Sequence[Rule]) -> tuple[Sequence[Reading], bool]:
    """A declared range that nothing comes from is no base to judge by; the readers' own is."""
    first = readings[0]
    if first.base.count or first.base.source == "--sigma" or first.base.agreeing or first.pooled is None:
        return readings, False
    if any(first.meets(m, 1.0) or any(first.meets(m, first.declared(r, m)) for r in rules) for m in visible(first)):
        return readings, False
    return [rebased(r, r.pooled) if r.pooled is not None else r for r in readings], True


def _other_base(readings: Sequence[Reading], rules: Sequence[Rule]) -> Base | None:
    """The usual base that most writers are scaled from, where readers were left as torch draws them.

    Writers that stand at the readers' base are unscaled and nothing else.
    """
    first = readings[0]
    if first.base.source == "--sigma" or (first.base.law, first.base.constant) != TORCH:
        return None
    if any(first.fits(group, [1.0] * len(group)) for group in grouped(visible(first))):
        return None
    for usual in named_bases(first.writers):
        source = f"{usual.source}, which the writers are scaled from; the readers are at {first.base.source}"
        base = replace(usual, source=source, readers=first.base.readers)
        if any(min(_share(rebased(r, base), rule) for r in readings) >= MOST for rule in rules):
            return base
    return None


def _disguised(readings: Sequence[Reading], rule: Rule, *, recognize: bool) -> Settled | None:
    """The base where all or most readers are scaled as writers should be, so that the pooled base is too small.

    With `recognize` the rule is a guess, and it must be met by writers on the larger base.
    """
    first = readings[0]
    factor = _constant_factor(first, rule)
    if factor is None or rule.recipe.name in ABSOLUTE:
        return None
    readers, writers = usable(first.readers), visible(first)
    for base in _larger(readings, rule, factor, recognize=recognize):
        moved = rebased(first, base)
        if all(_stands_at(moved, group, factor) for group in (readers, *grouped(readers), *grouped(writers))):
            return Settled([_moved(r, base) for r in readings], rule, everything=True)
    raised = [_raised(r, rule) for r in readings]
    if recognize and _share(raised[0], rule) < MOST:
        return None
    if any(_stands_at(first, group, 1 / factor) for group in grouped(readers)):
        return Settled(raised, rule)
    return None


def _stands_at(reading: Reading, group: Sequence[Stored], factor: float) -> bool:
    """Whether stored matrices have one factor, each and all together."""
    count = sum(m.spread.count for m in group)
    pooled = math.sqrt(sum(m.spread.count * reading.stored(m) ** 2 for m in group) / count)
    each = all(close(reading.stored(m), factor, reading.margin(m)) for m in group)
    return each and close(pooled, factor, reading.group_margin(group))


def _larger(readings: Sequence[Reading], rule: Rule, factor: float, *, recognize: bool) -> Iterator[Base]:
    """Bases that the readers' pooled one would be `factor` times: by two depths, by name, by tables outside.

    Readers of two depths decide alone; without them a rule that is a guess has nothing but names to be sure by.
    """
    first = readings[0]
    pooled = first.base
    if len(readings) > 1 and readings[1].base.law == pooled.law:
        other = _constant_factor(readings[1], rule)
        margin = pooled.tolerance + readings[1].base.tolerance
        if other is None or close(other, factor, margin):
            return
        if close(readings[1].base.constant / pooled.constant, other / factor, margin):
            yield replace(pooled, constant=pooled.constant / factor, source="what readers at two depths have in common")
        return
    yield from (base for base in named_bases(first.readers) if base.constant == 1.0 or not recognize)
    for name, (std, count) in () if recognize else first.outside.items():
        if abs(std - 1) > UNIT and std > 0:
            base = Base(
                law=CONSTANT, constant=std, source=f"the std of {name}", count=count, readers=len(first.readers)
            )
            yield from (replace(base, shrink=shrink) for shrink in shrinks(first.readers))


def _moved(reading: Reading, base: Base) -> Reading:
    return reading if reading.base.count == 0 else rebased(reading, base)


def _raised(reading: Reading, rule: Rule) -> Reading:
    factor = _constant_factor(reading, rule)
    if factor is None:
        return reading
    return rebased(reading, replace(reading.base, constant=reading.base.constant / factor))


def _constant_factor(reading: Reading, rule: Rule) -> float | None:
    """The one factor that a rule asks of every writer; None where it asks for several, or for none."""
    # Rounded, for a law may compute the same factor in two ways.
    factors = {round(reading.declared(rule, m), 12) for m in visible(reading)}
    if len(factors) != 1:
        return None
    (factor,) = factors
    return factor if 0 < factor < math.inf and not close(factor, 1.0, 0.05) else None
