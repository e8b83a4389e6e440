"""The tower's laws: widths grow with RMS, limits stand where their ratios do, bundles lose no site."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.figures.tower import SHADES, Tower, tower_figure
from core.figures.tower_rows import (
    FARTHEST,
    MOST_ROWS,
    OUTSIDE,
    Bars,
    Scale,
    bundles,
    margins,
    places,
    profiles,
    shades,
)
from core.health.band import Band
from core.tables.observe import site_table

RATIOS = st.lists(st.floats(1e-12, 1e12), min_size=2, max_size=40)
BANDS = st.tuples(st.floats(1e-6, 1e6), st.floats(1.0, 1e6)).map(lambda two: Band(two[0], two[0] * two[1]))


def sites(values: dict[str, list[float]], **columns: Any) -> pd.DataFrame:
    """A table of one series with the same numbers for both quantities."""
    count = len(next(iter(values.values())))
    head = {"recipe": "unscaled", "blocks": (count - 1) // 2, "site": range(count)}
    labels = ["input", *(f"block.{site // 2}.after" for site in range(count - 1))]
    numbers = {f"{one}_{name}": column for one in ("activation", "adjoint") for name, column in values.items()}
    return pd.DataFrame({**head, "label": labels, **numbers, **columns})


@given(RATIOS, BANDS)
def test_widths_grow_with_the_ratio_and_keep_to_the_tower(ratios: list[float], band: Band) -> None:
    values = np.sort(np.array(ratios))
    widths = Scale.of([values], band)(values)
    assert ((widths >= 0) & (widths <= 1)).all()
    apart = values[1:] / values[:-1] > 1 + 1e-6
    assert (np.diff(widths)[apart] > 0).all()
    assert (np.diff(widths) >= 0).all()


@given(RATIOS, BANDS)
def test_a_bar_crosses_a_limit_where_its_ratio_does_and_changes_its_colour_there(
    ratios: list[float], band: Band
) -> None:
    values = np.array([*ratios, band.lower, band.upper])
    scale = Scale.of([values], band)
    low, high = scale(np.array([band.lower, band.upper]))
    for value, width, shade in zip(values.tolist(), scale(values).tolist(), shades(values, band), strict=True):
        assert (width < low) <= (value <= band.lower)
        assert (width > high) <= (value >= band.upper)
        assert (abs(shade) >= OUTSIDE) == (value < band.lower or value > band.upper)
        assert -FARTHEST <= shade <= FARTHEST
        assert shade <= -OUTSIDE if value < band.lower else shade > -OUTSIDE


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_shade_has_a_colour_of_its_own(theme: Any) -> None:
    assert len(set(SHADES[theme])) == 2 * FARTHEST + 1


def test_zero_stands_at_the_axis_infinity_at_the_edge_and_nothing_for_undefined() -> None:
    values = np.array([0.0, np.inf, np.nan, 1.0])
    assert Scale(-3, 3)(values).tolist()[:2] == [0.0, 1.0]
    assert np.isnan(Scale(-3, 3)(values)[2])
    assert shades(values, Band())[:2] == [-FARTHEST, FARTHEST]
    assert margins(values, Band()).tolist()[:3] == [-np.inf] * 3


@given(st.integers(1, 4096), st.integers(1, 3))
def test_bundles_hold_every_site_once_in_whole_blocks(blocks: int, each: int) -> None:
    count = blocks * each + 1
    rows = bundles(count, blocks)
    assert [site for first, last in rows for site in range(first, last + 1)] == list(range(count))
    assert rows[0] == (0, 0)
    assert len(rows) <= MOST_ROWS
    if count <= MOST_ROWS:
        assert all(first == last for first, last in rows)
    else:
        assert all((first - 1) % each == 0 and last % each == 0 for first, last in rows[1:])
    ends = places(rows, each)
    assert all(start < end for start, end in ends)
    assert all(one[1] <= other[0] + 1e-12 for one, other in pairwise(ends))
    assert ends[0][0] >= 0
    assert ends[-1][1] == pytest.approx(1)


@given(st.integers(65, 300), st.data())
def test_a_bundle_shows_the_site_nearest_to_a_limit_and_the_reach_of_all(blocks: int, data: st.DataObject) -> None:
    count = 2 * blocks + 1
    seed = data.draw(st.integers(0, 2**32 - 1))
    ratios = np.exp(np.random.default_rng(seed).normal(0, 6, count))
    band = Band(0.02, 50)
    (profile,) = profiles(sites({"ratio": ratios.tolist()}))
    rows = bundles(count, blocks)
    bars = Bars.of(profile, "activation", rows, band)
    for (first, last), site, shown, low, high in zip(rows, bars.site, bars.ratio, bars.low, bars.high, strict=True):
        inside = range(first, last + 1)
        assert site in inside
        assert shown == ratios[site]
        beyond = {one: max(band.lower / ratios[one], ratios[one] / band.upper) for one in inside}
        assert beyond[site] == pytest.approx(max(beyond.values()))
        assert (low, high) == (min(ratios[first : last + 1]), max(ratios[first : last + 1]))


def test_one_seed_has_its_own_numbers_and_several_their_quantiles() -> None:
    seeds = np.exp(np.random.default_rng(1).normal(size=(9, 5)))
    table = pd.concat([sites({"ratio": row.tolist()}, seed=str(seed)) for seed, row in enumerate(seeds)])
    (one,) = profiles(table[table["seed"] == "3"])
    assert one.seeds == 1
    assert one.ratios["adjoint"].tolist() == [seeds[3].tolist()] * 3
    (all_of_them,) = profiles(table.sample(frac=1, random_state=1))
    assert all_of_them.seeds == 9
    expected = [[np.quantile(seeds[:, site], level) for site in range(5)] for level in (0.05, 0.5, 0.95)]
    np.testing.assert_array_equal(all_of_them.ratios["activation"], expected)


def test_a_table_may_bring_its_own_quantiles() -> None:
    table = sites({"ratio": [1.0, 2.0, 3.0], "ratio_q05": [0.5, 1.0, 2.0], "ratio_q95": [2.0, 4.0, 5.0]}, seeds=32)
    (profile,) = profiles(table)
    assert profile.seeds == 32
    assert profile.ratios["adjoint"].tolist() == [[0.5, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 4.0, 5.0]]
    assert "5 to 95 % of 32 seeds" in Tower(table).subject


def test_a_table_may_have_a_row_per_quantity() -> None:
    quantiles = {"q05": [0.5, 1.0, 2.0], "median": [1.0, 2.0, 3.0], "q95": [2.0, 4.0, 5.0]}
    head = {"recipe": "gpt2", "blocks": 1, "seeds": 32, "site": range(3), "label": list("abc")}
    upward = pd.DataFrame({**head, "quantity": "activation", **quantiles})
    downward = upward.assign(quantity="adjoint", q05=9.0, median=10.0, q95=11.0)
    (profile,) = profiles(pd.concat([downward, upward]))
    assert (profile.sites, profile.seeds) == (3, 32)
    assert profile.ratios["activation"].tolist() == list(quantiles.values())
    assert profile.ratios["adjoint"].tolist() == [[9.0] * 3, [10.0] * 3, [11.0] * 3]


def test_a_refused_cell_is_no_site(document: dict[str, Any]) -> None:
    table = site_table(document)
    refused = table.iloc[[0]].assign(site=pd.NA, seed="9", status="refused", activation_ratio=np.nan)
    with_refused = pd.concat([table, refused], ignore_index=True)
    assert [one.sites for one in profiles(with_refused)] == [one.sites for one in profiles(table)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_figure_passes_plotlys_own_check_and_draws_every_bar_at_its_ratio(
    document: dict[str, Any], theme: Any
) -> None:
    table = site_table(document)
    picture = tower_figure.chart(table)
    figure = tower_figure(table, theme=theme)
    go.Figure(figure.to_dict())
    ends = {round(abs(x), 9) for trace in figure.data if trace.fill for x in trace.x if x is not None}
    arm = table[table["arm"] == "initialized"]
    for quantity in ("activation", "adjoint"):
        widths = [picture.width(ratio) for ratio in arm[f"{quantity}_ratio"]]
        assert {round(0.12 + width, 9) for width in widths} <= ends
    lines = sorted({round(abs(shape.x0), 9) for shape in figure.layout.shapes if shape.type == "line"})
    assert lines == pytest.approx([0.12 + picture.width(ratio) for ratio in (0.01, 1.0, 100.0)])
    assert [trace.name for trace in figure.data if trace.mode == "lines" and not trace.fill][:2] == [
        "unscaled", "depth-scaled",
    ]  # fmt: skip


def test_the_words_count_what_leaves_the_band_and_the_worst_site_is_the_farthest_beyond_it() -> None:
    picture = Tower(sites({"ratio": [1.0, 200.0, 0.001, 90.0, 2.0]}))
    assert "2 of 5 sites outside the band" in picture.alt
    assert picture.worst == 2
    assert picture.undrawn == []
    hidden = Tower(sites({"ratio": [1.0, np.nan, 2.0]})).undrawn
    assert hidden == ["unscaled at 1, activation ratio undefined", "unscaled at 1, adjoint ratio undefined"]


def test_a_deep_tower_says_what_a_row_holds() -> None:
    assert "each row 32 blocks" in Tower(sites({"ratio": [1.0] * 8193})).subject
    assert "a row per block" in Tower(sites({"ratio": [1.0] * 201})).subject
    assert "row" not in Tower(sites({"ratio": [1.0] * 129})).subject


def test_a_table_without_sites_is_an_empty_tower(document: dict[str, Any]) -> None:
    empty = Tower(site_table(document).iloc[:0])
    go.Figure(empty().to_dict())
    assert empty.alt.endswith("no value.")
