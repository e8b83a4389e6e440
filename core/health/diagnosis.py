"""Describes an observe document in sentences: which ratio leaves the band, at which site, and by how much.

A site is a state of the residual stream. All functions are pure; they use the band and the judgements that the document
contains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..numerals import exact_text

Quantity = Literal["activation", "adjoint"]
Side = Literal["below", "above"]
QUANTITIES: tuple[Quantity, ...] = ("activation", "adjoint")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The sites at which one ratio (activation or adjoint) leaves the band on one side.

    `sites` is their number; `first` is the index of the first and `worst` that of the one furthest out, with their
    labels. `ratio` is the ratio at `worst`, `limit` the limit of the band on that side.
    """

    quantity: Quantity
    side: Side
    sites: int
    first: int
    first_label: str
    worst: int
    worst_label: str
    ratio: float
    limit: float

    @property
    def excess(self) -> float:
        """The factor, above 1, by which the worst ratio lies beyond the limit."""
        return self.ratio / self.limit if self.side == "above" else self.limit / self.ratio

    @property
    def sentence(self) -> str:
        """The finding as one sentence."""
        end = "above its upper" if self.side == "above" else "below its lower"
        count = "1 site" if self.sites == 1 else f"{self.sites} sites"
        first = "" if self.first == self.worst else f"; the first is site {self.first} ({self.first_label})"
        # Rounded, a ratio next to the limit would read as the limit itself.
        near = float(f"{self.ratio:.6g}") == float(f"{self.limit:.6g}")
        ratio, times = exact_text(self.ratio) if near else f"{self.ratio:.6g}", f"{self.excess:.3g}"
        return (
            f"The {self.quantity} ratio leaves the band at {count}, {end} limit {exact_text(self.limit)}: {ratio} at "
            f"site {self.worst} ({self.worst_label}), {'just' if times == '1' else f'{times} times'} beyond{first}."
        )


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The diagnosis of one arm (one recipe on one seed).

    `findings` are ordered from the largest excess. `largest` maps `activation` and `adjoint` to (largest ratio, index
    of its site, label of its site).
    """

    recipe: str
    band: tuple[float, float]
    findings: tuple[Finding, ...]
    largest: Mapping[str, tuple[float, int, str]]

    @property
    def within(self) -> bool:
        """True if every ratio lies within the band, both ends included."""
        return not self.findings

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        limits = f"[{exact_text(self.band[0])}, {exact_text(self.band[1])}]"
        if self.within:
            return f"Every ratio of the {self.recipe} arm lies within the band {limits}."
        names = " and ".join(dict.fromkeys(finding.quantity for finding in self.findings))
        return f"The {self.recipe} arm leaves the band {limits} in its {names} ratios."

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence per finding; without findings, one sentence on each largest ratio."""
        if self.findings:
            return tuple(finding.sentence for finding in self.findings)
        return tuple(
            f"The largest {quantity} ratio is {ratio:.6g}, at site {site} ({label})."
            for quantity, (ratio, site, label) in self.largest.items()
        )

    @property
    def verdict(self) -> tuple[str, ...]:
        """The headline and the sentences that explain it, as a tuple."""
        return (self.headline, *self.sentences)


def diagnose(document: Mapping[str, Any]) -> Diagnosis:
    """Return the `Diagnosis` of the arm with the recipe in a document of `observe_document`."""
    return diagnose_arm(document["initialized"], document["recipe"], document["band"])


def diagnose_control(document: Mapping[str, Any]) -> Diagnosis:
    """Return the `Diagnosis` of the other arm in an observe document: the same base draw without a recipe."""
    return diagnose_arm(document["same_base_unscaled_control"], "unscaled", document["band"])


def diagnose_arm(arm: Mapping[str, Any], recipe: str, band: Sequence[float]) -> Diagnosis:
    """Return the `Diagnosis` of one arm in the form that `arm_document` returns.

    `recipe` is its name, and `band` the two limits that its sites were judged by.
    """
    lower, upper = band
    findings = [
        finding
        for quantity in QUANTITIES
        for side in ("above", "below")
        if (finding := _finding(arm["sites"], quantity, side, upper if side == "above" else lower)) is not None
    ]
    return Diagnosis(
        recipe=recipe,
        band=(lower, upper),
        findings=tuple(sorted(findings, key=lambda finding: -finding.excess)),
        largest={quantity: _largest(arm["sites"], quantity) for quantity in QUANTITIES},
    )


def comparison(document: Mapping[str, Any]) -> str:
    """Return one sentence that compares the largest ratios with the recipe to those without (the control)."""
    return compared(diagnose(document), diagnose_control(document), "the unscaled control", "this arm")


def compared(one: Diagnosis, other: Diagnosis, beside: str, subject: str) -> str:
    """Return one sentence that compares the largest ratios of two arms of the same base draw.

    `subject` is the phrase for `one`, `beside` that for `other`.
    """
    parts = []
    for quantity in QUANTITIES:
        ours, theirs = one.largest[quantity][0], other.largest[quantity][0]
        times = f"{max(ours, theirs) / min(ours, theirs):.3g}"
        if ours == theirs:
            parts.append(f"the same largest {quantity} ratio")
        elif times == "1":
            parts.append(f"nearly the same largest {quantity} ratio")
        else:
            parts.append(f"a largest {quantity} ratio {times} times {'smaller' if ours < theirs else 'larger'}")
    return f"Beside {beside} of the same base draw, {subject} has {' and '.join(parts)}."


def _finding(sites: Sequence[Mapping[str, Any]], quantity: Quantity, side: str, limit: float) -> Finding | None:
    outside = [site for site in sites if site[f"{quantity}_band"] == side]
    if not outside:
        return None
    pick = max if side == "above" else min
    worst = pick(outside, key=lambda site: site[f"{quantity}_ratio"])
    return Finding(
        quantity=quantity,
        side="above" if side == "above" else "below",
        sites=len(outside),
        first=outside[0]["site"],
        first_label=outside[0]["label"],
        worst=worst["site"],
        worst_label=worst["label"],
        ratio=worst[f"{quantity}_ratio"],
        limit=limit,
    )


def _largest(sites: Sequence[Mapping[str, Any]], quantity: str) -> tuple[float, int, str]:
    site = max(sites, key=lambda row: row[f"{quantity}_ratio"])
    return site[f"{quantity}_ratio"], site["site"], site["label"]
