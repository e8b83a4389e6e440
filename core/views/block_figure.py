"""One block drawn from the node and edge tables of `core.recipes.drawing`: the stream below, its branches above."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from core.decoder.base_draw import XAVIER, Distribution
from core.decoder.config import DecoderConfig
from core.decoder.parameters import WRITERS, layout
from core.decoder.recipes import recipe
from core.views.style import FONT, PALETTES, Theme, figure, plain
from core.views.tables import frame

WRITER_COLUMNS = ("block", "site", "label", "writer", "fan_in", "fan_out", "factor", "base_std", "stored_std")
SYMBOLS = {"state": "circle", "norm": "square", "branch": "square", "coefficient": "diamond", "sum": "circle"}
SIZES = {"state": 20, "norm": 14, "branch": 22, "coefficient": 13, "sum": 16}


def writer_table(
    config: DecoderConfig, recipe_name: str, block: int, distribution: Distribution = XAVIER
) -> pd.DataFrame:
    """The matrices of a block that write into the stream: fans, the factor on the base draw and both stds (of the law).

    `site` is the state after the addition that the writer feeds.
    """
    chosen = recipe(recipe_name)
    additions = chosen.graph(config).blocks[block]
    first = 1 + sum(len(earlier) for earlier in chosen.graph(config).blocks[:block])
    rows = []
    for spec in layout(config).block(block):
        if spec.role not in WRITERS:
            continue
        kind = "attention" if spec.role == "output" else "feed_forward"
        place = next(i for i, addition in enumerate(additions) if any(b.kind == kind for b in addition.branches))
        std = distribution.base_std(spec)
        factor = chosen.coefficient(spec, block, config, std)
        rows.append(
            {
                "block": block,
                "site": first + place,
                "label": f"block.{block}.{additions[place].label}",
                "writer": spec.name,
                "fan_in": spec.shape[0],
                "fan_out": spec.shape[1],
                "factor": factor,
                "base_std": std,
                "stored_std": factor * std,
            }
        )
    return frame(rows, WRITER_COLUMNS)


def block_figure(
    nodes: pd.DataFrame, edges: pd.DataFrame, writers: pd.DataFrame, *, title: str, theme: Theme = "light"
) -> go.Figure:
    """The block as a picture; writers are named with their factor under the branch that they end."""
    colors = PALETTES[theme]
    places = {
        node: (column, row) for node, column, row in zip(nodes["node"], nodes["column"], nodes["row"], strict=True)
    }
    traces = [
        _path(edges[edges["path"] == path], places, index, theme) for index, path in enumerate(("stream", "branch"))
    ]
    traces += [_nodes(nodes[nodes["kind"] == kind], str(kind), theme) for kind in dict.fromkeys(nodes["kind"])]
    wide = int(nodes["column"].max())
    deep = int(nodes["row"].min())
    hidden = {"visible": False, "fixedrange": True}
    return figure(
        traces,
        {
            "template": {},
            "title": {"text": plain(title), "x": 0, "xref": "container", "font": {"size": 15}, "pad": {"l": 8}},
            "font": {"family": FONT, "size": 13, "color": colors.ink},
            "paper_bgcolor": colors.paper,
            "plot_bgcolor": colors.paper,
            "xaxis": {**hidden, "range": [-0.6, wide + 0.6]},
            "yaxis": {**hidden, "range": [deep - 0.9, 2.0]},
            "showlegend": False,
            "height": 330 if deep == 0 else 430,
            "margin": {"l": 8, "r": 8, "t": 48, "b": 8, "autoexpand": False},
            "hovermode": False,
            "annotations": _labels(nodes, writers, theme),
        },
    )


def _path(edges: pd.DataFrame, places: dict[Any, tuple[int, int]], index: int, theme: Theme) -> dict[str, Any]:
    xs: list[float | None] = []
    ys: list[float | None] = []
    for source, target in zip(edges["source"], edges["target"], strict=True):
        (x0, y0), (x1, y1) = places[source], places[target]
        # A branch leaves the stream upwards and comes back down, in right angles.
        corner = (x0, y1) if y0 == 0 else (x1, y0)
        xs += [x0, corner[0], x1, None]
        ys += [y0, corner[1], y1, None]
    color = PALETTES[theme].series[index]
    line = {"color": color, "width": 5 if index == 0 else 2, "dash": "solid" if index == 0 else "dot"}
    return {"type": "scatter", "mode": "lines", "x": xs, "y": ys, "line": line, "hoverinfo": "skip"}


def _nodes(nodes: pd.DataFrame, kind: str, theme: Theme) -> dict[str, Any]:
    colors = PALETTES[theme]
    color = colors.series[1] if kind == "branch" else colors.series[0] if kind == "state" else colors.muted
    marker = {
        "symbol": SYMBOLS.get(kind, "circle"),
        "size": SIZES.get(kind, 14),
        "color": color if kind in ("branch", "state") else colors.paper,
        "line": {"color": color, "width": 2},
    }
    return {
        "type": "scatter", "mode": "markers", "x": nodes["column"].tolist(), "y": nodes["row"].tolist(),
        "marker": marker, "hoverinfo": "skip",
    }  # fmt: skip


def _labels(nodes: pd.DataFrame, writers: pd.DataFrame, theme: Theme) -> list[dict[str, Any]]:
    colors = PALETTES[theme]
    ends = {"attention": "attention.output", "feed-forward": "ffn.down"}
    found = []
    site = int(writers["site"].min()) - 1 if len(writers) else 0
    for kind, label, column, row in zip(nodes["kind"], nodes["label"], nodes["column"], nodes["row"], strict=True):
        below = row <= 0
        text = f"<b>{plain(label)}</b>" if kind in ("branch", "state") else plain(label)
        if kind == "state":
            text = f"<b>site {site}</b><br>{'' if label == 'x' else plain(label)}"
            site += 1
        for branch, end in ends.items():
            rows = writers[writers["writer"].str.contains(end, regex=False)]
            if kind == "branch" and branch in str(label) and len(rows):
                text += f"<br>writer {plain(end)}<br>factor {rows['factor'].iloc[0]:.6g}"
        found.append(
            {
                "x": column, "y": row, "text": text, "showarrow": False, "yshift": -16 if below else 16,
                "yanchor": "top" if below else "bottom", "font": {"color": colors.ink, "size": 12},
            }
        )  # fmt: skip
    return found
