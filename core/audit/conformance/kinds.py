"""The kinds of findings, worst first, their severities, and one finding."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]

# Kind: what it means. The order is that of the contract; the verdict is the first of the findings' kinds in it.
ERRORS = {
    "absent": "No writer is scaled as declared",
    "partial": "Some writers are scaled as declared and others are not",
    "on-reader": "A matrix that reads the stream is scaled in place of, or beside, the writer",
    "on-everything": "Readers and writers are all scaled",
    "twice": "A branch is scaled more than once",
    "depth-convention": "Writers are scaled by another depth than the declared one",
    "wrong-fan-in": "A matrix is scaled by a fan-in that is not its own",
    "changed-by-reload": "Saving and loading changes parameters",
    "never-initialised": "Memory that no initializer ever wrote",
    "missing-keys": "Parameters that the stored file lacks",
}
WARNINGS = {
    "mixed-depth": "Writers follow several depth conventions side by side",
    "dead-branch": "A branch that adds nothing and can learn nothing",
    "duplicated": "Two parameters hold the same draw",
    "range-ignored": "Matrices that do not follow the declared base standard deviation",
    "invisible-after-norm": "A norm on the branch output hides the writer's scale from the stream",
}
INFOS = {
    "applied": "The declared rule is met",
    "zero-by-construction": "Branches that add exactly zero at the start",
    "no-rule-declared": "No depth rule is declared or recognized",
    "tied": "One parameter under several names",
}
# A verdict without a finding of its own: where nothing that was found says anything of a writer's scale.
NOTHING = "nothing-to-judge"
# Facts about parameters, not about their scale; they are findings and never the verdict.
NO_VERDICT = ("tied",)
MEANING = {**ERRORS, **WARNINGS, **INFOS}
VERDICTS = {**MEANING, NOTHING: "No rule could be judged on any writer"}
ORDER = {kind: place for place, kind in enumerate(MEANING)}


def severity(kind: str) -> Severity:
    """`error`, `warning` or `info`."""
    return "error" if kind in ERRORS else "warning" if kind in WARNINGS else "info"


def verdict_of(findings: Iterable[Finding]) -> str:
    """The worst kind among the findings that judge an initialization, `NOTHING` where there is none."""
    return min((f.kind for f in findings if f.kind not in NO_VERDICT), key=lambda kind: ORDER[kind], default=NOTHING)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One fact about an initialization. `measured` and `expected` are ratios to the declared standard deviation where
    the kind is about scale; the sentence says what to change."""

    kind: str
    sentence: str
    parameters: tuple[str, ...] = ()
    measured: float | None = None
    expected: float | None = None

    @property
    def severity(self) -> Severity:
        """The severity of its kind."""
        return severity(self.kind)

    def row(self) -> dict[str, Any]:
        """The finding as it stands in the document; what is not finite is null."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "parameters": list(self.parameters),
            "measured": _finite(self.measured),
            "expected": _finite(self.expected),
            "sentence": self.sentence,
        }


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Worst first; findings of one kind keep their order."""
    return sorted(findings, key=lambda finding: ORDER[finding.kind])


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
