"""The sentences of the findings and of the base: one function per kind, from values that are decided elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from core.audit.initialization.base_std import CONSTANT, BaseStd, Origin
from core.audit.initialization.explain import Cause, Constants, Explanation, Fan, FanKind
from core.audit.initialization.factors import Factors
from core.audit.initialization.laws import KnownLaw, Rule
from core.audit.initialization.measure import MatrixStats, grouped

SHOWN = 4
RELOAD = "make saving write, and loading keep, every parameter as it is"
Matrices = Sequence[MatrixStats]


def listed(names: Iterable[str]) -> str:
    """The first names of many."""
    every = list(names)
    return ", ".join(every[:SHOWN]) + (f" and {len(every) - SHOWN} more" if len(every) > SHOWN else "")


def shown(matrices: Matrices) -> str:
    """Matrices by name: one name per group, with its count."""
    groups = grouped(matrices)
    return listed(group[0].shown if len(group) == 1 else f"{group[0].group} ({len(group)})" for group in groups)


def median(values: Iterable[float]) -> float:
    """The median; of an even number the larger of the middle two, nan of none."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else math.nan


def base_source(base: BaseStd) -> str:
    """Where a base comes from."""
    share = "all readers" if base.agreeing == base.readers else f"{base.agreeing} of {base.readers} readers"
    law = "" if base.law == CONSTANT else f", by {base.law.formula}"
    cut = "" if base.shrink == 1.0 else ", truncated"
    usual = _named(base) + cut
    return {
        Origin.DECLARED: "the declared sigma",
        Origin.CONFIGURED: base.key,
        Origin.POOLED: f"the pooled std of {share}{law}" + (f"; {usual} exactly" if base.named else ""),
        Origin.NAMED: usual,
        Origin.WRITERS: f"{usual}, which the writers are scaled from; the readers are at "
        + (base_source(base.beside) if base.beside else ""),
        Origin.DEPTHS: "what readers at two depths have in common",
        Origin.OUTSIDE: f"the std of {base.key}",
        Origin.NOTHING: "nothing to read it from, so 1",
    }[base.origin]


def _named(base: BaseStd) -> str:
    return base.law.formula if base.constant == 1.0 else f"{base.constant:.4g} times {base.law.formula}"


def fan_name(fan: Fan) -> str:
    """A fan in words."""
    return " times ".join(f"axis {axis}" for axis in fan.axes) if fan.kind is FanKind.AXES else fan.kind.value


def zero(matrices: Matrices, moving: Sequence[str], still: Sequence[str]) -> str:
    """zero-by-construction; which of the writers learn at the start."""
    gated = any(m.weights.std != 0 for m in matrices)
    how = "stand behind a forward coefficient of 0" if gated else "are zeros"
    told = f" {listed(moving)} {'has' if len(moving) == 1 else 'have'} a gradient." if moving else ""
    told += f" {listed(still)} {'has' if len(still) == 1 else 'have'} none at the start." if still else ""
    return f"{shown(matrices)} {how}, so their branches add nothing at the start; nothing is to change.{told}"


def hidden(matrices: Matrices, factor: float) -> str:
    """invisible-after-norm."""
    return (
        f"A norm stands on the branch output, so the factor {factor:.4g} of {shown(matrices)} does not reach "
        "the stream; scale that norm's gain or the contribution instead, or declare no rule."
    )


def applied(rule: Rule, depths: Sequence[int], *, forward: bool) -> str:
    """applied."""
    how = "; the forward's coefficients carry part or all of it" if forward else ""
    at = " and ".join(map(str, depths))
    return f"Every writer meets {rule.name}, {rule.formula}, at {at} blocks{how}; nothing is to change."


def unscaled(rule: Rule, writers: Matrices, ratios: Sequence[tuple[int, float]], *, alone: bool) -> str:
    """absent, or partial where other writers are scaled; `ratios` are pooled ones by depth."""
    (blocks, ratio), *others = ratios
    depths = "".join(f", {value:.2f} at {depth} blocks" for depth, value in others)
    off = f"{ratio:.2f} times what {rule.name} asks at {blocks} blocks{depths}"
    if alone:
        return f"No writer is scaled: all {len(writers)} stand at {off}; multiply them by {rule.formula}."
    return (
        f"{shown(writers)} stand at the base, {off}, while other writers are scaled; multiply them by {rule.formula} "
        "too."
    )


