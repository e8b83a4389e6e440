"""A comparison and its cards in words: verdicts, settings, and a card's sentences under their headings."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from core.decoder.recipe_type import JOINT
from core.recipes.card import Card
from core.recipes.request import ComparisonRequest
from core.sweep.ranges import seed_text

EVIDENCE_WORDS = {
    "paper": "as the paper says",
    "implementation read": "as read in the implementation",
    "derived here": "derived in this project",
}


def verdict_sentences(overview: pd.DataFrame, band: tuple[float, float]) -> tuple[str, ...]:
    """What the overview says in words: who keeps every ratio of every seed within the band, and who does not."""
    limits = f"[{band[0]:g}, {band[1]:g}]"
    seen = overview[overview["seeds"] > 0]
    safe = [str(name) for name in seen.loc[seen["share_within"] == 1.0, "recipe"]]
    depth = f"{overview['blocks'].iloc[0]} blocks"
    lines = []
    if len(seen) and len(safe) == len(seen):
        lines.append(f"At {depth} every ratio of every seed lies within the band {limits}, for every recipe shown.")
    elif safe:
        lines.append(f"At {depth} every ratio of every seed lies within the band {limits} for {_listed(safe)}.")
    for row in seen[seen["share_within"] < 1.0].to_dict("records"):
        out = row["seeds"] - round(row["share_within"] * row["seeds"])
        lines.append(f"{row['recipe']} leaves the band {limits} with {out} of {row['seeds']} seeds.")
    return tuple(lines)


def comparison_sentence(request: ComparisonRequest) -> str:
    """What a comparison observes: sizes, seeds, floating type and recipes."""
    config = request.config
    return (
        f"{config.blocks} blocks, width {config.width}, {config.heads} query and {config.key_value_heads} key/value heads, "
        f"feed-forward width {config.ff_width}, vocabulary {config.vocabulary}; seeds {seed_text(request.seeds)}, "
        f"{request.dtype}; {', '.join(request.recipes)}, all arms of a seed from one base draw."
    )


def card_sections(card: Card) -> dict[str, tuple[str, ...]]:
    """A card's sentences by heading, empty sections left out."""
    constants = tuple(f"{name}: {value:.6g}" for name, value in card.constants.items())
    counts = (f"Its law counts {card.counts}.",) if card.counts else ()
    profile = ("A profile step measures coefficients on a batch before the run.",) if card.profile else ()
    selected = (
        (f"{card.selected_tensors} tensors: {', '.join(card.selects)}",) if card.selects else ("No stored tensor.",)
    )
    sections = {
        "Selected tensors": () if card.refusal else selected,
        f"Constants at {card.blocks} blocks": constants,
        "New state": (*card.state, *profile),
        "Assumes": (*card.assumes, *counts),
        "Traps in public code": card.traps,
        "Source": (f"{card.source} ({EVIDENCE_WORDS[card.evidence]}).",),
    }
    return {heading: lines for heading, lines in sections.items() if lines}


def file_name(recipe: str) -> str:
    """A recipe's name inside a file's name."""
    return recipe.replace(JOINT, "-with-")


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
