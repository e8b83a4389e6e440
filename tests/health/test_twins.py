"""How far a twin's ratios move: each row is the observation of one twin, and the largest quotient is what is said."""

from __future__ import annotations

import numpy as np
import pytest

from core.decoder.base_draw import BaseDraw, Distribution
from core.decoder.batch import Batch
from core.decoder.config import DecoderConfig
from core.decoder.twin import reduced_twin, twin_document
from core.errors import ConfigError
from core.health.arms import observe_arms
from core.health.request import ObserveRequest
from core.health.twins import TwinDrift, TwinRatios, twin_drift
from core.recipes.catalogue import recipe
from core.tables.twin_words import drift_sentence, twin_sentence

CONFIG = DecoderConfig(blocks=3, width=64, heads=2, ff_width=96, vocabulary=1100, positions=64, tied=False)
REQUEST = ObserveRequest(config=CONFIG, recipe="gpt2", distribution=Distribution(0.02))
BATCHES = [Batch.from_rows([list(range(n))], [list(range(1, n + 1))]) for n in (6, 12)]


def test_each_row_is_the_median_of_one_twin() -> None:
    drift = twin_drift(REQUEST, (16, 32), BATCHES, range(3))
    assert [(row.width, row.positions) for row in drift.rows] == [(16, 6), (16, 12), (32, 6), (32, 12)]
    for row in drift.rows:
        twin = reduced_twin(CONFIG, row.width, vocabulary=1000)
        batch = next(batch for batch in BATCHES if batch.longest == row.positions)
        (arm,) = observe_arms(BaseDraw(twin, range(3), REQUEST.distribution), [recipe("gpt2")], batch)
        activation, adjoint = arm.observation.activation_rms, arm.observation.adjoint_rms
        assert row.activation == pytest.approx(np.median(activation[:, 6] / activation[:, 0]), rel=1e-12)
        assert row.adjoint == pytest.approx(np.median(adjoint[:, 0] / adjoint[:, 6]), rel=1e-12)
        assert row.depth_activation == pytest.approx(np.median(activation[:, 6] / activation[:, 2]), rel=1e-12)
        assert row.depth_adjoint == pytest.approx(np.median(adjoint[:, 2] / adjoint[:, 6]), rel=1e-12)
    values = [[(row.activation, row.adjoint) for row in drift.rows]]
    a, b, c, d = values[0]
    assert drift.by_width == max(max(x, y) / min(x, y) for p, q in ((a, c), (b, d)) for x, y in zip(p, q, strict=True))
    assert drift.by_positions == max(
        max(x, y) / min(x, y) for p, q in ((a, b), (c, d)) for x, y in zip(p, q, strict=True)
    )


def test_one_block_has_no_ratio_past_its_first() -> None:
    request = ObserveRequest(config=DecoderConfig(blocks=1, width=32, vocabulary=300, positions=8))
    (row,) = twin_drift(request, (16,), BATCHES[:1], [1]).rows
    assert (row.depth_activation, row.depth_adjoint) == (None, None)


def test_refused_seeds_leave_no_median() -> None:
    request = ObserveRequest(config=CONFIG, distribution=Distribution(1e300), recipe="unscaled")
    drift = twin_drift(request, (16, 32), BATCHES, [1, 2])
    assert {row.activation for row in drift.rows} == {None}
    assert (drift.by_width, drift.by_positions) == (None, None)
    assert (
        drift_sentence(drift) == "How far the ratios move with the twin's width and the rows' length was not measured."
    )


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(ConfigError, match="give at least one of each"):
        twin_drift(REQUEST, (), BATCHES, [1])


@pytest.mark.parametrize(
    ("by_width", "by_positions", "sentence"),
    [
        (1.12, 1.3, "The ratios move by at most 12 % between widths 128 and 256 and by at most 30 % between row "
                    "lengths 32 and 64."),
        (2.5, 1.3, "The ratios move by at most a factor of 2.5 between widths 128 and 256 and by at most 30 % "
                   "between row lengths 32 and 64; read them as orders of magnitude."),
        (None, 1.05, "The ratios move by at most 5 % between row lengths 32 and 64."),
    ],
)  # fmt: skip
def test_the_sentence(by_width: float | None, by_positions: float | None, sentence: str) -> None:
    rows = tuple(
        TwinRatios(
            width=width, positions=length, activation=1.0, adjoint=1.0, depth_activation=None, depth_adjoint=None
        )
        for width in (128, 256)
        for length in (32, 64)
    )
    assert drift_sentence(TwinDrift(rows=rows, by_width=by_width, by_positions=by_positions)) == sentence


def test_the_twin_in_words() -> None:
    document = twin_document(reduced_twin(CONFIG, 32))
    assert document is not None
    assert twin_sentence(document) == (
        "Observed on a reduced twin of width 32 (96,736 parameters) in place of width 64 (245,696): every matrix keeps "
        "std times the root of its fan-in, embeddings keep their RMS, and depth, graph, the grouping of heads and "
        "multipliers stay."
    )
