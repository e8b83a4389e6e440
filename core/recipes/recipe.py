"""A depth recipe: all its properties, and the combination of several."""

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
    """Exponents of two ratios as powers of the depth L, derived by arithmetic.

    The ratios are the largest activation ratio and the adjoint ratio of the input.
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
    """A named depth recipe.

    `evidence` is how its law is known, by default from the paper in `source`. `counts` is what its depth law counts, L
    blocks or 2L additions, if that makes a difference. `needs` are decoder options that its definition requires.
    `refusal` is the reason why it cannot run on a decoder-only model, None if it can. `parts` names the recipes of a
    combination.

    `assumes`, `state` (what the method stores or learns beyond the base decoder) and `traps` (in public code) are
    sentences for its card; `constants` are the published ones at (blocks, width). `growth` is None where no law is
    derived. `look` is its place among the recipes that have their own colour and are compared by default.

    `auto_order` is its place among the rules that an audit tries if none is declared, the most common first; None if it
    is not tried. `counted` is what the law on its writers counts, for a model that follows it in place of another.
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
        """Return the topology expanded for `config`. Raises `RecipeError` if the recipe does not apply to it."""
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
        """Return why the recipe does not apply to `config`; None if it does."""
        try:
            self.graph(config)
        except RecipeError as error:
            return str(error)
        return None

    def coefficient(self, spec: ParameterSpec, block: int, config: DecoderConfig, base_std: float) -> float:
        """Return the coefficient on one parameter; exactly 1 if no law applies. `base_std` is that of the base draw.

        A reduced twin has the coefficient of the wide decoder that it stands for.
        """
        law = self.laws.get(spec.role)
        if law is None:
            return 1.0
        fan_in, fan_out = spec.true_shape[0], spec.true_shape[-1]
        true_std, width = base_std / spec.twin_gain, (config.true_sizes or config).width
        return law.coefficient(Matrix(block, config.blocks, fan_in, fan_out, width, true_std))

    @property
    def changes_graph(self) -> bool:
        """Whether the recipe changes more than stored weights."""
        return self.topology != PRE_NORM or self.profile is not None or self.refusal is not None


def on(roles: tuple[Role, ...], law: Law) -> dict[Role, Law]:
    """Return one law for each of several roles."""
    return dict.fromkeys(roles, law)


def combination(parts: Sequence[Recipe]) -> Recipe:
    """Combine one topology with writer laws into one recipe; coefficients on the same matrix multiply.

    The recipe that changes the graph is named first. Raises `RecipeError` for two of them, and for a part named twice.
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
