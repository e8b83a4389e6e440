"""The report of one observation: what the landing page shows, as a file that needs nothing beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from core.health.band import Band
from core.health.diagnosis import comparison, diagnose
from core.views.export import html_report, write_text
from core.views.figures import RATIO_TITLES, ratio_figure
from core.views.tables import observe_tables

TITLE = "Residual health"


def observe_paragraphs(document: Mapping[str, Any]) -> list[str]:
    """What was observed, the verdict and the comparison with the control, each a paragraph."""
    config, verdict = document["config"], diagnose(document)
    arm = document["initialized"]
    factor = document["factor"]
    scale = "" if factor is None else f" (factor {factor!r} on {document['transformed_tensors']} tensors)"
    setting = (
        f"{config['blocks']} blocks, width {config['width']}, {config['heads']} query and {config['kv_heads']} "
        f"key/value heads, feed-forward width {config['ff_width']}, vocabulary {config['vocabulary']}; seed "
        f"{document['seed']}, {document['dtype']}, recipe {document['recipe']}{scale}."
    )
    reduction = f"The loss is the mean over {arm['valid_positions']} valid targets, in nats."
    return [setting, " ".join([verdict.headline, *verdict.sentences]), comparison(document), reduction]


def observe_figures(document: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> dict[str, go.Figure]:
    """Both ratio figures of an observe document, by the name of their file."""
    band = Band(*document["band"])
    return {f"{quantity}-ratio": ratio_figure(tables["sites"], band, quantity) for quantity in RATIO_TITLES}


def observe_report(document: Mapping[str, Any]) -> str:
    """The self-contained HTML report of an observe document; the same document gives the same bytes."""
    tables = observe_tables(document)
    return html_report(TITLE, tables, observe_figures(document, tables), observe_paragraphs(document))


def write_report(path: str | os.PathLike[str], document: Mapping[str, Any]) -> None:
    """Write `observe_report` to a file; raises `StorageError`."""
    write_text(path, observe_report(document))
