"""The headline of an audit: what is wrong, whether it matters at this depth, what to change, as data and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..initialization.findings import Finding
from . import headline_words as words
from .repair import Repair
from .seed_health import SeedHealth

Matters = Literal["always", "much", "some", "little", "unknown"]
# Faults that no ratio at the start shows.
ALWAYS = (
    "changed-by-reload",
    "never-initialised",
    "missing-keys",
    "dead-branch",
    "duplicated",
    "stream-lost",
    "equal-shards",
)
# A ratio that the repair changes by less than this factor is nearly the same.
NEARLY = 2.0


def headline_document(
    document: Mapping[str, Any],
    findings: Sequence[Finding],
    repairs: Sequence[Repair],
    health: tuple[SeedHealth, SeedHealth | None] | None,
) -> dict[str, Any]:
    """Return the headline of an audit document as a dict: its data, and `sentences` made from them.

    `health` is the pair (model as it is, model repaired) over seeds, None if it was not measured.
    """
    off = [finding.kind for finding in findings if finding.severity != "info"]
    as_it_is, mended = health or (None, None)
    found = {
        "state": as_it_is.verdict.state if as_it_is else None,
        "off": off,
        "matters": matters(off[0], as_it_is, mended) if off else None,
        "seeds": as_it_is.verdict.seeds if as_it_is else 0,
        "as_it_is": _arm(as_it_is),
        "mended": _arm(mended),
        "repair": repairs[0].kind if repairs else None,
    }
    return {**found, "sentences": words.sentences(document, found)}


def matters(kind: str, as_it_is: SeedHealth | None, mended: SeedHealth | None) -> Matters:
    """Return how much a finding of this kind changes the ratios: one of the words of `Matters`.

    `always`: a fault that ratios do not show. `unknown`: not measured. Otherwise `much`, `some` or `little`, by what
    the repair changes.
    """
    if kind in ALWAYS:
        return "always"
    if as_it_is is None or mended is None or mended.extreme is None:
        return "unknown"
    if as_it_is.extreme is None or as_it_is.verdict.state == "outside" != mended.verdict.state:
        return "much"
    pairs = zip(as_it_is.extreme, mended.extreme, strict=True)
    return "little" if all(1 / NEARLY < one / two < NEARLY for one, two in pairs) else "some"


def _arm(health: SeedHealth | None) -> dict[str, Any] | None:
    """Return the extreme ratios and the verdict of the model as it is, or repaired; None where it was not measured."""
    if health is None:
        return None
    activation, adjoint = health.extreme or (None, None)
    return {"activation": activation, "adjoint": adjoint, "verdict": health.verdict.document()}
