"""One block of a decoder as a diagram from top to bottom, from the tables of `core.compare.drawing`.

The residual stream runs down the middle. Branches leave it sideways and return at the sum, one step per line, so that
the labels do not overlap on a narrow screen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from .chart import Drawn
from .style import LINK, PALETTES, Theme, layout, plain
from .style import figure as assembled

# A row with and without observed numbers.
ROW_PIXELS, NUMBERS_PIXELS = 54, 66
TITLE_PIXELS = 44
# Signs of the ratios and their columns.
SIGNS = {"A": "activation", "G": "adjoint"}
STREAM, BRANCH = "stream", "branch"
# The matrix that ends a branch, by the branch's label.
WRITER_OF = {"attention": "attention.output", "feed-forward": "ffn.down"}
# Markers under the labels: a state is a dot on the stream, a sum a ring around its sign.
DOTS = {"state": ("circle", 13), "sum": ("circle-open", 22)}
# The colour of each path, by its place among the series' colours, and its width.
PATHS = {STREAM: (0, 4), BRANCH: (1, 2)}


@dataclass(frozen=True)
class Observed:
    """Measured values of one recipe: its rows of the site table and of the contribution table."""

    sites: pd.DataFrame
    contributions: pd.DataFrame

    def at_state(self, site: int) -> list[str]:
        """Return the RMS of the state at `site` and its two ratios, as lines of text; empty if there is no such row."""
        rows = self.sites[self.sites["site"] == site]
        if rows.empty:
            return []
        ratios = [f"{sign} {rows[f'{name}_ratio'].iloc[0]:.4g}" for sign, name in SIGNS.items()]
        return [f"RMS {rows['activation_rms'].iloc[0]:.4g}", ", ".join(ratios)]

    def of_branch(self, site: int, branch: str) -> list[str]:
        """Return the output RMS of a branch and its size relative to the stream, as lines of text.

        `site` is the index of the state after the addition; empty if there is no such row.
        """
        known = self.contributions[["site", "branch"]]
        rows = self.contributions[(known["site"] == site) & (known["branch"] == branch)]
        if rows.empty:
            return []
        raw, ratio, cosine = (rows[name].iloc[0] for name in ("raw_rms", "contribution_to_stream", "cosine"))
        angle = "cosine undefined" if pd.isna(cosine) else f"cosine {cosine:.4g}"
        share = "no stream to compare with" if pd.isna(ratio) else f"{ratio:.4g} of the stream"
        return [f"output RMS {raw:.4g}", f"{share}, {angle}"]


@dataclass(frozen=True)
class Block:
    """The diagram of one block.

    States are dots with the index of their site; norms, coefficients and branches are boxes. `writers` is a
    `writer_table`: each branch shows the matrix that ends it (its writer) and the factor on that matrix. If `observed`
    is given, its values are written at states and branches.
    """

    nodes: pd.DataFrame
    edges: pd.DataFrame
    writers: pd.DataFrame
    title: str
    observed: Observed | None = None

    def __call__(self, *, theme: Theme = "light") -> go.Figure:
        """Return the Plotly figure."""
        deepest, left = int(self.nodes["column"].max()), int(self.nodes["row"].min())
        row = ROW_PIXELS if self.observed is None else NUMBERS_PIXELS
        height = TITLE_PIXELS + row * (deepest + 1)
        chart = layout(plain(self.title), "", "", theme=theme, height=height)
        hidden = {"visible": False, "fixedrange": True}
        chart["xaxis"] = {**hidden, "range": [left - 0.75 if left else -1.15, 1.75]}
        chart["yaxis"] = {**hidden, "range": [-deepest - 0.6, 0.6]}
        chart["margin"] |= {"l": 4, "r": 4, "t": TITLE_PIXELS, "b": 4}
        chart |= {"showlegend": False, "hovermode": "closest", "meta": {LINK: "point"}}
        rows = self.nodes.to_dict("records")
        chart["annotations"] = [_label(row, self._lines(row), bool(left), theme) for row in rows]
        paths = [_path(self._ways(path), path, theme) for path in PATHS]
        dots = [_dots(self.nodes[self.nodes["kind"] == kind], kind, theme) for kind in DOTS]
        return assembled([*paths, _arrows([way for path in PATHS for way in self._ways(path)], theme), *dots], chart)

    @property
    def alt(self) -> str:
        """The title and all steps in order as text, steps of branches in brackets."""
        steps = ", ".join(map(self._told, self.nodes.to_dict("records")))
        return f"{self.title}. One block from top to bottom, branch steps in brackets: {steps}."

    def _told(self, node: dict[Any, Any]) -> str:
        name = str(node["label"])
        if self.observed is not None and (lines := self._lines(node)):
            name += f" ({', '.join(lines)})"
        return f"[{name}]" if node["row"] else name

    @property
    def undrawn(self) -> list[str]:
        """An empty list, since everything can be drawn."""
        return []

    def _lines(self, node: dict[Any, Any]) -> list[str]:
        """Return the lines under a node's name: a branch's writer and output, or a state's size."""
        if node["kind"] == "branch":
            states = self.nodes[(self.nodes["kind"] == "state") & (self.nodes["column"] > node["column"])]
            branch = str(node["label"]).replace("-", "_")
            seen = [] if self.observed is None else self.observed.of_branch(int(states["site"].iloc[0]), branch)
            return [line for line in (_writer(node, self.writers), *seen) if line]
        return self.observed.at_state(int(node["site"])) if node["kind"] == "state" and self.observed else []

    def _ways(self, path: str) -> list[Way]:
        """Return start and end of each edge of a path."""
        columns = (self.nodes[name] for name in ("node", "row", "column"))
        places = {name: (row, -column) for name, row, column in zip(*columns, strict=True)}
        edges = self.edges[self.edges["path"] == path]
        return [
            Way(places[source], places[target], path)
            for source, target in zip(edges["source"], edges["target"], strict=True)
        ]


