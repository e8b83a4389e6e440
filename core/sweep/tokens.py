"""Batches of uniform random tokens, for sweeps over row length and number of rows."""

from __future__ import annotations

import numpy as np

from ..decoder.batch import MAX_TOKENS, Batch
from ..decoder.splitmix64 import bits
from ..errors import BatchError, shown
from ..numerals import checked_seed


def uniform_batch(rows: int, positions: int, vocabulary: int, seed: int = 0) -> Batch:
    """`rows` rows of `positions` tokens with the next tokens as targets, uniform on the vocabulary.

    Token k of row r is the high 32 bits of draw r * (positions + 1) + k of the seed's SplitMix64 stream, scaled to the
    vocabulary, so a row of one length never begins like a row of another. Raises `BatchError`.
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
