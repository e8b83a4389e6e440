"""The drift explorer: what public code does under a name, as data that is measured like any recipe."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from core.compare.drift_table import DRIFT_COLUMNS, drift_table
from core.compare.request import ComparisonRequest
from core.decoder.base_draw import BaseDraw
from core.decoder.batch import chapter_batch
from core.decoder.config import DecoderConfig
from core.health.arms import observe_arms
from core.recipes.catalogue import RECIPES, recipe
from core.recipes.variants import VARIANTS

CONFIG = DecoderConfig(blocks=8, width=16, heads=2, ff_width=20)
SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return drift_table(ComparisonRequest(recipes=("gpt2",), config=CONFIG, seeds=SEEDS)).set_index("variant")


def test_every_variant_is_measured_under_a_known_name(table: pd.DataFrame) -> None:
    assert (*table.index.names, *table.columns) == DRIFT_COLUMNS
    assert list(table.index) == [variant.name for variant in VARIANTS]
    assert set(table["recipe"]) <= {known.name for known in RECIPES}
    assert not {variant.name for variant in VARIANTS} & {known.name for known in RECIPES}
    assert (table[["code_base", "place", "says", "does"]].map(len) > 0).all().all()


@pytest.mark.parametrize(
    ("variant", "writer", "first", "last"),
    [
        ("transformers-5.14.1-gpt2", "output", 4.0, 4.0),
        ("transformers-5.14.1-gpt2", "down", 4.0, 4.0),
        ("megatron-core-hybrid", "down", math.sqrt(2), math.sqrt(2)),
        ("modded-nanogpt-attention", "output", 1.0, 1.0),
        ("modded-nanogpt-attention", "down", 4.0, 4.0),
        ("gated-up-for-down", "down", 4.0, 4.0),
        ("lingua-off-by-one", "output", math.sqrt(8 / 9), math.sqrt(8 / 9)),
        ("torchtitan-depth-init", "down", 1.0, 1.0),
        ("litgpt-half-wang", "output", 0.5, 0.5),
        # Xavier on 16 x 16 and 20 x 16 against one over the root of twice the fan-in.
        ("olmo-mitchell", "output", 1.0, 1.0),
        ("olmo-mitchell", "down", math.sqrt(36 / 40), math.sqrt(36 / 40)),
    ],
)
def test_writer_coefficients_over_the_declared_ones(
    table: pd.DataFrame, variant: str, writer: str, first: float, last: float
) -> None:
    row = table.loc[variant]
    assert (row[f"{writer}_first"], row[f"{writer}_last"]) == pytest.approx((first, last), rel=1e-12)


def test_further_tensors(table: pd.DataFrame) -> None:
    counts = table["other_tensors"]
    assert counts["lingua-every-matrix"] == 5
    assert counts["torchtitan-depth-init"] == counts["torchscale-deepnorm-gated"] == counts["gated-up-for-down"] == 1
    assert counts["fixup-four-layer-attention"] == 3
    assert counts["megatron-core-hybrid"] == 0


def test_the_wrong_matrix_of_a_gated_feed_forward_cannot_be_seen_in_activations(table: pd.DataFrame) -> None:
    """The branch is linear in up and in down, so their scales are interchangeable at the start."""
    assert table.loc["gated-up-for-down", "largest_change"] < 1e-12
    assert table.loc["transformers-5.14.1-gpt2", "largest_change"] > 1


def test_a_scaled_up_projection_damps_the_branch_again(table: pd.DataFrame) -> None:
    row = table.loc["torchtitan-depth-init"]
    assert row["variant_activation_ratio"] < row["declared_activation_ratio"]


def test_zero_writers_hide_what_differs_behind_them(table: pd.DataFrame) -> None:
    row = table.loc["fixup-four-layer-attention"]
    assert np.isnan(row["output_first"])
    assert row["largest_change"] == 0
    assert row["variant_activation_ratio"] == row["variant_adjoint_ratio"] == 1


def test_measured_numbers_are_those_of_plain_observations(table: pd.DataFrame) -> None:
    """An unscaled arm is what a rule that is never applied leaves."""
    draw = BaseDraw(CONFIG, SEEDS)
    gpt2, unscaled = observe_arms(draw, [recipe("gpt2"), recipe("unscaled")], chapter_batch())
    row = table.loc["transformers-5.14.1-gpt2"]
    for title, arm in (("declared", gpt2), ("variant", unscaled)):
        members = [arm.member(index) for index in range(3)]
        for quantity in ("activation", "adjoint"):
            largest = getattr(arm.observation, f"{quantity}_ratio")[members].max(axis=1)
            assert row[f"{title}_{quantity}_ratio"] == pytest.approx(np.median(largest), rel=1e-12)


def test_variants_run_on_other_decoders_or_are_left_out() -> None:
    gelu = DecoderConfig(blocks=2, width=8, heads=2, ff_width=16, mlp="gelu", norm="layernorm", tied=False)
    found = drift_table(ComparisonRequest(recipes=("gpt2",), config=gelu))
    assert len(found) == len(VARIANTS)
    assert found["largest_change"].notna().all()