@dataclass(frozen=True)
class Way:
    """An edge of the diagram between two grid points (x, y); x = 0 is the stream and y decreases downwards.

    An edge that leaves the stream goes sideways and then down; one that returns to it goes down and then sideways.
    """

    start: tuple[int, int]
    end: tuple[int, int]
    path: str

    @property
    def corner(self) -> tuple[int, int]:
        """The point (x, y) where the edge turns."""
        return (self.end[0], self.start[1]) if self.start[0] == 0 else (self.start[0], self.end[1])

    @property
    def head(self) -> tuple[float, float, str]:
        """The point (x, y) and the symbol of the arrow's head, in the middle of the last part before the target."""
        (x0, _), (x1, y1) = self.start, self.end
        if x1 == 0 and x0 != 0:
            return x0 / 2, y1, "triangle-left" if x0 > 0 else "triangle-right"
        return x1, y1 + 0.5, "triangle-down"


block_figure = Drawn(Block)


def _path(ways: list[Way], path: str, theme: Theme) -> dict[str, Any]:
    points = [point for way in ways for point in (way.start, way.corner, way.end, (None, None))]
    place, width = PATHS[path]
    line = {"color": PALETTES[theme].series[place], "width": width}
    xs, ys = ([point[axis] for point in points] for axis in (0, 1))
    return {"type": "scatter", "mode": "lines", "x": xs, "y": ys, "line": line, "hoverinfo": "skip"}


def _arrows(ways: list[Way], theme: Theme) -> dict[str, Any]:
    xs, ys, symbols = ([way.head[part] for way in ways] for part in (0, 1, 2))
    marker = {"symbol": symbols, "size": 9, "color": [PALETTES[theme].series[PATHS[way.path][0]] for way in ways]}
    return {"type": "scatter", "mode": "markers", "x": xs, "y": ys, "marker": marker, "hoverinfo": "skip"}


def _dots(nodes: pd.DataFrame, kind: str, theme: Theme) -> dict[str, Any]:
    colors = PALETTES[theme]
    symbol, size = DOTS[kind]
    marker = {
        "symbol": symbol,
        "size": size,
        "color": colors.series[0],
        "line": {"width": 2, "color": colors.series[0]},
    }
    return {
        "type": "scatter", "mode": "markers", "x": nodes["row"].tolist(), "y": (-nodes["column"]).tolist(),
        "marker": marker, "hoverinfo": "skip",
        **({"hoverinfo": "none", "customdata": nodes["site"].tolist()} if kind == "state" else {}),
    }  # fmt: skip


def _writer(node: dict[Any, Any], writers: pd.DataFrame) -> str:
    """Return the writer at the end of a branch, with its factor; an empty string for any other node."""
    end = WRITER_OF.get(str(node["label"])) if node["kind"] == "branch" else None
    rows = writers[writers["writer"].str.contains(end, regex=False)] if end else writers[:0]
    return "" if end is None or rows.empty else f"{end}, factor {float(rows['factor'].iloc[0]):.4g}"


def _label(node: dict[Any, Any], lines: list[str], two_sided: bool, theme: Theme) -> dict[str, Any]:
    colors, kind = PALETTES[theme], node["kind"]
    place = {"x": node["row"], "y": -node["column"], "showarrow": False, "text": plain(node["label"])}
    small = "".join(f"<br><span style='font-size:11px'>{plain(line)}</span>" for line in lines)
    if kind == "state":
        # Beside the dot, and above the line that leaves it on the same side.
        beside = {"xanchor": "right", "xshift": -14, "align": "right"}
        beside |= {"yanchor": "bottom", "yshift": 2} if two_sided else {}
        name = "" if node["label"] == "x" else f"<br>{place['text']}"
        text = f"<b>site {node['site']}</b>{name}{small}"
        return {**place, **beside, "text": text, "font": {"color": colors.muted, "size": 13}}
    if kind == "sum":
        return {**place, "text": "<b>+</b>", "bgcolor": colors.paper, "borderpad": 0, "font": {"size": 15}}
    edge = colors.series[1] if kind == "branch" else colors.series[3] if kind == "coefficient" else colors.muted
    text = f"<b>{place['text']}</b>" if kind == "branch" else place["text"]
    return {
        **place, "text": text + small, "bgcolor": colors.paper, "bordercolor": edge, "borderpad": 5,
        "borderwidth": 2 if kind == "branch" else 1, "font": {"color": colors.ink, "size": 13},
    }  # fmt: skip
