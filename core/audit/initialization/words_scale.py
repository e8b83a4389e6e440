"""The sentences about scale, one function per kind of finding.

Writers are the matrices that end a branch, readers those that begin one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .base_std import CONSTANT, BaseStd, Origin
from .explain import Cause, Constants, Explanation, Fan, FanKind, other_fans
from .factors import Factors
from .laws import KnownLaw, Rule, counted_additions
from .measure import MatrixStats, grouped, median
from .resolution import Resolution
from .words import SHOWN, base_source, patterned, shown

Matrices = Sequence[MatrixStats]
# A count this near to a whole number, relative to it, is told.
NEAR = 0.03


def fan_name(fan: Fan) -> str:
    """Return the name of a fan as a phrase."""
    return " times ".join(f"axis {axis}" for axis in fan.axes) if fan.kind is FanKind.AXES else fan.kind.value


def hidden(matrices: Matrices, factor: float) -> str:
    """Return the sentence of an `invisible-after-norm` finding: a norm hides the writers' scale from the stream.

    `factor` is the writers' standard deviation relative to the base, the median over `matrices`.
    """
    return (
        f"A norm stands on the branch output, so the factor {factor:.4g} of {shown(matrices)} does not reach "
        "the stream; scale that norm's gain or the contribution instead, or declare no rule."
    )


def applied(rule: Rule, depths: Sequence[int], *, forward: bool, idle: bool) -> str:
    """Return the sentence of an `applied` finding: every writer already meets the depth rule.

    `depths` are the numbers of blocks at which this was found. `forward` adds that coefficients of the forward do a
    part of the scaling, `idle` that some branch writes nothing all the same.
    """
    how = "; the forward's coefficients carry part or all of it" if forward else ""
    at = " and ".join(map(str, depths))
    end = (
        "; but some branches write nothing at the start, as another finding tells."
        if idle
        else "; nothing is to change."
    )
    return f"Every writer meets {rule.name}, {rule.formula}, at {at} blocks{how}{end}"


def everything(readers: Matrices, factor: float) -> str:
    """Return the sentence of an `on-everything` finding: all readers have the depth factor of the writers too.

    Readers are the matrices that begin a branch, writers those that end one.
    """
    return (
        f"All {len(readers)} readers ({len(grouped(readers))} a block) carry the writers' factor {factor:.4g} too, and "
        f"attention logits shrink to its square, {factor * factor:.2g} of their size; scale the writers alone and draw "
        "the readers at the base standard deviation."
    )


def on_reader(rule: Rule, readers: Matrices, writers: Matrices, factor: float, *, bare: bool) -> str:
    """Return the sentence of an `on-reader` finding: readers (matrices that begin a branch) have a depth factor.

    `bare` is True if the writers, which end the branches, have none; False if they have it too.
    """
    if not bare:
        return (
            f"{shown(readers)} read the stream and carry the factor {factor:.4g} beside their writers "
            f"{shown(writers)}; draw them at the base standard deviation."
        )
    tell = (
        " The branch is linear in these matrices, so the activations equal those of the right model to rounding and "
        "cannot tell the two apart: only the weights, and the gradients, do."
    )
    return (
        f"The factor {factor:.4g} of {rule.name} stands on {shown(readers)}, which read the stream, and not on "
        f"the writers {shown(writers)}; scale the writers and draw the readers at the base."
        + (tell if all(m.linear for m in readers) else "")
    )


def twice_by_reader(readers: Matrices, product: float, wanted: float) -> str:
    """Return the sentence of a `twice` finding: the first and the last matrix of one branch are both scaled."""
    return (
        f"Reader and writer of the same branch are both scaled, so where the branch is linear in both it is "
        f"{product:.4g} of unscaled instead of {wanted:.4g}; take the factor off {shown(readers)}."
    )


def writers_away(found: Resolution, why: Explanation, writers: Matrices, kind: str) -> str:
    """Return the sentence of a finding on matrices that end a branch and do not meet the rule; `why` explains it."""
    rule, first = found.rule, found.first
    assert rule is not None
    ratio = first.ratio(rule, writers)
    if why.cause is Cause.UNSCALED:
        return _unscaled(found, rule, writers, alone=kind == "absent")
    if why.cause in (Cause.TWICE, Cause.TWICE_IN_FORWARD):
        return _twice(first, rule, writers, in_forward=why.cause is Cause.TWICE_IN_FORWARD)
    if isinstance(why.payload, KnownLaw):
        return _depth_law(rule, why.payload, writers, ratio, first.blocks)
    if isinstance(why.payload, Constants):
        return _constant(rule, why.payload, writers, ratio, kind)
    if isinstance(why.payload, Fan):
        size = other_fans(writers[0], first.stats.width)[why.payload][0]
        return _writer_fan(rule, why.payload, size, writers, ratio, own=why.cause is Cause.OWN_FAN)
    if isinstance(why.payload, BaseStd):
        return _writer_range(writers, why.payload, first.base)
    return (
        f"{shown(writers)} follow no depth law that is known here, {ratio:.2f} times {rule.name} over all; set them to "
        f"{rule.formula}."
    )


def _unscaled(found: Resolution, rule: Rule, writers: Matrices, *, alone: bool) -> str:
    """Return the sentence of an `absent` finding if `alone`, else of a `partial` one: other writers are scaled."""
    off = f"{found.first.ratio(rule, writers):.2f} times what {rule.name} asks at {found.first.blocks} blocks"
    for depth in found.depths[1:]:
        off += f", {depth.ratio(rule, depth.alike(writers)):.2f} at {depth.blocks} blocks"
    first = found.first
    if rule.in_forward and all(rule.stored(m, first.stats, first.base) == 1 for m in writers):
        value = _here(rule, writers, first.blocks)
        which = "No branch is" if alone else f"The branches of {shown(writers)} are not"
        return f"{which} multiplied in the forward, where {rule.name} asks for {value}; multiply their output by it."
    if alone:
        return f"No writer is scaled: all {len(writers)} stand at {off}; multiply them by {rule.formula}."
    return (
        f"{shown(writers)} stand at the base, {off}, while other writers are scaled; multiply them by {rule.formula} "
        "too."
    )


def _here(rule: Rule, writers: Matrices, blocks: int) -> str:
    """Return the branch coefficient that a rule asks for at this depth: a number, else its formula."""
    branch = rule.recipe.topology.branch
    values = {1.0 if branch is None else branch(m.block, blocks) for m in writers}
    if len(values) == 1:
        return f"{values.pop():.4g} at {blocks} {'block' if blocks == 1 else 'blocks'}"
    assert branch is not None
    return f"{branch.formula} at {blocks} blocks"


def coefficient(rule: Rule, gates: Sequence[str], writers: Matrices, blocks: int) -> str:
    """Return the sentence of a `gate-not-as-declared` finding; `gates` are the parameters to change, if any."""
    asked, own = _here(rule, writers, blocks), median(m.forward * m.shortcut for m in writers)
    if writers[0].modulated:
        return (
            f"The gates of {patterned(gates)} multiply the branches of {shown(writers)}, where {rule.name} asks for "
            f"{asked}; set their weights and biases so at the start, to zeros for 0."
        )
    if gates:
        return (
            f"{patterned(gates)} multiply the branches of {shown(writers)} by {own:.4g} where {rule.name} asks for "
            f"{asked}; set them to it."
        )
    skip = rule.shortcut(writers[0].block, blocks)
    shortcut = ""
    if skip != 1:
        shortcut = f", and the shortcut by {median(m.shortcut for m in writers):.4g} where it asks for {skip:.4g}"
    return (
        f"The forward multiplies the branches of {shown(writers)} by {own:.4g} where {rule.name} asks for {asked}"
        f"{shortcut}; change the forward, not the weights."
    )


def readers_missing(rule: Rule, readers: Matrices, factor: float) -> str:
    """Return the sentence of a `partial` finding: `readers`, which begin a branch, lack the rule's `factor`."""
    part = "the value part of " if any(m.partly for m in readers) else ""
    return (
        f"{rule.name} scales {part}{shown(readers)} too, by {factor:.4g}, and they stand at the base, "
        f"{1 / factor:.2f} times what it asks; multiply {'that part' if part else 'them'} by {factor:.4g}."
    )


