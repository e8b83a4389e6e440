"""The sentences of a comparison of recipes and of their cards."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ..compare.card import Card
from ..compare.request import ComparisonRequest
from ..decoder.config import DecoderConfig
from ..lab.view import plural
from ..recipes.recipe import JOINT
from ..sweep.ranges import seed_text

EVIDENCE_WORDS = {
    "paper": "as the paper says",
    "implementation read": "as read in the implementation",
    "derived here": "derived in this project",
}


def overview_sentences(overview: pd.DataFrame, band: tuple[float, float]) -> tuple[str, ...]:
    """Return sentences on which recipes keep all ratios of all seeds within the band at one depth, and which do not.

    `overview` is an `overview_table` of one depth, `band` the lower and upper limit.
    """
    seen = overview[overview["seeds"] > 0]
    if not len(seen):
        return ("No recipe was observed.", "Each says below why.")
    inside = f"every ratio of every seed within the band [{band[0]:g}, {band[1]:g}]"
    safe = [str(name) for name in seen.loc[seen["share_within"] == 1.0, "recipe"]]
    depth = f"At {plural(int(overview['blocks'].iloc[0]), 'block')}"
    if len(safe) == len(seen):
        return (f"{depth} all recipes shown keep {inside}.",)
    left = []
    for row in seen[seen["share_within"] < 1.0].to_dict("records"):
        out = row["seeds"] - round(row["share_within"] * row["seeds"])
        left.append(f"{row['recipe']} with {out} of {plural(row['seeds'], 'seed')}")
    keeps = "no recipe keeps" if not safe else f"{_listed(safe)} {'keeps' if len(safe) == 1 else 'keep'}"
    return (f"{depth} {keeps} {inside}.", f"The band is left by {_listed(left)}.")


def twin_sentences(overview: pd.DataFrame) -> list[str]:
    """Return a sentence for every group of recipes with equal numbers, to nine digits, whose lines coincide."""
    twins: dict[tuple[str, ...], list[str]] = {}
    columns = ("largest_activation_ratio", "largest_adjoint_ratio", "loss_nats")
    for row in overview[overview["seeds"] > 0].to_dict("records"):
        twins.setdefault(tuple(f"{row[name]:.8e}" for name in columns), []).append(str(row["recipe"]))
    where = plural(int(overview["blocks"].iloc[0]), "block") if len(overview) else ""
    return [
        f"{_listed(names)} give the same numbers at {where}: their lines lie on each other."
        for names in twins.values()
        if len(names) > 1
    ]


def derived_sentences(growth: pd.DataFrame) -> list[str]:
    """Return sentences on why each theoretical exponent holds and for which recipes, and whether some have none."""
    laws = growth[growth["kind"] == "derived"]
    found = []
    for (note, exponent, quantity), rows in laws.groupby(["note", "exponent", "quantity"], sort=False):
        names = _listed([str(name) for name in dict.fromkeys(rows["recipe"])])
        found.append(f"Derived, {str(quantity).replace('_', ' ')} of {names}: exponent {exponent:g}, for {note}.")
    if len(laws) < int((growth["kind"] == "fit").sum()):
        found.append("Where nothing is derived, no law without a free parameter is known here.")
    return found


def comparison_sentence(request: ComparisonRequest) -> str:
    """Return a sentence with sizes, seeds, dtype and recipes of a comparison."""
    config = request.config
    return (
        f"{config.blocks} blocks, {size_words(config)}; seeds {seed_text(request.seeds)}, {request.dtype}; "
        f"{', '.join(request.recipes)}, all arms of a seed from one base draw."
    )


def size_words(config: DecoderConfig) -> str:
    """Return the sizes of a decoder, without its depth, as text."""
    return (
        f"width {config.width}, {config.heads} query and {config.key_value_heads} key/value heads, feed-forward width "
        f"{config.ff_width}, vocabulary {config.vocabulary}"
    )


def card_sections(card: Card) -> dict[str, tuple[str, ...]]:
    """Return a dict from the headings of a card to the sentences under them, without empty sections."""
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
    """Return a recipe's name for use in a file name: `+` becomes `-with-`."""
    return recipe.replace(JOINT, "-with-")


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
