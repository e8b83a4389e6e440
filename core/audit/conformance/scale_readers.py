"""Findings about matrices that read the stream: scaled in place of writers, off the declared base, of another fan."""

from __future__ import annotations

from core.audit.conformance import diagnosis as d
from core.audit.conformance.base import usable
from core.audit.conformance.diagnosis import Diagnosis, fan_factor, fan_law, other_fans
from core.audit.conformance.kinds import Finding
from core.audit.conformance.matrices import Stored
from core.audit.conformance.reading import Reading, scaled_readers, visible
from core.audit.conformance.rules import close
from core.audit.conformance.scale_state import Scale, explain, median, names_of, places_of, shown
from core.audit.conformance.settle import Settled, grouped
from core.audit.conformance.spread import ORTHOGONAL, tolerance


def on_everything(scale: Scale) -> None:
    """All readers carry the factor of the writers, which meet the rule."""
    known = usable(scale.first.readers)
    scaled = scale.of(d.OK) == scale.diagnoses and len(scale.readers) == len(known) > 1
    if not scaled:
        return
    factor = median(scale.first.stored(m) for m in scale.readers)
    extra = len({m.group for m in scale.readers})
    scale.findings.append(
        Finding(
            kind="on-everything",
            parameters=names_of(scale.readers),
            measured=factor,
            expected=1.0,
            sentence=(
                f"All {len(known)} readers ({extra} a block) carry the writers' factor {factor:.4g} too, and attention "
                f"logits shrink to its square, {factor * factor:.2g} of their size; scale the writers alone and draw "
                "the readers at the base standard deviation."
            ),
        )
    )
    scale.readers = []
    scale.diagnoses = [Diagnosis("explained", "", found.writers, found.ratio) for found in scale.diagnoses]


def on_reader(scale: Scale) -> None:
    """Readers that carry the factor in place of their branch's writer, or beside it."""
    if not scale.readers:
        return
    places = {(m.place, m.branch) for m in scale.readers}
    bare: list[Stored] = []
    beside: list[Stored] = []
    for found in scale.diagnoses:
        for writer in found.writers:
            if (writer.place, writer.branch) in places:
                (bare if found.label == d.UNSCALED else beside).append(writer)
    for writers, missing in ((bare, True), (beside, False)):
        own = {(m.place, m.branch) for m in writers}
        readers = [m for m in scale.readers if (m.place, m.branch) in own]
        if readers:
            scale.findings.append(_reader_finding(scale, readers, writers, missing))
    if beside:
        scale.findings.append(
            _doubled(scale, [m for m in scale.readers if (m.place, m.branch) not in places_of(bare)], beside)
        )
    explain(scale, bare)
    explain(scale, beside)


def _reader_finding(scale: Scale, readers: list[Stored], writers: list[Stored], missing: bool) -> Finding:
    factor = median(scale.first.stored(m) for m in readers)
    names = names_of([*readers, *writers]) if missing else names_of(readers)
    tell = (
        " The branch is linear in these matrices, so the activations equal those of the right model to rounding and "
        "cannot tell the two apart: only the weights, and the gradients, do."
        if missing and all(m.linear for m in readers)
        else ""
    )
    what = (
        f"The factor {factor:.4g} of {scale.rule.name} stands on {shown(readers)}, which read the stream, and not on "
        f"the writers {shown(writers)}; scale the writers and draw the readers at the base.{tell}"
        if missing
        else f"{shown(readers)} read the stream and carry the factor {factor:.4g} beside their writers "
        f"{shown(writers)}; draw them at the base standard deviation."
    )
    return Finding(kind="on-reader", parameters=names, measured=factor, expected=1.0, sentence=what)