def _twice(first: Factors, rule: Rule, writers: Matrices, *, in_forward: bool) -> str:
    """Return the sentence of a `twice` finding: in weights and forward if `in_forward`, else twice in the weights."""
    forward = median(m.forward for m in writers)
    again = f", and the forward multiplies the same contributions by {forward:.4g} again"
    effective, wanted = median(map(first.effective, writers)), median(first.asked(rule, m) for m in writers)
    return (
        f"The stored writers {shown(writers)} carry {rule.formula}{again if in_forward else ' two times over'}: the "
        f"branch is {effective:.4g} of unscaled instead of {wanted:.4g}; keep one of the two."
    )


def _height(ratio: float) -> str:
    return "an infinite ratio in the first block" if math.isinf(ratio) else f"{ratio:.2f} times the declared value"


def _depth_law(rule: Rule, law: KnownLaw, writers: Matrices, ratio: float, blocks: int) -> str:
    """Return the sentence of a `depth-convention` or `mixed-depth` finding."""
    counted = "blocks counted from 1" if math.isinf(ratio) else f"the whole depth L = {blocks}"
    use = f"use {rule.formula} with {counted}" if rule.scales else "draw them at the base"
    return f"{shown(writers)} follow {law.formula}: {law.counted}, {_height(ratio)} at {blocks} blocks; {use}."


