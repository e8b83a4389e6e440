"""The content of the page Residual health for export: paragraphs, tables and figures, and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import plotly.graph_objects as go

from ..figures.sites import RATIO_TITLES, contribution_figure, ratio_figure, token_figure
from ..figures.tower import tower_figure
from ..health.band import DEFAULT_BAND, Band
from ..tables.observe import observe_tables
from ..tables.observe_words import observe_paragraphs, observed_headline, outsized_sentence
from .bundle import Contents, report_text
from .manifest import Export, SavedSetting, record_of

if TYPE_CHECKING:
    from ..health.seeds import SeedArm

TITLE = "Residual health"


def site_figures(
    tables: Mapping[str, pd.DataFrame], band: Band = DEFAULT_BAND, spread: pd.DataFrame | None = None
) -> dict[str, go.Figure]:
    """Return a dict from file name to figure: ratios, the tower, RMS values and contributions of an `observe` document.

    `tables` are those of `observe_tables`. `spread`, if given, has quantiles over seeds (`ribbon_table`), which the
    ratios and the tower then show. A report has the first two figures.
    """
    found = {
        f"{quantity}-ratio": ratio_figure(tables["sites"], band, quantity, spread=spread) for quantity in RATIO_TITLES
    }
    found |= {"tower": tower_figure(tables["sites"] if spread is None else spread, band)}
    found |= {f"{quantity}-rms": token_figure(tables["tokens"], quantity) for quantity in RATIO_TITLES}
    return found | {"contribution-to-stream": contribution_figure(tables["contributions"])}


def observe_contents(document: Mapping[str, Any], arms: Sequence[SeedArm] = ()) -> Contents:
    """Return all that the page can show of an `observe` document.

    `arms`, if given, are the observations of recipe and control over several seeds.
    """
    tables, spread = observe_tables(document), None
    if arms:
        # Both import the tensor engine, which is there already where arms are.
        from ..health.seeds_report import ARMS
        from ..tables.seeds import ribbon_table, verdict_table

        document = {**document, "verdicts": {key: arm.verdict.document() for key, arm in zip(ARMS, arms, strict=True)}}
        tables, spread = {**tables, "verdicts": verdict_table(arms)}, ribbon_table(arms)
    outsized = outsized_sentence(tables["tokens"])
    return Contents(
        title=TITLE,
        lead=observed_headline(document),
        paragraphs=[*observe_paragraphs(document), *([] if outsized is None else [outsized])],
        tables=tables,
        figures=site_figures(tables, Band(*document["band"]), spread),
    )


def observe_report(document: Mapping[str, Any]) -> str:
    """Return the report of an `observe` document as HTML text; the same document gives the same text."""
    export = Export(page="residual_health", saved=SavedSetting(setting={}), record=record_of(document))
    return report_text(observe_contents(document), export)