def everything(readers: Matrices, factor: float) -> str:
    """on-everything."""
    return (
        f"All {len(readers)} readers ({len(grouped(readers))} a block) carry the writers' factor {factor:.4g} too, and "
        f"attention logits shrink to its square, {factor * factor:.2g} of their size; scale the writers alone and draw "
        "the readers at the base standard deviation."
    )


def on_reader(rule: Rule, readers: Matrices, writers: Matrices, factor: float, *, bare: bool) -> str:
    """on-reader: in place of writers that are `bare`, or beside them."""
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
    """twice, on a reader and a writer of one branch."""
    return (
        f"Reader and writer of the same branch are both scaled, so where the branch is linear in both it is "
        f"{product:.4g} of unscaled instead of {wanted:.4g}; take the factor off {shown(readers)}."
    )


def twice(rule: Rule, writers: Matrices, effective: float, wanted: float, forward: float | None) -> str:
    """twice, in the weights alone or, where `forward` is given, in weights and forward."""
    again = (
        " two times over"
        if forward is None
        else f", and the forward multiplies the same contributions by {forward:.4g} again"
    )
    return (
        f"The stored writers {shown(writers)} carry {rule.formula}{again}: the branch is {effective:.4g} of unscaled "
        f"instead of {wanted:.4g}; keep one of the two."
    )


def depth_law(rule: Rule, why: Explanation, writers: Matrices, ratio: float, blocks: int) -> str:
    """depth-convention, mixed-depth or partial: another law, a constant, or nothing known."""
    asked = f"{rule.name} asks for {rule.formula} with L = {blocks}"
    height = "an infinite ratio in the first block" if math.isinf(ratio) else f"{ratio:.2f} times the declared value"
    if isinstance(why.payload, KnownLaw):
        counted = "blocks counted from 1" if math.isinf(ratio) else f"the whole depth L = {blocks}"
        use = f"use {rule.formula} with {counted}" if rule.scales else "draw them at the base"
        return (
            f"{shown(writers)} follow {why.payload.formula}: {why.payload.counted}, {height} at {blocks} blocks; {use}."
        )
    if isinstance(why.payload, Constants):
        additions = ""
        if rule.recipe.counts is not None and ratio > 0:
            count = blocks * (2 if rule.recipe.counts == "additions" else 1) / ratio**2
            additions = f", as if {count:.3g} {rule.recipe.counts} were counted"
        return f"{shown(writers)} carry {_constants(why.payload)}, {height}{additions}; {asked}."
    return (
        f"{shown(writers)} follow no depth law that is known here, {ratio:.2f} times {rule.name} over all; set them to "
        f"{rule.formula}."
    )


def _constants(found: Constants) -> str:
    told = f"a factor of {found.values[0]:.2g} in every block"
    if len(found.values) < 2 or found.values[1] is None:
        return told
    depth = found.blocks[1]
    if found.same:
        return f"{told}, the same at {depth} blocks: the depth is not counted at all"
    return f"{told}, and {found.values[1]:.2g} at {depth} blocks"


def writer_fan(rule: Rule, cause: Cause, fan: Fan, size: int, writers: Matrices, ratio: float) -> str:
    """wrong-fan-in of writers: another fan of that `size`, or their own where the rule counts another."""
    own = writers[0].fan_in
    other = cause is Cause.OTHER_FAN
    what = (
        f"are scaled by {fan_name(fan)}, {size}, where their fan_in is {own}"
        if other
        else f"are scaled by their fan_in, {own}, where {rule.name} counts {size}"
    )
    return (
        f"{shown(writers)} {what}: {ratio:.2f} times the declared value; divide by the square root of "
        f"{own if other else size}."
    )


def reader_fan(fan: Fan, size: int, matrices: Matrices, factor: float) -> str:
    """wrong-fan-in of matrices without a depth rule."""
    return (
        f"{shown(matrices)} are drawn by {fan_name(fan)} ({size} for {matrices[0].shown}) where the fan_in is "
        f"{matrices[0].fan_in}: {factor:.2f} times their standard deviation; draw them by their own fan_in."
    )


