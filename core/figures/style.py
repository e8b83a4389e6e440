"""The style of all figures: Okabe-Ito colours, a marker and a dash per series, light and dark theme.

Streamlit replaces Plotly's default template, so every colour is set explicitly, and an exported file looks like the
page.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..recipes.catalogue import LOOKS
from ..recipes.recipe import JOINT

if TYPE_CHECKING:
    import plotly.graph_objects as go

Theme = Literal["light", "dark"]

HEIGHT = 380
FONT = "Source Sans, Source Sans Pro, Helvetica, Arial, sans-serif"
MARKERS = (
    "circle", "diamond-open", "square", "triangle-up-open", "cross", "x-open",
    "star", "hexagon-open", "triangle-down", "pentagon-open", "hourglass", "bowtie-open",
)  # fmt: skip
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
# Entry of a layout's `meta`, for figures of one page that point at the same residual site: which of a figure's numbers
# are sites, horizontal places ("x") or its points' `customdata` ("point").
LINK = "link"
# Colours of series in each palette.
COLORS = 6
# Markers a series at most, spread evenly: enough to tell it by, and a browser draws each with a tenth of a millisecond.
MARKED_POINTS = 16


@dataclass(frozen=True)
class Palette:
    """The colours of one theme; `series` are Okabe-Ito colours, ordered so that neighbours differ in lightness too."""

    paper: str
    ink: str
    muted: str
    grid: str
    band: str
    band_edge: str
    series: tuple[str, ...]


PALETTES: dict[Theme, Palette] = {
    "light": Palette(
        paper="#FFFFFF",
        ink="#1A1A1A",
        muted="#555B66",
        grid="#E3E6EB",
        band="rgba(0, 158, 115, 0.10)",
        band_edge="#00795A",
        series=("#0072B2", "#D55E00", "#009E73", "#AA4499", "#8A6D00", "#1A1A1A"),
    ),
    "dark": Palette(
        paper="#0E1117",
        ink="#F2F4F8",
        muted="#AEB6C2",
        grid="#2B303B",
        band="rgba(0, 158, 115, 0.16)",
        band_edge="#2FC39A",
        series=("#56B4E9", "#E69F00", "#2FC39A", "#E79CC4", "#F0E442", "#F2F4F8"),
    ),
}


@dataclass(frozen=True)
class Stroke:
    """The colour, marker and dash of one series in one theme."""

    color: str
    marker: str
    dash: str


@dataclass(frozen=True)
class Style:
    """The look of a series before a theme is chosen; `color` is an index into the theme's series colours or a name."""

    color: int | Literal["ink", "muted"]
    marker: str = MARKERS[0]
    dash: str = DASHES[0]

    def stroke(self, theme: Theme) -> Stroke:
        """Return the colour, marker and dash in a theme."""
        palette = PALETTES[theme]
        color = palette.series[self.color] if isinstance(self.color, int) else getattr(palette, self.color)
        return Stroke(color, self.marker, self.dash)


def place_style(place: int) -> Style:
    """Return the style of series number `place`, counted from 0.

    Colours repeat after six series with another dash, and whole styles after 36.
    """
    turned = place + place // COLORS
    return Style(place % COLORS, MARKERS[place % len(MARKERS)], DASHES[turned % len(DASHES)])


def recipe_style(name: str, variant: int = 0) -> Style:
    """Return the style of a recipe, which is the same in all figures.

    Further lines of the same recipe have a `variant` above 0: the same colour with another marker and dash. A
    combination has the colour of its first recipe and the marker of its last.
    """
    places = [LOOKS.get(part, 0) for part in name.split(JOINT)]
    first, last = place_style(places[0]), place_style(places[-1])
    marker, dash = MARKERS.index(last.marker) + variant, DASHES.index(last.dash) + 2 * variant + (len(places) > 1)
    return Style(first.color, MARKERS[marker % len(MARKERS)], DASHES[dash % len(DASHES)])


def stroke(place: int, theme: Theme = "light") -> Stroke:
    """Return the colour, marker and dash of series number `place` in a theme."""
    return place_style(place).stroke(theme)


