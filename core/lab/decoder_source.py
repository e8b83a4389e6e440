"""A small decoder for the experiments: its sizes, seed, recipe and row of tokens as options, and its forward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..decoder.batch import Batch, chapter_batch
from ..decoder.config import Budget, DecoderConfig
from ..decoder.graph import Addition, Graph
from ..health.request import CHAPTER_SEED, ObserveRequest
from ..recipes.catalogue import DEFAULT, RUNNABLE, recipe
from .options import Options, choice, seed, whole, words
from .view import plural

if TYPE_CHECKING:
    from ..construction.drawn_weights import DrawnWeights
    from ..decoder.tape import Tape

CHAPTER = DecoderConfig()
LAB_BUDGET = Budget(max_parameters=2**23, max_positions=512)
# The order of its controls.
DECODER = ("recipe", "blocks", "width", "seed", "heads", "kv_heads", "ff_width", "text")
# Where an experiment has a source of rows, a decoder's options count for the decoder alone.
READ = ("source", ("decoder",))


class DecoderOptions(Options):
    """Options of an experiment on a decoder in binary64 and one row of tokens; by default eight narrow blocks."""

    blocks: int = whole(CHAPTER.blocks, 1, 256, "Blocks L", "Complete blocks L.", when=READ)
    width: int = whole(CHAPTER.width, 1, 512, "Width d", "Features d of the stream.", when=READ)
    heads: int = whole(CHAPTER.heads, 1, 64, "Query heads", "Query heads.", when=READ, more=True)
    kv_heads: int | None = whole(
        None, 1, 64, "Key/value heads", "Key/value heads; as many as query heads unless given.", when=READ, more=True
    )
    ff_width: int = whole(
        CHAPTER.ff_width, 1, 2048, "Feed-forward width", "Feed-forward features.", when=READ, more=True
    )
    seed: int = seed(CHAPTER_SEED, when=("source", ("drawn", "decoder")))
    recipe: str = choice(DEFAULT, RUNNABLE, "Recipe", "A name of `recipes`.", when=READ)
    text: str = words(
        "", "Text", "A row of UTF-8 bytes plus 10; the chapter's four tokens unless given.", when=READ, more=True
    )

    def check(self) -> None:
        """Raise `DepthscopeError` if the decoder cannot be built or is too large for a lab."""
        self.request().check()

    def batch(self) -> Batch:
        """Return a batch of one row of token ids: the bytes of `text` plus 10, by default the example's four tokens."""
        return Batch.from_text(self.text) if self.text else chapter_batch()

    def request(self) -> ObserveRequest:
        """Return the decoder, its recipe, seed and row as an `ObserveRequest` with the labs' limit of parameters."""
        batch = self.batch()
        config = DecoderConfig(
            blocks=self.blocks,
            width=self.width,
            heads=self.heads,
            kv_heads=self.kv_heads,
            ff_width=self.ff_width,
            positions=max(CHAPTER.positions, batch.longest),
        )
        return ObserveRequest(config=config, seed=self.seed, recipe=self.recipe, batch=batch, budget=LAB_BUDGET)

    def graph(self) -> Graph:
        """Return the recipe's graph at these sizes: for every block, what is added to the residual stream and how."""
        return recipe(self.recipe).graph(self.request().config)

    def additions(self) -> list[Addition]:
        """Return all additions to the residual stream in forward order, in most recipes two per block."""
        return [addition for block in self.graph().blocks for addition in block]


def decoder_weights(options: DecoderOptions) -> DrawnWeights:
    """Return the weights that the recipe gives this decoder, as a batch of one model."""
    import torch  # a refused decoder never gets this far

    from ..construction.drawn_weights import DrawnWeights
    from ..decoder.base_draw import BaseDraw
    from ..health.arms import profile_scalars

    request, chosen = options.request(), recipe(options.recipe)
    draw = BaseDraw(request.config, [request.seed])
    scalars = profile_scalars(draw, chosen, request.batch, request.device)
    return DrawnWeights(draw, [chosen], torch.float64, request.device, scalars)


def decoder_tape(options: DecoderOptions) -> Tape:
    """Run the decoder on its row and return the recorded run: all residual states, branch outputs and the loss."""
    from ..decoder.forward_pass import forward

    return forward(options.graph(), decoder_weights(options), options.batch())


def decoder_subject(options: DecoderOptions) -> str:
    """Return the decoder's sizes, recipe and seed as text for the line under a figure's title."""
    return f"L = {plural(options.blocks, 'block')}, d = {options.width}, {options.recipe}, seed {options.seed}"
