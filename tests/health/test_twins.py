"""The sentence on a reduced twin."""

from __future__ import annotations

from core.decoder.config import DecoderConfig
from core.decoder.twin import reduced_twin, twin_document
from core.tables.twin_words import twin_sentence

CONFIG = DecoderConfig(blocks=3, width=64, heads=2, ff_width=96, vocabulary=1100, positions=64, tied=False)


def test_the_twin_in_words() -> None:
    document = twin_document(reduced_twin(CONFIG, 32))
    assert document is not None
    assert twin_sentence(document) == (
        "Observed on a reduced twin of width 32 (96,736 parameters) in place of width 64 (245,696): every matrix keeps "
        "std times the root of its fan-in, embeddings keep their RMS, and depth, graph, the grouping of heads and "
        "multipliers stay."
    )
