"""A sweep as text from a form or the command line, one text per axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..decoder.batch import MAX_TOKENS, Batch, chapter_batch
from ..decoder.config import DecoderConfig
from ..decoder.splitmix64 import bits
from ..errors import BatchError, SweepError, shown
from ..health.band import DEFAULT_BAND, Band
from ..numerals import checked_seed
from ..recipes.catalogue import DEFAULT
from .grid import SweepGrid
from .ranges import DEPTHS, MAX_SEEDS, parse_names, parse_sizes, seeds_or_range


def uniform_batch(rows: int, positions: int, vocabulary: int, seed: int = 0) -> Batch:
    """Return a batch of `rows` rows of `positions` random tokens, uniform over the vocabulary.

    Targets are the next tokens. Token k of row r is the high 32 bits of draw r * (positions + 1) + k of SplitMix64 with
    this seed, scaled to the vocabulary. Raises `BatchError` for sizes that are not positive or too large.
    """
    for label, value in (("rows", rows), ("positions", positions), ("vocabulary", vocabulary)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BatchError(f"A batch of random tokens has {label} {shown(value)}; give a whole number from 1 on.")
    if rows * positions > MAX_TOKENS:
        raise BatchError(f"A batch of {rows * positions:,} positions exceeds the limit of {MAX_TOKENS:,}.")
    if vocabulary > 2**31:
        raise BatchError(f"Random tokens are drawn for vocabularies up to 2^31, not {vocabulary}.")
    high = bits([checked_seed(seed)], 0, rows * (positions + 1))[0] >> np.uint64(32)
    tokens = ((high * np.uint64(vocabulary)) >> np.uint64(32)).astype(np.int64).reshape(rows, positions + 1)
    return Batch.from_rows(tokens[:, :-1].tolist(), tokens[:, 1:].tolist())


CHAPTER, TEXT, RANDOM = "chapter", "text", "random tokens"
INPUTS = (CHAPTER, TEXT, RANDOM)
SIZES = ("width", "heads", "kv_heads", "head_dim", "ff_width", "vocabulary", "positions")
LISTS = ("blocks", "seeds", *SIZES, "dtype")
NARROW = DecoderConfig()
# What refusals call a list in a form.
LABELS = {
    "blocks": "Depths", "dtype": "Floating types", "vocabulary": "Vocabulary", "lengths": "Row lengths", "rows": "Rows",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SweepRequest:
    """All axes of a sweep as text, with entries joined by commas; the end of a range of seeds is excluded.

    Lists of sizes (width, heads, ...) are paired like `zip`: entry i of each list gives one decoder. Empty `kv_heads`
    means as many as query heads, empty `head_dim` means width / heads, empty `positions` means enough for the longest
    row. `lengths`, `rows` and `token_seed` describe random tokens; `text` is used if `input` is "text".
    """

    blocks: str = ",".join(map(str, DEPTHS))
    seeds: str = "0:32"
    recipes: tuple[str, ...] = (DEFAULT,)
    width: str = str(NARROW.width)
    heads: str = str(NARROW.heads)
    kv_heads: str = ""
    head_dim: str = ""
    ff_width: str = str(NARROW.ff_width)
    vocabulary: str = str(NARROW.vocabulary)
    positions: str = ""
    dtype: str = "float64"
    input: str = CHAPTER
    text: str = ""
    lengths: str = "4"
    rows: str = "1"
    token_seed: int = 0
    band_lower: float = DEFAULT_BAND.lower
    band_upper: float = DEFAULT_BAND.upper

    def grid(
        self,
        *,
        most_seeds: int = MAX_SEEDS,
        label: Callable[[str], str] = lambda name: LABELS.get(name, name),
        like: DecoderConfig = NARROW,
        batches: Sequence[Batch] = (),
        **axes: Any,
    ) -> SweepGrid:
        """Return the grid that the texts describe. Raises the error of the text that is wrong.

        `most_seeds` is the limit of seeds. `label` returns the name of a list for error messages. `like` gives what all
        decoders share apart from their sizes. `batches`, if given, replace the typed input, and `axes` are further
        fields of the grid.
        """
        batches = batches or self._batches(label)
        return SweepGrid(
            blocks=parse_sizes(label("blocks"), self.blocks),
            seeds=seeds_or_range(self.seeds, most_seeds),
            recipes=self.recipes,
            sizes=tuple(self._sizes(label, like, max(batch.longest for batch in batches))),
            dtypes=parse_names(label("dtype"), self.dtype),
            batches=tuple(batches),
            band=Band(self.band_lower, self.band_upper),
            **axes,
        )

    def _batches(self, label: Callable[[str], str]) -> list[Batch]:
        if self.input == TEXT:
            return [Batch.from_text(self.text)]
        if self.input != RANDOM:
            return [chapter_batch()]
        # Tokens that every size of the sweep has.
        vocabulary = min(parse_sizes(label("vocabulary"), self.vocabulary))
        lengths, rows = parse_sizes(label("lengths"), self.lengths), parse_sizes(label("rows"), self.rows)
        if sum(lengths) * sum(rows) > MAX_TOKENS:
            raise BatchError(
                f"The inputs have {sum(lengths) * sum(rows):,} positions together and may have {MAX_TOKENS:,}; give "
                "fewer or shorter rows."
            )
        return [uniform_batch(count, length, vocabulary, self.token_seed) for length in lengths for count in rows]

    def _sizes(self, label: Callable[[str], str], like: DecoderConfig, longest: int) -> Iterator[DecoderConfig]:
        texts = {name: getattr(self, name) for name in SIZES}
        lists = {name: parse_sizes(label(name), text) for name, text in texts.items() if text.strip()}
        lists.setdefault("positions", (max(NARROW.positions, longest),))
        for sizes in side_by_side(lists, label):
            # None, so that what follows from other sizes is not taken over from `like`.
            yield replace(like, blocks=1, **{"kv_heads": None, "head_dim": None, **sizes})


def side_by_side(lists: Mapping[str, Sequence[int]], label: Callable[[str], str] = str) -> Iterator[dict[str, Any]]:
    """Yield one dict of sizes per index, like `zip` over equally long lists.

    The value of a list with one entry is used at every index. Raises `SweepError` if the other lists differ in length;
    `label` returns the name of a list for its message.
    """
    count = max(len(values) for values in lists.values())
    for name, values in lists.items():
        if len(values) not in (1, count):
            raise SweepError(
                f"{label(name)} has {len(values)} entries beside a size list of {count}; lists of sizes go side by "
                "side, so give one entry or as many."
            )
    for index in range(count):
        yield {name: values[index if len(values) > 1 else 0] for name, values in lists.items()}
