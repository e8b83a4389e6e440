"""What a recipe's data cannot say: what it assumes, the state it owns in its source, and traps in public code.

Facts from the named papers and code bases; every sentence is about initialization or about what the method's name
promises beyond it. A recipe without an entry has nothing to add to its card.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Note:
    """Sentences for a card. `state` is what the method stores or learns beyond the base decoder."""

    assumes: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    traps: tuple[str, ...] = ()


_PRE_NORM = "A pre-norm stack: each branch reads a normalized copy, so the stream alone carries the scale."

NOTES: dict[str, Note] = {
    "unscaled": Note(
        assumes=("Nothing about depth: the stream grows with every addition.",),
        traps=("A public model without a scaling rule is this recipe, whatever its configuration file is called.",),
    ),
    "depth-scaled": Note(
        assumes=(_PRE_NORM, "L counts blocks, although a block makes two additions."),
        traps=("With 2L additions the accumulated variance is twice that of the law which counts them, gpt2.",),
    ),
    "gpt2": Note(
        assumes=(_PRE_NORM, "One addition for attention and one for the feed-forward part of each block: 2L."),
        traps=(
            "Megatron-Core drops the 2 for hybrid stacks, where a layer makes one addition.",
            "transformers 5.14.1 matched the writers' names at the wrong level and scaled none of GPT-2's (#47458).",
            "A gated feed-forward has three matrices; some ports scale the up projection instead of down, or both.",
        ),
    ),
    "block-indexed": Note(
        assumes=(_PRE_NORM, "The block's own depth, not the stack's: the first block is scaled by 2^(-1/2) only."),
        traps=(
            "torchtitan gives the same standard deviation to the up projection w3, a reader (#3334).",
            "OLMo v1 divides by the root of each writer's own fan-in, and truncates at three sigma.",
            "Counted from 0 without the + 1, block 0 would divide by zero.",
        ),
    ),
    "lingua-global": Note(
        assumes=(_PRE_NORM,),
        traps=(
            "The code's comment says sqrt(2 L); the code computes sqrt(2 (L + 1)).",
            "Until its issue #39 was closed, all matrices of attention and feed-forward took the factor.",
            "The attention output is still truncated at three unscaled sigma, which after scaling cuts nothing.",
        ),
    ),
    "wang": Note(
        assumes=(_PRE_NORM, "Absolute standard deviations from the width; the base draw's own scale disappears."),
        traps=(
            "litgpt and TinyLlama name GPT-NeoX as their source and use 1/(L sqrt(d)), half of it.",
            "2/L falls faster than the variance argument's L^(-1/2): deep branches are nearly silent at the start.",
        ),
    ),
    "ds-init": Note(
        assumes=("The paper's stack is post-norm; on pre-norm the norms hide the scale of the readers in part.",),
        traps=("All matrices of a block are scaled, so attention scores flatten with depth.",),
    ),
    "zero-writer": Note(
        assumes=("Writers learn first: while they are zero, no gradient reaches the matrices behind them.",),
        traps=(
            "Early nanochat zeroed the head too; then the terminal adjoint is 0 and no ratio is defined.",
            "Ratios of exactly 1 say nothing about depth after the first step.",
        ),
    ),
    "lns": Note(
        assumes=("Pre-norm, and writers left unscaled: the factor already damps each branch.",),
        traps=("Combined with scaled writers the deep branches are damped twice and nearly silent.",),
    ),
    "completep": Note(
        assumes=("Width and depth are scaled together by muP-like rules; learning rates and epsilon scale too.",),
        traps=(
            "Only the exponent 1 bears the name; exponent 1/2 is an ablation of the paper.",
            "L / L0 counts blocks against a base depth, here 2; without the base depth the multiplier is another.",
        ),
    ),
    "layerscale": Note(
        assumes=("Pre-norm and warmup, as in the source's vision transformers.",),
        state=("One learned gain a channel on each branch output.",),
        traps=("The starting value depends on depth by steps; one constant for all depths is another recipe.",),
    ),
    "rezero": Note(
        assumes=("The paper's stack has no norms; with them this is a pre-norm variant, and named so.",),
        state=("One learned scalar a branch, 0 at the start.",),
        traps=("At the start the gate gets a gradient and the branch's matrices get none.",),
    ),
    "skipinit": Note(
        assumes=("No branch norms: after the first step the scalar alone holds the branch's scale.",),
        state=("One learned scalar a branch, 0 at the start.",),
        traps=("Kept norms make it the pre-norm variant of rezero.",),
    ),
    "fixup": Note(
        assumes=(
            "No norms, m layers a branch and as many branches as additions: L^(-1/(2m-2)) in the paper's letters.",
            "The classifier is zero in the paper; here it is tied to the embedding and kept.",
        ),
        state=("A scalar multiplier a branch, 1 at the start.", "Scalar biases before layers, 0 at the start."),
        traps=(
            "The author counts four layers in attention, so the public code scales query, key and value by L^(-1/6).",
            "One exponent copied without zeros, biases and multipliers is not Fixup.",
        ),
    ),
    "deepscalelm": Note(
        assumes=("Stream and branch of unit variance and no covariance between them.",),
        traps=("The method also sets the moments of embeddings, attention and feed-forward; not done here.",),
    ),
    "post-norm": Note(
        assumes=("Every state is normalized, so activations cannot grow; gradients pass every norm.",),
        traps=("Writer scale is not hidden by a norm on the sum: it moves the adjoints several-fold.",),
    ),
    "deepnorm": Note(
        assumes=("Decoder only; alpha and beta belong together and to Xavier weights, query and key at gain 1.",),
        traps=(
            "Encoder-only and encoder-decoder models have other constants.",
            "torchscale finds matrices by name and leaves the gate of a gated feed-forward at gain 1.",
        ),
    ),
    "admin": Note(
        assumes=("A profiling batch: the shortcuts are measured, and another batch gives other shortcuts.",),
        state=("One shortcut vector an addition; the source folds it into the weights after training.",),
        traps=(
            "Constants in place of the profile are another recipe.",
            "Sources differ on the term before the sum; here it is 1, so that w_0 = 1.",
        ),
    ),
    "peri-norm": Note(
        assumes=("A norm on the branch output fixes its scale at 1, so r_L^2 grows by 1 an addition.",),
        state=("A second norm a branch, with its own gain.",),
        traps=(
            "Scaled writers have no effect: the output norm divides the scale out, up to epsilon.",
            "At small weights epsilon is no longer small against the branch, and the norm lets scale through.",
        ),
    ),
    "parallel": Note(
        assumes=("Attention and feed-forward read the same state: L additions of two branches, L + 1 sites.",),
        traps=("A law that counts 2L additions counts branches here, not additions.",),
    ),
    "normformer": Note(
        assumes=("Pre-norm with two more norms and head scales together.",),
        state=("A norm after attention and one inside the feed-forward part.", "One learned scale a head."),
        traps=("One more norm after attention alone is not NormFormer.",),
    ),
    "realformer": Note(
        assumes=("Scores of all blocks have one shape; each kind of attention needs its own route.",),
        traps=(
            "Running sum and running mean differ: the sum's scores grow with depth.",
            "The score route is no second residual stream and no key/value cache.",
        ),
    ),
    "ngpt": Note(
        assumes=("Matrices are normalized again after every optimizer step; no weight decay, no warmup.",),
        state=("Step sizes a channel, scales for query-key products, feed-forward features and logits, all learned.",),
        traps=(
            "Which axis is normalized differs by matrix; one axis for all constrains the wrong vectors.",
            "Removing the norms of a trained model does not make it nGPT.",
        ),
    ),
    "dyt": Note(
        assumes=("Retrained under the substituted graph; a tanh does not normalize.",),
        state=("A slope a place, and gain and bias a channel.", "A learned scalar after the embedding."),
        traps=(
            "The paper's slopes for LLaMA depend on width and place: 0.8/0.2, 0.6/0.15, 0.2/0.05.",
            "Left out of language models, the embedding scalar leaves every tanh in its linear range.",
        ),
    ),
    "mup": Note(
        assumes=("A law of width: learning rates by matrix belong to it, and here only its forward part is drawn.",),
        traps=(
            "Some public ports keep 1/sqrt(head_dim), because their head_dim is constant.",
            "The readout factor is relative to a base width, here 4, so the narrow fixtures are untouched by it.",
        ),
    ),
    "t-fixup": Note(
        assumes=(
            "Encoder and decoder of N blocks, no norms, no warmup; embeddings of standard deviation d^(-1/2).",
            "Decoder value, output, feed-forward and both embeddings times (9N)^(-1/4).",
            "Encoder value, output and feed-forward times 0.67 N^(-1/4).",
        ),
        traps=("Its factor on a decoder-only stack is not T-Fixup: it bounds an update through both stacks.",),
    ),
    "deepnorm-encoder-decoder": Note(
        assumes=("Encoder of N blocks and decoder of M: both sides have their own alpha and beta.",),
        traps=("The decoder's (3M)^(1/4) replaces the decoder-only (2M)^(1/4), for it makes three additions.",),
    ),
    "admin-encoder-decoder": Note(
        assumes=("Three additions a decoder block, cross-attention among them, all profiled.",),
    ),
}


def note(name: str) -> Note:
    """The sentences of a recipe; those of all parts, in order and once, for a combination."""
    notes = [NOTES.get(part, Note()) for part in name.split("+")]
    return Note(
        assumes=tuple(dict.fromkeys(line for n in notes for line in n.assumes)),
        state=tuple(dict.fromkeys(line for n in notes for line in n.state)),
        traps=tuple(dict.fromkeys(line for n in notes for line in n.traps)),
    )