def _constant(rule: Rule, found: Constants, writers: Matrices, ratio: float, kind: str) -> str:
    """Return the sentence of a `depth-convention` or `partial` finding, for a factor that is no known law's."""
    blocks, told = found.blocks[0], f"a factor of {found.values[0]:.2g} in every block"
    if found.same:
        told += f", the same at {found.blocks[1]} blocks: the depth is not counted at all"
    elif len(found.values) > 1 and found.values[1] is not None:
        told += f", and {found.values[1]:.2g} at {found.blocks[1]} blocks"
    additions = ""
    if rule.recipe.counts is not None and ratio > 0:
        count = counted_additions(rule, blocks, ratio)
        if count >= 1 and abs(count - round(count)) < NEAR * count and kind != "unexplained":
            additions = f", as if {count:.3g} {rule.recipe.counts} were counted"
    if kind == "unexplained":
        return (
            f"{shown(writers)} carry {told}, {_height(ratio)} of {rule.name}, and no depth explains that: the base "
            "may not be theirs; declare the base standard deviation, or the rule that they follow."
        )
    return (
        f"{shown(writers)} carry {told}, {_height(ratio)}{additions}; {rule.name} asks for {rule.formula} with "
        f"L = {blocks}."
    )


def _writer_fan(rule: Rule, fan: Fan, size: int, writers: Matrices, ratio: float, *, own: bool) -> str:
    """Return the sentence of a `wrong-fan-in` finding on writers, drawn by another fan of this `size`.

    With `own` it is the other way: drawn by their own fan_in where the rule uses `size`.
    """
    fan_in = writers[0].fan_in
    what = (
        f"are scaled by their fan_in, {fan_in}, where {rule.name} counts {size}"
        if own
        else f"are scaled by {fan_name(fan)}, {size}, where their fan_in is {fan_in}"
    )
    return (
        f"{shown(writers)} {what}: {ratio:.2f} times the declared value; divide by the square root of "
        f"{size if own else fan_in}."
    )


def _writer_range(writers: Matrices, other: BaseStd, base: BaseStd) -> str:
    """Return the sentence of a `range-ignored` finding on writers that are scaled from another base."""
    own = ", the readers' own," if other.origin is Origin.POOLED else ""
    value = f"{other.constant:.4g}{own}"
    if not own and other.law != CONSTANT:
        value += f" times {other.law.formula}"
    return (
        f"{shown(writers)} are scaled from a base of {value} instead of {base.constant:.4g} ({base_source(base)}); "
        "draw them from the declared base."
    )


def reader_fan(fan: Fan, size: int, matrices: Matrices, factor: float) -> str:
    """Return the sentence of a `wrong-fan-in` finding: matrices are drawn by `fan`, of this `size`, not by fan_in."""
    return (
        f"{shown(matrices)} are drawn by {fan_name(fan)} ({size} for {matrices[0].shown}) where the fan_in is "
        f"{matrices[0].fan_in}: {factor:.2f} times their standard deviation; draw them by their own fan_in."
    )


def unused_range(std: float) -> str:
    """Return the sentence of a `range-ignored` finding where no matrix follows the configured standard deviation."""
    return (
        f"No matrix follows the configured standard deviation; the readers stand at {std:.4g}, which is judged by "
        "instead: draw every matrix from the configuration's value."
    )


def reader_range(readers: Matrices, std: float, base: BaseStd) -> str:
    """Return the sentence of a `range-ignored` finding: `readers`, which begin a branch, do not have the base std."""
    return (
        f"{shown(readers)} stand at {std:.4g} where {base_source(base)} declares {base.constant:.4g}; draw them from "
        "the declared value."
    )


def no_rule(depths: Sequence[Factors]) -> str:
    """Return the sentence of a `no-rule-declared` finding, with the factors of the forward at each depth."""
    values = [_forward(depth.stats.writers) for depth in depths]
    carried = ""
    if values[0]:
        again = "".join(f"; at {d.blocks} blocks by {v}" for d, v in zip(depths[1:], values[1:], strict=True))
        carried = f" The forward multiplies contributions by {values[0]}, which counts as scaling{again}."
    return (
        f"No depth rule is declared, and no known one is met by half of the {len(depths[0].stats.writers)} writers; "
        f"declare one to have it checked.{carried}"
    )


def _forward(writers: Matrices) -> str:
    found = sorted({round(m.forward, 6) for m in writers if m.forward != 1})
    return ", ".join(format(value, ".4g") for value in found[:SHOWN])
