"""The sentences that suggest a change which brings the ratios into the band, for pages and the command line."""

from __future__ import annotations

from ..numerals import plural
from ..recipes.catalogue import recipe
from .suggestion import Candidate, Suggestion
from .verdict_words import factor_text

SHOWN_TIES = 4


def suggestion_sentences(suggestion: Suggestion) -> list[str]:
    """Return a list of sentences on what to change and its effect; if nothing helps, on what was tried."""
    verdict, best = suggestion.before.verdict, suggestion.best
    if verdict.state == "inside":
        return ["Nothing needs to change: the verdict is inside the band."]
    if best is None and verdict.cause == "input":
        return ["No other spread of the embeddings does better on these seeds; put a norm behind them."]
    if not suggestion.candidates:
        return ["No other recipe has this topology; change the depth, the sizes or the topology."]
    if best is None:
        return [
            f"None of {plural(len(suggestion.candidates), 'recipe')} of the same topology does better on these seeds; "
            "change the depth, the sizes or the topology."
        ]
    found = [f"{_lead(suggestion, best)} {_effect(suggestion, best)}; {_noise(best)}."]
    if best.change.kind == "embedding_std":
        return [*found, *_embedding_notes(suggestion, best)]
    return [*found, *_ties(suggestion), *_silent(suggestion, best)]


def change_text(candidate: Candidate) -> str:
    """Return a label for a change: a recipe's title and name, or the standard deviation of the embeddings."""
    change = candidate.change
    if change.kind == "embedding_std":
        return f"embedding std {change.embedding_std:g}"
    return f"{recipe(change.recipe).title} ({change.recipe})"


def _lead(suggestion: Suggestion, best: Candidate) -> str:
    std = suggestion.before.subject.embedding_std
    if best.change.kind == "recipe":
        return f"{change_text(best)} would bring"
    instead = "" if std is None else f" instead of {std:.3g}"
    return f"Embeddings drawn with std {best.change.embedding_std:g}{instead} would bring"


def _effect(suggestion: Suggestion, best: Candidate) -> str:
    before, after = suggestion.before.verdict, best.arm.verdict
    return (
        f"{100 * after.share_within:.0f} % of seeds inside the band instead of {100 * before.share_within:.0f} %, "
        f"median worst ratio {factor_text(after.worst_factor.median)} instead of "
        f"{factor_text(before.worst_factor.median)}"
    )


def _noise(best: Candidate) -> str:
    seeds = plural(best.difference.seeds, "seed")
    if best.difference.within_noise:
        return f"this is within seed noise: the paired differences of {seeds} do not exclude zero"
    return f"paired over {seeds}, the difference is larger than the seeds' own spread"


def _ties(suggestion: Suggestion) -> list[str]:
    names = [one.change.recipe for one in suggestion.tied if one.rank > (suggestion.before.verdict.share_within, 0.0)]
    if not names:
        return []
    more = f" and {len(names) - SHOWN_TIES} more" if len(names) > SHOWN_TIES else ""
    return [f"Within seed noise of it: {', '.join(names[:SHOWN_TIES])}{more}."]


def _silent(suggestion: Suggestion, best: Candidate) -> list[str]:
    """Return a note if the best candidate has ratios of exactly 1, so that its branches add nothing at initialization.

    The note also names the best candidate whose branches do add. Empty if there is nothing to note.
    """
    if best.arm.verdict.worst_factor.q95 != 1.0:
        return []
    found = ["Its branches begin by adding nothing, so that every ratio is 1 until training moves them."]
    for one in suggestion.candidates:
        if one.arm.verdict.worst_factor.q95 != 1.0:
            found.append(f"Of the others, {change_text(one)} does best: {_effect(suggestion, one)}; {_noise(one)}.")
            break
    return found


def _embedding_notes(suggestion: Suggestion, best: Candidate) -> list[str]:
    """Return notes on a change of the embeddings: why no writer is named, and what it does to a tied head."""
    notes = [
        "A factor on the embeddings' output, or a norm behind them, does the same to the stream; laws on the writers "
        "change the depth, which is not at fault."
    ]
    if suggestion.head_is_tied:
        notes.append(
            f"The head is tied to the embeddings, so the logits change with their spread: median loss "
            f"{best.arm.median_loss:.4g} nats instead of {suggestion.before.median_loss:.4g}."
        )
    return notes
