"""Depth recipes as data: a topology, a law a role and an optional profile step.

A law gives the coefficient of one stored matrix from its block and the decoder's sizes; it acts once, at
construction, on the base draw. Definitions follow the fixed stream of this project; sources stand with each recipe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from core.decoder.config import DecoderConfig
from core.decoder.graph import PRE_NORM, Graph, Topology
from core.decoder.parameters import BLOCK_MATRICES, WRITERS, ParameterSpec, Role
from core.errors import RecipeError, ZeroDepth

Normalize = Literal["columns", "rows"]


@dataclass(frozen=True)
class Matrix:
    """What a law may read: the matrix's block l (0 outside blocks), the depth L, its fans, the width and base std."""

    block: int
    blocks: int
    fan_in: int
    fan_out: int
    width: int
    base_std: float


@dataclass(frozen=True)
class Law:
    """`formula` says the coefficient in words; `normalize` sets every column or row to unit norm first."""

    formula: str
    coefficient: Callable[[Matrix], float] = lambda _: 1.0
    normalize: Normalize | None = None


@dataclass(frozen=True)
class Recipe:
    """A named depth recipe. `refusal` is the reason why it does not run on a decoder-only stack, if it does not."""

    name: str
    title: str
    laws: Mapping[Role, Law] = field(default_factory=dict)
    topology: Topology = PRE_NORM
    profile: Literal["admin"] | None = None
    minimum_blocks: int = 1
    refusal: str | None = None

    def graph(self, config: DecoderConfig) -> Graph:
        """The topology written out for `config`; refuses a recipe that does not apply to it."""
        if self.refusal is not None:
            raise RecipeError(f"The recipe {self.name} does not run here: {self.refusal}")
        if config.blocks < self.minimum_blocks:
            raise RecipeError(
                f"The recipe {self.name} needs at least {self.minimum_blocks} blocks; this decoder has {config.blocks}."
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


def depth_factor(blocks: int) -> float:
    """L^(-1/2) for L > 0 complete blocks; refuses L = 0, where it is not defined."""
    if isinstance(blocks, bool) or not isinstance(blocks, int) or blocks <= 0:
        raise ZeroDepth(f"The depth factor L^(-1/2) is not defined at {blocks!r} blocks; use at least one block.")
    return 1.0 / math.sqrt(blocks)


def _on(roles: tuple[Role, ...], law: Law) -> dict[Role, Law]:
    return dict.fromkeys(roles, law)


def _power(formula: str, base: Callable[[Matrix], float], exponent: float) -> Law:
    if exponent == -0.5:
        # 1 / sqrt rounds as the published factor does; a power may differ in the last bit.
        return Law(formula, lambda matrix: 1.0 / math.sqrt(base(matrix)))
    return Law(formula, lambda matrix: base(matrix) ** exponent)


def _std(formula: str, std: Callable[[Matrix], float]) -> Law:
    return Law(formula, lambda matrix: std(matrix) / matrix.base_std)


_SMALL_STD = _std("std sqrt(2 / (5 d))", lambda m: math.sqrt(2 / (5 * m.width)))
_WANG_WRITER = _std("std 2 / (L sqrt(d))", lambda m: 2 / (m.blocks * math.sqrt(m.width)))
_DEEPNORM = _power("(8L)^(-1/4)", lambda m: 8 * m.blocks, -0.25)
_UNIT_COLUMNS = Law("every column of unit norm", normalize="columns")
_UNIT_ROWS = Law("every row of unit norm", normalize="rows")
_ZERO = Law("0", lambda _: 0.0)


def _layerscale(block: int, blocks: int) -> float:
    del block
    return 0.1 if blocks <= 18 else 1e-5 if blocks <= 24 else 1e-6


RECIPES: tuple[Recipe, ...] = (
    Recipe("unscaled", "Unscaled writers"),
    Recipe("depth-scaled", "Depth-scaled writers", _on(WRITERS, Law("L^(-1/2)", lambda m: depth_factor(m.blocks)))),
    Recipe("gpt2", "GPT-2 scaled writers", _on(WRITERS, _power("(2L)^(-1/2)", lambda m: 2 * m.blocks, -0.5))),
    Recipe(
        "block-indexed",
        "Block-indexed writers",
        _on(WRITERS, _power("(2(l+1))^(-1/2)", lambda m: 2 * (m.block + 1), -0.5)),
    ),
    Recipe(
        "lingua-global",
        "Lingua global writers",
        _on(WRITERS, _power("(2(L+1))^(-1/2)", lambda m: 2 * (m.blocks + 1), -0.5)),
    ),
    Recipe(
        "wang",
        "Wang writers, small init elsewhere",
        {
            **_on(("token_embedding", "position_embedding", "head", *BLOCK_MATRICES), _SMALL_STD),
            **_on(WRITERS, _WANG_WRITER),
        },
    ),
    Recipe(
        "ds-init",
        "DS-Init on pre-norm",
        _on(BLOCK_MATRICES, _power("(l+1)^(-1/2)", lambda m: m.block + 1, -0.5)),
    ),
    Recipe("zero-writer", "Zero writers", _on(WRITERS, _ZERO)),
    Recipe("lns", "LayerNorm scaling", topology=Topology(norm_in_factor=lambda block, _: 1.0 / math.sqrt(block + 1))),
    Recipe("completep", "CompleteP", topology=Topology(branch=lambda _, blocks: 2.0 / blocks)),
    Recipe("layerscale", "LayerScale", topology=Topology(branch=_layerscale)),
    Recipe("rezero", "ReZero, pre-norm variant", topology=Topology(branch=lambda *_: 0.0)),
    Recipe("skipinit", "SkipInit", topology=Topology(norm_in=None, branch=lambda *_: 0.0)),
    Recipe(
        "fixup",
        "Fixup",
        {
            **_on(BLOCK_MATRICES, _power("(2L)^(-1/2)", lambda m: 2 * m.blocks, -0.5)),
            **_on(WRITERS, _ZERO),
        },
        Topology(norm_in=None),
    ),
    Recipe(
        "deepscalelm",
        "DeepScaleLM, residual part only",
        topology=Topology(
            shortcut=lambda _, blocks: math.sqrt(1 - 1 / blocks), branch=lambda _, blocks: math.sqrt(1 / blocks)
        ),
        minimum_blocks=2,
    ),
    Recipe("post-norm", "Post-norm", topology=Topology(norm_in=None, norm_after="norm", final_norm=None)),
    Recipe(
        "deepnorm",
        "DeepNorm, decoder only",
        _on(("value", "output", "gate", "up", "down"), _DEEPNORM),
        Topology(norm_in=None, norm_after="norm", final_norm=None, shortcut=lambda _, blocks: (2 * blocks) ** 0.25),
    ),
    Recipe(
        "admin",
        "Admin",
        topology=Topology(norm_in=None, norm_after="norm", final_norm=None, shortcut="measured"),
        profile="admin",
    ),
    Recipe("peri-norm", "Peri-norm", topology=Topology(norm_out="norm")),
    Recipe("parallel", "Parallel branches", topology=Topology(parallel=True)),
    Recipe("normformer", "NormFormer", topology=Topology(attention_norm_out=True, hidden_norm=True)),
    Recipe("realformer", "RealFormer", topology=Topology(score_sum=True)),
    Recipe(
        "ngpt",
        "nGPT",
        {
            **_on(("query", "key", "value", "gate", "up", "head"), _UNIT_COLUMNS),
            **_on(("token_embedding", "position_embedding", *WRITERS), _UNIT_ROWS),
        },
        Topology(
            norm_in=None,
            norm_out="unit",
            norm_after="unit",
            final_norm=None,
            shortcut=lambda *_: 0.95,
            branch=lambda *_: 0.05,
            score_exponent=0.5,
            query_key_unit=True,
            gate_scaled=True,
        ),
    ),
    Recipe("dyt", "DyT", topology=Topology(norm_in="tanh", final_norm="tanh", embedding_scaled=True)),
    Recipe("mup", "muP readout and scores", topology=Topology(score_exponent=-1.0, logit_numerator=4.0)),
    Recipe(
        "t-fixup",
        "T-Fixup",
        refusal="T-Fixup sets encoder-decoder weights, and this is a decoder-only stack.",
    ),
    Recipe(
        "deepnorm-encoder-decoder",
        "DeepNorm, encoder-decoder",
        refusal="its constants need an encoder's depth, and this is a decoder-only stack; deepnorm is the one to use.",
    ),
    Recipe(
        "admin-encoder-decoder",
        "Admin, encoder-decoder",
        refusal="it profiles cross-attention, and this is a decoder-only stack; admin is the one to use.",
    ),
)

CONTROL = "unscaled"
DEFAULT = "depth-scaled"
_BY_NAME = {recipe.name: recipe for recipe in RECIPES}


def recipe(name: str) -> Recipe:
    """The recipe of that name; an unknown name is refused with the known ones."""
    if name not in _BY_NAME:
        runnable = ", ".join(known.name for known in RECIPES if known.refusal is None)
        raise RecipeError(f"The recipe {str(name)[:40]!r} is unknown; choose one of {runnable}.")
    return _BY_NAME[name]


def selected(chosen: Recipe, spec: ParameterSpec) -> bool:
    """Whether the recipe's law names this parameter, whatever the coefficient turns out to be."""
    return spec.role in chosen.laws
