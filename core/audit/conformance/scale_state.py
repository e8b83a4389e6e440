"""The judged writers by what explains them, and how findings list names and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from core.audit.conformance.diagnosis import Diagnosis
from core.audit.conformance.kinds import Finding
from core.audit.conformance.matrices import Stored
from core.audit.conformance.reading import Reading
from core.audit.conformance.rules import Rule
from core.audit.conformance.settle import Settled, grouped


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


def explain(scale: Scale, writers: Iterable[Stored]) -> None:
    """Take writers out of the diagnoses, for a finding already speaks of them."""
    gone = {m.shown for m in writers}
    kept = []
    for found in scale.diagnoses:
        rest = tuple(m for m in found.writers if m.shown not in gone)
        if rest:
            kept.append(Diagnosis(found.label, found.words, rest, found.ratio))
    scale.diagnoses = kept


def places_of(writers: Iterable[Stored]) -> set[tuple[int, int]]:
    """Additions and branches of matrices."""
    return {(m.place, m.branch) for m in writers}


def names_of(matrices: Iterable[Stored]) -> tuple[str, ...]:
    """Parameter names, each once."""
    return tuple(dict.fromkeys(m.name for m in matrices))


def shown(matrices: Sequence[Stored]) -> str:
    """Names as a person would list them: one a group, with its count."""
    groups = [(group[0].group, len(group), group[0].shown) for group in grouped(list(matrices))]
    words = [name if count == 1 else f"{pattern} ({count})" for pattern, count, name in groups]
    return ", ".join(words[:4]) + (f" and {len(words) - 4} more" if len(words) > 4 else "")


def median(values: Iterable[float]) -> float:
    """The median."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else math.nan