def faded(color: str, opacity: float) -> str:
    """Return a `#RRGGBB` colour as an `rgba(...)` text with the given opacity, from 0 to 1."""
    red, green, blue = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity})"


def plain(text: str) -> str:
    """Escape external text for a Plotly title, label or legend, where HTML tags would be interpreted."""
    return html.escape(str(text), quote=False)


def layout(title: str, x_title: str, y_title: str, *, theme: Theme = "light", height: int = HEIGHT) -> dict[str, Any]:
    """Return the Plotly layout that all figures share, with titles and colours; the legend is below the axes."""
    colors = PALETTES[theme]
    axis = {
        "showgrid": True,
        "gridcolor": colors.grid,
        "showline": True,
        "linecolor": colors.muted,
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": colors.muted,
        # What ends beyond the axis is seen as well; to look for it takes a browser a tenth of the drawing.
        "ticklabeloverflow": "allow",
    }
    return {
        "template": {},
        "title": {"text": title, "x": 0, "xanchor": "left", "xref": "container", "font": {"size": 15}, "pad": {"l": 8}},
        "font": {"family": FONT, "size": 13, "color": colors.ink},
        "paper_bgcolor": colors.paper,
        "plot_bgcolor": colors.paper,
        "xaxis": {**axis, "title": {"text": x_title, "standoff": 8, "font": {"size": 13}}},
        "yaxis": {**axis, "title": {"text": y_title, "standoff": 8, "font": {"size": 13}}},
        "legend": {"orientation": "h", "yanchor": "top", "y": -0.22, "x": 0, "font": {"size": 12}},
        "height": height,
        "margin": {"l": 68, "r": 12, "t": 64, "b": 104, "autoexpand": False},
        "modebar": {"color": colors.muted, "activecolor": colors.ink, "bgcolor": colors.paper},
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": colors.paper, "bordercolor": colors.muted, "font": {"color": colors.ink}},
        "shapes": [],
    }


def figure(traces: list[dict[str, Any]], layout: dict[str, Any]) -> go.Figure:
    """Return the Plotly figure of finished traces and layout, without Plotly's own check of every property.

    The check takes a tenth of a second per figure; the tests run it instead.
    """
    import plotly.graph_objects as go  # only where a figure is drawn

    return go.Figure({"data": traces, "layout": layout}, _validate=False)


def heading(title: str, subject: str) -> str:
    """Return a title as HTML, with `subject` as a smaller line under it if it is not empty."""
    return f"{title}<br><span style='font-size:12px'>{subject}</span>" if subject else title


def level(y: float, color: str, dash: str) -> dict[str, Any]:
    """Return a Plotly shape: a horizontal line at the height `y` over the whole width."""
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": y, "y1": y, "layer": "below",
        "line": {"color": color, "dash": dash, "width": 1},
    }  # fmt: skip


def strip(low: float, high: float, color: str) -> dict[str, Any]:
    """Return a Plotly shape: a filled strip from `low` to `high` over the whole width."""
    return {**level(low, color, "solid"), "type": "rect", "y1": high, "fillcolor": color, "line": {"width": 0}}


def upright(shape: dict[str, Any]) -> dict[str, Any]:
    """Return a horizontal shape turned into a vertical one."""
    return {**shape, "xref": "x", "yref": "paper", "x0": shape["y0"], "x1": shape["y1"], "y0": 0, "y1": 1}


def legend_entry(name: str, color: str, dash: str, fill: str | None = None) -> dict[str, Any]:
    """Return a trace without points that names a shape in the legend: a line, or, with `fill`, a filled square."""
    entry = {"type": "scatter", "x": [None], "y": [None], "name": name, "hoverinfo": "skip"}
    if fill is not None:
        # A square is no series, whatever colours and dashes the series have.
        edge = {"color": color, "width": 1.5}
        return {**entry, "mode": "markers", "marker": {"symbol": "square", "size": 13, "color": fill, "line": edge}}
    return {**entry, "mode": "lines", "line": {"color": color, "dash": dash, "width": 1.5}}
