"""Resolve what a model is judged against: the rule, the base standard deviation, and an explanation per group.

The base is the standard deviation before any depth rule. Readers are matrices that read the residual stream, writers
those that write to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from .base_std import (
    CONSTANT,
    TORCH,
    BaseStd,
    Origin,
    configured_base,
    declared_base,
    equal_laws,
    named_bases,
    other_laws,
    pooled_base,
    shrinks,
    transposed,
)
from .explain import Cause, explain
from .factors import FORWARD_MARGIN, Factors, close
from .laws import READERS, Rule, recognized_rules
from .measure import MatrixStats, ModelStats, grouped, usable
from .resolution import Remark, Resolution

# `auto` takes a rule that at least this share of the visible writers meets.
MOST = 0.5 - 1e-9
# A table whose std is this near to 1 is torch's own embedding, which shows no base.
UNIT = 0.01
# From this place on in the order that `auto` tries them, rules are rare.
RARE = 2


def resolve(
    stats: Sequence[ModelStats],
    declared: Rule | None,
    *,
    sigma: float | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Resolution:
    """Return the `Resolution` with the smallest description length, over all depths that the model was built at.

    `declared` is the rule, None to recognize one. The base is `sigma`, else that of the configuration `settings`, else
    one that readers or writers show; a configured one that no matrix follows is replaced by the readers'. Among equally
    short ones the first is taken.
    """
    rules = [declared] if declared is not None else recognized_rules(stats[0].blocks)
    depths = [_read(one, sigma, settings) for one in stats]
    remark = Remark.NONE
    if _unused(depths[0], rules):
        depths = [depth.on(depth.pooled) if depth.pooled is not None else depth for depth in depths]
        remark = Remark.UNUSED_RANGE
    every = [depths, *_other_bases(depths, rules)]
    found = [_resolution(one, declared or _recognized(one), remark) for one in every]
    if sigma is None:
        found += _disguised(depths, declared)
    if depths[0].base.count:
        found += _by_fan_out(depths, declared)
        # Of many rules and bases one is soon met by chance, so that a guess tries the first alone.
        found += [case for rule in rules[:1] for case in _readers_scaled(depths, rule)]
    return min(found, key=lambda resolution: resolution.length)


def _read(stats: ModelStats, sigma: float | None, settings: Mapping[str, Any] | None) -> Factors:
    """Return the factors of one build on the base to start from, with the base that the readers show."""
    readers = stats.readers
    pooled = pooled_base(readers or stats.writers)
    if sigma is not None:
        base: BaseStd | None = declared_base(sigma, Origin.DECLARED, readers)
    else:
        base = configured_base(settings, readers) or pooled
    return Factors(stats, base or declared_base(1.0, Origin.NOTHING, readers), pooled)


def _resolution(depths: Sequence[Factors], rule: Rule | None, remark: Remark = Remark.NONE) -> Resolution:
    if rule is None:
        return Resolution(tuple(depths), None, remark)
    explained = explain(depths, rule, grouped(depths[0].visible))
    return Resolution(tuple(depths), rule, remark, explained, tuple(scaled_readers(depths[0], rule)))


def scaled_readers(first: Factors, rule: Rule) -> Iterator[MatrixStats]:
    """Yield the readers (matrices that begin a branch) that have the depth factor of the writer of their branch.

    Readers that the rule scales are left out.
    """
    for matrix in usable(first.stats.readers):
        writer = next((m for m in first.stats.writers if m.where == matrix.where), None)
        if writer is None or matrix.orthonormal:
            continue
        if first.near(matrix, [first.asked(rule, writer)]) and not first.near(matrix, first.allowed(rule, matrix)):
            yield matrix


def _recognized(depths: Sequence[Factors]) -> Rule | None:
    """Return the rule that the most writers meet at every depth; None where no rule is met by half of them."""
    least = min(depth.blocks for depth in depths)
    alone = len(depths) == 1
    shares = [
        (min(_share(depth, rule, alone=alone) for depth in depths), rule)
        for rule in recognized_rules(depths[0].blocks)
        if least >= rule.recipe.minimum_blocks
        and (_readers_meet(depths[0], rule) or _shortcuts_meet(depths[0], rule))
        and not (alone and _by_chance(depths[0], rule))
    ]
    best = max((share for share, _ in shares), default=0.0)
    return next((rule for share, rule in shares if share >= max(MOST, best - 1e-9)), None)


def _shortcuts_meet(factors: Factors, rule: Rule) -> bool:
    """Return whether every shortcut has the rule's coefficient, where that is not 1: no model has it by chance."""
    pairs = [(m.shortcut, rule.shortcut(m.block, factors.blocks)) for m in factors.visible]
    return bool(pairs) and all(asked != 1 and close(has, asked, FORWARD_MARGIN) for has, asked in pairs)


