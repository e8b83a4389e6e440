"""Tables of overlays, references, fixtures, initialization, plan, bands and blocks agree with their sources."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from core.compare.drawing import drawing
from core.decoder.config import DecoderConfig
from core.decoder.fixtures import FIXTURES
from core.errors import ConfigError
from core.figures import bars, studies
from core.figures.block import block_figure
from core.figures.sites import contribution_figure
from core.health.band import Band
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.health.seeds import observe_seeds
from core.health.suggestion import suggest
from core.lab.initializer import init_document
from core.lab.synthetic import synthetic_classifiers
from core.plan.arithmetic import plan_document
from core.plan.presets import LAPTOP, PRESETS
from core.plan.worked_values import worked_values
from core.recipes.catalogue import recipe
from core.recipes.law import depth_factor
from core.tables import studies as lab_tables
from core.tables.observe import contribution_table, site_table
from core.tables.pins import overlay_table, quotient_table
from core.tables.published import agreement_sentence, compared_table, published_rows
from core.tables.references import reference_table, reference_view
from core.tables.seeds import before_and_after, candidate_table, verdict_table
from core.tables.writers import writer_table, writer_view

GOLDEN = Path(__file__).parents[1] / "golden" / "chapter06.json"


def valid(figure: go.Figure) -> None:
    """Plotly's own check of every property, and of alternative colours."""
    go.Figure(figure.to_dict())


def test_the_published_file_holds_the_chapters_numbers_digit_by_digit() -> None:
    golden = {fixture["id"]: fixture for fixture in json.loads(GOLDEN.read_text())["fixtures"]}
    rows = published_rows()
    assert len(rows) == 144
    for row in rows:
        fixture = golden[row["fixture"]]
        if row["arm"] == "initialized":
            value = fixture["sites"][row["site"]][row["quantity"]]
        elif row["site"] is None:
            value = fixture["unscaled_control"][row["quantity"]]
        else:
            value = fixture["unscaled_control"]["A0" if row["site"] == 0 else "G_terminal"]
        assert row["published"] == f"{value:.6f}"


def test_every_published_value_agrees_and_a_wrong_one_is_told() -> None:
    documents = {name: observe_document(ObserveRequest(config=config)) for name, config in FIXTURES.items()}
    table = compared_table(documents)
    assert agreement_sentence(table) == "All 144 published values agree at six decimals."
    documents["narrow-1"]["initialized"]["sites"][1]["adjoint_rms"] *= 1.0001
    assert agreement_sentence(compared_table(documents)).startswith("143 of 144 published values agree")


def test_overlays_match_sites_and_divide_by_the_first_setting(
    document: dict[str, Any], deep_document: dict[str, Any]
) -> None:
    overlay = overlay_table({"now": site_table(document), "deep": site_table(deep_document)})
    assert overlay["pin"].value_counts().to_dict() == {"now": 17, "deep": 65}
    table = quotient_table(overlay)
    assert len(table) == 65
    ours = [site["adjoint_ratio"] for site in document["initialized"]["sites"]]
    deep = [site["adjoint_ratio"] for site in deep_document["initialized"]["sites"]]
    assert table["G ratio, now"][:17].tolist() == ours
    assert table["G, deep / now"][:17].tolist() == [b / a for a, b in zip(ours, deep, strict=False)]
    assert table["G ratio, now"][17:].isna().all()
    assert len(overlay_table({})) == 0


def test_the_reference_view_puts_the_definition_beside_it(document: dict[str, Any]) -> None:
    table = reference_table(document, "previous site")
    assert np.isnan(table["activation_to_reference"][0])
    view = reference_view(table, site_table(document))
    assert view["activation ratio"].tolist() == [s["activation_ratio"] for s in document["initialized"]["sites"]]
    assert view["adjoint to reference"][1] == table["adjoint_to_reference"][1]


def test_histograms_and_moments_are_the_documents() -> None:
    document = init_document(64, 64, 17)
    table = lab_tables.histogram_table(document)
    for name, rows in table.groupby("population"):
        assert rows["count"].tolist() == document["populations"][name]["counts"]
        assert rows["percent"].sum() == pytest.approx(100, abs=1e-9)
        assert rows["from"].tolist() == document["edges"][:-1]
    moments = lab_tables.moment_table(document).set_index("population")
    assert moments.loc["oversized", "variance_to_target"] == pytest.approx(
        4 * moments.loc["xavier", "variance_to_target"]
    )
    for theme in ("light", "dark"):
        valid(studies.histogram_figure(table, theme=theme))
        valid(studies.propagation_figure(lab_tables.propagation_table(document), theme=theme))
    symmetry = lab_tables.symmetry_table(document)
    assert symmetry["gradient"].tolist() == document["zero_symmetry"]["hidden_weight_gradient_row_major"]


def test_worked_values_keep_their_depths_and_twins() -> None:
    worked = worked_values((1, 2, 32))
    ideal = lab_tables.ideal_table(worked).set_index("blocks")
    assert ideal.loc[32, "variance"] == pytest.approx(1 / 128)
    assert ideal.loc[2, "base_derivative"] == 2 * depth_factor(2)
    assert (ideal["toy_variance"] == 2).all()
    vector = lab_tables.vector_table(worked)
    assert (vector["unselected"] == vector["base"]).all()
    assert (vector["selected"] == vector["base"] * vector["blocks"].map(depth_factor)).all()


