"""A recipe has one look and one name in every figure of every page, whatever is shown beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from core.compare.comparison import compare_recipes
from core.compare.comparison_tables import contribution_table as compared_contributions
from core.compare.comparison_tables import profile_table, share_table
from core.compare.request import ComparisonRequest
from core.decoder.config import DecoderConfig
from core.figures.recipes import branch_figure as compared_figure
from core.figures.recipes import depth_figure, profile_figure, share_figure
from core.figures.rows import growth_figure
from core.figures.series import series_style
from core.figures.sites import contribution_figure, ratio_figure, series, site_figure, token_figure
from core.figures.style import DASHES, MARKERS, PALETTES, Stroke, Theme, recipe_style, stroke
from core.figures.sweep import difference_figure, distribution_figure, ribbon_figure
from core.health.columns import INITIALIZED
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.recipes.catalogue import CONTROL, RECIPES, recipe
from core.sweep.grid import SweepGrid
from core.sweep.run import SweepRun
from core.sweep.store import Store
from core.tables.observe import (
    arm_table,
    arm_view,
    contribution_table,
    contribution_view,
    site_table,
    site_view,
    token_table,
)
from core.tables.pins import overlay_table
from core.tables.recipes import contribution_summary, profile_summary
from core.tables.sweep import difference_table, distribution_table, series_names, series_table
from pages.recipes.controls import COMPARED

NAMES = [known.name for known in RECIPES]
SHOWN = ("gpt2", "lns", CONTROL, "depth-scaled", "lns+gpt2")
SMALL = DecoderConfig(blocks=3)


def looks(figure: go.Figure) -> Iterator[tuple[str, Stroke]]:
    """Name and look of every line that has markers."""
    for trace in figure.data:
        if trace.mode == "lines+markers" and trace.customdata is not None:
            yield trace.name, Stroke(trace.line.color, trace.marker.symbol, trace.line.dash)


def recipe_stroke(name: str, variant: int = 0, theme: Theme = "light") -> Stroke:
    return recipe_style(name, variant).stroke(theme)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SweepRun]:
    grid = SweepGrid(blocks=(2, 3, 4), seeds=(1, 2), recipes=SHOWN)
    with Store.open(tmp_path_factory.mktemp("cells") / "cells.sqlite") as store:
        run = SweepRun(grid, store)
        while run.pending:
            run.step()
        yield run


def pages(swept: SweepRun, order: Sequence[str], theme: Theme) -> Iterator[go.Figure]:
    """One figure of each kind that draws recipes, with them in an order."""
    for name in order:
        document = observe_document(ObserveRequest(config=SMALL, recipe=name))
        yield ratio_figure(site_table(document), theme=theme)
        yield site_figure(site_table(document), "adjoint_rms", title="", y_title="", theme=theme)
    comparison = compare_recipes(ComparisonRequest(recipes=tuple(order), config=SMALL, seeds=(1, 2)))
    profiles = profile_table(comparison)
    yield profile_figure(profile_summary(profiles, share_table(profiles)), theme=theme)
    contributions = contribution_summary(compared_contributions(comparison))
    yield compared_figure(contributions, "contribution_rms", "attention", theme=theme)
    summary = swept.summary()
    own = summary[summary["arm"] == INITIALIZED]
    yield depth_figure(own, theme=theme)
    yield share_figure(own, theme=theme)
    table = series_table(summary, ())
    everything = table[table["recipe"].isin(order)]
    yield ribbon_figure(everything, order=series_names(everything), theme=theme)
    cells = series_table(swept.cells(), ())
    seen = distribution_table(cells, 3, "largest_activation_ratio")
    yield distribution_figure(seen, order=series_names(cells), theme=theme)
    yield difference_figure(series_table(difference_table(summary), ()), theme=theme)


@pytest.mark.parametrize("theme", list(PALETTES))
def test_a_recipe_looks_the_same_in_every_figure(swept: SweepRun, theme: Theme) -> None:
    found: dict[str, set[Stroke]] = {}
    count = 0
    for order in (SHOWN, SHOWN[::-1], SHOWN[1:4]):
        for figure in pages(swept, order, theme):
            count += 1
            for name, look in looks(figure):
                found.setdefault(name, set()).add(look)
    assert count > 30
    assert found == {name: {recipe_stroke(name, theme=theme)} for name in found}
    assert set(found) == {recipe(name).name for name in SHOWN}


def test_fitted_exponents_have_the_recipes_colour_and_marker(swept: SweepRun) -> None:
    growth = series_table(swept.growth(), ())
    points = [trace for trace in growth_figure(growth, "largest_activation_ratio").data if trace.error_x.array]
    assert {point.name for point in points} >= {"gpt2", CONTROL}
    for point in points:
        look = recipe_stroke(point.name)
        assert (point.marker.color, point.marker.symbol) == (look.color, look.marker)


@pytest.mark.parametrize("theme", list(PALETTES))
def test_all_recipes_and_what_is_joined_to_the_control_are_told_apart(theme: Theme) -> None:
    found = [recipe_stroke(name, theme=theme) for name in NAMES]
    assert len(set(found)) == len(NAMES)
    joined = {recipe_stroke(f"{first}+gpt2", theme=theme) for first in ("lns", "peri-norm", "deepnorm", "parallel")}
    assert len(joined) == 4
    assert not joined & set(found)
    for one, other in combinations(found, 2):
        assert (one.marker, one.dash) != (other.marker, other.dash) or one.color != other.color


@pytest.mark.parametrize("theme", list(PALETTES))
def test_those_compared_unless_others_are_chosen_differ_in_everything(theme: Theme) -> None:
    found = [recipe_stroke(name, theme=theme) for name in COMPARED.default]
    assert len(found) == 6
    for values in zip(*((look.color, look.marker, look.dash) for look in found), strict=True):
        assert len(set(values)) == 6


def test_every_look_is_one_of_the_palette() -> None:
    for theme, palette in PALETTES.items():
        for name in [*NAMES, "lns+gpt2", "unheard of"]:
            for variant in range(8):
                look = recipe_stroke(name, variant, theme)
                assert look.color in palette.series
                assert look.marker in MARKERS
                assert look.dash in DASHES


def test_lines_of_one_recipe_keep_its_colour_and_differ() -> None:
    order = [f"{name}, width {width}" for name in ("gpt2", CONTROL) for width in (4, 8, 16, 32, 64)]
    found = [series_style(name, order).stroke("light") for name in order]
    assert len(set(found)) == 10
    assert {look.color for look in found[:5]} == {recipe_stroke("gpt2").color}
    assert found[0] == recipe_stroke("gpt2")
    assert not set(found[1:5]) & {recipe_stroke(name) for name in NAMES}


def test_branches_have_their_recipes_colour_and_runs_one_each(document: dict[str, Any]) -> None:
    branches = dict(looks(contribution_figure(contribution_table(document))))
    assert branches["depth-scaled, attention"] == recipe_stroke("depth-scaled")
    assert branches["depth-scaled, feed-forward"].color == recipe_stroke("depth-scaled").color
    assert branches["unscaled, attention"] == recipe_stroke(CONTROL)
    assert len(set(branches.values())) == 4
    sites = site_table(document)
    runs = list(looks(ratio_figure(overlay_table({"now": sites, "before": sites, "first": sites}))))
    assert [look for _, look in runs] == [stroke(place) for place in range(3)]
    assert len({look.color for _, look in runs}) == 3


def test_tokens_have_the_arms_looks(document: dict[str, Any]) -> None:
    lines = {trace.name: trace for trace in token_figure(token_table(document)).data}
    for name in ("depth-scaled", CONTROL):
        assert lines[f"{name}, RMS"].line.color == recipe_stroke(name).color
        assert lines[f"{name}, RMS"].line.dash == recipe_stroke(name).dash
        assert lines[f"{name}, median token"].line.dash != lines[f"{name}, RMS"].line.dash


def test_the_control_beside_itself_is_one_line_under_one_name() -> None:
    request = ObserveRequest(config=SMALL)
    twice = site_table(observe_document(replace(request, recipe=CONTROL)))
    by_arm = [rows.drop(columns="arm").reset_index(drop=True) for _, rows in twice.groupby("arm", sort=False)]
    pd.testing.assert_frame_equal(*by_arm)
    assert [name for name, _ in series(twice)] == [CONTROL]
    assert [name for name, _ in series(site_table(observe_document(request)))] == ["depth-scaled", CONTROL]


def test_tables_for_people_call_an_arm_by_its_recipe(document: dict[str, Any]) -> None:
    for view in (arm_view(arm_table(document)), contribution_view(contribution_table(document))):
        assert "arm" not in view.columns
        assert list(dict.fromkeys(view["recipe"])) == ["depth-scaled", CONTROL]
    titles = site_view(site_table(document)).columns
    assert {"A ratio", "A ratio, unscaled", "G band, unscaled"} <= set(titles)
    table = site_table(document).assign(activation_rms=0.0)
    assert site_figure.chart(table, "activation_rms", title="T", y_title="RMS").undrawn[0] == "depth-scaled at 0, 0"