def _by_chance(factors: Factors, rule: Rule) -> bool:
    """Return whether a rare rule leaves some writers that are not at the base: of many rules one fits the others."""
    groups = grouped(factors.visible)
    left = [group for group in groups if not _meeting(factors, rule, group) and not factors.fits(group, 1.0)]
    return bool(left) and (rule.recipe.auto_order or 0) >= RARE and not _shortcuts_meet(factors, rule)


def _share(factors: Factors, rule: Rule, *, alone: bool = False) -> float:
    """Return the share of the visible writers that meet a rule, counted group by group as in `_meeting`.

    At one depth `alone`, a constant of the forward on a part of the branches, or a round one, is no depth law.
    """
    writers = factors.visible
    groups = grouped(writers)
    if alone and not _shortcuts_meet(factors, rule):
        everywhere = all(m.forward != 1 for m in writers)
        kept = [everywhere and (rule.in_forward or not _round(group[0].forward)) for group in groups]
        groups = [group for group, told in zip(groups, kept, strict=True) if told or group[0].forward == 1]
    met = sum(_meeting(factors, rule, group) for group in groups)
    return met / len(writers) if writers else 0.0


def _meeting(factors: Factors, rule: Rule, group: Sequence[MatrixStats]) -> int:
    """Return how many of a group meet a rule: all, or some where the others were left at the base, else 0.

    A group that is at the base as a whole meets no scaling rule, however large its tolerance.
    """
    asked = partial(factors.asked, rule)
    if rule.scales and factors.fits(group, 1.0):
        return 0
    # A rule of the forward is met by the forward; one of weights may be met by either.
    forward = [(m.forward, rule.forward(m.block, factors.blocks)) for m in group]
    if any(wanted != 1 and not close(has, wanted, FORWARD_MARGIN) for has, wanted in forward):
        return 0
    if factors.fits(group, asked):
        return len(group)
    meeting = [m for m in group if factors.meets(m, asked(m))]
    others = [m for m in group if m not in meeting]
    apart = bool(meeting and others) and factors.fits(meeting, asked) and factors.fits(others, 1.0)
    return len(meeting) if apart else 0


def _round(value: float) -> bool:
    """Return whether a factor has at most two digits, as constants in code have."""
    return math.isclose(value, float(f"{value:.2g}"), rel_tol=FORWARD_MARGIN / 4)


def _readers_meet(factors: Factors, rule: Rule) -> bool:
    """Return whether the readers meet a rule that scales them; True for a rule that does not."""
    asked = [m for m in usable(factors.stats.readers) if set(factors.allowed(rule, m)) != {1.0}]
    met = all(factors.near(m, factors.allowed(rule, m)) for m in asked)
    return met and (bool(asked) or not any(role in rule.recipe.laws for role in READERS))


def _unused(first: Factors, rules: Sequence[Rule]) -> bool:
    """Return whether no matrix follows the configured standard deviation, either alone or with a rule's factor."""
    if first.base.origin is not Origin.CONFIGURED or first.base.agreeing or first.pooled is None:
        return False
    return not any(
        first.meets(m, 1.0) or any(first.meets(m, first.asked(rule, m)) for rule in rules) for m in first.visible
    )


def _other_bases(depths: Sequence[Factors], rules: Sequence[Rule]) -> Iterator[list[Factors]]:
    """Yield the builds on other bases that the same readers agree with, or that only the writers are scaled from."""
    first = depths[0]
    for base in other_laws(first.stats.readers, first.base) if first.base.count else ():
        own = [next((o for o in other_laws(d.stats.readers, d.base) if o.law == base.law), base) for d in depths]
        yield [depth.on(one) for depth, one in zip(depths, own, strict=True)]
    for base in equal_laws(first.stats.readers, first.base):
        yield [depth.on(base) for depth in depths]
    if first.base.origin is Origin.DECLARED or (first.base.law, first.base.constant) != TORCH:
        return
    # Readers are as torch draws them; writers that are at that base too are unscaled and nothing else.
    if any(first.fits(group, 1.0) for group in grouped(first.visible)):
        return
    for usual in named_bases(first.stats.writers):
        base = replace(usual, origin=Origin.WRITERS, readers=first.base.readers, beside=first.base)
        moved = [depth.on(base) for depth in depths]
        if any(min(_share(depth, rule) for depth in moved) >= MOST for rule in rules):
            yield moved
            return


