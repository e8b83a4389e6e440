"""Tables hold what the document holds, in the columns of the contract."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from core.decoder.config import DecoderConfig
from core.health.columns import TOKEN_STATISTICS
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.tables.observe import (
    ARM_KEYS,
    arm_table,
    branch_table,
    contribution_table,
    gain_table,
    observe_tables,
    site_table,
    site_view,
    token_table,
    token_view,
)

SWEEP_HEADER = (
    "arm,recipe,seed,blocks,site,label,activation_rms,activation_ratio,activation_band,adjoint_rms,adjoint_ratio,"
    "adjoint_band,loss_nats,status,reason"
)


def test_the_site_table_has_the_columns_of_a_sweep(document: dict[str, Any]) -> None:
    assert ",".join(site_table(document).columns) == SWEEP_HEADER


def test_every_site_value_of_both_arms_is_in_the_site_table_unchanged(document: dict[str, Any]) -> None:
    table = site_table(document)
    assert len(table) == 2 * 17
    for arm, key in ARM_KEYS.items():
        rows = table[table["arm"] == arm].to_dict("records")
        for row, site in zip(rows, document[key]["sites"], strict=True):
            single = {name: value for name, value in site.items() if not isinstance(value, dict)}
            assert {name: row[name] for name in single} == single
            assert row["loss_nats"] == document[key]["loss_nats"]
            assert (row["seed"], row["blocks"], row["status"], row["reason"]) == ("4701", 8, "observed", "")


def test_every_token_value_of_both_arms_is_in_the_token_table_unchanged(document: dict[str, Any]) -> None:
    table = token_table(document)
    assert len(table) == 2 * 2 * 17
    for (arm, quantity), part in table.groupby(["arm", "quantity"]):
        for row, site in zip(part.to_dict("records"), document[ARM_KEYS[arm]]["sites"], strict=True):
            assert row["rms"] == site[f"{quantity}_rms"]
            assert {name: row[name] for name in TOKEN_STATISTICS} == site[f"{quantity}_tokens"]
    view = token_view(table)
    assert len(view) == 2 * 17
    assert view["G median token"].tolist() == table[table["quantity"] == "adjoint"]["median"].tolist()


def test_a_seed_beyond_every_float_keeps_its_digits() -> None:
    table = site_table(observe_document(ObserveRequest(config=DecoderConfig(blocks=1), seed=2**64 - 1)))
    assert set(table["seed"]) == {"18446744073709551615"}


def test_contributions_and_branches_stand_once_a_branch(document: dict[str, Any]) -> None:
    contributions, branches = contribution_table(document), branch_table(document)
    assert len(contributions) == 2 * 16
    assert len(branches) == 2 * 8
    arm = document["initialized"]
    first = contributions[contributions["arm"] == "initialized"].iloc[0]
    assert first["contribution_to_stream"] == arm["contributions"][0]["contribution_to_stream"]
    assert first["label"] == "block.0.after_attention"
    assert branches["feed_forward_output_rms"].iloc[7] == arm["branches"][7]["feed_forward_output_rms"]


def test_an_undefined_cosine_is_missing_not_zero() -> None:
    table = contribution_table(observe_document(ObserveRequest(recipe="zero-writer")))
    zero = table[table["arm"] == "initialized"]
    assert zero["cosine"].isna().all()
    assert (zero["contribution_rms"] == 0).all()


def test_gains_are_listed_a_feature_and_graphs_without_them_give_none(document: dict[str, Any]) -> None:
    gains = gain_table(document)
    assert len(gains) == 2 * 17 * 4
    assert (gains["gain"] == 1).all()
    bare = gain_table(observe_document(ObserveRequest(recipe="skipinit")))
    assert set(bare.loc[bare["arm"] == "initialized", "norm"]) == {"final_norm"}


def test_the_arm_table_has_the_extremes_of_the_site_table(document: dict[str, Any]) -> None:
    arms, sites = arm_table(document).set_index("arm"), site_table(document).groupby("arm")
    for quantity in ("activation", "adjoint"):
        assert arms[f"largest_{quantity}_ratio"].to_dict() == sites[f"{quantity}_ratio"].max().to_dict()
        assert arms[f"smallest_{quantity}_ratio"].to_dict() == sites[f"{quantity}_ratio"].min().to_dict()


def test_the_view_puts_both_arms_of_a_site_in_one_row(document: dict[str, Any]) -> None:
    view = site_view(site_table(document))
    assert view["site"].tolist() == list(range(17))
    assert view["G ratio, unscaled"].tolist() == [
        site["adjoint_ratio"] for site in document["same_base_unscaled_control"]["sites"]
    ]


@pytest.mark.parametrize("recipe", ["parallel", "post-norm", "ngpt"])
def test_arms_of_different_graphs_keep_all_their_sites(recipe: str) -> None:
    document = observe_document(ObserveRequest(recipe=recipe))
    view = site_view(site_table(document))
    assert view["A ratio"].notna().sum() == len(document["initialized"]["sites"])
    assert view["A ratio, unscaled"].notna().sum() == 17
    assert isinstance(observe_tables(document)["branches"], pd.DataFrame)
