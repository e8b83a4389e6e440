"""Checks of scale: each takes a `Resolution` (rule, base and explanations of the writers) and yields findings.

Writers are the matrices that end a branch, readers those that begin one. The base is the standard deviation before any
depth rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from . import words_scale as words
from .base_std import CONSTANT, Origin
from .explain import (
    Cause,
    Explanation,
    Fan,
    FanKind,
    fan_factor,
    other_fans,
)
from .findings import Finding
from .laws import Rule, counted_additions
from .measure import MatrixStats, grouped, median, usable
from .resolution import Remark, Resolution
from .weight_stats import ORTHOGONAL

Matrices = Sequence[MatrixStats]
# A count of fewer additions than this, or of this many times those that there are, explains nothing.
FEWEST_COUNTED, MOST_COUNTED = 0.875, 64.0


def reader_ranges(found: Resolution) -> Iterator[Finding]:
    """Yield a finding on readers (matrices that begin a branch) whose standard deviation is not the declared one.

    Readers that have the rule's factor instead are left to other checks.
    """
    first, base = found.first, found.first.base
    readers = usable(first.stats.readers)
    if found.remark is Remark.UNUSED_RANGE:
        std = median(m.weights.std for m in readers)
        yield _finding("range-ignored", readers, std, words.unused_range(std), expected=None)
        return
    if base.count or base.law != CONSTANT or base.origin is Origin.NAMED or found.remark is Remark.EVERYTHING:
        return
    scaled = {m.shown for m in found.scaled_readers}
    away = [m for m in readers if m.shown not in scaled and not first.at_base(m, found.rule)]
    if away:
        sentence = words.reader_range(away, median(m.weights.std for m in away), base)
        yield _finding("range-ignored", away, median(map(first.stored, away)), sentence)


def reader_fans(found: Resolution) -> Iterator[Finding]:
    """Yield a finding per wrong fan (number used as fan_in) that matrices were drawn by.

    The matrices are those that begin a branch and, if there is no rule, also those that end one.
    """
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
    if first.base.law == CONSTANT or found.rule is None:
        # Without a rule, few heads are a depth law as well.
        fans = {fan: sizes for fan, sizes in fans.items() if fan.kind is not FanKind.FEWER_HEADS}
    factors = {fan: fan_factor(first, group[0], fan) for fan in fans}
    return next((fan for fan, factor in factors.items() if all(first.near(m, [factor]) for m in group)), None)


def on_everything(found: Resolution) -> Iterator[Finding]:
    """Yield a finding if all readers (matrices that begin a branch) are scaled by depth as the writers are.

    Writers, the matrices that end a branch, must meet the rule.
    """
    if found.everything:
        factor = median(map(found.first.stored, found.scaled_readers))
        sentence = words.everything(found.scaled_readers, factor)
        yield _finding("on-everything", found.scaled_readers, factor, sentence, guessed=found.guessed)


def on_reader(found: Resolution) -> Iterator[Finding]:
    """Yield findings on readers (matrices that begin a branch) that have the depth factor of their branch's writer.

    The writer, the matrix that ends the branch, either lacks the factor or has it too.
    """
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
    """Yield findings on writers (matrices that end a branch) that do not meet the rule, one per explanation."""
    told: dict[Explanation, list[MatrixStats]] = {}
    for one in found.unsettled:
        told.setdefault(one.explanation, []).extend(one.writers)
    for why in sorted(told, key=lambda why: list(Cause).index(why.cause)):
        if why.cause is Cause.COEFFICIENT and found.rule is not None:
            yield _coefficient(found, found.rule, told[why])
        elif why.cause is not Cause.AS_ASKED and found.rule is not None:
            ratio = found.first.ratio(found.rule, told[why])
            kind = _kind_of(found, why.cause, ratio, list(told))
            sentence = words.writers_away(found, why, told[why], kind)
            yield _finding(kind, told[why], ratio, sentence, guessed=found.guessed)


def absurd(found: Resolution, ratio: float) -> bool:
    """Return True if a constant factor makes no sense as a count of additions.

    `ratio` is the factor over the rule's; it is absurd if it counts less than one addition, or over 64 times the number
    there is.
    """
    rule = found.rule
    if rule is None or rule.recipe.counts is None or not 0 < ratio < math.inf:
        return False
    counted = counted_additions(rule, found.first.blocks, ratio)
    most = MOST_COUNTED * counted_additions(rule, found.first.blocks, 1.0)
    return counted < FEWEST_COUNTED or counted > most


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
    if cause is Cause.CONSTANT and absurd(found, ratio):
        return "unexplained"
    return {
        Cause.TWICE: "twice",
        Cause.TWICE_IN_FORWARD: "twice",
        Cause.OTHER_FAN: "wrong-fan-in",
        Cause.OWN_FAN: "wrong-fan-in",
        Cause.OTHER_BASE: "range-ignored",
    }.get(cause, "depth-convention")


def _coefficient(found: Resolution, rule: Rule, writers: Matrices) -> Finding:
    """Return the finding on writers whose weights meet the rule and whose branches have another coefficient."""
    first = writers[0]
    gates = tuple(dict.fromkeys(name for m in writers for name in m.gates))
    return Finding(
        kind="gate-not-as-declared",
        parameters=(*gates, *(name for name in dict.fromkeys(m.name for m in writers) if name not in gates)),
        measured=None if first.modulated else median(m.forward for m in writers),
        expected=rule.forward(first.block, found.first.blocks),
        sentence=words.coefficient(rule, gates, writers, found.first.blocks),
        guessed=rule.guessed,
    )


def readers_missing(found: Resolution) -> Iterator[Finding]:
    """Yield a finding on readers (matrices that begin a branch) that the rule scales and that are not scaled.

    DeepNorm, for example, scales the value matrices.
    """
    first, rule = found.first, found.rule
    if rule is None:
        return
    missing: list[MatrixStats] = []
    for group in grouped(usable(first.stats.readers)):
        asked = first.allowed(rule, group[0])
        # A fused matrix holds several roles; where all of it is drawn alike, the part that is to be scaled is not.
        wanted = [factor for factor in asked if factor != 1] if group[0].partly and not group[0].part else asked
        if wanted and 1.0 not in wanted and all(first.near(m, [1.0]) and not first.near(m, wanted) for m in group):
            missing += group
    if missing:
        factor = next(f for f in first.allowed(rule, missing[0]) if f != 1)
        sentence = words.readers_missing(rule, missing, factor)
        yield _finding("partial", missing, 1 / factor, sentence, guessed=rule.guessed)


def hidden(found: Resolution) -> Iterator[Finding]:
    """Yield a finding on scaled writers (matrices that end a branch) whose scale a following norm removes.

    Without a rule, only on writers that were scaled; nothing is yielded under a rule that does not scale.
    """
    first, rule = found.first, found.rule
    matrices = [m for m in first.stats.writers if m.hidden and m.weights.std != 0]
    if rule is None:
        matrices = [m for group in grouped(matrices) if not first.fits(group, lambda m: m.forward) for m in group]
    if matrices and (rule is None or rule.scales):
        factor = median(map(first.stored, matrices))
        yield _finding("invisible-after-norm", matrices, factor, words.hidden(matrices, factor), expected=None)


def applied(found: Resolution) -> Iterator[Finding]:
    """Yield the finding `applied` if every writer (matrix that ends a branch) meets the rule.

    No reader (matrix that begins a branch) may have the writers' factor, or lack one that the rule asks for.
    """
    writers = [m for one in found.explained for m in one.writers]
    met = all(one.cause is Cause.AS_ASKED for one in found.explained) and not found.everything
    met = met and not any(readers_missing(found))
    if found.rule is not None and writers and met and not found.beside_readers(bare=False):
        blocks = [depth.blocks for depth in found.depths]
        sentence = words.applied(
            found.rule, blocks, forward=any(m.forward != 1 for m in writers), idle=found.first.stats.idle
        )
        yield _finding("applied", writers, found.first.ratio(found.rule, writers), sentence)


def no_rule(found: Resolution) -> Iterator[Finding]:
    """Yield the finding `no-rule-declared` if no rule is declared and none is met."""
    if found.rule is None:
        yield Finding(kind="no-rule-declared", sentence=words.no_rule(found.depths))


CHECKS = (
    reader_ranges, reader_fans, on_everything, on_reader, writers_away, readers_missing, hidden, applied, no_rule,
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
