"""Recipes of encoder-decoder models: their constants are shown, but they cannot run on a decoder-only model."""

from __future__ import annotations

from ..constants import deepnorm_encoder_decoder_constants, t_fixup_constants
from ..recipe import Recipe

ENCODER_DECODER: tuple[Recipe, ...] = (
    Recipe(
        name="t-fixup",
        title="T-Fixup",
        source="Huang et al. 2020",
        refusal="T-Fixup sets encoder-decoder weights, and this is a decoder-only stack.",
        assumes=(
            "Encoder and decoder of N blocks, no norms, no warmup; embeddings of standard deviation d^(-1/2).",
            "Decoder value, output, feed-forward and both embeddings times (9N)^(-1/4).",
            "Encoder value, output and feed-forward times 0.67 N^(-1/4).",
        ),
        traps=("Its factor on a decoder-only stack is not T-Fixup: it bounds an update through both stacks.",),
        constants=t_fixup_constants,
    ),
    Recipe(
        name="deepnorm-encoder-decoder",
        title="DeepNorm, encoder-decoder",
        source="Wang et al. 2022, DeepNet, the encoder-decoder row",
        refusal="its constants need an encoder's depth, and this is a decoder-only stack; deepnorm is the one to use.",
        assumes=("Encoder of N blocks and decoder of M: both sides have their own alpha and beta.",),
        traps=("The decoder's (3M)^(1/4) replaces the decoder-only (2M)^(1/4), for it makes three additions.",),
        constants=lambda blocks, _: deepnorm_encoder_decoder_constants(blocks, blocks),
    ),
    Recipe(
        name="admin-encoder-decoder",
        title="Admin, encoder-decoder",
        source="Liu et al. 2020",
        refusal="it profiles cross-attention, and this is a decoder-only stack; admin is the one to use.",
        assumes=("Three additions a decoder block, cross-attention among them, all profiled.",),
    ),
)
