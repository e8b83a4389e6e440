"""Summary cards of recipes: factors on weights and in the forward, equations, assumptions and known mistakes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..decoder.base_draw import XAVIER, Distribution
from ..decoder.config import DecoderConfig
from ..decoder.graph import DepthLaw
from ..decoder.parameters import layout
from ..recipes.catalogue import RECIPES, recipe
from ..recipes.recipe import Recipe
from .equations import graph_equations, graph_summary

FORWARD_LAWS = {
    "shortcut": "shortcut coefficient",
    "branch": "branch coefficient",
    "norm_in_factor": "factor on the norm before a branch",
}


@dataclass(frozen=True, kw_only=True)
class StoredLaw:
    """The factors that a recipe applies to one kind of weight matrix, over all blocks.

    `pattern` is the parameter's name with `{b}` for the block, `formula` the factor as text, `tensors` the number of
    matrices. `first` and `last` are the factors on the base weights in the first and last block (equal for a matrix
    outside the blocks), `first_std` and `last_std` the resulting standard deviations; these are None if the recipe
    normalizes rows or columns.
    """

    pattern: str
    formula: str
    tensors: int
    first: float
    last: float
    first_std: float | None
    last_std: float | None


@dataclass(frozen=True, kw_only=True)
class ForwardLaw:
    """A factor in the forward pass, such as that on a branch output, with its values in the first and the last block.

    `first` is 1 and `last` is None if the factor is measured on a batch.
    """

    what: str
    formula: str
    first: float | None
    last: float | None


@dataclass(frozen=True, kw_only=True)
class Card:
    """The summary card of a recipe: all its properties at the sizes of one decoder.

    `stored` are the factors on weights and `forward` those in the forward pass; `selects` are the name patterns of the
    weights that it changes. `refusal` is a sentence that says why the recipe cannot run on the decoder, or None.
    """

    name: str
    title: str
    blocks: int
    law: str
    graph: str
    equations: tuple[str, ...]
    stored: tuple[StoredLaw, ...]
    forward: tuple[ForwardLaw, ...]
    constants: dict[str, float]
    selects: tuple[str, ...]
    selected_tensors: int
    profile: bool
    counts: str | None
    state: tuple[str, ...]
    assumes: tuple[str, ...]
    traps: tuple[str, ...]
    source: str
    evidence: str
    refusal: str | None

    def document(self) -> dict[str, Any]:
        """Return the card as a dict for JSON."""
        return asdict(self)


def card(name: str, config: DecoderConfig | None = None, distribution: Distribution = XAVIER) -> Card:
    """Return the summary card of a recipe, or of a combination such as `post-norm+gpt2`, at the sizes of `config`.

    `config` is by default the narrow decoder of eight blocks. If the recipe cannot run on `config`, the card has the
    reason and no factors. Raises `RecipeError` for an unknown name.
    """
    config = config or DecoderConfig()
    chosen = recipe(name)
    refusal = chosen.refused(config)
    stored = () if refusal else tuple(_stored_laws(chosen, config, distribution))
    refusal = refusal or _not_finite(stored)
    stored = () if refusal else stored
    forward = () if refusal else tuple(_forward_laws(chosen, config))
    equations = () if chosen.refusal else tuple(graph_equations(chosen.topology))
    return Card(
        name=chosen.name,
        title=chosen.title,
        blocks=config.blocks,
        law=_law_in_words(chosen),
        graph=graph_summary(chosen.topology) if equations else "not a decoder-only graph",
        equations=equations,
        stored=stored,
        forward=forward,
        constants=dict(chosen.constants(config.blocks, config.width)),
        selects=tuple(law.pattern for law in stored),
        selected_tensors=sum(law.tensors for law in stored),
        profile=chosen.profile is not None,
        counts=chosen.counts,
        state=chosen.state,
        assumes=chosen.assumes,
        traps=chosen.traps,
        source=chosen.source,
        evidence=chosen.evidence,
        refusal=refusal,
    )


def cards(config: DecoderConfig | None = None, distribution: Distribution = XAVIER) -> list[Card]:
    """Return the summary cards of all recipes of the catalogue, in its order, at the sizes of `config`."""
    return [card(known.name, config, distribution) for known in RECIPES]


def _not_finite(stored: Sequence[StoredLaw]) -> str | None:
    """Return why stored laws cannot be applied if binary64 cannot hold one of their numbers; else None."""
    for law in stored:
        numbers = (law.first, law.last, law.first_std or 0.0, law.last_std or 0.0)
        if not all(map(math.isfinite, numbers)):
            return (
                f"The coefficient of {law.pattern}, {law.formula}, is too large for binary64 on this base draw; choose "
                "a base standard deviation nearer to 1."
            )
    return None


def _law_in_words(chosen: Recipe) -> str:
    """Return every law once, as text: what is scaled by what, stored weights first, then forward coefficients."""
    if chosen.refusal:
        return "see constants and assumptions"
    parts: dict[str, list[str]] = {}
    for role, law in chosen.laws.items():
        parts.setdefault(law.formula, []).append(role)
    lines = [f"{', '.join(roles)}: {formula}" for formula, roles in parts.items()]
    for field, what in FORWARD_LAWS.items():
        found = getattr(chosen.topology, field)
        if found is not None:
            lines.append(f"{what}: {found.formula if isinstance(found, DepthLaw) else found}")
    return "; ".join(lines) or "base draw kept"


def _stored_laws(chosen: Recipe, config: DecoderConfig, distribution: Distribution) -> Iterator[StoredLaw]:
    parts = layout(config)
    for spec in (*parts.stem, *parts.block_template, *parts.tail):
        if spec.role not in chosen.laws:
            continue
        law, in_block = chosen.laws[spec.role], "{b}" in spec.name
        std = distribution.base_std(spec)
        last_block = config.blocks - 1 if in_block else 0
        first, last = (chosen.coefficient(spec, block, config, std) for block in (0, last_block))
        plain = law.normalize is None
        yield StoredLaw(
            pattern=spec.name,
            formula=law.formula,
            tensors=config.blocks if in_block else 1,
            first=first,
            last=last,
            first_std=first * std if plain else None,
            last_std=last * std if plain else None,
        )


def _forward_laws(chosen: Recipe, config: DecoderConfig) -> Iterator[ForwardLaw]:
    for field, what in FORWARD_LAWS.items():
        found = getattr(chosen.topology, field)
        if isinstance(found, DepthLaw):
            first, last = (found(block, config.blocks) for block in (0, config.blocks - 1))
            yield ForwardLaw(what=what, formula=found.formula, first=first, last=last)
        elif found is not None:
            yield ForwardLaw(what=what, formula="measured on a batch", first=1.0, last=None)
    branch = chosen.graph(config).blocks[0][0].branches[0]
    exponent = chosen.topology.score_exponent
    yield ForwardLaw(
        what="score factor", formula=f"head_dim^({exponent:g})", first=branch.score_factor, last=branch.score_factor
    )
