"""The findings of an audit about an initialization: the kinds of findings, worst first, and the class `Finding`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ...numerals import finite

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Kind:
    """A kind of finding: its name in documents, its severity, and its meaning."""

    name: str
    severity: Severity
    meaning: str


# The order is that of the contract: a verdict is the first of its findings' kinds.
KINDS = (
    Kind("absent", "error", "No writer is scaled as declared"),
    Kind("partial", "error", "Some writers are scaled as declared and others are not"),
    Kind("on-reader", "error", "A matrix that reads the stream is scaled in place of, or beside, the writer"),
    Kind("on-everything", "error", "Readers and writers are all scaled"),
    Kind("twice", "error", "A branch is scaled more than once"),
    Kind("depth-convention", "error", "Writers are scaled by another depth than the declared one"),
    Kind("wrong-fan-in", "error", "A matrix is scaled by a fan-in that is not its own"),
    Kind("changed-by-reload", "error", "Saving and loading changes parameters"),
    Kind("never-initialised", "error", "Memory that no initializer ever wrote"),
    Kind("missing-keys", "error", "Parameters that the stored file lacks"),
    Kind("stream-lost", "error", "A state is overwritten, or reaches the next block through a matrix alone"),
    Kind("equal-shards", "error", "Parts of one matrix hold the same draw"),
    Kind("gate-not-as-declared", "error", "A gate or a coefficient of the forward is not what the rule declares"),
    Kind("mixed-depth", "warning", "Writers follow several depth conventions side by side"),
    Kind("dead-branch", "warning", "A branch that adds nothing and can learn nothing"),
    Kind("duplicated", "warning", "Two parameters hold the same draw"),
    Kind("range-ignored", "warning", "Matrices that do not follow the declared base standard deviation"),
    Kind("invisible-after-norm", "warning", "A norm on the branch output hides the writer's scale from the stream"),
    Kind("mixed-topology", "warning", "Norms stand on the stream at some additions and not at others"),
    Kind("embedding-scale", "warning", "The first state is far larger than what the branches add to it"),
    Kind("narrow-stream", "warning", "The stream is kept in a coarser floating type than the weights"),
    Kind("unexplained", "warning", "Writers do not meet the rule, and nothing known explains what they follow"),
    Kind("applied", "info", "The declared rule is met"),
    Kind(
        "zero-by-construction",
        "info",
        "Branches that add exactly zero at the start, by a writer, a gate or an inner matrix",
    ),
    Kind("no-rule-declared", "info", "No depth rule is declared or recognized"),
    Kind("tied", "info", "One parameter under several names"),
)
# A verdict without a finding: no finding is about a writer's scale.
NOTHING = "nothing-to-judge"
# Facts about parameters, not about their scale; they are findings and never the verdict.
NO_VERDICT = ("tied",)
MEANING = {kind.name: kind.meaning for kind in KINDS}
VERDICTS = {**MEANING, NOTHING: "No rule could be judged on any writer"}
ORDER = {kind.name: place for place, kind in enumerate(KINDS)}
_SEVERITY: dict[str, Severity] = {kind.name: kind.severity for kind in KINDS}
_WORST: tuple[Severity, ...] = ("error", "warning", "info")


def severity(name: str) -> Severity:
    """Return the severity of a kind or a verdict: `error`, `warning` or `info`."""
    return _SEVERITY.get(name, "info")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding about an initialization; the sentence says what to change.

    If the kind is about scale, `measured` and `expected` are ratios to the declared standard deviation. `guessed` is
    True if the rule was not declared; then the severity is at most `warning`.
    """

    kind: str
    sentence: str
    parameters: tuple[str, ...] = ()
    measured: float | None = None
    expected: float | None = None
    guessed: bool = False

    @property
    def severity(self) -> Severity:
        """The severity of the kind; `warning` instead of `error` where the rule was guessed."""
        found = severity(self.kind)
        return "warning" if self.guessed and found == "error" else found

    def row(self) -> dict[str, Any]:
        """Return the finding as a row of the document; a value that is not finite is null."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "parameters": list(self.parameters),
            "measured": finite(self.measured),
            "expected": finite(self.expected),
            "sentence": self.sentence,
        }


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings as a tuple, worst first; those of one kind keep their order."""
    return tuple(sorted(findings, key=lambda finding: (_WORST.index(finding.severity), ORDER[finding.kind])))


def verdict_of(findings: Iterable[Finding]) -> str:
    """Return the kind of the worst finding that judges an initialization; `nothing-to-judge` where there is none."""
    return next((found.kind for found in ordered(findings) if found.kind not in NO_VERDICT), NOTHING)
