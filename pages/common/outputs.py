"""The sheet of a page: it draws figures and tables with buttons for their files, and collects them for export."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.export.bundle import Contents, bundle, report_text
from core.export.csv import csv_text
from core.export.html import MODEBAR
from core.export.json import figure_json, json_text
from core.export.manifest import Export, manifest_text
from core.export.pictures import IMAGES, image
from core.figures.chart import Picture
from pages.common import navigation, settings
from pages.common.chart import chart
from pages.common.panels import escaped, theme

SIX_DECIMALS = "%.6f"
# Seconds in which a browser has a changed figure alone to draw. Tables and buttons that reach it meanwhile go first
# there, and a person who moves a slider, and looks at the figures, waits a third longer.
FIGURE_ALONE = 0.1
ICON = ":material/download:"


@dataclass
class Sheet:
    """The figures and tables that a page shows, by file name; `page` is the name of the page in links and manifests.

    Figures are shown in the visitor's theme and exported in the light theme.
    """

    page: str
    title: str
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    pictures: dict[str, Picture] = field(default_factory=dict)
    _changed: int = 0
    _without_files: list[tuple[DeltaGenerator, str, Picture]] = field(default_factory=list)

    def figure(self, name: str, picture: Picture, *, select: Callable[[Any], None] | None = None) -> None:
        """Draw a figure, the points that it cannot draw, and buttons for its files.

        `select` is called with the `customdata` of a clicked point.
        """
        self.pictures[name] = picture
        self._changed += chart(
            picture(theme=theme()), key=f"figure-{name}", alt=picture.alt, select=select, config=MODEBAR
        )
        if undrawn := picture.undrawn:
            more = f"; and {len(undrawn) - 8} more" if len(undrawn) > 8 else ""
            st.caption(escaped(f"Not drawn on this axis: {'; '.join(undrawn[:8])}{more}."))
        place = st.container(horizontal=True, gap="xsmall", key=f"files-of-{name}")
        self._without_files.append((place, name, picture))

    def table(
        self,
        name: str,
        table: pd.DataFrame,
        *,
        alt: str,
        view: pd.DataFrame | None = None,
        formats: Mapping[str, str] | None = None,
        height: int | None = None,
        select: Callable[[], None] | None = None,
        folded: bool = True,
    ) -> None:
        """Draw a table, or `view` in its place, in an expander with buttons for its files.

        The files have the whole `table`. `select` is called after the visitor has chosen a row, which is in the session
        entry `table-{name}`; then, or if `folded` is False, there is no expander. `formats` maps columns to number
        formats.
        """
        self._let_figures_be_drawn()
        if not folded or select is not None:
            self._rows(name, table, table if view is None else view, alt, formats, height, select)
            return
        with st.expander(f"Numbers: {escaped(alt.rstrip('.'))}", key=f"numbers-{name}", icon=":material/table:"):
            self._rows(name, table, table if view is None else view, alt, formats, height, None)

    def _rows(
        self,
        name: str,
        table: pd.DataFrame,
        shown: pd.DataFrame,
        alt: str,
        formats: Mapping[str, str] | None,
        height: int | None,
        select: Callable[[], None] | None,
    ) -> None:
        st.dataframe(
            shown, hide_index=True, width="stretch", alt=alt, column_config=columns(shown, formats),
            key=f"table-{name}", height=height or "auto", placeholder="", on_select=select or "ignore",
            selection_mode="single-row",
        )  # fmt: skip
        self.files(name, table)

    def files(self, name: str, table: pd.DataFrame) -> None:
        """Draw buttons for the CSV and JSON files of a table, which contain it exactly."""
        self._let_figures_be_drawn()
        self.tables[name] = table
        with st.container(horizontal=True, gap="xsmall", key=f"files-of-table-{name}"):
            self._download(f"{name}.csv", "text/csv", lambda: csv_text(table).encode())
            self._download(f"{name}.json", "application/json", lambda: json_text(table).encode())

    def file(self, name: str, mime: str, data: Callable[[], bytes]) -> None:
        """Draw a button for another file of the page; `data` is called when it is clicked."""
        self._let_figures_be_drawn()
        self._download(name, mime, data, kind="secondary")

    def exports(
        self,
        *,
        contents: Callable[[], Contents] | None = None,
        record: Mapping[str, Any] | None = None,
        paragraphs: Sequence[str] = (),
    ) -> None:
        """Draw the exports of the whole page: a zip, a report and a manifest, each made when its button is clicked.

        `contents` returns what to export, by default the figures and tables that the sheet has collected, with
        `paragraphs`. `record` says how the numbers were made.
        """
        self._let_figures_be_drawn()
        entry = navigation.ENTRIES[self.page]
        # Read now: the session may have changed when the button is clicked.
        controls = entry.all_controls
        export = Export(
            page=self.page,
            saved=settings.saved(controls),
            query=settings.query(controls),
            pins=settings.pins(),
            record=record or {},
        )
        collect = contents or (lambda: self._contents(paragraphs))
        with st.popover("Export this page", icon=ICON, key="export-page"):
            for label, file, mime, data in (
                ("Everything, as a zip", f"{self._prefix}.zip", "application/zip", lambda: bundle(collect(), export)),
                ("Report to print", "report.html", "text/html", lambda: report_text(collect(), export).encode()),
                ("Manifest", "manifest.json", "application/json", lambda: manifest_text(export, {}).encode()),
            ):
                self._download(file, mime, data, label=label)
            st.caption(
                "The zip holds the report, every table as CSV and JSON, every figure as SVG, HTML and JSON, and the "
                "manifest. Upload a manifest in the sidebar to have this page again exactly; two exports of one "
                "setting are the same bytes."
            )

    def _let_figures_be_drawn(self) -> None:
        """Wait briefly so that the browser can draw the figures, then draw their export buttons."""
        time.sleep(FIGURE_ALONE * self._changed)
        for place, name, picture in self._without_files:
            with place, st.popover("Export", icon=ICON, type="tertiary", key=f"export-{name}"):
                for kind, mime in IMAGES.items():
                    self._download(f"{name}.{kind}", mime, partial(figure_file, picture, kind), label=kind.upper())
                self._download(f"{name}.figure.json", "application/json", partial(_json, picture), label="Data as JSON")
        self._changed, self._without_files = 0, []

    @property
    def _prefix(self) -> str:
        return self.page.replace("_", "-")

    def _contents(self, paragraphs: Sequence[str]) -> Contents:
        figures = {name: picture(theme="light") for name, picture in self.pictures.items()}
        return Contents(title=self.title, paragraphs=paragraphs, tables=self.tables, figures=figures)

    def _download(
        self, file: str, mime: str, data: Callable[[], bytes], *, kind: Any = "tertiary", label: str = ""
    ) -> None:
        # Outside a menu the file's name is the label, so that no two buttons read the same. The bytes are made at a
        # click, on a thread beside the page.
        name = file if file.startswith(self._prefix) else f"{self._prefix}-{file}"
        st.download_button(
            label or file, data=data, file_name=name, mime=mime, on_click="ignore", key=f"download-{file}", icon=ICON,
            type=kind,
        )  # fmt: skip


def figure_file(picture: Picture, kind: str) -> bytes:
    """Return a figure in the light theme as bytes of the kind "png", "svg" or "pdf"."""
    return image(picture(theme="light"), kind)


def _json(picture: Picture) -> bytes:
    return figure_json(picture(theme="light")).encode()


def columns(table: pd.DataFrame, formats: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return Streamlit's column settings for a table: readable titles, and floats with six decimals or in `formats`."""
    chosen, found = formats or {}, {}
    for name in map(str, table.columns):
        if name in chosen or pd.api.types.is_float_dtype(table[name]):
            found[name] = st.column_config.NumberColumn(in_words(name), format=chosen.get(name, SIX_DECIMALS))
        elif in_words(name) != name:
            found[name] = st.column_config.Column(in_words(name))
    return found


def in_words(name: str) -> str:
    """Return a column name as a title: `adjoint_rms` becomes "adjoint RMS"; a name without `_` is unchanged."""
    words = name.split("_")
    return " ".join("RMS" if word == "rms" else word for word in words) if len(words) > 1 else name
