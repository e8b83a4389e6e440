"""Tables and figures of a comparison hold the observations' own numbers, in words, lines and diagrams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from core.compare.card import card
from core.compare.comparison import Comparison, compare_recipes
from core.compare.comparison_tables import contribution_table, largest_table, profile_table, share_table
from core.compare.drawing import drawing
from core.compare.drift_table import drift_table
from core.compare.overlays import EVIDENCE, depth_overlay_table, overlay_errors, site_overlay_table
from core.compare.request import ComparisonRequest
from core.compare.token_cosines import token_cosine_table
from core.decoder.config import DecoderConfig
from core.figures.block import Block, block_figure
from core.figures.recipes import branch_figure, cosine_figure, depth_figure, profile_figure, share_figure
from core.figures.rows import drift_figure, growth_figure
from core.figures.style import Theme, recipe_style
from core.figures.theory import error_figure, overlay_figure
from core.health.band import Band
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.recipes.catalogue import RECIPES, recipe
from core.sweep.grid import SweepGrid
from core.sweep.process import use_one_thread
from core.sweep.run import SweepRun
from core.sweep.store import Store
from core.tables.recipe_words import (
    card_sections,
    comparison_sentence,
    derived_sentences,
    overview_sentences,
    twin_sentences,
)
from core.tables.recipes import (
    branch_view,
    contribution_summary,
    cosine_view,
    depth_view,
    error_view,
    growth_view,
    law_table,
    law_view,
    overlay_summary,
    overview_table,
    profile_summary,
    profile_view,
)
from core.tables.writers import writer_table

CONFIG = DecoderConfig(blocks=3)
NAMES = ("unscaled", "gpt2", "rezero", "parallel")
SEEDS = (4701, 4702, 4703, 4704, 4705)
DEPTHS = (1, 2, 4)
RUNNABLE = [known.name for known in RECIPES if known.refusal is None]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare_recipes(ComparisonRequest(recipes=NAMES, config=CONFIG, seeds=SEEDS))


@pytest.fixture(scope="module")
def profiles(comparison: Comparison) -> pd.DataFrame:
    rows = profile_table(comparison)
    return profile_summary(rows, share_table(rows))


@pytest.fixture(scope="module")
def run() -> SweepRun:
    use_one_thread()
    run = SweepRun(SweepGrid(blocks=DEPTHS, seeds=SEEDS, recipes=NAMES), Store.open(":memory:"))
    while run.pending:
        run.step()
    return run


@pytest.fixture(scope="module")
def observed() -> dict[str, list[dict[str, Any]]]:
    """Every recipe's arm of every seed, one observation at a time."""
    return {
        name: [observe_document(ObserveRequest(config=CONFIG, seed=seed, recipe=name))["initialized"] for seed in SEEDS]
        for name in NAMES
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("quantity", ["activation", "adjoint"])
def test_profiles_are_quantiles_of_single_observations(
    profiles: pd.DataFrame, observed: dict[str, list[dict[str, Any]]], name: str, quantity: str
) -> None:
    rows = profiles[(profiles["recipe"] == name) & (profiles["quantity"] == quantity)]
    ratios = np.array([[site[f"{quantity}_ratio"] for site in arm["sites"]] for arm in observed[name]])
    assert rows["site"].tolist() == list(range(ratios.shape[1]))
    for column, level in (("median", 0.5), ("q05", 0.05), ("q25", 0.25), ("q75", 0.75), ("q95", 0.95)):
        np.testing.assert_allclose(rows[column], np.quantile(ratios, level, axis=0), rtol=1e-12)
    within = np.mean((ratios >= 0.01) & (ratios <= 100), axis=0)
    np.testing.assert_allclose(rows["share_within"], within)
    assert set(rows["seeds"]) == {len(SEEDS)}


def test_views_say_quantiles_in_words_and_keep_every_row(comparison: Comparison, profiles: pd.DataFrame) -> None:
    contributions = contribution_summary(contribution_table(comparison))
    overlay = site_overlay_table(comparison)
    errors = overlay_errors(overlay).assign(evidence=EVIDENCE)
    tokens = token_cosine_table(replace(comparison.request, recipes=("gpt2",)))
    one_measure = contributions[contributions["measure"] == "cosine"]
    for table, view, kept in (
        (profiles, profile_view(profiles), {"q05": "5 %", "q95": "95 %", "share_within": "share within the band"}),
        (one_measure, branch_view(contributions, "cosine"), {"median": "median", "q25": "25 %", "q75": "75 %"}),
        (tokens, cosine_view(tokens), {"q25": "25 %", "tokens": "tokens", "undefined": "undefined"}),
        (errors, error_view(errors), {"median_error": "median error", "largest_error": "largest error"}),
    ):
        assert not [name for name in view.columns if "_" in name]
        for column, title in kept.items():
            assert view[title].tolist() == pytest.approx(table[column].tolist(), nan_ok=True)


def test_profiles_of_nothing_observed_are_empty() -> None:
    rows = profile_table(compare_recipes(ComparisonRequest(recipes=("gpt2",), config=CONFIG)))
    rows["status"] = "refused"
    summary = profile_summary(rows, share_table(rows))
    assert summary.empty
    assert list(summary.columns)[-2:] == ["share_within", "seeds"]
    assert list(profile_figure(summary).data[0].x) == [None]


def test_the_overview_says_who_leaves_the_band(observed: dict[str, list[dict[str, Any]]]) -> None:
    band = Band(0.5, 10)
    request = ComparisonRequest(recipes=(*NAMES, "t-fixup"), config=CONFIG, seeds=SEEDS, band=band)
    rows = profile_table(compare_recipes(request))
    overview = overview_table(rows, largest_table(rows), {name: card(name).law for name in NAMES}).set_index("recipe")
    for name, arms in observed.items():
        kept = [
            all(0.5 <= site[f"{q}_ratio"] <= 10 for site in arm["sites"] for q in ("activation", "adjoint"))
            for arm in arms
        ]
        assert overview.loc[name, "share_within"] == pytest.approx(np.mean(kept))
        largest = [max(site["activation_ratio"] for site in arm["sites"]) for arm in arms]
        assert overview.loc[name, "largest_activation_ratio"] == pytest.approx(np.median(largest), rel=1e-12)
        assert overview.loc[name, "loss_nats"] == pytest.approx(np.median([a["loss_nats"] for a in arms]), rel=1e-12)
    assert overview.loc["t-fixup", "seeds"] == 0
    assert "encoder-decoder" in overview.loc["t-fixup", "reason"]
    kept, left = overview_sentences(overview.reset_index(), (0.5, 10))
    assert kept == "At 3 blocks rezero keeps every ratio of every seed within the band [0.5, 10]."
    out = len(SEEDS) - round(overview.loc["unscaled", "share_within"] * len(SEEDS))
    assert f"unscaled with {out} of 5 seeds" in left
    assert "t-fixup" not in kept + left


def test_one_sentence_alone_says_that_all_stay_within_the_band() -> None:
    rows = profile_table(compare_recipes(ComparisonRequest(recipes=("rezero", "zero-writer"), config=CONFIG)))
    overview = overview_table(rows, largest_table(rows), {})
    sentences = overview_sentences(overview, (0.01, 100))
    assert sentences == ("At 3 blocks all recipes shown keep every ratio of every seed within the band [0.01, 100].",)


def test_contributions_are_quantiles_of_single_observations(
    comparison: Comparison, observed: dict[str, list[dict[str, Any]]]
) -> None:
    summary = contribution_summary(contribution_table(comparison))
    rows = summary[(summary["recipe"] == "gpt2") & (summary["measure"] == "cosine")]
    cosines = np.array([[c["cosine"] for c in arm["contributions"]] for arm in observed["gpt2"]])
    np.testing.assert_allclose(rows["median"], np.median(cosines, axis=0), rtol=1e-9)
    silent = summary[(summary["recipe"] == "rezero") & (summary["measure"] == "cosine")]
    assert silent["median"].isna().all()
    assert set(silent["seeds"]) == {0}


def test_a_log_axis_says_what_it_leaves_out(comparison: Comparison) -> None:
    summary = contribution_summary(contribution_table(comparison))
    figure = branch_figure(summary, "contribution_to_stream", "attention")
    by_name = {trace.name: trace for trace in figure.data}
    assert list(by_name["rezero"].y) == [None] * 3
    hidden = branch_figure.chart(summary, "contribution_to_stream", "attention").undrawn
    assert hidden == ["rezero at 0, 0", "rezero at 1, 0", "rezero at 2, 0"]
    undefined = summary["median"].where((summary["recipe"] != "gpt2") | (summary["block"] != 1))
    chart = branch_figure.chart(summary.assign(median=undefined), "contribution_to_stream", "attention")
    assert "gpt2 at 1, nan" in chart.undrawn


def test_recipes_keep_their_looks_when_one_is_left_out(profiles: pd.DataFrame) -> None:
    whole = {trace.name: trace.line.color for trace in profile_figure(profiles).data}
    part = profiles[profiles["recipe"] != "unscaled"]
    without = {trace.name: trace.line.color for trace in profile_figure(part).data}
    assert {name: whole[name] for name in NAMES[1:]} == {name: without[name] for name in NAMES[1:]}
    assert whole["gpt2"] == recipe_style("gpt2").stroke("light").color


def test_profile_figures_hold_every_median_and_the_spread(profiles: pd.DataFrame) -> None:
    figure = profile_figure(profiles, Band(0.5, 20), "adjoint", spread=True)
    rows = profiles[(profiles["recipe"] == "gpt2") & (profiles["quantity"] == "adjoint")]
    (line,) = (trace for trace in figure.data if trace.name == "gpt2")
    assert list(line.y) == rows["median"].tolist()
    fills = [trace for trace in figure.data if trace.fill == "toself" and trace.legendgroup == "gpt2"]
    assert [list(fill.y) for fill in fills] == [[*rows["q95"], *rows["q05"][::-1]]]
    assert "medians over 5 seeds, 5 to 95 % filled" in figure.layout.title.text
    assert "L = 3 blocks" in figure.layout.title.text


def test_depths_are_those_of_the_sweep(run: SweepRun) -> None:
    summary = run.summary()
    summary = summary[summary["arm"] == "initialized"]
    figure = depth_figure(summary)
    (line,) = (trace for trace in figure.data if trace.name == "unscaled")
    documents = [
        [observe_document(ObserveRequest(config=DecoderConfig(blocks=blocks), seed=seed)) for seed in SEEDS]
        for blocks in DEPTHS
    ]
    largest = [
        np.median([max(s["activation_ratio"] for s in one["same_base_unscaled_control"]["sites"]) for one in seeds])
        for seeds in documents
    ]
    assert list(line.x) == list(DEPTHS)
    np.testing.assert_allclose(line.y, largest, rtol=1e-9)
    view = depth_view(summary, "largest_activation_ratio")
    assert view["recipe"].tolist() == list(NAMES)
    np.testing.assert_allclose(view.set_index("recipe").loc["unscaled"].to_numpy(float), largest, rtol=1e-9)
    shares = share_figure(summary)
    assert {trace.name: list(trace.y) for trace in shares.data}["rezero"] == [1.0, 1.0, 1.0]


def test_growth_is_the_slope_over_all_seeds_and_depths(run: SweepRun) -> None:
    growth = run.growth()
    growth = growth[growth["arm"] == "initialized"]
    cells = run.cells()
    cells = cells[(cells["arm"] == "initialized") & (cells["recipe"] == "parallel")]
    slope = np.polyfit(np.log(cells["blocks"].astype(float)), np.log(cells["largest_activation_ratio"]), 1)[0]
    view = growth_view(growth)
    row = view[(view["recipe"] == "parallel") & (view["quantity"] == "largest activation ratio")].iloc[0]
    assert row["fitted"] == pytest.approx(slope, rel=1e-9)
    assert row["95 % from"] <= row["fitted"] <= row["95 % to"]
    assert np.isnan(row["derived"])
    words = derived_sentences(growth)
    assert sum("exponent 0.5, for 2L independent additions" in sentence for sentence in words) == 1
    assert words[-1].startswith("Where nothing is derived")
    figure = growth_figure(growth, "largest_activation_ratio")
    (point,) = (trace for trace in figure.data if trace.name == "parallel")
    assert list(point.x) == [row["fitted"]]
    assert point.error_x.array[0] == pytest.approx(row["95 % to"] - row["fitted"])
    (crosses,) = (trace for trace in figure.data if trace.name == "derived law")
    assert list(crosses.x) == [0.5, 0.0, 0.0]
    assert [note.text for note in figure.layout.annotations] == list(NAMES)


def test_recipes_that_give_the_same_numbers_are_named() -> None:
    # (2L)^(-1/2) and (L/2)^(-1) are both 1/4 at eight blocks, and differ at four.
    for blocks, expected in ((8, 1), (4, 0)):
        config = DecoderConfig(blocks=blocks)
        request = ComparisonRequest(recipes=("unscaled", "gpt2", "completep"), config=config, seeds=SEEDS[:2])
        rows = profile_table(compare_recipes(request))
        found = twin_sentences(overview_table(rows, largest_table(rows), {}))
        assert len(found) == expected
        assert all(sentence.startswith("gpt2 and completep give the same numbers at 8 blocks") for sentence in found)


def test_theory_is_shown_with_its_residual_error_and_called_derived(comparison: Comparison) -> None:
    table = site_overlay_table(comparison)
    table = table[table["recipe"] == "unscaled"]
    summary = overlay_summary(table)
    assert set(summary["evidence"]) == {EVIDENCE} == {"derived"}
    one = table[(table["site"] == 6) & (table["law"] == table["law"].iloc[0])]
    row = summary[(summary["site"] == 6) & (summary["law"] == table["law"].iloc[0])].iloc[0]
    assert row["measured"] == pytest.approx(np.median(one["measured"]))
    assert row["median"] == pytest.approx(np.median(one["predicted"] / one["measured"] - 1))
    figure = overlay_figure(summary, "site")
    assert figure.data[0].name == "measured"
    assert all(trace.name.startswith("derived: ") for trace in figure.data[1:])
    errors = error_figure(summary, "site")
    assert {trace.name for trace in errors.data if trace.name} == {f"derived: {law}" for law in set(summary["law"])}
    assert set(overlay_errors(table)["law"]) == set(summary["law"])


def test_theory_without_a_law_is_empty_and_still_drawn() -> None:
    observed = compare_recipes(ComparisonRequest(recipes=("deepnorm",), config=CONFIG))
    summary = overlay_summary(site_overlay_table(observed))
    assert summary.empty
    assert not overlay_figure(summary, "site").data
    assert not error_figure(summary, "site").data


@pytest.mark.parametrize("name", RUNNABLE)
def test_every_recipe_is_drawn_with_every_step_of_its_block(name: str) -> None:
    nodes, edges = drawing(recipe(name).graph(CONFIG), 2)
    writers = writer_table(CONFIG, name, 2)
    figure = block_figure(nodes, edges, writers, title=name)
    go.Figure(figure.to_dict())
    texts = " ".join(note.text for note in figure.layout.annotations)
    assert all(label in texts for label in nodes["label"] if label != "x")
    assert len(figure.layout.annotations) == len(nodes)
    for end, factor in zip(("attention.output", "ffn.down"), writers["factor"], strict=True):
        assert texts.count(f"{end}, factor {factor:.4g}<") == 1
    assert all(f"<b>site {site}</b>" in texts for site in nodes["site"].dropna())
    assert "[attention]" in Block(nodes, edges, writers, name).alt


@pytest.mark.parametrize("name", [known.name for known in RECIPES])
def test_every_card_has_laws_with_numbers_and_sections(name: str) -> None:
    found = card(name, CONFIG)
    laws = law_table(found)
    sections = card_sections(found)
    assert "Source" in sections
    if found.refusal:
        assert laws.empty
        assert "Selected tensors" not in sections
        return
    stored = laws[laws["acts"] != "forward"]
    assert len(stored) == len(found.stored)
    assert stored["tensors"].sum() == found.selected_tensors
    plain = stored[stored["first_std"].notna() & (stored["first"] != 0)]
    base = plain["first_std"] / plain["first"]
    np.testing.assert_allclose(plain["last_std"], plain["last"] * base, rtol=1e-12)
    assert "law" in law_view(laws).columns


def test_combinations_and_constants_stand_on_cards() -> None:
    assert "alpha: 1.56508" in card_sections(card("deepnorm", CONFIG))["Constants at 3 blocks"]
    words = card_sections(card("admin", CONFIG))
    assert "A profile step measures coefficients on a batch before the run." in words["New state"]


def test_the_setting_is_said_in_one_sentence() -> None:
    sentence = comparison_sentence(ComparisonRequest(recipes=NAMES, config=CONFIG, seeds=SEEDS))
    assert sentence.startswith("3 blocks, width 4, 1 query and 1 key/value heads")
    assert "seeds 4701:4706, float64; unscaled, gpt2, rezero, parallel" in sentence


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_figure_passes_plotlys_own_check(
    comparison: Comparison, profiles: pd.DataFrame, run: SweepRun, theme: Theme
) -> None:
    summary, growth = (table[table["arm"] == "initialized"] for table in (run.summary(), run.growth()))
    contributions = contribution_summary(contribution_table(comparison))
    request = comparison.request
    tokens = token_cosine_table(ComparisonRequest(recipes=("gpt2",), config=CONFIG, seeds=SEEDS))
    sites = overlay_summary(site_overlay_table(comparison)).query("recipe == 'gpt2'")
    depths = overlay_summary(depth_overlay_table(run.rows(recipe="unscaled"), CONFIG))
    drift = drift_table(request)
    builders: list[Callable[..., go.Figure]] = [
        partial(profile_figure, profiles, spread=True),
        partial(depth_figure, summary, spread=True),
        partial(share_figure, summary),
        partial(branch_figure, contributions, "raw_rms", "feed_forward", spread=True),
        partial(branch_figure, contributions, "cosine", "attention"),
        partial(cosine_figure, tokens, "attention"),
        partial(overlay_figure, sites, "site"),
        partial(error_figure, sites, "site"),
        partial(overlay_figure, depths, "blocks"),
        partial(error_figure, depths, "blocks"),
        partial(growth_figure, growth, "input_adjoint_ratio"),
        partial(drift_figure, drift, "adjoint"),
    ]
    for builder in builders:
        figure = builder(theme=theme)
        go.Figure(figure.to_dict())
        assert figure.layout.paper_bgcolor == {"light": "#FFFFFF", "dark": "#0E1117"}[theme]
        assert figure.layout.title.text
        assert len(figure.data) > 1
    medians = summary.query("recipe == 'unscaled' and quantity == 'largest_activation_ratio'")["median"]
    assert f"unscaled: {medians.iloc[0]:.4g} at 1" in depth_figure.chart(summary).alt
    row = drift.to_dict("records")[-1]
    said = f"{row['variant_adjoint_ratio']:.4g} of {row['recipe']} in {row['code_base']}"
    assert drift_figure.chart(drift, "adjoint").alt.endswith(f"{said}.")


def test_drift_has_a_row_for_every_code_base() -> None:
    table = drift_table(ComparisonRequest(recipes=("gpt2",), config=CONFIG, seeds=SEEDS[:2]))
    figure = drift_figure(table)
    _, declared, found = figure.data
    assert list(declared.x) == table["declared_activation_ratio"].tolist()
    assert list(found.x) == table["variant_activation_ratio"].tolist()
    assert len(figure.layout.annotations) == len(table)