def _disguised(depths: Sequence[Factors], declared: Rule | None) -> Iterator[Resolution]:
    """Yield the resolution on a base of width^(-1/2) in which readers carry the factor that their writers lack.

    Where most readers are scaled, as in CLIP, their pooled standard deviation is no base.
    """
    moved = []
    for depth in depths:
        constant = depth.stats.width**-0.5 if depth.stats.width else 1.0
        base = BaseStd(
            law=CONSTANT, constant=constant, origin=Origin.NAMED, named=True, readers=len(depth.stats.readers)
        )
        moved.append(depth.on(base))
    rule = declared or _recognized(moved)
    found = _resolution(moved, rule)
    causes = {one.cause for one in found.explained}
    if found.scaled_readers and causes == {Cause.AS_ASKED, Cause.UNSCALED} and found.beside_readers(bare=True):
        yield found


def _by_fan_out(depths: Sequence[Factors], declared: Rule | None) -> Iterator[Resolution]:
    """Yield the resolution in which every reader was drawn by its fan_out, where that is possible."""
    base = transposed(depths[0].stats.readers)
    if base is not None:
        moved = [depth.on(transposed(depth.stats.readers) or base) for depth in depths]
        yield _resolution(moved, declared or _recognized(moved), Remark.BY_FAN_OUT)


def _readers_scaled(depths: Sequence[Factors], rule: Rule) -> Iterator[Resolution]:
    """Yield resolutions in which all or some readers are scaled as writers should be (the pooled base is too small)."""
    first = depths[0]
    factor = _one_factor(first, rule)
    if factor is None or rule.absolute:
        return
    readers = usable(first.stats.readers)
    for base in _larger_bases(depths, rule, factor):
        moved = first.on(base)
        if all(_at(moved, group, factor) for group in (readers, *grouped(readers), *grouped(first.visible))):
            larger = [depth.on(base) if depth.base.count else depth for depth in depths]
            yield _resolution(larger, rule, Remark.EVERYTHING)
            return
    raised = []
    for depth in depths:
        own = _one_factor(depth, rule)
        raised.append(depth if own is None else depth.on(replace(depth.base, constant=depth.base.constant / own)))
    # Some readers are left at the larger base, and a guessed rule is met on it.
    met = not rule.guessed or _share(raised[0], rule) >= MOST
    if met and any(_at(first, group, 1 / factor) for group in grouped(readers)):
        yield _resolution(raised, rule)


def _at(factors: Factors, group: Sequence[MatrixStats], factor: float) -> bool:
    """Return whether stored matrices have this factor, each alone and all pooled."""
    count = sum(m.weights.count for m in group)
    pooled = math.sqrt(sum(m.weights.count * factors.stored(m) ** 2 for m in group) / count)
    each = all(factors.near(m, [factor]) for m in group)
    return each and close(pooled, factor, factors.margin(*group))


def _larger_bases(depths: Sequence[Factors], rule: Rule, factor: float) -> Iterator[BaseStd]:
    """Yield bases that may be the readers' pooled one divided by `factor`: by two depths, in common use, or of tables.

    If there are readers at two depths, they alone decide; otherwise a guessed rule uses only bases in common use.
    """
    first, readers = depths[0], depths[0].stats.readers
    pooled = first.base
    if len(depths) > 1 and depths[1].base.law == pooled.law:
        other = _one_factor(depths[1], rule)
        margin = pooled.tolerance + depths[1].base.tolerance
        if other is None or close(other, factor, margin):
            return
        if close(depths[1].base.constant / pooled.constant, other / factor, margin):
            yield replace(pooled, constant=pooled.constant / factor, origin=Origin.DEPTHS)
        return
    yield from (base for base in named_bases(readers) if base.constant == 1.0 or not rule.guessed)
    for name, (std, count) in () if rule.guessed else first.stats.outside.items():
        if abs(std - 1) > UNIT and std > 0:
            base = BaseStd(
                law=CONSTANT, constant=std, origin=Origin.OUTSIDE, key=name, count=count, readers=len(readers)
            )
            yield from (replace(base, shrink=shrink) for shrink in shrinks(readers))


def _one_factor(factors: Factors, rule: Rule) -> float | None:
    """Return the factor that a rule asks of every writer; None where it asks for several, or for one near 1."""
    # Rounded, for a law may compute the same factor in two ways.
    found = {round(factors.asked(rule, m), 12) for m in factors.visible}
    if len(found) != 1:
        return None
    (factor,) = found
    return factor if 0 < factor < math.inf and not close(factor, 1.0, 0.05) else None
