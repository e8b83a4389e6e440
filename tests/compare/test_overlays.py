"""Theory beside measurement: identities hold to rounding, laws are what one writes by hand, and nothing is fitted."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from core.compare import overlays
from core.compare.comparison import Comparison, compare_recipes
from core.compare.comparison_tables import contribution_table, profile_table
from core.compare.overlays import depth_overlay_table, overlay_errors, site_overlay_table
from core.compare.request import ComparisonRequest
from core.decoder.base_draw import Distribution
from core.decoder.config import DecoderConfig

NAMES = ("unscaled", "block-indexed", "peri-norm", "deepscalelm", "parallel", "lns")
CONFIG = DecoderConfig(blocks=4, width=16, heads=2, ff_width=24)
SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare_recipes(ComparisonRequest(recipes=NAMES, config=CONFIG, seeds=SEEDS))


@pytest.fixture(scope="module")
def table(comparison: Comparison) -> pd.DataFrame:
    return site_overlay_table(comparison)


def of(table: pd.DataFrame, name: str, law: str, seed: int = 0) -> pd.DataFrame:
    """Rows of one recipe, law and seed, in site order."""
    chosen = (table["recipe"] == name) & (table["law"] == law) & (table["seed"] == str(seed))
    return table[chosen].sort_values("site")


def branches(comparison: Comparison, name: str, seed: int = 0) -> pd.DataFrame:
    """Contributions of one recipe and seed."""
    rows = contribution_table(comparison)
    return rows[(rows["recipe"] == name) & (rows["seed"] == str(seed))]


class TestVarianceAccounting:
    """Mean squares with and without the product of stream and branch."""

    @pytest.mark.parametrize("name", [name for name in NAMES if name != "parallel"])
    @pytest.mark.parametrize("seed", SEEDS)
    def test_with_covariance_it_is_an_identity(self, table: pd.DataFrame, name: str, seed: int) -> None:
        rows = of(table, name, overlays.WITH_COVARIANCE, seed)
        assert len(rows) == 9
        assert list(rows["predicted"]) == pytest.approx(list(rows["measured"]), rel=1e-12)

    @pytest.mark.parametrize("name", ["unscaled", "deepscalelm"])
    def test_without_covariance_by_hand(self, table: pd.DataFrame, comparison: Comparison, name: str) -> None:
        keep = math.sqrt(1 - 1 / 4) if name == "deepscalelm" else 1.0
        rows = of(table, name, overlays.INDEPENDENT)
        square = rows["measured"].iloc[0] ** 2
        expected = [math.sqrt(square)]
        for gained in branches(comparison, name)["contribution_rms"]:
            square = keep**2 * square + gained**2
            expected.append(math.sqrt(square))
        assert list(rows["predicted"]) == pytest.approx(expected, rel=1e-13)
        assert rows["relative_error"].abs().max() > 1e-3

    def test_parallel_branches_add_both(self, table: pd.DataFrame, comparison: Comparison) -> None:
        rows = of(table, "parallel", overlays.INDEPENDENT)
        gained = branches(comparison, "parallel")["contribution_rms"].to_numpy().reshape(4, 2)
        expected = np.sqrt(rows["measured"].iloc[0] ** 2 + np.concatenate([[0], np.cumsum((gained**2).sum(axis=1))]))
        assert list(rows["predicted"]) == pytest.approx(list(expected), rel=1e-13)
        # The product between the two branches is not in the accounting, and the error says so.
        assert of(table, "parallel", overlays.WITH_COVARIANCE)["relative_error"].abs().max() > 1e-6

    def test_errors_are_predicted_over_measured(self, table: pd.DataFrame) -> None:
        assert np.allclose(table["relative_error"], table["predicted"] / table["measured"] - 1, rtol=0, atol=1e-15)
        assert set(table["evidence"]) == {"derived"}


class TestGrowth:
    """Laws without a free parameter."""

    def test_one_unit_an_addition_after_an_output_norm(self, table: pd.DataFrame) -> None:
        rows = of(table, "peri-norm", overlays.UNIT_BRANCHES)
        start = rows["measured"].iloc[0] ** 2
        assert list(rows["predicted"]) == pytest.approx([math.sqrt(start + site) for site in range(9)], rel=1e-14)
        assert set(table.loc[table["law"] == overlays.UNIT_BRANCHES, "recipe"]) == {"peri-norm"}

    def test_square_root_growth_from_the_first_block(self, table: pd.DataFrame, comparison: Comparison) -> None:
        rows, first = of(table, "unscaled", overlays.SQUARE_ROOT), branches(comparison, "unscaled")
        a, m = first["contribution_rms"].iloc[:2] ** 2
        start = rows["measured"].iloc[0] ** 2
        expected = [math.sqrt(start + ((s + 1) // 2) * a + (s // 2) * m) for s in range(9)]
        assert list(rows["predicted"]) == pytest.approx(expected, rel=1e-13)

    def test_block_indexed_writers_grow_as_their_coefficients(
        self, table: pd.DataFrame, comparison: Comparison
    ) -> None:
        rows, first = of(table, "block-indexed", overlays.SQUARE_ROOT), branches(comparison, "block-indexed")
        a, m = first["contribution_rms"].iloc[:2] ** 2
        square, expected = rows["measured"].iloc[0] ** 2, [rows["measured"].iloc[0]]
        for block in range(4):
            for size in (a, m):
                square += size / (block + 1)
                expected.append(math.sqrt(square))
        assert list(rows["predicted"]) == pytest.approx(expected, rel=1e-13)

    def test_no_square_root_where_the_branches_change_with_depth(self, table: pd.DataFrame) -> None:
        named = set(table.loc[table["law"] == overlays.SQUARE_ROOT, "recipe"])
        assert named == {"unscaled", "block-indexed", "parallel"}

    def test_a_normalized_sum_has_no_accounting(self) -> None:
        rest = compare_recipes(ComparisonRequest(recipes=("post-norm", "deepnorm", "admin", "ngpt", "t-fixup")))
        assert site_overlay_table(rest).empty
        assert depth_overlay_table(profile_table(rest), DecoderConfig()).empty

    def test_closed_gates_are_predicted_exactly(self) -> None:
        gated = compare_recipes(ComparisonRequest(recipes=("zero-writer", "rezero")))
        assert (site_overlay_table(gated)["relative_error"] == 0).all()


class TestDepth:
    """The terminal adjoint against depth."""

    def test_anchored_at_the_shallowest_depth(self) -> None:
        request = ComparisonRequest(
            recipes=("unscaled", "gpt2", "post-norm"), config=CONFIG, seeds=(5, 6), depths=(8, 2)
        )
        rows = profile_table(compare_recipes(request))
        table = depth_overlay_table(rows, CONFIG)
        assert set(zip(table["recipe"], table["law"], strict=True)) == {
            ("unscaled", overlays.GRADIENT), ("unscaled", overlays.GRADIENT_BY_STREAM),
            ("gpt2", overlays.GRADIENT_BY_STREAM),
        }  # fmt: skip
        last = rows[rows["site"] == 2 * rows["blocks"]].set_index(["recipe", "seed", "blocks"])
        for row in table.itertuples():
            anchor, here = (last.loc[(row.recipe, row.seed, blocks)] for blocks in (2, row.blocks))
            assert row.measured == here["adjoint_rms"]
            factor = math.sqrt(2 / row.blocks)
            if row.law == overlays.GRADIENT_BY_STREAM:
                factor = anchor["activation_rms"] / here["activation_rms"]
            assert row.predicted == pytest.approx(anchor["adjoint_rms"] * factor, rel=1e-13)

    def test_errors_are_summed_up(self) -> None:
        request = ComparisonRequest(recipes=("unscaled",), config=CONFIG, seeds=(5, 6, 7), depths=(2, 4))
        table = depth_overlay_table(profile_table(compare_recipes(request)), CONFIG)
        errors = overlay_errors(table)
        for row in errors.itertuples():
            chosen = table[(table["blocks"] == row.blocks) & (table["law"] == row.law)]["relative_error"].abs()
            assert (row.median_error, row.largest_error) == (chosen.median(), chosen.max())

    def test_wide_decoders_come_close_to_the_laws(self) -> None:
        """At width 128 the adjoint follows the stream within a few per cent; the power of depth is cruder."""
        request = ComparisonRequest(
            recipes=("unscaled",), seeds=(0, 1, 2, 3), depths=(2, 8),
            config=DecoderConfig(width=128, heads=4, ff_width=256), distribution=Distribution(0.05),
        )  # fmt: skip
        errors = overlay_errors(depth_overlay_table(profile_table(compare_recipes(request)), request.config))
        at_8 = errors[errors["blocks"] == 8].set_index("law")["median_error"]
        assert at_8[overlays.GRADIENT_BY_STREAM] < 0.05
        assert at_8[overlays.GRADIENT_BY_STREAM] < at_8[overlays.GRADIENT]
