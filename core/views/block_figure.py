"""One block as a diagram from the node and edge tables of `core.recipes.drawing`, read from top to bottom.

The stream runs down the middle; branches leave it sideways and come back at the sum, every step in a line of its own,
so that the labels stay apart in half a page and on a telephone.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from core.decoder.base_draw import XAVIER, Distribution
from core.decoder.config import DecoderConfig
from core.decoder.parameters import WRITERS, layout
from core.decoder.recipes import recipe
from core.figures.style import FONT, PALETTES, Theme, figure, plain
from core.views.tables import frame

WRITER_COLUMNS = ("block", "site", "label", "writer", "fan_in", "fan_out", "factor", "base_std", "stored_std")
ROW_PIXELS = 54
TITLE_PIXELS = 44
STREAM, BRANCH = "stream", "branch"
# The matrix that ends a branch, by the branch's label.
WRITER_OF = {"attention": "attention.output", "feed-forward": "ffn.down"}
# Markers under the labels: a state is a dot on the stream, a sum a ring around its sign.
DOTS = {"state": ("circle", 13), "sum": ("circle-open", 22)}


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


def writer_view(writers: pd.DataFrame) -> pd.DataFrame:
    """The writer table as people read it in half a page: short names, the fans together, both stds."""
    names = [str(name).split(".", 2)[2].removesuffix(".weight") for name in writers["writer"]]
    fans = [f"{rows} × {columns}" for rows, columns in zip(writers["fan_in"], writers["fan_out"], strict=True)]
    return pd.DataFrame(
        {
            "matrix": names,
            "fans": fans,
            "factor": writers["factor"],
            "base std": writers["base_std"],
            "stored std": writers["stored_std"],
            "site": writers["site"],
        }
    )


def block_figure(
    nodes: pd.DataFrame, edges: pd.DataFrame, writers: pd.DataFrame, *, title: str, theme: Theme = "light"
) -> go.Figure:
    """One block; states have their site's number, norms, coefficients and branches are boxes, lines say who feeds whom.

    A branch names its writer and the factor on that matrix's base draw; `writers` is `writer_table`.
    """
    colors = PALETTES[theme]
    places = {
        name: (row, -column)
        for name, row, column in zip(nodes["node"], nodes["row"], nodes["column"], strict=True)
    }  # fmt: skip
    lines = [_lines(edges[edges["path"] == path], places, path, theme) for path in (STREAM, BRANCH)]
    dots = [_dots(nodes[nodes["kind"] == kind], kind, theme) for kind in DOTS]
    deepest, left = int(nodes["column"].max()), int(nodes["row"].min())
    hidden = {"visible": False, "fixedrange": True}
    return figure(
        [*lines, _arrows(edges, places, theme), *dots],
        {
            "template": {},
            "title": {"text": plain(title), "x": 0, "xref": "container", "font": {"size": 14}, "pad": {"l": 8}},
            "font": {"family": FONT, "size": 13, "color": colors.ink},
            "paper_bgcolor": colors.paper,
            "plot_bgcolor": colors.paper,
            "xaxis": {**hidden, "range": [left - 0.75 if left else -1.15, 1.75]},
            "yaxis": {**hidden, "range": [-deepest - 0.6, 0.6]},
            "showlegend": False,
            "height": TITLE_PIXELS + ROW_PIXELS * (deepest + 1),
            "margin": {"l": 4, "r": 4, "t": TITLE_PIXELS, "b": 4, "autoexpand": False},
            "hovermode": False,
            "annotations": [_label(row, _writer(row, writers), bool(left), theme) for row in nodes.to_dict("records")],
        },
    )


def block_text(nodes: pd.DataFrame) -> str:
    """The diagram in words, for who does not see it: every step in order, branches in brackets."""
    steps = [f"[{label}]" if row else str(label) for label, row in zip(nodes["label"], nodes["row"], strict=True)]
    return f"One block from top to bottom, branch steps in brackets: {', '.join(steps)}."


def _lines(edges: pd.DataFrame, places: dict[Any, tuple[int, int]], path: str, theme: Theme) -> dict[str, Any]:
    xs: list[float | None] = []
    ys: list[float | None] = []
    for source, target in zip(edges["source"], edges["target"], strict=True):
        (x0, y0), (x1, y1) = places[source], places[target]
        # Out of the stream sideways and then down, back into it down and then sideways.
        corner = (x1, y0) if x0 == 0 else (x0, y1)
        xs += [x0, corner[0], x1, None]
        ys += [y0, corner[1], y1, None]
    color = PALETTES[theme].series[0 if path == STREAM else 1]
    line = {"color": color, "width": 4 if path == STREAM else 2}
    return {"type": "scatter", "mode": "lines", "x": xs, "y": ys, "line": line, "hoverinfo": "skip"}


def _arrows(edges: pd.DataFrame, places: dict[Any, tuple[int, int]], theme: Theme) -> dict[str, Any]:
    """Heads in the middle of the last stretch before every target."""
    xs, ys, symbols, tints = [], [], [], []
    for source, target, path in zip(edges["source"], edges["target"], edges["path"], strict=True):
        (x0, y0), (x1, y1) = places[source], places[target]
        back = x1 == 0 and x0 != 0
        start = (x0, y1) if back else (x1, y0)
        xs.append((start[0] + x1) / 2)
        ys.append((start[1] + y1) / 2 if back else y1 + 0.5)
        symbols.append(("triangle-left" if x0 > 0 else "triangle-right") if back else "triangle-down")
        tints.append(PALETTES[theme].series[0 if path == STREAM else 1])
    marker = {"symbol": symbols, "size": 9, "color": tints}
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
    }  # fmt: skip


def _writer(node: dict[Any, Any], writers: pd.DataFrame) -> str:
    """The writer that ends a branch, with its factor; empty for everything else."""
    end = WRITER_OF.get(str(node["label"])) if node["kind"] == "branch" else None
    rows = writers[writers["writer"].str.contains(end, regex=False)] if end else writers[:0]
    return "" if end is None or rows.empty else f"{end}, factor {float(rows['factor'].iloc[0]):.4g}"


def _label(node: dict[Any, Any], writer: str, two_sided: bool, theme: Theme) -> dict[str, Any]:
    colors, kind = PALETTES[theme], node["kind"]
    place = {"x": node["row"], "y": -node["column"], "showarrow": False, "text": plain(node["label"])}
    if kind == "state":
        # Beside the dot, and above the line that leaves it on the same side.
        beside = {"xanchor": "right", "xshift": -14, "align": "right"}
        beside |= {"yanchor": "bottom", "yshift": 2} if two_sided else {}
        name = "" if node["label"] == "x" else f"<br>{place['text']}"
        text = f"<b>site {node['site']}</b>{name}"
        return {**place, **beside, "text": text, "font": {"color": colors.muted, "size": 13}}
    if kind == "sum":
        return {**place, "text": "<b>+</b>", "bgcolor": colors.paper, "borderpad": 0, "font": {"size": 15}}
    edge = colors.series[1] if kind == "branch" else colors.series[3] if kind == "coefficient" else colors.muted
    text = f"<b>{place['text']}</b>" if kind == "branch" else place["text"]
    text += f"<br><span style='font-size:11px'>{writer}</span>" if writer else ""
    return {
        **place, "text": text, "bgcolor": colors.paper, "bordercolor": edge, "borderpad": 5,
        "borderwidth": 2 if kind == "branch" else 1, "font": {"color": colors.ink, "size": 13},
    }  # fmt: skip
