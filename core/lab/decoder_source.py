"""A real decoder for the labs: sizes, seed, recipe and one row of tokens as options, and its tape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.decoder.batch import Batch, chapter_batch
from core.decoder.config import Budget, DecoderConfig
from core.decoder.graph import Addition, Graph
from core.health.request import CHAPTER_SEED, ObserveRequest
from core.lab.options import Options, choice, seed, whole, words
from core.recipes.catalogue import DEFAULT, RECIPES, recipe

if TYPE_CHECKING:
    from core.construction.drawn_weights import DrawnWeights
    from core.decoder.tape import Tape

CHAPTER = DecoderConfig()
LAB_BUDGET = Budget(max_parameters=2**23, max_positions=512)
RUNNABLE = tuple(known.name for known in RECIPES if known.refusal is None)


@dataclass(frozen=True, kw_only=True)
class DecoderOptions(Options):
    """A decoder in binary64 and its row of tokens; the defaults are the narrow eight-block fixture's."""

    blocks: int = whole(CHAPTER.blocks, 1, 256, "Complete blocks L.")
    width: int = whole(CHAPTER.width, 1, 512, "Features d of the stream.")
    heads: int = whole(CHAPTER.heads, 1, 64, "Query heads.")
    kv_heads: int | None = whole(None, 1, 64, "Key/value heads; as many as query heads unless given.")
    ff_width: int = whole(CHAPTER.ff_width, 1, 2048, "Feed-forward features.")
    seed: int = seed(CHAPTER_SEED)
    recipe: str = choice(DEFAULT, RUNNABLE, "A name of `recipes`.")
    text: str = words("", "A row of UTF-8 bytes plus 10; the chapter's four tokens unless given.")

    def check(self) -> None:
        """Refuse a decoder that cannot be built or is too large for a lab."""
        self.request().check()

    def batch(self) -> Batch:
        """One row of tokens."""
        return Batch.from_text(self.text) if self.text else chapter_batch()

    def request(self) -> ObserveRequest:
        """What the decoder is, in the observer's own terms."""
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
        """The stream's additions, as the recipe writes them out for these sizes."""
        return recipe(self.recipe).graph(self.request().config)

    def additions(self) -> list[Addition]:
        """Every addition, in forward order."""
        return [addition for block in self.graph().blocks for addition in block]


def decoder_weights(options: DecoderOptions) -> DrawnWeights:
    """The recipe's weights of this decoder, one member."""
    import torch  # a refused decoder never gets this far

    from core.construction.drawn_weights import DrawnWeights
    from core.decoder.base_draw import BaseDraw
    from core.health.arms import profile_scalars

    request, chosen = options.request(), recipe(options.recipe)
    draw = BaseDraw(request.config, [request.seed])
    scalars = profile_scalars(draw, chosen, request.batch, request.device)
    return DrawnWeights(draw, [chosen], torch.float64, request.device, scalars)


def decoder_tape(options: DecoderOptions) -> Tape:
    """The recorded forward of the decoder over its row."""
    from core.decoder.forward_pass import forward

    return forward(options.graph(), decoder_weights(options), options.batch())
