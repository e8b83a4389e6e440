"""Recipes with another graph: norms in other places, or other computations in the branches."""

from __future__ import annotations

from dataclasses import replace

from ...decoder.graph import Topology
from ...decoder.parameters import WRITERS
from ..constants import deepnorm_constants
from ..law import FOURTH, UNIT_COLUMNS, UNIT_ROWS, L, constant, forward_factor, relative
from ..recipe import INDEPENDENT, NORMALIZED, Recipe, on

POST_NORM = Topology(norm_in=None, norm_after="norm", final_norm=None)

GRAPHS: tuple[Recipe, ...] = (
    Recipe(
        name="post-norm",
        title="Post-norm",
        source="Vaswani et al. 2017",
        topology=POST_NORM,
        assumes=("Every state is normalized, so activations cannot grow; gradients pass every norm.",),
        traps=("Writer scale is not hidden by a norm on the sum: it moves the adjoints several-fold.",),
        growth=NORMALIZED,
    ),
    Recipe(
        name="deepnorm",
        title="DeepNorm, decoder only",
        source="Wang et al. 2022, DeepNet, the decoder-only row",
        laws=on(("value", "output", "gate", "up", "down"), relative((8 * L) ** -FOURTH)),
        topology=replace(POST_NORM, shortcut=forward_factor((2 * L) ** FOURTH)),
        assumes=("Decoder only; alpha and beta belong together and to Xavier weights, query and key at gain 1.",),
        traps=(
            "Encoder-only and encoder-decoder models have other constants.",
            "torchscale finds matrices by name and leaves the gate of a gated feed-forward at gain 1.",
        ),
        growth=NORMALIZED,
        auto_order=8,
        counted="DeepNet's post-norm gain is used",
        look=4,
        constants=lambda blocks, _: deepnorm_constants(blocks),
    ),
    Recipe(
        name="admin",
        title="Admin",
        source="Liu et al. 2020, Understanding the difficulty of training transformers",
        topology=replace(POST_NORM, shortcut="measured"),
        profile="admin",
        assumes=("A profiling batch: the shortcuts are measured, and another batch gives other shortcuts.",),
        state=("One shortcut vector an addition; the source folds it into the weights after training.",),
        traps=(
            "Constants in place of the profile are another recipe.",
            "Sources differ on the term before the sum; here it is 1, so that w_0 = 1.",
        ),
        growth=NORMALIZED,
    ),
    Recipe(
        name="peri-norm",
        title="Peri-norm",
        source="Kim et al. 2025, Peri-LN; OLMo 2 and Gemma 2 also norm the branch output",
        topology=Topology(norm_out="norm"),
        assumes=("A norm on the branch output fixes its scale at 1, so r_L^2 grows by 1 an addition.",),
        state=("A second norm a branch, with its own gain.",),
        traps=(
            "Scaled writers have no effect: the output norm divides the scale out, up to epsilon.",
            "At small weights epsilon is no longer small against the branch, and the norm lets scale through.",
        ),
        growth=INDEPENDENT,
        look=3,
    ),
    Recipe(
        name="parallel",
        title="Parallel branches",
        source="Chowdhery et al. 2022, PaLM; GPT-NeoX",
        topology=Topology(parallel=True),
        assumes=("Attention and feed-forward read the same state: L additions of two branches, L + 1 sites.",),
        traps=("A law that counts 2L additions counts branches here, not additions.",),
    ),
    Recipe(
        name="normformer",
        title="NormFormer",
        source="Shleifer et al. 2021, with head scales at their start of 1",
        topology=Topology(attention_norm_out=True, hidden_norm=True),
        assumes=("Pre-norm with two more norms and head scales together.",),
        state=("A norm after attention and one inside the feed-forward part.", "One learned scale a head."),
        traps=("One more norm after attention alone is not NormFormer.",),
    ),
    Recipe(
        name="realformer",
        title="RealFormer",
        source="He et al. 2020, the running sum",
        topology=Topology(score_sum=True),
        assumes=("Scores of all blocks have one shape; each kind of attention needs its own route.",),
        traps=(
            "Running sum and running mean differ: the sum's scores grow with depth.",
            "The score route is no second residual stream and no key/value cache.",
        ),
    ),
    Recipe(
        name="ngpt",
        title="nGPT",
        source="Loshchilov et al. 2024",
        laws={
            **on(("query", "key", "value", "gate", "up", "head"), UNIT_COLUMNS),
            **on(("token_embedding", *WRITERS), UNIT_ROWS),
        },
        topology=Topology(
            norm_in=None,
            norm_out="unit",
            norm_after="unit",
            final_norm=None,
            shortcut=forward_factor(constant(0.95)),
            branch=forward_factor(constant(0.05)),
            score_exponent=0.5,
            query_key_unit=True,
            gate_scaled=True,
        ),
        needs={"position_encoding": "rope", "mlp": "swiglu"},
        assumes=("Matrices are normalized again after every optimizer step; no weight decay, no warmup.",),
        state=("Step sizes a channel, scales for query-key products, feed-forward features and logits, all learned.",),
        traps=(
            "Which axis is normalized differs by matrix; one axis for all constrains the wrong vectors.",
            "Removing the norms of a trained model does not make it nGPT.",
        ),
        growth=NORMALIZED,
    ),
    Recipe(
        name="dyt",
        title="DyT",
        source="Zhu et al. 2025, Transformers without normalization, slope 0.5 everywhere",
        topology=Topology(norm_in="tanh", final_norm="tanh", embedding_scaled=True),
        assumes=("Retrained under the substituted graph; a tanh does not normalize.",),
        state=("A slope a place, and gain and bias a channel.", "A learned scalar after the embedding."),
        traps=(
            "The paper's slopes for LLaMA depend on width and place: 0.8/0.2, 0.6/0.15, 0.2/0.05.",
            "Left out of language models, the embedding scalar leaves every tanh in its linear range.",
        ),
    ),
    Recipe(
        name="mup",
        title="muP readout and scores",
        source="Yang et al. 2022, Tensor Programs V, table 3, base width 4",
        topology=Topology(score_exponent=-1.0, logit_numerator=4.0),
        assumes=("A law of width: learning rates by matrix belong to it, and here only its forward part is drawn.",),
        traps=(
            "Some public ports keep 1/sqrt(head_dim), because their head_dim is constant.",
            "The readout factor is relative to a base width, here 4, so the narrow fixtures are untouched by it.",
        ),
    ),
)
