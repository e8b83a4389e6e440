"""What public code does under a recipe's name, as one recipe per code base, so that each can be measured.

Every entry was read in the named code or report; `recipe` is the name that the code uses, or that its users expect. Its
laws are written for the decoders of this project.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from ..decoder.parameters import BLOCK_MATRICES, WRITERS, Role
from .catalogue import recipe
from .law import HALF, L, Law, absolute, d, fan_in, l, relative
from .recipe import OUTSIDE, Recipe, on


@dataclass(frozen=True, kw_only=True)
class Variant:
    """What one code base does under the name of a recipe.

    `place` is where in the code, `says` what it claims, `does` what it does instead, and `laws` the same as factors on
    weights. A factor on an attention branch in the forward is written as a factor on the matrix that ends the branch;
    the effect is the same.
    """

    name: str
    code_base: str
    place: str
    recipe: str
    says: str
    does: str
    laws: Mapping[Role, Law]

    def as_recipe(self) -> Recipe:
        """Return the variant as a recipe, with the graph of the recipe it is named after, so that both can be run."""
        declared = recipe(self.recipe)
        return replace(
            declared,
            name=self.name,
            title=f"{declared.title} in {self.code_base}",
            source=self.place,
            evidence="implementation read",
            laws=self.laws,
        )


_READERS: tuple[Role, ...] = ("query", "key", "value", "gate", "up")
_WRITER = {name: recipe(name).laws["down"] for name in ("gpt2", "block-indexed", "lingua-global", "deepnorm", "fixup")}
_SMALL = recipe("wang").laws["head"]

VARIANTS: tuple[Variant, ...] = (
    Variant(
        name="transformers-5.14.1-gpt2",
        code_base="transformers 5.14.1",
        place="GPT2PreTrainedModel._init_weights; issue #47458, fixed by #47459",
        recipe="gpt2",
        says="a factor 1/sqrt(2L) on every c_proj",
        does="compares full parameter names with a bare one, so no writer is ever scaled",
        laws={},
    ),
    Variant(
        name="megatron-core-hybrid",
        code_base="Megatron-Core",
        place="transformer_config.py, output_layer_init_method with is_hybrid_model",
        recipe="gpt2",
        says="scaled_init_method_normal, sigma/sqrt(2 L) in its comment",
        does="takes multiplier 1 on hybrid stacks: L^(-1/2)",
        laws=on(WRITERS, recipe("depth-scaled").laws["down"]),
    ),
    Variant(
        name="modded-nanogpt-attention",
        code_base="modded-nanogpt, October 2024",
        place="train_gpt2.py at ff9661e, Block.attn_scale; issue #10",
        recipe="gpt2",
        says="the scale of GPT-2's residual projections, without a special initialization",
        does="multiplies attention by (2L)^(-1/2) in the forward and leaves the feed-forward part alone",
        laws={"output": _WRITER["gpt2"]},
    ),
    Variant(
        name="gated-up-for-down",
        code_base="llama2.c and minimind ports",
        place="llama2.c #579, minimind pull request #136",
        recipe="gpt2",
        says="the projections that end a branch are scaled",
        does="scales w3, the up projection of a gated feed-forward, in place of down",
        laws=on(("output", "up"), _WRITER["gpt2"]),
    ),
    Variant(
        name="lingua-off-by-one",
        code_base="Meta Lingua",
        place="lingua/transformer.py, InitStdFactor.GLOBAL_DEPTH",
        recipe="gpt2",
        says="std is divided by sqrt(2*n_layers), in its comment",
        does="divides by sqrt(2 (L + 1))",
        laws=on(WRITERS, _WRITER["lingua-global"]),
    ),
    Variant(
        name="lingua-every-matrix",
        code_base="Meta Lingua before issue #39 was closed",
        place="lingua/transformer.py at a7cdf13; issue #39",
        recipe="lingua-global",
        says="a depth factor on the residual projections",
        does="divides query, key, value, gate and up by the factor too",
        laws=on(BLOCK_MATRICES, _WRITER["lingua-global"]),
    ),
    Variant(
        name="torchtitan-depth-init",
        code_base="torchtitan",
        place="FeedForward.init_weights; issue #3334",
        recipe="block-indexed",
        says="depth_init, 0.02/sqrt(2 (layer_id + 1)) for residual projections",
        does="gives the same to w3, the up projection: the feed-forward branch is scaled twice",
        laws=on((*WRITERS, "up"), _WRITER["block-indexed"]),
    ),
    Variant(
        name="olmo-mitchell",
        code_base="OLMo v1",
        place="olmo/model.py, InitFnType.mitchell",
        recipe="block-indexed",
        says="mitchell initialization",
        does="takes the root of each writer's own fan-in and d^(-1/2) elsewhere, truncated at three sigma",
        laws={
            **on((*OUTSIDE, *_READERS), absolute(d**-HALF)),
            **on(WRITERS, absolute((2 * (l + 1) * fan_in) ** -HALF)),
        },
    ),
    Variant(
        name="litgpt-half-wang",
        code_base="litgpt and TinyLlama",
        place="pretrain.py, initialize_weights",
        recipe="wang",
        says="GPT-NeoX weight initialization",
        does="sets writers to 1/(L sqrt(d)), half of GPT-NeoX",
        laws={
            **on((*OUTSIDE, *_READERS), _SMALL),
            **on(WRITERS, absolute(1 / (L * d**HALF))),
        },
    ),
    Variant(
        name="torchscale-deepnorm-gated",
        code_base="torchscale, decoders with a gated feed-forward",
        place="RetNetDecoder.__init__ and component/gate_linear_unit.py",
        recipe="deepnorm",
        says="DeepNorm's gain on feed-forward weights, value and output",
        does="selects by the names fc1, fc2, out_proj and v_proj, and leaves the gate at gain 1",
        laws=on(("value", "output", "up", "down"), _WRITER["deepnorm"]),
    ),
    Variant(
        name="fixup-four-layer-attention",
        code_base="Fixup, the authors' transformer",
        place="hongyi-zhang/Fixup; issue #8",
        recipe="fixup",
        says="L^(-1/(2m-2)) for the m layers of a branch",
        does="counts m = 4 layers in attention: query, key and value times (2L)^(-1/6)",
        laws={
            **on(("gate", "up"), _WRITER["gpt2"]),
            **on(("query", "key", "value"), relative((2 * L) ** Fraction(-1, 6))),
            **on(WRITERS, _WRITER["fixup"]),
        },
    ),
)  # fmt: skip
