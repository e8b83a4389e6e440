"""A figure in the page, redrawn in place when its data change.

Streamlit's Plotly element builds a changed figure anew and draws it twice, so that a visitor at a slider has to wait.
This component, `chart.js`, changes the existing figure. The Plotly script is that of the package plotly, served by this
server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import plotly
import plotly.graph_objects as go
import plotly.io
import streamlit as st
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Route

SCRIPT = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
# The version makes a copy good for ever; a fixed encoding keeps the server from compressing it for every visitor.
ADDRESS = f"/plotly-{plotly.__version__}.min.js"
HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "Content-Encoding": "identity"}
LINKING = Path(__file__).with_name("link.js").read_text(encoding="utf-8")
# Session entry: the hash of the last data of every figure.
DRAWN = "figures drawn"

_mount = st.components.v2.component(
    "depthscope.figure",
    css=Path(__file__).with_suffix(".css").read_text(encoding="utf-8"),
    js=(LINKING + Path(__file__).with_suffix(".js").read_text(encoding="utf-8")).replace(
        "LIBRARY", ADDRESS.removeprefix("/")
    ),
    isolate_styles=False,
)


def chart(
    figure: go.Figure,
    *,
    key: str,
    alt: str,
    config: Mapping[str, Any],
    select: Callable[[Any], None] | None = None,
) -> bool:
    """Draw a figure at full width; return True if it replaces a different figure of the same `key`.

    `alt` is its text for screen readers and `config` Plotly's configuration. `select` is called with the `customdata`
    of a clicked point.
    """
    clicks: dict[str, Any] = {} if select is None else {"on_point_change": partial(_clicked, key, select)}
    text = plotly.io.to_json(figure, validate=False)
    _mount(key=key, data={"figure": text, "alt": alt, "config": dict(config), "selects": select is not None}, **clicks)
    drawn: dict[str, int] = st.session_state.setdefault(DRAWN, {})
    before, drawn[key] = drawn.get(key), hash(text)
    return before not in (None, drawn[key])


async def answer(_: Request) -> FileResponse:
    """Return the HTTP response with Plotly's script."""
    return FileResponse(SCRIPT, media_type="text/javascript", headers=HEADERS)


ROUTE = Route(ADDRESS, answer)


def _clicked(key: str, select: Callable[[Any], None]) -> None:
    point = st.session_state[key].point
    if point is not None:
        select(point)
