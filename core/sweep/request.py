"""A sweep as people type it in a form: the lists of the command line, without the command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.decoder.batch import MAX_TOKENS, Batch, chapter_batch
from core.decoder.config import DecoderConfig
from core.errors import BatchError, GridError
from core.health.band import DEFAULT_BAND, Band
from core.recipes.catalogue import DEFAULT
from core.sweep.grid import SweepGrid
from core.sweep.ranges import DEPTHS, parse_names, parse_seeds, parse_sizes
from core.sweep.tokens import uniform_batch

CHAPTER, TEXT, RANDOM = "chapter", "text", "random tokens"
INPUTS = (CHAPTER, TEXT, RANDOM)
SIZES = ("width", "heads", "kv_heads", "ff_width", "vocabulary", "positions")
LISTS = ("blocks", "seeds", *SIZES, "dtype")
NARROW = DecoderConfig()


@dataclass(frozen=True, kw_only=True)
class SweepRequest:
    """Every axis as text, entries joined by commas; a seed range leaves its end out. The defaults are the verb's.

    Size lists of several entries go side by side. Empty `kv_heads` are as many as query heads, empty `positions` hold
    the longest row. `lengths` and `rows` shape random tokens, and `text` is used where the input is text.
    """

    blocks: str = ",".join(map(str, DEPTHS))
    seeds: str = "0:32"
    recipes: tuple[str, ...] = (DEFAULT,)
    width: str = str(NARROW.width)
    heads: str = str(NARROW.heads)
    kv_heads: str = ""
    ff_width: str = str(NARROW.ff_width)
    vocabulary: str = str(NARROW.vocabulary)
    positions: str = ""
    dtype: str = "float64"
    input: str = CHAPTER
    text: str = ""
    lengths: str = "4"
    rows: str = "1"
    band_lower: float = DEFAULT_BAND.lower
    band_upper: float = DEFAULT_BAND.upper

    def grid(self, *, most_seeds: int | None = None) -> SweepGrid:
        """The grid that the texts describe, of at most `most_seeds` seeds; raises the error of the text at fault."""
        batches = self._batches()
        return SweepGrid(
            blocks=parse_sizes("Depths", self.blocks),
            seeds=parse_seeds(self.seeds) if most_seeds is None else parse_seeds(self.seeds, most_seeds),
            recipes=self.recipes,
            sizes=tuple(self._sizes(max(batch.longest for batch in batches))),
            dtypes=parse_names("Floating types", self.dtype),
            batches=tuple(batches),
            band=Band(self.band_lower, self.band_upper),
        )

    def command(self, folder: str = "sweep") -> str:
        """The command line that computes the same cells into the same store and writes its tables to `folder`."""
        default = SweepRequest()
        words = ["python", "-m", "core", "sweep"]
        for name in LISTS:
            if getattr(self, name) != getattr(default, name):
                words += ["--" + name.replace("_", "-"), getattr(self, name)]
        if self.recipes != default.recipes:
            words += ["--recipe", ",".join(self.recipes)]
        if self.input == TEXT:
            words += ["--text", self.text]
        elif self.input == RANDOM:
            words += ["--lengths", self.lengths, "--rows", self.rows]
        if (self.band_lower, self.band_upper) != (default.band_lower, default.band_upper):
            words += ["--band", f"{self.band_lower!r},{self.band_upper!r}"]
        return shlex.join([*words, "--out", folder])

    def _batches(self) -> list[Batch]:
        if self.input == TEXT:
            return [Batch.from_text(self.text)]
        if self.input != RANDOM:
            return [chapter_batch()]
        # Tokens that every size of the sweep has.
        vocabulary = min(parse_sizes("Vocabulary", self.vocabulary))
        lengths, rows = parse_sizes("Row lengths", self.lengths), parse_sizes("Rows", self.rows)
        if sum(lengths) * sum(rows) > MAX_TOKENS:
            raise BatchError(
                f"The inputs have {sum(lengths) * sum(rows):,} positions together and may have {MAX_TOKENS:,}; give "
                "fewer or shorter rows."
            )
        return [uniform_batch(count, length, vocabulary) for length in lengths for count in rows]

    def _sizes(self, longest: int) -> Iterator[DecoderConfig]:
        lists = {name: parse_sizes(name, getattr(self, name)) for name in SIZES if getattr(self, name).strip()}
        lists.setdefault("positions", (max(NARROW.positions, longest),))
        for sizes in side_by_side(lists):
            yield DecoderConfig(blocks=1, **sizes)


def side_by_side(lists: Mapping[str, Sequence[int]]) -> Iterator[dict[str, Any]]:
    """Size lists of one length side by side; a single entry goes with every entry of the others."""
    count = max(len(values) for values in lists.values())
    for name, values in lists.items():
        if len(values) not in (1, count):
            raise GridError(
                f"{name} has {len(values)} entries beside a size list of {count}; lists of sizes go side by side, so "
                "give one entry or as many."
            )
    for index in range(count):
        yield {name: values[index if len(values) > 1 else 0] for name, values in lists.items()}
