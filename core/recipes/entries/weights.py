"""Recipes that change only stored weights, on a pre-norm decoder."""

from __future__ import annotations

from ...decoder.parameters import BLOCK_MATRICES, WRITERS
from ..constants import gpt2_writer_std
from ..law import HALF, L, absolute, constant, d, l, relative
from ..recipe import CONSTANT_SUM, INDEPENDENT, OUTSIDE, PRE_NORM_STACK, SILENT, Recipe, on

WEIGHTS: tuple[Recipe, ...] = (
    Recipe(
        name="unscaled",
        title="Unscaled writers",
        source="The control of this project: the base draw as it is",
        evidence="derived here",
        assumes=("Nothing about depth: the stream grows with every addition.",),
        traps=("A public model without a scaling rule is this recipe, whatever its configuration file is called.",),
        growth=INDEPENDENT,
        look=1,
    ),
    Recipe(
        name="depth-scaled",
        title="Depth-scaled writers",
        source="The course chapter on depth-scaled initialization that the published fixtures come from",
        evidence="derived here",
        laws=on(WRITERS, relative(L**-HALF)),
        counts="blocks",
        assumes=(PRE_NORM_STACK, "L counts blocks, although a block makes two additions."),
        traps=("With 2L additions the accumulated variance is twice that of the law which counts them, gpt2.",),
        growth=CONSTANT_SUM,
        auto_order=1,
        counted="one addition a block is counted",
        look=0,
    ),
    Recipe(
        name="gpt2",
        title="GPT-2 scaled writers",
        source="Radford et al. 2019, section 2.3; nanoGPT and Megatron-Core count 2L",
        laws=on(WRITERS, relative((2 * L) ** -HALF)),
        counts="additions",
        assumes=(PRE_NORM_STACK, "One addition for attention and one for the feed-forward part of each block: 2L."),
        traps=(
            "Megatron-Core drops the 2 for hybrid stacks, where a layer makes one addition.",
            "transformers 5.14.1 matched the writers' names at the wrong level and scaled none of GPT-2's (#47458).",
            "A gated feed-forward has three matrices; some ports scale the up projection instead of down, or both.",
        ),
        growth=CONSTANT_SUM,
        auto_order=0,
        counted="two additions a block are counted",
        look=2,
        constants=lambda blocks, _: {"writer std on base std 0.02": gpt2_writer_std(blocks)},
    ),
    Recipe(
        name="block-indexed",
        title="Block-indexed writers",
        source="torchtitan depth_init; OLMo v1 mitchell initialization",
        evidence="implementation read",
        laws=on(WRITERS, relative((2 * (l + 1)) ** -HALF)),
        counts="additions",
        assumes=(PRE_NORM_STACK, "The block's own depth, not the stack's: the first block is scaled by 2^(-1/2) only."),
        traps=(
            "torchtitan gives the same standard deviation to the up projection w3, a reader (#3334).",
            "OLMo v1 divides by the root of each writer's own fan-in, and truncates at three sigma.",
            "Counted from 0 without the + 1, block 0 would divide by zero.",
        ),
        auto_order=2,
        counted="the block's own index is counted, not the whole depth",
    ),
    Recipe(
        name="lingua-global",
        title="Lingua global writers",
        source="Meta Lingua, init_std_factor global_depth",
        evidence="implementation read",
        laws=on(WRITERS, relative((2 * (L + 1)) ** -HALF)),
        counts="additions",
        assumes=(PRE_NORM_STACK,),
        traps=(
            "The code's comment says sqrt(2 L); the code computes sqrt(2 (L + 1)).",
            "Until its issue #39 was closed, all matrices of attention and feed-forward took the factor.",
            "The attention output is still truncated at three unscaled sigma, which after scaling cuts nothing.",
        ),
        growth=CONSTANT_SUM,
        auto_order=3,
        counted="one block more than there is is counted",
    ),
    Recipe(
        name="wang",
        title="Wang writers, small init elsewhere",
        source="GPT-NeoX wang_init and small_init; the latter from Nguyen and Salazar 2019",
        evidence="implementation read",
        laws={
            **on((*OUTSIDE, *BLOCK_MATRICES), absolute((2 / (5 * d)) ** HALF)),
            **on(WRITERS, absolute(2 / (L * d**HALF))),
        },
        counts="blocks",
        assumes=(PRE_NORM_STACK, "Absolute standard deviations from the width; the base draw's own scale disappears."),
        traps=(
            "litgpt and TinyLlama name GPT-NeoX as their source and use 1/(L sqrt(d)), half of it.",
            "2/L falls faster than the variance argument's L^(-1/2): deep branches are nearly silent at the start.",
        ),
        auto_order=4,
    ),
    Recipe(
        name="ds-init",
        title="DS-Init on pre-norm",
        source="Zhang, Titov and Sennrich 2019, a post-norm paper; here its law on a pre-norm stack",
        evidence="derived here",
        laws=on(BLOCK_MATRICES, relative((l + 1) ** -HALF)),
        counts="blocks",
        assumes=("The paper's stack is post-norm; on pre-norm the norms hide the scale of the readers in part.",),
        traps=("All matrices of a block are scaled, so attention scores flatten with depth.",),
        auto_order=5,
        counted="the block's own index is counted, one addition a block",
    ),
    Recipe(
        name="zero-writer",
        title="Zero writers",
        source="nanochat and other public training code",
        evidence="implementation read",
        laws=on(WRITERS, relative(constant(0.0))),
        assumes=("Writers learn first: while they are zero, no gradient reaches the matrices behind them.",),
        traps=(
            "Early nanochat zeroed the head too; then the terminal adjoint is 0 and no ratio is defined.",
            "Ratios of exactly 1 say nothing about depth after the first step.",
        ),
        growth=SILENT,
    ),
)