def test_initializers_name_every_tensor_and_the_writers_factor() -> None:
    table = lab_tables.initializer_table(DecoderConfig(), "depth-scaled").set_index("tensor")
    assert len(table) == 11
    assert table.loc["blocks.{b}.attention.output.weight", "factor"] == depth_factor(8)
    assert table.loc["blocks.{b}.attention.query.weight", "factor"] == 1.0
    assert table.loc["final_norm.gain", "initializer"] == "ones"


def test_plan_tables_add_up_to_the_plan() -> None:
    plan = plan_document(PRESETS[LAPTOP].request)
    roles = lab_tables.role_table(plan)
    assert roles["coordinates"].sum() == 32_514_560
    assert roles["share"].sum() == pytest.approx(1)
    sizes = lab_tables.byte_table(plan).set_index("dtype")
    assert sizes.loc["float32", "weights_bytes"] == 4 * 32_514_560
    valid(bars.role_figure(roles))


def test_the_largest_plan_keeps_its_exact_integers() -> None:
    roles = lab_tables.role_table(plan_document(PRESETS["llama-3.1-405b"].request))
    assert int(roles["coordinates"].sum()) == 405_853_388_800


def test_bands_judge_supplied_and_own_ratios() -> None:
    arrays = lab_tables.classifier_table(synthetic_classifiers())
    assert arrays.groupby("array", sort=False)["band"].agg(list).to_dict() == {
        "activation": ["within", "within", "within", "above"],
        "adjoint": ["below", "within", "within", "within"],
        "boundary": ["within", "within", "within"],
    }
    own = lab_tables.judged_table(lab_tables.parsed_ratios(" 1;0.01\n100,100.0000001 "), Band())
    assert own["band"].tolist() == ["within", "within", "within", "above"]
    valid(studies.judged_figure(own, Band()))
    with pytest.raises(ConfigError, match="is not finite"):
        lab_tables.judged_table([1.0, math.nan])


@pytest.mark.parametrize("text", ["", " , ", "1, two", "1, nan", "1, inf", "1_0", "=1+1", "1" + ",1" * 10_000, "0x10"])
def test_ratios_that_are_none_get_a_sentence(text: str) -> None:
    with pytest.raises(ConfigError, match=r"give at|separate numbers"):
        lab_tables.parsed_ratios(text)


@pytest.mark.parametrize("name", ["depth-scaled", "parallel", "post-norm", "ngpt", "admin"])
def test_blocks_are_drawn_with_their_writers_sites_and_factors(name: str) -> None:
    config = DecoderConfig(blocks=4)
    nodes, edges = drawing(recipe(name).graph(config), 2)
    writers = writer_table(config, name, 2)
    assert writers["writer"].tolist() == ["blocks.2.attention.output.weight", "blocks.2.ffn.down.weight"]
    assert writers["site"].tolist() == ([3, 3] if name == "parallel" else [5, 6])
    assert (writers["stored_std"] == writers["factor"] * writers["base_std"]).all()
    figure = block_figure(nodes, edges, writers, title="Block 2")
    valid(figure)
    assert writer_view(writers)["matrix"].tolist() == ["attention.output", "ffn.down"]


def test_what_was_tried_is_told_as_a_table_and_the_best_is_drawn_beside_what_was_before() -> None:
    found = suggest(ObserveRequest(config=DecoderConfig(blocks=48), recipe="unscaled"), range(8))
    assert found.best is not None
    table = candidate_table(found)
    tried = table[table["refusal"].isna()]
    assert len(table) == len(found.candidates) + len(found.refused)
    assert tried["share_within"].tolist() == [one.arm.verdict.share_within for one in found.candidates]
    assert tried["within_noise"].tolist() == [one.difference.within_noise for one in found.candidates]
    drawn = before_and_after(found)
    assert list(dict.fromkeys(drawn["recipe"])) == ["unscaled", found.best.change.recipe]
    for arm in (found.before, found.best.arm):
        rows = drawn[(drawn["recipe"] == arm.recipe.name) & (drawn["quantity"] == "adjoint")]
        np.testing.assert_allclose(rows["q95"], np.quantile(arm.adjoint_ratio, 0.95, axis=0), rtol=1e-12)
        assert rows["label"].tolist() == arm.labels


def test_verdicts_are_told_as_a_table_of_their_numbers() -> None:
    arms = observe_seeds(ObserveRequest(config=DecoderConfig(blocks=3)), range(5))
    rows = verdict_table(arms).to_dict("records")
    for row, arm in zip(rows, arms, strict=True):
        assert (row["recipe"], row["state"], row["seeds"]) == (arm.recipe.name, arm.verdict.state, 5)
        assert (row["interval_low"], row["interval_high"]) == arm.verdict.interval
        assert row["share_within"] == np.mean([margin >= 0 for margin in arm.margins])


def test_absolute_and_contribution_figures_are_valid_and_split_branches(document: dict[str, Any]) -> None:
    table = contribution_table(document)
    for column in ("contribution_to_stream", "contribution_rms", "raw_rms", "cosine"):
        figure = contribution_figure(table, column)
        valid(figure)
        assert [trace.name for trace in figure.data] == [
            "depth-scaled, attention", "depth-scaled, feed-forward", "unscaled, attention",
            "unscaled, feed-forward",
        ]  # fmt: skip
