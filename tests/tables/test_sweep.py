"""Tables and figures of a sweep show the core's numbers, whole and under one name a series."""

from __future__ import annotations

from pathlib import Path
from threading import Semaphore
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from core.decoder.config import DecoderConfig
from core.export.sweep import sweep_contents
from core.figures.axes import symmetric_log
from core.figures.heat import heat_figure
from core.figures.sweep import TITLES, difference_figure, distribution_figure, ribbon_figure
from core.health.band import Band
from core.sweep.grid import SweepGrid
from core.sweep.interactive import InteractiveSweep
from core.sweep.request import uniform_batch
from core.sweep.run import SweepRun
from core.sweep.store import Store
from core.tables.sweep import (
    STATISTICS,
    address_table,
    axis_names,
    difference_table,
    distribution_table,
    distribution_view,
    heat_table,
    quantile_view,
    refusal_table,
    series_names,
    series_table,
    share_view,
)
from core.tables.sweep_words import verdict_sentences

BAND = Band(0.5, 20.0)
GRID = SweepGrid(
    blocks=(1, 4, 16), seeds=tuple(range(12)), recipes=("depth-scaled", "unscaled", "deepscalelm"), band=BAND
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SweepRun:
    """A finished sweep with a recipe that is refused at one block, and the control asked for by name."""
    run = SweepRun(GRID, Store.open(tmp_path_factory.mktemp("sweep") / "cells.sqlite"))
    while run.pending:
        run.step(10)
    return run


@pytest.fixture(scope="module")
def summary(run: SweepRun) -> pd.DataFrame:
    return series_table(run.summary(), ())


@pytest.fixture(scope="module")
def cells(run: SweepRun) -> pd.DataFrame:
    return series_table(run.cells(), ())


def checked(figure: go.Figure) -> list[dict[str, Any]]:
    """Every trace, after Plotly's own check of the figure."""
    go.Figure(figure.to_dict())
    return [trace.to_plotly_json() for trace in figure.data]


def named(traces: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = [trace for trace in traces if trace.get("name") == name and trace.get("customdata")]
    return found


@pytest.mark.parametrize(
    ("axes", "names"),
    [
        ({}, ()),
        ({"sizes": (DecoderConfig(width=4), DecoderConfig(width=8, ff_width=8))}, ("width",)),
        (
            {"sizes": (DecoderConfig(), DecoderConfig(width=8), DecoderConfig(width=8, ff_width=8))},
            ("width", "ff_width"),
        ),
        ({"dtypes": ("float64", "float32"), "sizes": (DecoderConfig(), DecoderConfig(width=8))}, ("width", "dtype")),
        ({"batches": (uniform_batch(1, 3, 266), uniform_batch(2, 3, 266))}, ("batch",)),
    ],
)
def test_series_are_named_by_as_few_axes_as_tell_them_apart(axes: dict[str, Any], names: tuple[str, ...]) -> None:
    grid = SweepGrid(blocks=(1, 2), recipes=("gpt2",), **axes)
    assert axis_names(grid) == names
    table = series_table(address_table(grid), names)
    assert len(table) == len(table.drop_duplicates(["recipe", "blocks"])) == 2 * len(grid.settings)


def test_the_control_asked_for_by_name_is_drawn_once(summary: pd.DataFrame) -> None:
    assert series_names(summary) == ["depth-scaled", "deepscalelm", "unscaled"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("quantity", sorted(TITLES))
def test_ribbons_hold_the_summarys_quantiles(summary: pd.DataFrame, quantity: str, theme: Any) -> None:
    order = series_names(summary)
    traces = checked(ribbon_figure(summary, BAND, quantity, order=order, theme=theme))
    for name in order:
        rows = summary[(summary["recipe"] == name) & (summary["quantity"] == quantity) & (summary["seeds"] > 0)]
        line = named(traces, name)
        assert line["y"] == rows["median"].tolist()
        fills = [t for t in traces if t.get("fill") == "toself" and t.get("legendgroup") == name]
        assert [fill["y"] for fill in fills] == [
            [*rows[high], *reversed(rows[low].tolist())] for low, high in (("q05", "q95"), ("q25", "q75"))
        ]
    looks = {(named(traces, n)["line"]["color"], named(traces, n)["line"]["dash"]) for n in order}
    markers = {named(traces, n)["marker"]["symbol"] for n in order}
    assert len(looks) == len(markers) == len(order)


def test_without_spread_only_medians_are_drawn_and_one_depth_has_bars(run: SweepRun, summary: pd.DataFrame) -> None:
    traces = checked(ribbon_figure(summary, BAND, spread=False))
    assert [t for t in traces if t.get("fill") == "toself" and t["x"] != [None]] == []
    alone = summary[summary["blocks"] == 16]
    line = named(checked(ribbon_figure(alone, BAND)), "depth-scaled")
    row = alone[(alone["recipe"] == "depth-scaled") & (alone["quantity"] == "largest_activation_ratio")].iloc[0]
    assert line["error_y"]["array"] == [row["q75"] - row["median"]]
    assert line["error_y"]["arrayminus"] == [row["median"] - row["q25"]]


def test_a_heat_map_has_every_cell_by_value_and_marks_what_leaves_the_band(cells: pd.DataFrame) -> None:
    mine = cells[cells["recipe"] == "unscaled"]
    heat = heat_table(mine, "largest_activation_ratio", BAND)
    grid, points, outside, key = checked(heat_figure(heat, BAND))
    assert grid["y"] == ["1", "4", "16"]
    assert grid["x"] == [str(seed) for seed in range(12)]
    for row in mine.to_dict("records"):
        value = grid["z"][grid["y"].index(str(row["blocks"]))][grid["x"].index(row["seed"])]
        assert 10**value == pytest.approx(row["largest_activation_ratio"], rel=1e-14)
    above = mine[mine["largest_activation_ratio"] > BAND.upper]
    assert 0 < len(above) < len(mine)
    assert list(zip(outside["x"], outside["y"], strict=True)) == [
        (row["seed"], str(row["blocks"])) for row in above.to_dict("records")
    ]
    assert len(points["customdata"]) == len(mine)
    assert points["customdata"][0][:3] == ["0", 1, "unscaled"]
    assert key["name"] == "outside the band"
    scale = [place for place, _ in grid["colorscale"]]
    assert scale == sorted(scale)
    assert (scale[0], scale[-1]) == (0.0, 1.0)
    limits = [(np.log10(limit) - grid["zmin"]) / (grid["zmax"] - grid["zmin"]) for limit in (BAND.lower, BAND.upper)]
    assert sum(np.isclose(scale, limits[1])) == 2
    assert {"<b>0.5</b>", "<b>20</b>"} <= set(grid["colorbar"]["ticktext"])
    assert f"{len(above)} above the band" in heat_figure.chart(heat, BAND).alt


def test_refused_cells_have_no_colour_and_are_listed_with_their_reason(run: SweepRun, cells: pd.DataFrame) -> None:
    heat = heat_table(cells[cells["recipe"] == "deepscalelm"], "largest_adjoint_ratio", BAND)
    grid = checked(heat_figure(heat, BAND))[0]
    assert grid["z"][0] == [None] * 12
    assert None not in grid["z"][1]
    (row,) = refusal_table(run.cells()).to_dict("records")
    assert (row["recipe"], row["blocks"], row["cells"]) == ("deepscalelm", 1, 12)
    assert row["seeds"] == "0, 1, 2, 3, 4, 5, 6, 7, …"
    assert row["reason"] == run.cells().query("status == 'refused'")["reason"].iloc[0]


def test_a_distribution_counts_every_seed_once(cells: pd.DataFrame) -> None:
    table = distribution_table(cells, 16, "largest_adjoint_ratio")
    assert set(table["recipe"]) == {"depth-scaled", "deepscalelm", "unscaled"}
    for name, rows in table.groupby("recipe"):
        values = cells[(cells["recipe"] == name) & (cells["blocks"] == 16)]["largest_adjoint_ratio"].to_numpy(float)
        assert rows["seeds"].sum() == 12
        assert rows["share"].sum() == pytest.approx(1.0, abs=1e-12)
        expected = [
            int(((values >= low) & ((values < high) | (last & (values <= high)))).sum())
            for low, high, last in zip(rows["lower"], rows["upper"], rows["upper"] == rows["upper"].max(), strict=True)
        ]
        assert rows["seeds"].tolist() == expected
        widths = np.log(rows["upper"].to_numpy() / rows["lower"].to_numpy())
        np.testing.assert_allclose(widths, widths[0], rtol=1e-9)
    line = named(checked(distribution_figure(table, "largest_adjoint_ratio", BAND)), "depth-scaled")
    assert line["y"] == [0.0, *table[table["recipe"] == "depth-scaled"]["share"], 0.0]
    view = distribution_view(table)
    assert view["seeds"].min() > 0
    assert view["seeds"].sum() == table["seeds"].sum()
    assert set(view["ratio"]) == {"largest adjoint ratio"}


@pytest.mark.parametrize("values", [[1.0] * 5, [0.0, 0.0], [np.nan, np.inf], [1e-300, 1e300], [3.0]])
def test_extreme_distributions_are_drawn_without_fail(values: list[float]) -> None:
    rows = {"recipe": "x", "seed": [str(n) for n in range(len(values))], "blocks": 2, "status": "observed", "q": values}
    table = distribution_table(pd.DataFrame(rows), 2, "q")
    kept = [value for value in values if 0 < value < np.inf]
    assert table["seeds"].sum() == len(kept)
    checked(distribution_figure(table, "largest_adjoint_ratio", BAND))


def test_differences_are_the_cells_paired_by_seed(run: SweepRun, cells: pd.DataFrame) -> None:
    table = series_table(difference_table(run.summary()), ())
    assert set(table["recipe"]) == {"depth-scaled", "deepscalelm"}
    quantity = "largest_activation_ratio"
    wide = cells[cells["blocks"] == 16].pivot_table(index="seed", columns="recipe", values=quantity)
    row = table[(table["recipe"] == "depth-scaled") & (table["blocks"] == 16) & (table["quantity"] == quantity)].iloc[0]
    assert row["median"] == pytest.approx((wide["depth-scaled"] - wide["unscaled"]).median(), rel=1e-12)
    figure = difference_figure(table, quantity)
    rows = table[(table["quantity"] == quantity) & (table["recipe"] == table["recipe"].iloc[0])]
    # The words have the differences, the axis a transform of them.
    words = ", ".join(
        f"{median:.4g} at {blocks}" for median, blocks in zip(rows["median"], rows["blocks"], strict=True)
    )
    assert f"{rows['recipe'].iloc[0]}: {words}" in difference_figure.chart(table, quantity).alt
    line = named(checked(figure), "depth-scaled")
    assert line["y"][-1] == pytest.approx(float(symmetric_log(row["median"])), rel=1e-12)
    assert line["customdata"][-1] == f"L 16: {row['median']:.6g}"
    ticks = dict(zip(figure.layout.yaxis.ticktext, figure.layout.yaxis.tickvals, strict=True))
    assert ticks["0"] == 0.0
    assert all(float(symmetric_log(float(text))) == place for text, place in ticks.items())


def test_shares_and_sentences_agree_with_the_cells(summary: pd.DataFrame, cells: pd.DataFrame) -> None:
    view = share_view(summary)
    observed = cells[cells["status"] == "observed"]
    for row in view.to_dict("records"):
        mine = observed[(observed["recipe"] == row["series"]) & (observed["blocks"] == row["L, blocks"])]
        assert row["all ratios"] == mine["within_band"].mean()
        assert row["largest adjoint ratio"] == (mine["largest_adjoint_ratio"].between(0.5, 20.0)).mean()
    deep = observed[(observed["recipe"] == "unscaled") & (observed["blocks"] == 16)]
    sentences = verdict_sentences(summary, BAND)
    assert sentences[-1].startswith(
        f"unscaled: {deep['within_band'].sum()} of 12 seeds keep every ratio within [0.5, 20] at 16 blocks"
    )
    assert list(quantile_view(summary, STATISTICS["smallest"])["series"].unique()) == series_names(summary)


def test_a_report_holds_every_view_and_says_what_is_missing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cells.sqlite") as store:
        sweep = InteractiveSweep(SweepGrid(blocks=(1, 3), seeds=tuple(range(600))), store, Semaphore(1))
        sweep.start()
        sweep.advance(0.0)
        assert 0 < sweep.done < sweep.total
        contents = sweep_contents(sweep)
    assert list(contents.tables) == ["summary", "growth", "differences", "cells", "refusals"]
    assert {"largest-activation", "input-adjoint", "share-within", "heat-2-largest-adjoint"} <= set(contents.figures)
    assert contents.paragraphs[-1].startswith(f"{sweep.total - sweep.done:,} of 2,400 cells are not computed yet")
    for figure in contents.figures.values():
        go.Figure(figure.to_dict())


def test_the_verdict_says_up_to_which_depth_every_seed_is_safe() -> None:
    columns = {"recipe": "gpt2", "quantity": "all_ratios", "seeds": 4, "blocks": [1, 2, 4]}
    summary = pd.DataFrame({**columns, "share_within": [1.0, 1.0, 0.5]})
    assert verdict_sentences(summary, Band()) == [
        "gpt2: 2 of 4 seeds keep every ratio within [0.01, 100] at 4 blocks; every seed does up to 2 blocks."
    ]