def _doubled(scale: Scale, readers: list[Stored], writers: list[Stored]) -> Finding:
    product = median(scale.first.effective(m) for m in writers) * median(scale.first.stored(m) for m in readers)
    wanted = median(scale.first.declared(scale.rule, m) for m in writers)
    return Finding(
        kind="twice",
        parameters=names_of([*readers, *writers]),
        measured=product / wanted,
        expected=1.0,
        sentence=(
            f"Reader and writer of the same branch are both scaled, so where the branch is linear in both it is "
            f"{product:.4g} of unscaled instead of {wanted:.4g}; take the factor off {shown(readers)}."
        ),
    )


def reader_ranges(settled: Settled) -> list[Finding]:
    """Readers away from a declared base; those that carry a rule's own factor have findings of their own."""
    first, rule = settled.readings[0], settled.rule
    if settled.unused_range:
        return [_range(first, usable(first.readers), first.base.source, unused=True)]
    if first.base.count or first.base.law != "constant" or settled.everything:
        return []
    scaled = {m.shown for m in scaled_readers(first, rule)} if rule is not None else set()
    away = []
    for matrix in usable(first.readers):
        allowed = (1.0,) if rule is None else rule.readers(matrix, first.blocks, first.width, first.base)
        factor, margin = first.stored(matrix), tolerance(matrix.spread.count)
        if matrix.shown not in scaled and not any(close(factor, one, margin) for one in (*allowed, 1.0)):
            away.append(matrix)
    return [_range(first, away, first.base.source, unused=False)] if away else []


def _range(first: Reading, away: list[Stored], source: str, *, unused: bool) -> Finding:
    std = median(m.spread.std for m in away)
    if unused:
        sentence = (
            f"No matrix follows the configured standard deviation; the readers stand at {std:.4g}, which is judged by "
            "instead: draw every matrix from the configuration's value."
        )
        return Finding(kind="range-ignored", parameters=names_of(away), measured=std, expected=None, sentence=sentence)
    ratio = median(first.stored(m) for m in away)
    return Finding(
        kind="range-ignored",
        parameters=names_of(away),
        measured=ratio,
        expected=1.0,
        sentence=(
            f"{shown(away)} stand at {std:.4g} where {source} declares {first.base.constant:.4g}; draw them from the "
            "declared value."
        ),
    )


def reader_fans(settled: Settled) -> list[Finding]:
    """Readers, and without a rule writers, that follow a fan law with a fan that is not their own."""
    first = settled.readings[0]
    if settled.by_fan_out:
        wrong = [m for m in (*first.readers, *first.writers) if m.fan_in != m.fan_out and m.spread.std > 0]
        return [_fan_finding(first, wrong, "its fan_out")]
    if not fan_law(first.base.law):
        return []
    away: dict[str, list[Stored]] = {}
    matrices = [*first.readers, *(() if settled.rule is not None else visible(first))]
    for group in grouped(usable(matrices)):
        factors = [first.stored(m) for m in group]
        # Right angles, not a formula of fans, decide the size of an orthogonal matrix.
        if all(m.spread.distribution == ORTHOGONAL for m in group):
            continue
        if all(close(f, 1.0, first.margin(m)) for f, m in zip(factors, group, strict=True)):
            continue
        for words in other_fans(group[0], first.width):
            factor = fan_factor(first, group[0], words)
            if all(close(f, factor, first.margin(m)) for f, m in zip(factors, group, strict=True)):
                away.setdefault(words, []).extend(group)
                break
    return [_fan_finding(first, members, words) for words, members in away.items()]


def _fan_finding(first: Reading, members: list[Stored], words: str) -> Finding:
    example = members[0]
    other = other_fans(example, first.width)[words][0]
    own = fan_factor(first, example, words)
    return Finding(
        kind="wrong-fan-in",
        parameters=names_of(members),
        measured=own,
        expected=1.0,
        sentence=(
            f"{shown(members)} are drawn by {words} ({other} for {example.shown}) where the fan_in is "
            f"{example.fan_in}: {own:.2f} times their standard deviation; draw them by their own fan_in."
        ),
    )
