"""Checks of scale: each takes a resolution (rule, base and explanations of the writers) and yields findings.

Writers are matrices that write to the residual stream, readers those that read it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from . import words_scale as words
from .base_std import CONSTANT
from .explain import (
    Cause,
    Explanation,
    Fan,
    FanKind,
    fan_factor,
    other_fans,
)
from .findings import Finding
from .measure import MatrixStats, grouped, median, usable
from .resolution import Remark, Resolution
from .weight_stats import ORTHOGONAL

Matrices = Sequence[MatrixStats]


def reader_ranges(found: Resolution) -> Iterator[Finding]:
    """Yield a finding on readers that do not have the declared base.

    Those with the rule's factor have other findings.
    """
    first, base = found.first, found.first.base
    readers = usable(first.stats.readers)
    if found.remark is Remark.UNUSED_RANGE:
        std = median(m.weights.std for m in readers)
        yield _finding("range-ignored", readers, std, words.unused_range(std), expected=None)
        return
    if base.count or base.law != CONSTANT or found.remark is Remark.EVERYTHING:
        return
    scaled = {m.shown for m in found.scaled_readers}
    away = [m for m in readers if m.shown not in scaled and not first.at_base(m, found.rule)]
    if away:
        sentence = words.reader_range(away, median(m.weights.std for m in away), base)
        yield _finding("range-ignored", away, median(map(first.stored, away)), sentence)


def reader_fans(found: Resolution) -> Iterator[Finding]:
    """Yield findings on matrices that follow a law with the wrong fan: readers, and writers if there is no rule."""
    first = found.first
    away: dict[Fan, list[MatrixStats]] = {}
    if found.remark is Remark.BY_FAN_OUT:
        every = (*first.stats.readers, *first.stats.writers)
        wrong = [m for m in every if m.fan_in != m.fan_out and m.weights.std > 0]
        away = {Fan(FanKind.FAN_OUT): wrong} if wrong else {}
    elif first.base.law != CONSTANT:
        for group in grouped(usable([*first.stats.readers, *(() if found.rule is not None else first.visible)])):
            fan = _fan_of(found, group)
            if fan is not None:
                away.setdefault(fan, []).extend(group)
    for fan, matrices in away.items():
        size = other_fans(matrices[0], first.stats.width)[fan][0]
        factor = fan_factor(first, matrices[0], fan)
        yield _finding("wrong-fan-in", matrices, factor, words.reader_fan(fan, size, matrices, factor))


def _fan_of(found: Resolution, group: Matrices) -> Fan | None:
    """Return the fan, other than its own, that a whole group was drawn by; None where there is none.

    None also where the group is at the base, or orthogonal, so that no single fan sets its standard deviation.
    """
    first = found.first
    if all(m.weights.distribution == ORTHOGONAL for m in group) or all(first.near(m, [1.0]) for m in group):
        return None
    fans = other_fans(group[0], first.stats.width)
    factors = {fan: fan_factor(first, group[0], fan) for fan in fans}
    return next((fan for fan, factor in factors.items() if all(first.near(m, [factor]) for m in group)), None)


def on_everything(found: Resolution) -> Iterator[Finding]:
    """Yield a finding where all readers are scaled as the writers are, and the writers meet the rule."""
    if found.everything:
        factor = median(map(found.first.stored, found.scaled_readers))
        sentence = words.everything(found.scaled_readers, factor)
        yield _finding("on-everything", found.scaled_readers, factor, sentence, guessed=found.guessed)


def on_reader(found: Resolution) -> Iterator[Finding]:
    """Yield findings on readers with the factor of their branch's writer: instead of it or in addition (twice)."""
    first, rule = found.first, found.rule
    for bare in (True, False):
        writers = found.beside_readers(bare=bare)
        places = {m.where for m in writers}
        readers = [m for m in found.scaled_readers if m.where in places]
        if rule is None or not readers:
            continue
        factor = median(map(first.stored, readers))
        sentence = words.on_reader(rule, readers, writers, factor, bare=bare)
        named = [*readers, *writers] if bare else readers
        yield _finding("on-reader", named, factor, sentence, guessed=rule.guessed)
        if not bare:
            left = {m.where for m in found.beside_readers(bare=True)}
            readers = [m for m in found.scaled_readers if m.where not in left]
            product = median(map(first.effective, writers)) * median(map(first.stored, readers))
            wanted = median(first.asked(rule, m) for m in writers)
            sentence = words.twice_by_reader(readers, product, wanted)
            yield _finding("twice", [*readers, *writers], product / wanted, sentence, guessed=rule.guessed)


