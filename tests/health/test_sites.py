"""Rows of the table of sites: every column once, each cell beside its own numbers, refused cells without any."""

from __future__ import annotations

import numpy as np

from core.health.band import Band
from core.health.columns import SITE_COLUMNS
from core.health.sites import site_ratios, site_rows, site_values

ACTIVATION = np.array([[2.0, 1.0, 8.0], [1.0, 3.0, 0.25]])
ADJOINT = np.array([[1.0, 5.0, 2.0], [0.5, 4.0, 4.0]])


def test_ratios_are_to_the_input_and_to_the_last_site() -> None:
    activation, adjoint = site_ratios(ACTIVATION, ADJOINT)
    assert activation.tolist() == [[1.0, 0.5, 4.0], [1.0, 3.0, 0.25]]
    assert adjoint.tolist() == [[0.5, 2.5, 1.0], [0.125, 1.0, 1.0]]


def test_rows_are_the_cells_in_their_order_and_then_the_refused_ones() -> None:
    values = site_values(["in", "a", "b"], (ACTIVATION, ADJOINT), site_ratios(ACTIVATION, ADJOINT), Band(0.5, 2.5))
    columns = site_rows("initialized", "gpt2", 1, [(9, 5.5), (2**64 - 1, 6.5)], values, [(4, "It overflows.")])
    assert tuple(columns) == SITE_COLUMNS
    rows = list(zip(*columns.values(), strict=True))
    assert rows[2] == (
        "initialized", "gpt2", "9", 1, 2, "b", 8.0, 4.0, "above", 2.0, 1.0, "within", 5.5, "observed", "",
    )  # fmt: skip
    assert rows[3] == (
        "initialized", "gpt2", str(2**64 - 1), 1, 0, "in", 1.0, 1.0, "within", 0.5, 0.125, "below", 6.5, "observed", "",
    )  # fmt: skip
    assert rows[6] == (
        "initialized", "gpt2", "4", 1, None, "", None, None, "", None, None, "", None, "refused", "It overflows.",
    )  # fmt: skip
    assert len(rows) == 7


def test_cells_that_are_all_refused_have_no_site() -> None:
    nothing = np.empty((0, 3))
    values = site_values(["in", "a", "b"], (nothing, nothing), (nothing, nothing), Band())
    columns = site_rows("control", "unscaled", 1, [], values, [(0, "No."), (1, "No.")])
    assert columns["seed"] == ["0", "1"]
    assert columns["site"] == columns["loss_nats"] == [None, None]
