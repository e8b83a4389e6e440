"""A depth recipe: a topology, a law a role and an optional profile step; and the combination of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import mul
from typing import Literal

from core.decoder.config import DecoderConfig
from core.decoder.graph import PRE_NORM, Graph, Topology
from core.decoder.parameters import ParameterSpec, Role
from core.errors import RecipeError
from core.recipes.law import Law, Matrix

Evidence = Literal["paper", "implementation read", "derived here"]
JOINT = "+"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A named depth recipe.

    `counts` says what its depth law counts, L blocks or 2L additions, where that makes a difference. `needs` are
    decoder options without which it has no definition. `refusal` is the reason why it does not run on a decoder-only
    stack, if it does not. `parts` names what a combination is made of.
    """

    name: str
    title: str
    source: str
    evidence: Evidence
    laws: Mapping[Role, Law] = field(default_factory=dict)
    topology: Topology = PRE_NORM
    profile: Literal["admin"] | None = None
    counts: Literal["blocks", "additions"] | None = None
    minimum_blocks: int = 1
    needs: Mapping[str, str] = field(default_factory=dict)
    refusal: str | None = None
    parts: tuple[str, ...] = ()

    def graph(self, config: DecoderConfig) -> Graph:
        """The topology written out for `config`; refuses a recipe that does not apply to it."""
        if self.refusal is not None:
            raise RecipeError(f"The recipe {self.name} does not run here: {self.refusal}")
        if config.blocks < self.minimum_blocks:
            raise RecipeError(
                f"The recipe {self.name} needs at least {self.minimum_blocks} blocks; this decoder has {config.blocks}."
            )
        for option, wanted in self.needs.items():
            if getattr(config, option) != wanted:
                raise RecipeError(
                    f"The recipe {self.name} is defined with {option} {wanted} only; this decoder has "
                    f"{getattr(config, option)}."
                )
        return self.topology.build(config)

    def law(self, role: Role) -> Law | None:
        """The law on a role, None where the base draw is kept."""
        return self.laws.get(role)

    def coefficient(self, spec: ParameterSpec, block: int, config: DecoderConfig, base_std: float) -> float:
        """The coefficient on one parameter; exactly 1 where no law applies. `base_std` is the draw's own."""
        law = self.laws.get(spec.role)
        if law is None:
            return 1.0
        fan_in, fan_out = spec.shape[0], spec.shape[-1]
        return law.coefficient(Matrix(block, config.blocks, fan_in, fan_out, config.width, base_std))

    @property
    def changes_graph(self) -> bool:
        """Whether it is more than a law on stored weights."""
        return self.topology != PRE_NORM or self.profile is not None or self.refusal is not None


def selected(chosen: Recipe, spec: ParameterSpec) -> bool:
    """Whether the recipe's law names this parameter, whatever the coefficient turns out to be."""
    return spec.role in chosen.laws


def combination(parts: Sequence[Recipe]) -> Recipe:
    """One topology with writer laws, several recipes as one: every law acts, and coefficients on one matrix multiply.

    The recipe that changes the graph is named first. Refuses two of them, and a part named twice.
    """
    names = [part.name for part in parts]
    if len(set(names)) != len(names):
        raise RecipeError(f"The recipe {JOINT.join(names)[:80]} names a part twice; name each part once.")
    kept = sorted(parts, key=lambda part: not part.changes_graph)
    if len(kept) == 1:
        return kept[0]
    if kept[1].changes_graph:
        raise RecipeError(
            f"{kept[0].name} and {kept[1].name} both change the graph; combine one of them with writer laws."
        )
    laws: dict[Role, list[Law]] = {}
    for part in kept:
        for role, law in part.laws.items():
            laws.setdefault(role, []).append(law)
    return replace(
        kept[0],
        name=JOINT.join(part.name for part in kept),
        title=" with ".join(part.title for part in kept),
        source="; ".join(part.source for part in kept),
        evidence="derived here",
        laws={role: reduce(mul, found) for role, found in laws.items()},
        counts=None,
        parts=tuple(part.name for part in kept),
    )
