"""The verdict in words, alike on a page, in a terminal, in a notebook and in a gate."""

from __future__ import annotations

from html import escape

from ..numerals import exact_text
from .verdict import State, Verdict

TITLES: dict[State, str] = {
    "inside": "Inside the band",
    "close": "Close to the band's limits",
    "outside": "Outside the band",
    "refused": "Refused",
}


def verdict_headline(verdict: Verdict) -> str:
    """The state, what it is on and how many seeds it rests on, in one sentence."""
    seeds = f"{verdict.seeds} seed{'s' * (verdict.seeds != 1)}"
    name = "" if verdict.subject is None else f" of {verdict.subject.name}"
    low, high = (exact_text(limit) for limit in verdict.thresholds.band)
    within = round(verdict.share_within * verdict.seeds)
    return f"{TITLES[verdict.state]}: {within} of {seeds}{name} keep every ratio within [{low}, {high}]."


def verdict_sentences(verdict: Verdict) -> list[str]:
    """The headline, then margin, cause and depth, one sentence each."""
    return [verdict_headline(verdict)]


def verdict_text(verdict: Verdict) -> str:
    """The sentences as lines of a terminal."""
    return "\n".join(verdict_sentences(verdict))


def verdict_html(verdict: Verdict) -> str:
    """The sentences for a notebook, as HTML."""
    head, *rest = (escape(sentence) for sentence in verdict_sentences(verdict))
    return f"<p><strong>{head}</strong></p>" + "".join(f"<p>{sentence}</p>" for sentence in rest)
