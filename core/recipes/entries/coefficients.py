"""Recipes that put a factor on the shortcut, on the branches or on what the branches read, in the forward pass."""

from __future__ import annotations

from ...decoder.graph import Topology
from ...decoder.parameters import BLOCK_MATRICES, WRITERS
from ..constants import fixup_factor
from ..law import HALF, L, constant, forward_factor, l, relative, stepwise
from ..recipe import CONSTANT_SUM, SILENT, Growth, Recipe, on

COEFFICIENTS: tuple[Recipe, ...] = (
    Recipe(
        name="lns",
        title="LayerNorm scaling",
        source="Sun et al. 2025, The Curse of Depth in Large Language Models",
        topology=Topology(norm_in_factor=forward_factor((l + 1) ** -HALF)),
        counts="blocks",
        assumes=("Pre-norm, and writers left unscaled: the factor already damps each branch.",),
        traps=("Combined with scaled writers the deep branches are damped twice and nearly silent.",),
    ),
    Recipe(
        name="completep",
        title="CompleteP",
        source="Dey et al. 2025, CompleteP, exponent 1, base depth 2",
        topology=Topology(branch=forward_factor((L / 2) ** -1)),
        assumes=("Width and depth are scaled together by muP-like rules; learning rates and epsilon scale too.",),
        traps=(
            "Only the exponent 1 bears the name; exponent 1/2 is an ablation of the paper.",
            "L / L0 counts blocks against a base depth, here 2; without the base depth the multiplier is another.",
        ),
        growth=Growth(0.0, "the variances of all additions sum to a share that falls with the depth"),
        auto_order=6,
        look=5,
    ),
    Recipe(
        name="layerscale",
        title="LayerScale",
        source="Touvron et al. 2021, Going deeper with image transformers (CaiT)",
        topology=Topology(branch=forward_factor(stepwise((0.1, 18), (1e-5, 24), beyond=1e-6))),
        assumes=("Pre-norm and warmup, as in the source's vision transformers.",),
        state=("One learned gain a channel on each branch output.",),
        traps=("The starting value depends on depth by steps; one constant for all depths is another recipe.",),
    ),
    Recipe(
        name="rezero",
        title="ReZero, pre-norm variant",
        source="Bachlechner et al. 2020, whose stacks have no norms; here the norms stay",
        evidence="derived here",
        topology=Topology(branch=forward_factor(constant(0.0))),
        assumes=("The paper's stack has no norms; with them this is a pre-norm variant, and named so.",),
        state=("One learned scalar a branch, 0 at the start.",),
        traps=("At the start the gate gets a gradient and the branch's matrices get none.",),
        growth=SILENT,
    ),
    Recipe(
        name="skipinit",
        title="SkipInit",
        source="De and Smith 2020, Batch normalization biases residual blocks towards the identity",
        topology=Topology(norm_in=None, branch=forward_factor(constant(0.0))),
        assumes=("No branch norms: after the first step the scalar alone holds the branch's scale.",),
        state=("One learned scalar a branch, 0 at the start.",),
        traps=("Kept norms make it the pre-norm variant of rezero.",),
        growth=SILENT,
    ),
    Recipe(
        name="fixup",
        title="Fixup",
        source="Zhang, Dauphin and Ma 2019, with m = 2 layers a branch and 2L branches",
        laws={**on(BLOCK_MATRICES, relative((2 * L) ** -HALF)), **on(WRITERS, relative(constant(0.0)))},
        topology=Topology(norm_in=None),
        counts="additions",
        assumes=(
            "No norms, m layers a branch and as many branches as additions: L^(-1/(2m-2)) in the paper's letters.",
            "The classifier is zero in the paper; here it is tied to the embedding and kept.",
        ),
        state=("A scalar multiplier a branch, 1 at the start.", "Scalar biases before layers, 0 at the start."),
        traps=(
            "The author counts four layers in attention, so the public code scales query, key and value by L^(-1/6).",
            "One exponent copied without zeros, biases and multipliers is not Fixup.",
        ),
        growth=SILENT,
        constants=lambda blocks, _: {f"factor at m = {m}": fixup_factor(2 * blocks, m) for m in (2, 3, 4)},
    ),
    Recipe(
        name="deepscalelm",
        title="DeepScaleLM, residual part only",
        source="Kedia et al. 2024, the two residual coefficients without the component moments",
        topology=Topology(
            shortcut=forward_factor((1 - 1 / L) ** HALF),
            branch=forward_factor((1 / L) ** HALF),
        ),
        counts="additions",
        minimum_blocks=2,
        assumes=("Stream and branch of unit variance and no covariance between them.",),
        traps=("The method also sets the moments of embeddings, attention and feed-forward; not done here.",),
        growth=CONSTANT_SUM,
        auto_order=7,
    ),
)
