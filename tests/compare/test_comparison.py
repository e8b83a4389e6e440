"""Comparisons: the tables against single observations, against brute force, and in any chunks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from core.compare import request as request_module
from core.compare.comparison import compare_recipes
from core.compare.comparison_tables import contribution_table, largest_table, profile_table, share_table
from core.compare.request import ComparisonRequest
from core.compare.token_cosines import token_cosine_table
from core.construction.drawn_weights import DrawnWeights
from core.decoder.base_draw import BaseDraw
from core.decoder.batch import Batch
from core.decoder.config import Budget, DecoderConfig
from core.decoder.forward_pass import forward
from core.errors import BatchError, BudgetError, ConfigError, RecipeError
from core.health.band import Band
from core.health.columns import SITE_COLUMNS
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.recipes.catalogue import recipe

NAMES = ("unscaled", "depth-scaled", "peri-norm", "admin", "parallel", "rezero")
WIDE = DecoderConfig(blocks=3, width=8, heads=2, ff_width=12, positions=8)
BATCH = Batch.from_rows(
    [[0, 99, 100, 101, 7], [5, 50]], [[99, 100, 101, 7, 1], [50, 1]], [[True] * 4 + [False], [True] * 2]
)
REQUEST = ComparisonRequest(recipes=NAMES, config=WIDE, seeds=(4701, 2**64 - 1), depths=(3, 1, 2), batch=BATCH)


@pytest.fixture(scope="module")
def profiles() -> pd.DataFrame:
    return profile_table(compare_recipes(REQUEST))


@pytest.fixture(scope="module")
def contributions() -> pd.DataFrame:
    return contribution_table(compare_recipes(REQUEST))


def cell(table: pd.DataFrame, name: str, seed: int, blocks: int) -> pd.DataFrame:
    """Rows of one recipe, seed and depth."""
    return table[(table["recipe"] == name) & (table["seed"] == str(seed)) & (table["blocks"] == blocks)]


class TestTables:
    """Every number is the single observation's."""

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize(("seed", "blocks"), [(4701, 3), (2**64 - 1, 1)])
    def test_cells_are_single_observations(
        self, profiles: pd.DataFrame, contributions: pd.DataFrame, name: str, seed: int, blocks: int
    ) -> None:
        config = DecoderConfig(blocks=blocks, width=8, heads=2, ff_width=12, positions=8)
        arm = observe_document(ObserveRequest(config=config, seed=seed, recipe=name, batch=BATCH))["initialized"]
        rows = cell(profiles, name, seed, blocks)
        assert list(rows["site"]) == [site["site"] for site in arm["sites"]]
        assert list(rows["label"]) == [site["label"] for site in arm["sites"]]
        for key in ("activation_rms", "activation_ratio", "adjoint_rms", "adjoint_ratio"):
            assert list(rows[key]) == pytest.approx([site[key] for site in arm["sites"]], rel=1e-12)
        for key in ("activation_band", "adjoint_band"):
            assert list(rows[key]) == [site[key] for site in arm["sites"]]
        assert list(rows["loss_nats"]) == pytest.approx([arm["loss_nats"]] * len(rows), rel=1e-12)
        gained = cell(contributions, name, seed, blocks)
        for key in ("raw_rms", "contribution_rms", "stream_rms", "contribution_to_stream"):
            assert list(gained[key]) == pytest.approx([row[key] for row in arm["contributions"]], rel=1e-12)
        expected = [np.nan if row["cosine"] is None else row["cosine"] for row in arm["contributions"]]
        assert list(gained["cosine"]) == pytest.approx(expected, abs=1e-12, nan_ok=True)

    def test_columns_and_size(self, profiles: pd.DataFrame) -> None:
        assert tuple(profiles.columns) == SITE_COLUMNS
        sites = sum(2 * blocks + 1 for blocks in REQUEST.depths)
        parallel = sum(blocks + 1 for blocks in REQUEST.depths)
        assert len(profiles) == 2 * (5 * sites + parallel)
        assert set(profiles["status"]) == {"observed"}
        assert list(dict.fromkeys(profiles["blocks"])) == [3, 1, 2]

    def test_chunks_do_not_change_the_numbers(self, profiles: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(request_module, "CHUNK_BYTES", 1)
        comparison = compare_recipes(REQUEST)
        assert {chunk.seeds for chunk in comparison.chunks} == {(4701,), (2**64 - 1,)}
        again = profile_table(comparison)
        assert list(again["label"]) == list(profiles["label"])
        for key in ("activation_rms", "adjoint_rms", "loss_nats"):
            np.testing.assert_allclose(again[key], profiles[key], rtol=1e-12)

    def test_largest_ratios(self, profiles: pd.DataFrame) -> None:
        table = largest_table(profiles)
        assert len(table) == 2 * len(NAMES) * 2 * 3
        for row in table.itertuples():
            values = cell(profiles, row.recipe, int(row.seed), row.blocks)[f"{row.quantity}_ratio"]
            assert row.ratio == values.max()
            assert values.iloc[row.site] == row.ratio

    def test_shares_count_seeds(self) -> None:
        request = ComparisonRequest(
            recipes=("unscaled", "gpt2"), seeds=tuple(range(9)), config=DecoderConfig(blocks=4), band=Band(0.5, 8)
        )
        rows = profile_table(compare_recipes(request))
        shares = share_table(rows)
        assert set(shares["seeds"]) == {9}
        assert 0 < shares["share_within"].mean() < 1
        for row in shares.itertuples():
            at = rows[(rows["recipe"] == row.recipe) & (rows["site"] == row.site)][f"{row.quantity}_ratio"]
            assert row.share_within == sum(0.5 <= ratio <= 8 for ratio in at) / 9
        within = largest_table(rows)
        both = rows.groupby(["recipe", "seed"])[["activation_band", "adjoint_band"]].agg(lambda b: set(b) == {"within"})
        for row in within.itertuples():
            assert row.within_band == both.loc[(row.recipe, row.seed), f"{row.quantity}_band"]

    def test_what_does_not_run_is_a_row_with_its_sentence(self) -> None:
        request = ComparisonRequest(recipes=("gpt2", "deepscalelm", "t-fixup"), depths=(1, 2), seeds=(0, 1))
        rows = profile_table(compare_recipes(request))
        refused = rows[rows["status"] == "refused"]
        assert sorted(zip(refused["recipe"], refused["blocks"], strict=True)) == [
            ("deepscalelm", 1), ("deepscalelm", 1), ("t-fixup", 1), ("t-fixup", 1), ("t-fixup", 2), ("t-fixup", 2),
        ]  # fmt: skip
        assert refused["site"].isna().all()
        assert refused["activation_rms"].isna().all()
        assert refused["reason"].str.contains("at least 2 blocks|decoder-only").all()
        assert set(largest_table(rows)["recipe"]) == {"gpt2", "deepscalelm"}
        assert set(share_table(rows)["recipe"]) == {"gpt2", "deepscalelm"}

    def test_only_refusals_still_make_tables(self) -> None:
        comparison = compare_recipes(ComparisonRequest(recipes=("t-fixup",)))
        assert list(profile_table(comparison)["status"]) == ["refused"]
        assert contribution_table(comparison).empty

    def test_a_member_that_overflows_is_refused_alone(self) -> None:
        from core.decoder.base_draw import Distribution

        request = ComparisonRequest(
            recipes=("skipinit", "unscaled", "parallel"), config=DecoderConfig(blocks=2), dtype="float32",
            distribution=Distribution(1e30),
        )  # fmt: skip
        rows = profile_table(compare_recipes(request))
        refused = rows[rows["status"] == "refused"]
        assert not refused.empty
        assert refused["reason"].str.contains("not finite|cannot be a normalizer|overflows").all()

    def test_six_recipes_five_depths_thirty_two_seeds(self) -> None:
        """Every row of the grid that the page Recipes offers, tables included."""
        request = ComparisonRequest(
            recipes=("unscaled", "depth-scaled", "peri-norm", "deepnorm", "admin", "ngpt"),
            seeds=tuple(range(32)),
            depths=(1, 2, 4, 8, 16),
        )
        comparison = compare_recipes(request)
        rows = profile_table(comparison)
        tables = (largest_table(rows), share_table(rows), contribution_table(comparison))
        assert [len(table) for table in tables] == [1920, 2 * 6 * 67, 6 * 32 * 62]


class TestTokenCosines:
    """Quantiles over tokens, against vectors taken one at a time."""

    @pytest.mark.parametrize("name", ["unscaled", "peri-norm", "admin", "parallel"])
    def test_against_single_vectors(self, name: str) -> None:
        request = ComparisonRequest(recipes=(name,), config=WIDE, seeds=(1, 2, 3), batch=BATCH)
        table = token_cosine_table(request)
        found: dict[tuple[int, str], list[float]] = {}
        for seed in request.seeds:
            draw, scalars = BaseDraw(WIDE, [seed]), None
            if name == "admin":
                from core.health.arms import profile_scalars

                scalars = profile_scalars(draw, recipe(name), BATCH)
            tape = forward(recipe(name).graph(WIDE), DrawnWeights(draw, [recipe(name)], scalars=scalars), BATCH)
            for part in tape.contributions:
                for row, position in np.argwhere(BATCH.valid):
                    a, b = (v[0, row, position].detach() for v in (part.contribution, part.stream))
                    cosine = float(torch.nn.functional.cosine_similarity(a, b, dim=0, eps=0.0))
                    found.setdefault((part.site, part.branch), []).append(cosine)
        assert set(zip(table["site"], table["branch"], strict=True)) == set(found)
        for row in table.itertuples():
            values = found[row.site, row.branch]
            assert (row.tokens, row.undefined) == (18, 0) == (len(values), 0)
            expected = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])
            assert [row.q05, row.q25, row.median, row.q75, row.q95] == pytest.approx(expected, abs=1e-12)

    def test_silent_branches_have_no_cosine(self) -> None:
        table = token_cosine_table(ComparisonRequest(recipes=("zero-writer",), config=WIDE, batch=BATCH))
        assert set(table["undefined"]) == set(table["tokens"]) == {6}
        assert table["median"].isna().all()