def writers_away(found: Resolution) -> Iterator[Finding]:
    """Yield findings on writers that do not meet the rule, by what they follow instead."""
    told: dict[Explanation, list[MatrixStats]] = {}
    for one in found.unsettled:
        told.setdefault(one.explanation, []).extend(one.writers)
    for why in sorted(told, key=lambda why: list(Cause).index(why.cause)):
        if why.cause is not Cause.AS_ASKED and found.rule is not None:
            ratio = found.first.ratio(found.rule, told[why])
            kind = _kind_of(found, why.cause, ratio, list(told))
            sentence = words.writers_away(found, why, told[why], kind)
            yield _finding(kind, told[why], ratio, sentence, guessed=found.guessed)


def _kind_of(found: Resolution, cause: Cause, ratio: float, told: Sequence[Explanation]) -> str:
    """Return the kind of finding for writers with this cause.

    `told` holds the explanations of all unsettled writers.
    """
    met = any(other.cause is Cause.AS_ASKED for other in told)
    laws = sum(1 for other in told if other.cause in (Cause.DEPTH_LAW, Cause.CONSTANT))
    if cause is Cause.UNSCALED:
        return "absent" if len(told) == 1 and not found.scaled_readers else "partial"
    if cause is Cause.DEPTH_LAW and (met or laws > 1) and math.isfinite(ratio):
        return "mixed-depth"
    if (cause is Cause.CONSTANT and met) or (cause is Cause.UNKNOWN and len(told) > 1):
        return "partial"
    return {
        Cause.TWICE: "twice",
        Cause.TWICE_IN_FORWARD: "twice",
        Cause.OTHER_FAN: "wrong-fan-in",
        Cause.OWN_FAN: "wrong-fan-in",
        Cause.OTHER_BASE: "range-ignored",
    }.get(cause, "depth-convention")


def hidden(found: Resolution) -> Iterator[Finding]:
    """Yield a finding on scaled writers whose scale a norm removes.

    Without a rule, only on writers that were scaled; under a rule that does not scale, nothing is yielded.
    """
    first, rule = found.first, found.rule
    matrices = [m for m in first.stats.writers if m.hidden and m.weights.std != 0]
    if rule is None:
        matrices = [m for group in grouped(matrices) if not first.fits(group, lambda m: m.forward) for m in group]
    if matrices and (rule is None or rule.scales):
        factor = median(map(first.stored, matrices))
        yield _finding("invisible-after-norm", matrices, factor, words.hidden(matrices, factor), expected=None)


def applied(found: Resolution) -> Iterator[Finding]:
    """Yield a finding where every writer meets the rule, and no reader has its factor."""
    writers = [m for one in found.explained for m in one.writers]
    met = all(one.cause is Cause.AS_ASKED for one in found.explained) and not found.everything
    if found.rule is not None and writers and met and not found.beside_readers(bare=False):
        blocks = [depth.blocks for depth in found.depths]
        sentence = words.applied(found.rule, blocks, forward=any(m.forward != 1 for m in writers))
        yield _finding("applied", writers, found.first.ratio(found.rule, writers), sentence)


def no_rule(found: Resolution) -> Iterator[Finding]:
    """Yield a finding where no rule is declared and none is met."""
    if found.rule is None:
        yield Finding(kind="no-rule-declared", sentence=words.no_rule(found.depths))


CHECKS = (
    reader_ranges, reader_fans, on_everything, on_reader, writers_away, hidden, applied, no_rule,
)  # fmt: skip


def _finding(
    kind: str,
    matrices: Matrices,
    measured: float,
    sentence: str,
    *,
    expected: float | None = 1.0,
    guessed: bool = False,
) -> Finding:
    names = tuple(dict.fromkeys(m.name for m in matrices))
    return Finding(
        kind=kind, sentence=sentence, parameters=names, measured=measured, expected=expected, guessed=guessed
    )
