"""What every page is made of: refusals as sentences, verdicts, figures and tables with their own downloads.

A page makes one `Sheet`, shows everything through it, and so has it all for the exports at its end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.errors import DepthscopeError
from core.health.diagnosis import Diagnosis
from core.views.export import MODEBAR, csv_text, figure_html, figure_json, json_text
from core.views.style import Theme

LOGGER = logging.getLogger("depthscope.pages")
UNEXPECTED = "This page met an unexpected fault and the server's log has it; change a control or reload the page."
SIX_DECIMALS = "%.6f"


def theme() -> Theme:
    """The theme that the browser shows now; light where it is not known."""
    return "dark" if st.context.theme.type == "dark" else "light"


@contextmanager
def refusals() -> Iterator[None]:
    """Show a refusal raised inside as its own sentence, anything unexpected as one neutral sentence; never a trace."""
    try:
        yield
    except DepthscopeError as error:
        refusal(str(error))
    except MemoryError:
        refusal("This machine's memory does not hold that decoder; choose a smaller one.")
    except Exception:  # A person must not meet a traceback; the log has it.
        LOGGER.exception("A page failed")
        refusal(UNEXPECTED)


def refusal(sentence: str) -> None:
    """One sentence in a box; markup in it is shown as typed."""
    st.error(escaped(sentence), icon="🚫")


def notice(sentence: str) -> None:
    """One sentence that says what was done otherwise than asked."""
    st.info(escaped(sentence), icon="ℹ️")


def escaped(text: str) -> str:
    """Text from outside as Streamlit's markdown shows it literally: no image, link, formula or emoji is made of it."""
    return "".join("\\" + sign if sign in "\\`*_{}[]()<>#+-.!|~$:&@" else sign for sign in text)


def verdict(diagnosis: Diagnosis, beside: str = "") -> None:
    """The verdict in words; the icon says it too, so colour is never alone."""
    lines = [f"**{escaped(diagnosis.headline)}**", *map(escaped, diagnosis.sentences), escaped(beside)]
    text = " ".join(line for line in lines if line)
    if diagnosis.within:
        st.success(text, icon="✅")
    else:
        st.warning(text, icon="⚠️")


@dataclass
class Sheet:
    """Everything a page shows, in order, under the names its files get."""

    name: str
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    figures: dict[str, go.Figure] = field(default_factory=dict)
    image_format: str = "png"

    def figure(self, name: str, figure: go.Figure, *, alt: str, undrawn: Sequence[str] = ()) -> None:
        """Show a figure with its alternative text, the points it cannot draw, and its files."""
        self.figures[name] = figure
        options = {"format": self.image_format, "filename": f"{self.name}-{name}", "scale": 2}
        st.plotly_chart(
            figure, width="stretch", theme=None, key=f"figure-{name}", alt=alt,
            config={**MODEBAR, "toImageButtonOptions": options},
        )  # fmt: skip
        if undrawn:
            shown, more = list(undrawn[:8]), max(0, len(undrawn) - 8)
            st.caption(escaped(f"Not drawn on this axis: {'; '.join(shown)}{f'; and {more} more' if more else ''}."))
        title = name.replace("-", " ")
        with st.container(horizontal=True, gap="xsmall", key=f"files-of-{name}"):
            self._download(f"{name}.html", "text/html", lambda: figure_html(title, figure))
            self._download(f"{name}.json", "application/json", lambda: figure_json(figure))

    def table(
        self,
        name: str,
        table: pd.DataFrame,
        *,
        alt: str,
        view: pd.DataFrame | None = None,
        formats: Mapping[str, str] | None = None,
        height: int | None = None,
    ) -> None:
        """Show a table (`view` of it where given) with its files, which hold the whole table exactly."""
        self.tables[name] = table
        shown = table if view is None else view
        st.dataframe(
            shown, hide_index=True, width="stretch", alt=alt, column_config=columns(shown, formats),
            key=f"table-{name}", height=height or "auto",
        )  # fmt: skip
        with st.container(horizontal=True, gap="xsmall", key=f"files-of-{name}"):
            self._download(f"{name}.csv", "text/csv", lambda: csv_text(table))
            self._download(f"{name}.json", "application/json", lambda: json_text(table))

    def _download(self, file: str, mime: str, data: Callable[[], str]) -> None:
        # The file's name is the label: no two buttons of a page read the same, and the text is made at a click only.
        st.download_button(
            file, data=lambda: data().encode(), file_name=f"{self.name}-{file}", mime=mime, on_click="ignore",
            key=f"download-{file}", icon="📥", type="tertiary",
        )  # fmt: skip


def columns(table: pd.DataFrame, formats: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Column settings: six decimals for floats unless `formats` gives another format by column."""
    chosen = formats or {}
    return {
        str(name): st.column_config.NumberColumn(format=chosen.get(str(name), SIX_DECIMALS))
        for name in table.columns
        if pd.api.types.is_float_dtype(table[name])
    }
