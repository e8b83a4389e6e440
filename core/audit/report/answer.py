"""The answer of an audit: the headline and the repairs of its document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...health.band import Band
from ...health.verdict import STATES
from ..initialization.findings import Finding
from ..initialization.rebuild import Rebuilder
from ..initialization.resolution import Resolution
from ..request import SEEDS
from ..trace.names import ParameterNames
from .headline import NEARLY, headline_document
from .repair import Repair, offered, repairs
from .repair_code import loop_code, override_code
from .repair_forms import LOOP, OVERRIDE, PYTHON
from .result import AuditResult
from .seed_health import SeedHealth, seed_health

Document = Mapping[str, Any]
Health = tuple[SeedHealth, SeedHealth | None] | None


def answered(
    document: Document,
    result: AuditResult,
    found: Resolution | None,
    findings: Sequence[Finding],
    source: Rebuilder,
    *,
    reseeds: bool,
    band: Band,
    seeds: Sequence[int] = SEEDS,
) -> dict[str, Any]:
    """Return the keys `headline`, `repairs` and `over_seeds` of the audit document as a dict.

    `found` is None if no scale could be judged. `reseeds` is True if `source` builds this very model, so that it can be
    built from other seeds too. The first of `seeds` is the model's own.
    """
    parameters = ParameterNames(result.discovery.guard.model).parameters
    again = source if reseeds else None
    mended = [] if found is None else repairs(found, findings, parameters, source.settings)
    health = seed_health(result, mended, again, band, seeds)
    if not mended and found is not None and not document["model"]["trained"]:
        mended, health = _offered(found, result, again, band, health, seeds)
    return {
        "headline": headline_document(document, findings, mended, health),
        "repairs": [row for repair in mended for row in _rows(repair, document["model"])],
        "over_seeds": _over_seeds(health, seeds),
    }


def _over_seeds(health: Health, seeds: Sequence[int]) -> dict[str, Any] | None:
    """Return the curves of every seed, of the model as it is and repaired; None where it was not measured."""
    if health is None:
        return None
    plain, mended = health
    return {
        "seeds": [str(seed) for seed in seeds[: plain.verdict.seeds]],
        "labels": list(plain.labels),
        "as_it_is": plain.document(),
        "mended": None if mended is None else mended.document(),
    }


def _offered(
    found: Resolution, result: AuditResult, source: Rebuilder | None, band: Band, health: Health, seeds: Sequence[int]
) -> tuple[list[Repair], Health]:
    """Return a rule as a repair for a model without one, and the health with it.

    Only where depth moves the ratios out of the band and the rule helps; otherwise no repair, and `health` unchanged.
    """
    if health is None or health[0].verdict.cause != "depth":
        return [], health
    repair = offered(found)
    better = seed_health(result, [repair], source, band, seeds) if repair is not None else None
    if repair is None or better is None or better[1] is None or not _helps(better[0], better[1]):
        return [], health
    return [repair], better


def _helps(plain: SeedHealth, mended: SeedHealth) -> bool:
    """Return whether the repair improves the verdict's state, or brings the worst ratio clearly nearer to 1."""
    before, after = plain.verdict.worst_factor.median, mended.verdict.worst_factor.median
    nearer = before is None or (after is not None and before / after > NEARLY)
    return after is not None and (nearer or STATES.index(mended.verdict.state) < STATES.index(plain.verdict.state))


def _rows(repair: Repair, model: Document) -> list[dict[str, str]]:
    """Return the forms of one repair: a loop for any model, and an override where the library has the model's class."""
    shrunk = bool(model["shrunk"])
    rows = [{"finding": repair.kind, "form": LOOP, "language": PYTHON, "code": loop_code(repair, shrunk=shrunk)}]
    if model["family"] is not None and str(model["class"]).isidentifier():
        code = override_code(repair, model["class"], shrunk=shrunk)
        rows.append({"finding": repair.kind, "form": OVERRIDE, "language": PYTHON, "code": code})
    return rows
