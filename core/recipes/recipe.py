"""A depth recipe: every fact of it, and the combination of several."""

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
    """Exponents of a ratio in the depth L, derived by arithmetic: the largest activation ratio, the input's adjoint."""

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

    `evidence` says how its law is known, from the paper in `source` unless given. `counts` says what its depth law
    counts, L blocks or 2L additions, where that makes a difference. `needs` are decoder options without which it has
    no definition. `refusal` is the reason why it does not run on a decoder-only stack, if it does not. `parts` names
    what a combination is made of.

    `assumes`, `state` (what the method stores or learns beyond the base decoder) and `traps` (in public code) are
    sentences for its card; `constants` are the published ones at (blocks, width). `growth` is None where no law is
    derived. `look` is its place among the recipes with a colour each, which are compared unless others are chosen.

    `auto_order` is its place among the rules that an audit looks for where none is declared, the most common first;
    None where it is not looked for. `counted` says what the law on its writers counts, for a model that follows it
    in place of another.
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

    def refused(self, config: DecoderConfig) -> str | None:
        """Why it does not apply to `config`, None where it does."""
        try:
            self.graph(config)
        except RecipeError as error:
            return str(error)
        return None

    def coefficient(self, spec: ParameterSpec, block: int, config: DecoderConfig, base_std: float) -> float:
        """The coefficient on one parameter; exactly 1 where no law applies. `base_std` is the draw's own.

        A reduced twin has the coefficient of the decoder that it stands for.
        """
        law = self.laws.get(spec.role)
        if law is None:
            return 1.0
        fan_in, fan_out = spec.true_shape[0], spec.true_shape[-1]
        true_std, width = base_std / spec.twin_gain, config.true_config.width
        return law.coefficient(Matrix(block, config.blocks, fan_in, fan_out, width, true_std))

    @property
    def changes_graph(self) -> bool:
        """Whether it is more than a law on stored weights."""
        return self.topology != PRE_NORM or self.profile is not None or self.refusal is not None


def on(roles: tuple[Role, ...], law: Law) -> dict[Role, Law]:
    """One law on several roles."""
    return dict.fromkeys(roles, law)


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
