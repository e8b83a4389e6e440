"""Findings about writers that do not meet the rule, a kind a function."""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.audit.conformance import diagnosis as d
from core.audit.conformance.diagnosis import Diagnosis, other_fans, ratio_of
from core.audit.conformance.kinds import Finding
from core.audit.conformance.matrices import Stored
from core.audit.conformance.reading import Reading
from core.audit.conformance.rules import Rule
from core.audit.conformance.scale_state import Scale, median, names_of, shown


def unscaled(scale: Scale) -> None:
    """Writers at the base: all of them, or some."""
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
            f"{shown(writers)} stand at the base, {ratio:.2f} times what {scale.rule.name} asks at "
            f"{scale.first.blocks} blocks{depths}, while other writers are scaled; {wanted} too."
        )
    kind = "absent" if alone else "partial"
    scale.findings.append(Finding(kind=kind, parameters=names_of(writers), measured=ratio, expected=1.0, sentence=what))


def _at(reading: Reading, rule: Rule, found: Sequence[Diagnosis]) -> float:
    writers = [m for diagnosis in found for m in d.members(reading, diagnosis.writers)]
    return ratio_of(reading, rule, writers)


def twice(scale: Scale) -> None:
    """Writers scaled two times, in the weights or in weights and forward."""
    for label in (d.FORWARD, d.TWICE):
        writers = [m for found in scale.of(label) for m in found.writers]
        if not writers:
            continue
        ratio = ratio_of(scale.first, scale.rule, writers)
        effective = median(scale.first.effective(m) for m in writers)
        wanted = median(scale.first.declared(scale.rule, m) for m in writers)
        if label == d.FORWARD:
            forward = median(m.forward for m in writers)
            where = (
                f"The stored writers {shown(writers)} carry {scale.rule.formula}, and the forward multiplies the same "
                f"contributions by {forward:.4g} again"
            )
        else:
            where = f"The stored writers {shown(writers)} carry {scale.rule.formula} two times over"
        scale.findings.append(
            Finding(
                kind="twice",
                parameters=names_of(writers),
                measured=ratio,
                expected=1.0,
                sentence=(
                    f"{where}: the branch is {effective:.4g} of unscaled instead of {wanted:.4g}; keep one of the two."
                ),
            )
        )


def conventions(scale: Scale) -> None:
    """Writers that follow another depth law, or a factor that follows none."""
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
                parameters=names_of(writers),
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
            f"{shown(writers)} follow {words}, {height} at {blocks} blocks; use {scale.rule.formula} with "
            f"{'blocks counted from 1' if math.isinf(ratio) else f'the whole depth L = {blocks}'}."
        )
    counted = ""
    if scale.rule.recipe.counts is not None and ratio > 0:
        count = blocks * (2 if scale.rule.recipe.counts == "additions" else 1) / ratio**2
        counted = f", as if {count:.3g} {scale.rule.recipe.counts} were counted"
    return (
        f"{shown(writers)} carry {words}, {height}{counted}; {scale.rule.name} asks for {scale.rule.formula} with "
        f"L = {blocks}."
    )


def fans(scale: Scale) -> None:
    """Writers scaled by a fan that is not theirs, or by theirs where the rule counts none."""
    for key in dict.fromkeys((found.label, found.words) for found in scale.of(d.FAN, d.OWN_FAN)):
        label, words = key
        writers = [m for found in scale.diagnoses if (found.label, found.words) == key for m in found.writers]
        example = writers[0]
        other = other_fans(example, scale.first.width)[words][0]
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
                parameters=names_of(writers),
                measured=ratio,
                expected=1.0,
                sentence=(
                    f"{shown(writers)} {what}: {ratio:.2f} times the declared value; divide by the square root of "
                    f"{right}."
                ),
            )
        )


def writer_ranges(scale: Scale) -> None:
    """Writers that meet the rule on another base than the declared one."""
    for words in dict.fromkeys(found.words for found in scale.of(d.RANGE)):
        writers = [m for found in scale.of(d.RANGE) if found.words == words for m in found.writers]
        base = scale.first.base
        scale.findings.append(
            Finding(
                kind="range-ignored",
                parameters=names_of(writers),
                measured=ratio_of(scale.first, scale.rule, writers),
                expected=1.0,
                sentence=(
                    f"{shown(writers)} are scaled from a base of {words} instead of {base.constant:.4g} "
                    f"({base.source}); draw them from the declared base."
                ),
            )
        )


def unexplained(scale: Scale) -> None:
    """Writers that nothing known explains."""
    writers = [m for found in scale.of(d.UNKNOWN) for m in found.writers]
    if not writers:
        return
    ratio = ratio_of(scale.first, scale.rule, writers)
    others = len(scale.of(d.UNKNOWN)) < len(scale.diagnoses)
    scale.findings.append(
        Finding(
            kind="partial" if others else "depth-convention",
            parameters=names_of(writers),
            measured=ratio,
            expected=1.0,
            sentence=(
                f"{shown(writers)} follow no depth law that is known here, {ratio:.2f} times {scale.rule.name} over "
                f"all; set them to {scale.rule.formula}."
            ),
        )
    )
