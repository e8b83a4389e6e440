"""A depth recipe with all its properties, and the combination of several recipes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import mul
from typing import Literal

from ..decoder.config import DecoderConfig
from ..decoder.graph import PRE_NORM, Graph, Topology
from ..decoder.parameters import ParameterSpec, Role
from ..errors import RecipeError
from .law import Law, Matrix

Evidence = Literal["paper", "implementation read", "derived here"]
JOINT = "+"
OUTSIDE: tuple[Role, ...] = ("token_embedding", "position_embedding", "head")
PRE_NORM_STACK = "A pre-norm stack: each branch reads a normalized copy, so the stream alone carries the scale."


@dataclass(frozen=True)
class Growth:
    """Theoretical exponents p of two ratios, each proportional to L^p for L blocks.

    `activation` is for the largest activation ratio over the residual sites, `adjoint` for the adjoint (gradient) ratio
    of the input (None if unknown). `reason` is the derivation in words.
    """

    activation: float
    reason: str
    adjoint: float | None = None


INDEPENDENT = Growth(0.5, "2L independent additions of equal variance: the stream's RMS grows with their root")
CONSTANT_SUM = Growth(0.0, "the variances of all additions sum to a constant at every depth")
NORMALIZED = Growth(0.0, "every state is normalized")
SILENT = Growth(0.0, "every addition is zero, so every ratio is exactly 1", adjoint=0.0)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A named depth recipe: factors on weights (`laws`, by kind of weight) and a graph (`topology`).

    `source` is where it is published, and `evidence` how the definition is known. `counts` says whether its depth is
    the number L of blocks or the number 2L of additions, where that matters. `minimum_blocks` and `needs` are what the
    decoder must have. `refusal` says why it cannot run on a decoder-only model, None if it can. `profile` names a
    measurement on a batch that fixes its factors. `parts` names the recipes of a combination.

    The next fields are for its card: `assumes`, `state` (what the method stores or learns in addition) and `traps`
    (mistakes in public code) are sentences, and `constants` returns the published constants for (blocks, width).
    `growth` is None where no theory is known. `look` is its index in the palette; one colour per recipe.
    `auto_order` is its place among the rules that an audit tries if none is declared, None if it is not tried.
    `counted` says in words what the law on the matrices that end a branch counts.
    """

    name: str
    title: str
    source: str
    evidence: Evidence = "paper"
    laws: Mapping[Role, Law] = field(default_factory=dict)
    topology: Topology = PRE_NORM
    profile: Literal["admin"] | None = None
    counts: Literal["blocks", "additions"] | None = None
    minimum_blocks: int = 1
    needs: Mapping[str, str] = field(default_factory=dict)
    refusal: str | None = None
    parts: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    traps: tuple[str, ...] = ()
    constants: Callable[[int, int], Mapping[str, float]] = lambda blocks, width: {}
    growth: Growth | None = None
    look: int | None = None
    auto_order: int | None = None
    counted: str | None = None

    def graph(self, config: DecoderConfig) -> Graph:
        """Return the graph of the recipe for `config`. Raises `RecipeError` if the recipe cannot be applied to it."""
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

    def refused(self, config: DecoderConfig) -> str | None:
        """Return the sentence that says why the recipe cannot be applied to `config`, or None if it can."""
        try:
            self.graph(config)
        except RecipeError as error:
            return str(error)
        return None

    def coefficient(self, spec: ParameterSpec, block: int, config: DecoderConfig, base_std: float) -> float:
        """Return the factor on one parameter in one block; exactly 1 if the recipe does not change it.

        `spec` describes the parameter and `base_std` is the standard deviation of its base weights. In a reduced twin,
        which is a narrower decoder that stands for a wide one, the factor is that of the wide decoder.
        """
        law = self.laws.get(spec.role)
        if law is None:
            return 1.0
        fan_in, fan_out = spec.true_shape[0], spec.true_shape[-1]
        true_std, width = base_std / spec.twin_gain, (config.true_sizes or config).width
        return law.coefficient(Matrix(block, config.blocks, fan_in, fan_out, width, true_std))

    @property
    def changes_graph(self) -> bool:
        """True if the recipe changes more than weights: the graph, or factors that are measured on a batch.

        Also True for a recipe that cannot run on a decoder-only model.
        """
        return self.topology != PRE_NORM or self.profile is not None or self.refusal is not None


def on(roles: tuple[Role, ...], law: Law) -> dict[Role, Law]:
    """Return a dict that gives each of the kinds of weights `roles` the same law."""
    return dict.fromkeys(roles, law)


def combination(parts: Sequence[Recipe]) -> Recipe:
    """Combine recipes into one, at most one of which changes the graph; factors on the same matrix multiply.

    The recipe that changes the graph is named first. Raises `RecipeError` if two recipes change the graph, or a recipe
    is given twice.
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
    return Recipe(
        name=JOINT.join(part.name for part in kept),
        title=" with ".join(part.title for part in kept),
        source="; ".join(part.source for part in kept),
        evidence="derived here",
        laws={role: reduce(mul, found) for role, found in laws.items()},
        topology=kept[0].topology,
        profile=kept[0].profile,
        minimum_blocks=kept[0].minimum_blocks,
        needs=kept[0].needs,
        refusal=kept[0].refusal,
        parts=tuple(part.name for part in kept),
        assumes=tuple(dict.fromkeys(line for part in kept for line in part.assumes)),
        state=tuple(dict.fromkeys(line for part in kept for line in part.state)),
        traps=tuple(dict.fromkeys(line for part in kept for line in part.traps)),
    )