class TestRefusals:
    """Bad requests, before any array exists."""

    @pytest.mark.parametrize(
        ("changes", "error", "sentence"),
        [
            ({"recipes": ()}, RecipeError, "0 recipes"),
            ({"recipes": (*NAMES, "gpt2")}, RecipeError, "7 recipes are asked for; compare between 1 and 6"),
            ({"recipes": ("gpt2", "gpt2")}, RecipeError, "stands twice"),
            ({"recipes": ("peri-norm+gpt2", "gpt2+peri-norm")}, RecipeError, "stands twice"),
            ({"recipes": ("nothing",)}, RecipeError, "unknown"),
            ({"seeds": ()}, RecipeError, "at least one seed"),
            ({"seeds": (-1,)}, ConfigError, "-1"),
            ({"depths": (2, 2)}, RecipeError, "each depth once"),
            ({"depths": (5000,)}, BudgetError, "5000 blocks"),
            ({"budget": Budget(max_parameters=10)}, BudgetError, "exceed the budget"),
            ({"batch": Batch.from_rows([[1] * 9], [[1] * 9])}, BatchError, "9 positions"),
            ({"dtype": "float16"}, ConfigError, "float16"),
        ],
    )
    def test_one_sentence(self, changes: dict, error: type[Exception], sentence: str) -> None:
        request = ComparisonRequest(**{"recipes": ("gpt2",), "config": WIDE, "batch": BATCH, **changes})
        for call in (compare_recipes, token_cosine_table):
            with pytest.raises(error, match=sentence):
                call(request)
