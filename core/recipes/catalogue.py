"""Depth recipes as data: a topology, a law a role and an optional profile step.

A law acts once, at construction, on the base draw; what a topology holds is part of the forward. Definitions are
those of this project's fixed stream: `L` counts blocks, `l` is a block from 0, `d` the width, and *writers* are the
attention output and the feed-forward down projection. Names joined by `+` combine one topology with writer laws.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from core.decoder.graph import DepthLaw, Topology
from core.decoder.parameters import BLOCK_MATRICES, WRITERS, Role
from core.errors import RecipeError, shown, unknown_name
from core.numerals import SPACES
from core.recipes.law import Law, absolute, depth_factor, power
from core.recipes.recipe import JOINT, Recipe, combination


def _on(roles: tuple[Role, ...], law: Law) -> dict[Role, Law]:
    return dict.fromkeys(roles, law)


_OUTSIDE: tuple[Role, ...] = ("token_embedding", "position_embedding", "head")
_ZERO = Law("0", lambda _: 0.0)
_BY_ADDITIONS = power("(2L)^(-1/2)", lambda m: 2 * m.blocks)
_SMALL_STD = absolute("std sqrt(2 / (5 d))", lambda m: math.sqrt(2 / (5 * m.width)))
_WANG_STD = absolute("std 2 / (L sqrt(d))", lambda m: 2 / (m.blocks * math.sqrt(m.width)))
_DEEPNORM = power("(8L)^(-1/4)", lambda m: 8 * m.blocks, -0.25)
_CLOSED = DepthLaw("0", lambda *_: 0.0)
_UNIT_COLUMNS = Law("every column of unit norm", normalize="columns")
_UNIT_ROWS = Law("every row of unit norm", normalize="rows")

RECIPES: tuple[Recipe, ...] = (
    Recipe(
        name="unscaled",
        title="Unscaled writers",
        source="The control of this project: the base draw as it is",
        evidence="derived here",
    ),
    Recipe(
        name="depth-scaled",
        title="Depth-scaled writers",
        source="The course chapter on depth-scaled initialization that the published fixtures come from",
        evidence="derived here",
        laws=_on(WRITERS, Law("L^(-1/2)", lambda m: depth_factor(m.blocks))),
        counts="blocks",
    ),
    Recipe(
        name="gpt2",
        title="GPT-2 scaled writers",
        source="Radford et al. 2019, section 2.3; nanoGPT and Megatron-Core count 2L",
        evidence="paper",
        laws=_on(WRITERS, _BY_ADDITIONS),
        counts="additions",
    ),
    Recipe(
        name="block-indexed",
        title="Block-indexed writers",
        source="torchtitan depth_init; OLMo v1 mitchell initialization",
        evidence="implementation read",
        laws=_on(WRITERS, power("(2(l+1))^(-1/2)", lambda m: 2 * (m.block + 1))),
        counts="additions",
    ),
    Recipe(
        name="lingua-global",
        title="Lingua global writers",
        source="Meta Lingua, init_std_factor global_depth",
        evidence="implementation read",
        laws=_on(WRITERS, power("(2(L+1))^(-1/2)", lambda m: 2 * (m.blocks + 1))),
        counts="additions",
    ),
    Recipe(
        name="wang",
        title="Wang writers, small init elsewhere",
        source="GPT-NeoX wang_init and small_init; the latter from Nguyen and Salazar 2019",
        evidence="implementation read",
        laws={**_on((*_OUTSIDE, *BLOCK_MATRICES), _SMALL_STD), **_on(WRITERS, _WANG_STD)},
        counts="blocks",
    ),
    Recipe(
        name="ds-init",
        title="DS-Init on pre-norm",
        source="Zhang, Titov and Sennrich 2019, a post-norm paper; here its law on a pre-norm stack",
        evidence="derived here",
        laws=_on(BLOCK_MATRICES, power("(l+1)^(-1/2)", lambda m: m.block + 1)),
        counts="blocks",
    ),
    Recipe(
        name="zero-writer",
        title="Zero writers",
        source="nanochat and other public training code",
        evidence="implementation read",
        laws=_on(WRITERS, _ZERO),
    ),
    Recipe(
        name="lns",
        title="LayerNorm scaling",
        source="Sun et al. 2025, The Curse of Depth in Large Language Models",
        evidence="paper",
        topology=Topology(norm_in_factor=DepthLaw("(l+1)^(-1/2)", lambda block, _: 1.0 / math.sqrt(block + 1))),
        counts="blocks",
    ),
    Recipe(
        name="completep",
        title="CompleteP",
        source="Dey et al. 2025, CompleteP, exponent 1, base depth 2",
        evidence="paper",
        topology=Topology(branch=DepthLaw("(L/2)^(-1)", lambda _, blocks: 2.0 / blocks)),
    ),
    Recipe(
        name="layerscale",
        title="LayerScale",
        source="Touvron et al. 2021, Going deeper with image transformers (CaiT)",
        evidence="paper",
        topology=Topology(
            branch=DepthLaw(
                "0.1 to 18 blocks, 1e-5 to 24, 1e-6 beyond",
                lambda _, blocks: 0.1 if blocks <= 18 else 1e-5 if blocks <= 24 else 1e-6,
            )
        ),
    ),
    Recipe(
        name="rezero",
        title="ReZero, pre-norm variant",
        source="Bachlechner et al. 2020, whose stacks have no norms; here the norms stay",
        evidence="derived here",
        topology=Topology(branch=_CLOSED),
    ),
    Recipe(
        name="skipinit",
        title="SkipInit",
        source="De and Smith 2020, Batch normalization biases residual blocks towards the identity",
        evidence="paper",
        topology=Topology(norm_in=None, branch=_CLOSED),
    ),
    Recipe(
        name="fixup",
        title="Fixup",
        source="Zhang, Dauphin and Ma 2019, with m = 2 layers a branch and 2L branches",
        evidence="paper",
        laws={**_on(BLOCK_MATRICES, _BY_ADDITIONS), **_on(WRITERS, _ZERO)},
        topology=Topology(norm_in=None),
        counts="additions",
    ),
    Recipe(
        name="deepscalelm",
        title="DeepScaleLM, residual part only",
        source="Kedia et al. 2024, the two residual coefficients without the component moments",
        evidence="paper",
        topology=Topology(
            shortcut=DepthLaw("(1 - 1/L)^(1/2)", lambda _, blocks: math.sqrt(1 - 1 / blocks)),
            branch=DepthLaw("L^(-1/2)", lambda _, blocks: math.sqrt(1 / blocks)),
        ),
        counts="additions",
        minimum_blocks=2,
    ),
    Recipe(
        name="post-norm",
        title="Post-norm",
        source="Vaswani et al. 2017",
        evidence="paper",
        topology=Topology(norm_in=None, norm_after="norm", final_norm=None),
    ),
    Recipe(
        name="deepnorm",
        title="DeepNorm, decoder only",
        source="Wang et al. 2022, DeepNet, the decoder-only row",
        evidence="paper",
        laws=_on(("value", "output", "gate", "up", "down"), _DEEPNORM),
        topology=Topology(
            norm_in=None,
            norm_after="norm",
            final_norm=None,
            shortcut=DepthLaw("(2L)^(1/4)", lambda _, blocks: (2 * blocks) ** 0.25),
        ),
    ),
    Recipe(
        name="admin",
        title="Admin",
        source="Liu et al. 2020, Understanding the difficulty of training transformers",
        evidence="paper",
        topology=Topology(norm_in=None, norm_after="norm", final_norm=None, shortcut="measured"),
        profile="admin",
    ),
    Recipe(
        name="peri-norm",
        title="Peri-norm",
        source="Kim et al. 2025, Peri-LN; OLMo 2 and Gemma 2 also norm the branch output",
        evidence="paper",
        topology=Topology(norm_out="norm"),
    ),
    Recipe(
        name="parallel",
        title="Parallel branches",
        source="Chowdhery et al. 2022, PaLM; GPT-NeoX",
        evidence="paper",
        topology=Topology(parallel=True),
    ),
    Recipe(
        name="normformer",
        title="NormFormer",
        source="Shleifer et al. 2021, with head scales at their start of 1",
        evidence="paper",
        topology=Topology(attention_norm_out=True, hidden_norm=True),
    ),
    Recipe(
        name="realformer",
        title="RealFormer",
        source="He et al. 2020, the running sum",
        evidence="paper",
        topology=Topology(score_sum=True),
    ),
    Recipe(
        name="ngpt",
        title="nGPT",
        source="Loshchilov et al. 2024",
        evidence="paper",
        laws={
            **_on(("query", "key", "value", "gate", "up", "head"), _UNIT_COLUMNS),
            **_on(("token_embedding", *WRITERS), _UNIT_ROWS),
        },
        topology=Topology(
            norm_in=None,
            norm_out="unit",
            norm_after="unit",
            final_norm=None,
            shortcut=DepthLaw("0.95", lambda *_: 0.95),
            branch=DepthLaw("0.05", lambda *_: 0.05),
            score_exponent=0.5,
            query_key_unit=True,
            gate_scaled=True,
        ),
        needs={"position_encoding": "rope", "mlp": "swiglu"},
    ),
    Recipe(
        name="dyt",
        title="DyT",
        source="Zhu et al. 2025, Transformers without normalization, slope 0.5 everywhere",
        evidence="paper",
        topology=Topology(norm_in="tanh", final_norm="tanh", embedding_scaled=True),
    ),
    Recipe(
        name="mup",
        title="muP readout and scores",
        source="Yang et al. 2022, Tensor Programs V, table 3, base width 4",
        evidence="paper",
        topology=Topology(score_exponent=-1.0, logit_numerator=4.0),
    ),
    Recipe(
        name="t-fixup",
        title="T-Fixup",
        source="Huang et al. 2020",
        evidence="paper",
        refusal="T-Fixup sets encoder-decoder weights, and this is a decoder-only stack.",
    ),
    Recipe(
        name="deepnorm-encoder-decoder",
        title="DeepNorm, encoder-decoder",
        source="Wang et al. 2022, DeepNet, the encoder-decoder row",
        evidence="paper",
        refusal="its constants need an encoder's depth, and this is a decoder-only stack; deepnorm is the one to use.",
    ),
    Recipe(
        name="admin-encoder-decoder",
        title="Admin, encoder-decoder",
        source="Liu et al. 2020",
        evidence="paper",
        refusal="it profiles cross-attention, and this is a decoder-only stack; admin is the one to use.",
    ),
)

CONTROL = "unscaled"
DEFAULT = "depth-scaled"
_ORDER = {known.name: index for index, known in enumerate(RECIPES)}


@lru_cache(maxsize=256)
def recipe(name: str) -> Recipe:
    """The recipe of that name, or the combination of names joined by `+`; anything else is refused with the nearest.

    Parts stand in the order of `RECIPES` and the control adds nothing, so that equal combinations have one name.
    """
    # A plus sign typed into a link's query arrives as a space.
    text = str(name).strip(SPACES)
    wanted = re.split(rf"[{SPACES}]*\{JOINT}[{SPACES}]*|[{SPACES}]", text)
    if len(wanted) > 1 and "" in wanted:
        raise RecipeError(f"The recipe {shown(text)} has an empty part; put one {JOINT} between two names.")
    for part in wanted:
        if part not in _ORDER:
            runnable = [known.name for known in RECIPES if known.refusal is None]
            raise RecipeError(unknown_name("recipe", part, runnable, "the page and the verb recipes"))
    if len(wanted) > 1:
        wanted = sorted((part for part in wanted if part != CONTROL), key=_ORDER.__getitem__) or [CONTROL]
    return combination([RECIPES[_ORDER[part]] for part in wanted])