def unused_range(std: float) -> str:
    """range-ignored, by every matrix."""
    return (
        f"No matrix follows the configured standard deviation; the readers stand at {std:.4g}, which is judged by "
        "instead: draw every matrix from the configuration's value."
    )


def reader_range(readers: Matrices, std: float, base: BaseStd) -> str:
    """range-ignored, by readers."""
    return (
        f"{shown(readers)} stand at {std:.4g} where {base_source(base)} declares {base.constant:.4g}; draw them from "
        "the declared value."
    )


def writer_range(writers: Matrices, other: BaseStd, base: BaseStd) -> str:
    """range-ignored, by writers that are scaled from another base."""
    own = ", the readers' own," if other.origin is Origin.POOLED else ""
    value = f"{other.constant:.4g}{own}"
    if not own and other.law != CONSTANT:
        value += f" times {other.law.formula}"
    return (
        f"{shown(writers)} are scaled from a base of {value} instead of {base.constant:.4g} ({base_source(base)}); "
        "draw them from the declared base."
    )


def no_rule(depths: Sequence[Factors]) -> str:
    """no-rule-declared, with the factors that the forward has at each depth."""
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


def blank(names: Sequence[str]) -> str:
    """never-initialised, by a build in marked memory."""
    return (
        f"{listed(names)} {'are' if len(names) > 1 else 'is'} never written: built in memory filled with NaN, the NaN "
        "is still there; draw it in the initializer."
    )


def odd_values(names: Sequence[str]) -> str:
    """never-initialised, by values."""
    return (
        f"{listed(names)} {'hold' if len(names) > 1 else 'holds'} nonfinite, denormal or huge values that no "
        "initializer draws; look for memory that is never written, or a standard deviation that divides by zero."
    )


def duplicated(groups: Sequence[Sequence[str]]) -> str:
    """duplicated."""
    return (
        f"{sum(map(len, groups))} matrices hold {len(groups)} draws, up to a factor, as {' = '.join(groups[0][:2])}; "
        "draw each of its own instead of copying or seeding again, or tie them if they are meant to be one."
    )


def tied(groups: Sequence[Sequence[str]]) -> str:
    """tied."""
    pairs = "; ".join(f"{first} = {listed(others)}" for first, *others in groups[:SHOWN])
    return f"One parameter under several names, counted once: {pairs}."


def missing(names: Sequence[str]) -> str:
    """missing-keys, in stored files."""
    return f"The stored file lacks {listed(names)}, drawn anew at every load; save the whole model."


def lost(names: Sequence[str]) -> str:
    """missing-keys, in what the model saves."""
    return f"Saving the model leaves out {listed(names)}, so loading cannot bring it back; {RELOAD}."


def changed(names: Sequence[str], ratio: tuple[str, float] | None) -> str:
    """changed-by-reload."""
    by = "" if ratio is None else f" ({ratio[0]} to {ratio[1]:.4g} times its standard deviation)"
    return f"Saving and loading changes {listed(names)}{by}; {RELOAD}."


def silent(names: Sequence[str]) -> str:
    """dead-branch, of blocks."""
    return f"The blocks of {listed(names)} never write to the stream; connect them or take them out."


def dead(names: Sequence[str]) -> str:
    """dead-branch, of branches that add zero."""
    return (
        f"The branches of {listed(names)} add zero and none of their parameters has a gradient, so they can never "
        "learn; leave one factor of each branch nonzero."
    )


def not_pre_norm(stream: str, cosine: float | None) -> str:
    """A note on a stream whose size a norm sets."""
    told = "" if cosine is None else f"; the last state's cosine with the input is {cosine:.2f}"
    return f"The stream is no pre-norm one: {stream}{told}. The norm, not the writers, sets its size."


def small_branch(label: str, size: float) -> str:
    """A note on a norm in the regime of its epsilon."""
    return (
        f"The norm on the branch output brings {label} to {size:.2f} of full size: its epsilon is not small beside so "
        "small a branch (or its gain is below 1), and the writer's scale shows through in part."
    )
