"""Findings about scale: what the diagnoses of all groups of writers, and the readers, come to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from core.audit.conformance import diagnosis as d
from core.audit.conformance.base import usable
from core.audit.conformance.diagnosis import Diagnosis, diagnose, fan_law, other_fans, ratio_of
from core.audit.conformance.kinds import Finding
from core.audit.conformance.matrices import Stored
from core.audit.conformance.reading import Reading, scaled_readers, visible, zero
from core.audit.conformance.rules import Rule, close
from core.audit.conformance.settle import Settled, grouped
from core.audit.conformance.spread import tolerance


@dataclass
class Scale:
    """The judged writers by what explains them, and the readers scaled by mistake; findings grow out of these."""

    settled: Settled
    rule: Rule
    diagnoses: list[Diagnosis]
    readers: list[Stored]
    findings: list[Finding] = field(default_factory=list)

    @property
    def first(self) -> Reading:
        """The reading that names stand for."""
        return self.settled.readings[0]

    def of(self, *labels: str) -> list[Diagnosis]:
        """The diagnoses with one of these labels."""
        return [diagnosis for diagnosis in self.diagnoses if diagnosis.label in labels]


def scale_findings(settled: Settled) -> list[Finding]:
    """All findings about scale; without a rule only those that need none."""
    first, rule = settled.readings[0], settled.rule
    findings = _zeros(first) + _ranges(settled) + _reader_fans(settled)
    hidden = [m for m in first.writers if m.hidden and m.spread.std != 0]
    if rule is None:
        return findings + _hidden(first, hidden, None)
    diagnoses = [found for group in grouped(visible(first)) for found in diagnose(settled.readings, rule, group)]
    scale = Scale(settled, rule, diagnoses, scaled_readers(first, rule))
    for step in (_everything, _on_reader, _unscaled, _twice, _conventions, _fans, _writer_ranges, _rest):
        step(scale)
    findings += scale.findings + (_hidden(first, hidden, rule) if rule.scales else [])
    if diagnoses and all(found.label == d.OK for found in diagnoses) and not scale.findings:
        findings.append(_applied(scale))
    return findings


def _applied(scale: Scale) -> Finding:
    first, rule = scale.first, scale.rule
    writers = [m for found in scale.diagnoses for m in found.writers]
    forward = any(m.forward != 1 for m in writers)
    depths = " and ".join(str(reading.blocks) for reading in scale.settled.readings)
    how = "; the forward's coefficients carry part or all of it" if forward else ""
    return Finding(
        kind="applied",
        parameters=_names(writers),
        measured=ratio_of(first, rule, writers),
        expected=1.0,
        sentence=f"Every writer meets {rule.name}, {rule.formula}, at {depths} blocks{how}; nothing is to change.",
    )


def _everything(scale: Scale) -> None:
    known = usable(scale.first.readers)
    scaled = scale.of(d.OK) == scale.diagnoses and len(scale.readers) == len(known) > 1
    if not scaled:
        return
    factor = _typical(scale.first.stored(m) for m in scale.readers)
    extra = len({m.group for m in scale.readers})
    scale.findings.append(
        Finding(
            kind="on-everything",
            parameters=_names(scale.readers),
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


def _on_reader(scale: Scale) -> None:
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
            _doubled(scale, [m for m in scale.readers if (m.place, m.branch) not in _places(bare)], beside)
        )
    _explain(scale, bare)
    _explain(scale, beside)


def _reader_finding(scale: Scale, readers: list[Stored], writers: list[Stored], missing: bool) -> Finding:
    factor = _typical(scale.first.stored(m) for m in readers)
    names = _names([*readers, *writers]) if missing else _names(readers)
    tell = (
        " The branch is linear in these matrices, so the activations equal those of the right model to rounding and "
        "cannot tell the two apart: only the weights, and the gradients, do."
        if missing and all(m.linear for m in readers)
        else ""
    )
    what = (
        f"The factor {factor:.4g} of {scale.rule.name} stands on {_shown(readers)}, which read the stream, and not on "
        f"the writers {_shown(writers)}; scale the writers and draw the readers at the base.{tell}"
        if missing
        else f"{_shown(readers)} read the stream and carry the factor {factor:.4g} beside their writers "
        f"{_shown(writers)}; draw them at the base standard deviation."
    )
    return Finding(kind="on-reader", parameters=names, measured=factor, expected=1.0, sentence=what)


def _doubled(scale: Scale, readers: list[Stored], writers: list[Stored]) -> Finding:
    product = _typical(scale.first.effective(m) for m in writers) * _typical(scale.first.stored(m) for m in readers)
    wanted = _typical(scale.first.declared(scale.rule, m) for m in writers)
    return Finding(
        kind="twice",
        parameters=_names([*readers, *writers]),
        measured=product / wanted,
        expected=1.0,
        sentence=(
            f"Reader and writer of the same branch are both scaled, so where the branch is linear in both it is "
            f"{product:.4g} of unscaled instead of {wanted:.4g}; take the factor off {_shown(readers)}."
        ),
    )


def _unscaled(scale: Scale) -> None:
    found = scale.of(d.UNSCALED)
    if not found:
        return
    writers = [m for diagnosis in found for m in diagnosis.writers]
    ratio = ratio_of(scale.first, scale.rule, writers)
    alone = len(found) == len(scale.diagnoses) and not scale.readers
    wanted = f"multiply them by {scale.rule.formula}"
    depths = "".join(
        f", {_at(reading, scale.rule, found):.2f} at {reading.blocks} blocks" for reading in scale.settled.readings[1:]
    )
    if alone:
        what = (
            f"No writer is scaled: all {len(writers)} stand at {ratio:.2f} times what {scale.rule.name} asks at "
            f"{scale.first.blocks} blocks{depths}; {wanted}."
        )
    else:
        what = (
            f"{_shown(writers)} stand at the base, {ratio:.2f} times what {scale.rule.name} asks at "
            f"{scale.first.blocks} blocks{depths}, while other writers are scaled; {wanted} too."
        )
    kind = "absent" if alone else "partial"
    scale.findings.append(Finding(kind=kind, parameters=_names(writers), measured=ratio, expected=1.0, sentence=what))


def _at(reading: Reading, rule: Rule, found: Sequence[Diagnosis]) -> float:
    writers = [m for diagnosis in found for m in d.members(reading, diagnosis.writers)]
    return ratio_of(reading, rule, writers)


def _twice(scale: Scale) -> None:
    for label in (d.FORWARD, d.TWICE):
        writers = [m for found in scale.of(label) for m in found.writers]
        if not writers:
            continue
        ratio = ratio_of(scale.first, scale.rule, writers)
        effective = _typical(scale.first.effective(m) for m in writers)
        wanted = _typical(scale.first.declared(scale.rule, m) for m in writers)
        if label == d.FORWARD:
            forward = _typical(m.forward for m in writers)
            where = (
                f"The stored writers {_shown(writers)} carry {scale.rule.formula}, and the forward multiplies the same "
                f"contributions by {forward:.4g} again"
            )
        else:
            where = f"The stored writers {_shown(writers)} carry {scale.rule.formula} two times over"
        scale.findings.append(
            Finding(
                kind="twice",
                parameters=_names(writers),
                measured=ratio,
                expected=1.0,
                sentence=(
                    f"{where}: the branch is {effective:.4g} of unscaled instead of {wanted:.4g}; keep one of the two."
                ),
            )
        )


def _conventions(scale: Scale) -> None:
    found = scale.of(d.CONVENTION, d.FLAT)
    if not found:
        return
    laws: dict[str, list[Diagnosis]] = {}
    for diagnosis in found:
        laws.setdefault(diagnosis.words, []).append(diagnosis)
    mixed = bool(scale.of(d.OK)) or len(laws) > 1
    for words, members in laws.items():
        writers = [m for diagnosis in members for m in diagnosis.writers]
        ratio = ratio_of(scale.first, scale.rule, writers)
        flat = members[0].label == d.FLAT
        kind = "depth-convention"
        if mixed and not flat and math.isfinite(ratio):
            kind = "mixed-depth"
        elif flat and scale.of(d.OK):
            kind = "partial"
        scale.findings.append(
            Finding(
                kind=kind,
                parameters=_names(writers),
                measured=ratio,
                expected=1.0,
                sentence=_convention_sentence(scale, words, writers, ratio, flat=flat),
            )
        )


def _convention_sentence(scale: Scale, words: str, writers: list[Stored], ratio: float, *, flat: bool) -> str:
    blocks = scale.first.blocks
    height = "an infinite ratio in the first block" if math.isinf(ratio) else f"{ratio:.2f} times the declared value"
    if not flat:
        return (
            f"{_shown(writers)} follow {words}, {height} at {blocks} blocks; use {scale.rule.formula} with "
            f"{'blocks counted from 1' if math.isinf(ratio) else f'the whole depth L = {blocks}'}."
        )
    counted = ""
    if scale.rule.recipe.counts is not None and ratio > 0:
        count = blocks * (2 if scale.rule.recipe.counts == "additions" else 1) / ratio**2
        counted = f", as if {count:.3g} {scale.rule.recipe.counts} were counted"
    return (
        f"{_shown(writers)} carry {words}, {height}{counted}; {scale.rule.name} asks for {scale.rule.formula} with "
        f"L = {blocks}."
    )


def _fans(scale: Scale) -> None:
    for key in dict.fromkeys((found.label, found.words) for found in scale.of(d.FAN, d.OWN_FAN)):
        label, words = key
        writers = [m for found in scale.diagnoses if (found.label, found.words) == key for m in found.writers]
        example = writers[0]
        other = other_fans(example, scale.first.width)[words]
        ratio = ratio_of(scale.first, scale.rule, writers)
        what = (
            f"are scaled by {words}, {other}, where their fan_in is {example.fan_in}"
            if label == d.FAN
            else f"are scaled by their fan_in, {example.fan_in}, where {scale.rule.name} counts {other}"
        )
        right = example.fan_in if label == d.FAN else other
        scale.findings.append(
            Finding(
                kind="wrong-fan-in",
                parameters=_names(writers),
                measured=ratio,
                expected=1.0,
                sentence=(
                    f"{_shown(writers)} {what}: {ratio:.2f} times the declared value; divide by the square root of "
                    f"{right}."
                ),
            )
        )


def _writer_ranges(scale: Scale) -> None:
    for words in dict.fromkeys(found.words for found in scale.of(d.RANGE)):
        writers = [m for found in scale.of(d.RANGE) if found.words == words for m in found.writers]
        base = scale.first.base
        scale.findings.append(
            Finding(
                kind="range-ignored",
                parameters=_names(writers),
                measured=ratio_of(scale.first, scale.rule, writers),
                expected=1.0,
                sentence=(
                    f"{_shown(writers)} are scaled from a base of {words} instead of {base.constant:.4g} "
                    f"({base.source}); draw them from the declared base."
                ),
            )
        )


def _rest(scale: Scale) -> None:
    writers = [m for found in scale.of(d.UNKNOWN) for m in found.writers]
    if not writers:
        return
    ratio = ratio_of(scale.first, scale.rule, writers)
    others = len(scale.of(d.UNKNOWN)) < len(scale.diagnoses)
    scale.findings.append(
        Finding(
            kind="partial" if others else "depth-convention",
            parameters=_names(writers),
            measured=ratio,
            expected=1.0,
            sentence=(
                f"{_shown(writers)} follow no depth law that is known here, {ratio:.2f} times {scale.rule.name} over "
                f"all; set them to {scale.rule.formula}."
            ),
        )
    )


def _zeros(first: Reading) -> list[Finding]:
    found = zero(first)
    if not found:
        return []
    gated = [m for m in found if m.spread.std != 0]
    how = "stand behind a forward coefficient of 0" if gated else "are zeros"
    return [
        Finding(
            kind="zero-by-construction",
            parameters=_names(found),
            measured=0.0,
            expected=None,
            sentence=f"{_shown(found)} {how}, so their branches add nothing at the start; nothing is to change.",
        )
    ]


def _hidden(first: Reading, hidden: list[Stored], rule: Rule | None) -> list[Finding]:
    """A scale that a norm takes away again is worth a warning only where somebody set one."""
    if rule is None:
        hidden = [
            m
            for group in grouped(hidden)
            for m in group
            if not first.fits(group, [m.forward for m in group]) and m.writes
        ]
    if not hidden:
        return []
    factor = _typical(first.stored(m) for m in hidden)
    return [
        Finding(
            kind="invisible-after-norm",
            parameters=_names(hidden),
            measured=factor,
            expected=None,
            sentence=(
                f"A norm stands on the branch output, so the factor {factor:.4g} of {_shown(hidden)} does not reach "
                "the stream; scale that norm's gain or the contribution instead, or declare no rule."
            ),
        )
    ]


def _ranges(settled: Settled) -> list[Finding]:
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
    std = _typical(m.spread.std for m in away)
    if unused:
        sentence = (
            f"No matrix follows the configured standard deviation; the readers stand at {std:.4g}, which is judged by "
            "instead: draw every matrix from the configuration's value."
        )
        return Finding(kind="range-ignored", parameters=_names(away), measured=std, expected=None, sentence=sentence)
    ratio = _typical(first.stored(m) for m in away)
    return Finding(
        kind="range-ignored",
        parameters=_names(away),
        measured=ratio,
        expected=1.0,
        sentence=(
            f"{_shown(away)} stand at {std:.4g} where {source} declares {first.base.constant:.4g}; draw them from the "
            "declared value."
        ),
    )


def _reader_fans(settled: Settled) -> list[Finding]:
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
        if all(close(f, 1.0, first.margin(m)) for f, m in zip(factors, group, strict=True)):
            continue
        for words, count in other_fans(group[0], first.width).items():
            factor = math.sqrt(group[0].fan_in / count)
            if all(close(f, factor, first.margin(m)) for f, m in zip(factors, group, strict=True)):
                away.setdefault(words, []).extend(group)
                break
    return [_fan_finding(first, members, words) for words, members in away.items()]


def _fan_finding(first: Reading, members: list[Stored], words: str) -> Finding:
    example = members[0]
    other = other_fans(example, first.width)[words]
    own = math.sqrt(example.fan_in / other)
    return Finding(
        kind="wrong-fan-in",
        parameters=_names(members),
        measured=own,
        expected=1.0,
        sentence=(
            f"{_shown(members)} are drawn by {words} ({other} for {example.shown}) where the fan_in is "
            f"{example.fan_in}: {own:.2f} times their standard deviation; draw them by their own fan_in."
        ),
    )


def _explain(scale: Scale, writers: Iterable[Stored]) -> None:
    """Take writers out of the diagnoses, for a finding already speaks of them."""
    gone = {m.shown for m in writers}
    kept = []
    for found in scale.diagnoses:
        rest = tuple(m for m in found.writers if m.shown not in gone)
        if rest:
            kept.append(Diagnosis(found.label, found.words, rest, found.ratio))
    scale.diagnoses = kept


def _places(writers: Iterable[Stored]) -> set[tuple[int, int]]:
    return {(m.place, m.branch) for m in writers}


def _names(matrices: Iterable[Stored]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(m.name for m in matrices))


def _shown(matrices: Sequence[Stored]) -> str:
    """Names as a person would list them: one a group, with its count."""
    groups = [(group[0].group, len(group), group[0].shown) for group in grouped(list(matrices))]
    words = [name if count == 1 else f"{pattern} ({count})" for pattern, count, name in groups]
    return ", ".join(words[:4]) + (f" and {len(words) - 4} more" if len(words) > 4 else "")


def _typical(values: Iterable[float]) -> float:
    """The median."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else math.nan
