"""An observation as the landing page shows it: paragraphs, tables and figures, and the report made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from core.figures.sites import RATIO_TITLES, contribution_figure, ratio_figure, token_figure
from core.health.band import Band
from core.health.columns import WITHOUT_LARGEST
from core.health.diagnosis import comparison, diagnose
from core.views.bundle import Contents, report_text
from core.views.tables import observe_tables

TITLE = "Residual health"
# Past this factor between a site's RMS and that of all tokens but the largest, one token speaks for the site.
OUTSIZED = 2.0


def observe_paragraphs(document: Mapping[str, Any]) -> list[str]:
    """What was observed, the verdict, the comparison with the control and the loss reduction, each a paragraph."""
    verdict = diagnose(document)
    return [
        setting_sentence(document),
        " ".join([verdict.headline, *verdict.sentences]),
        comparison(document),
        reduction_sentence(document),
    ]


def setting_sentence(document: Mapping[str, Any]) -> str:
    """Sizes, seed, floating type, recipe and its factor, as one sentence."""
    config, factor = document["config"], document["factor"]
    scale = "" if factor is None else f" (factor {factor:.6g} on {document['transformed_tensors']} tensors)"
    return (
        f"{config['blocks']} blocks, width {config['width']}, {config['heads']} query and {config['kv_heads']} "
        f"key/value heads, feed-forward width {config['ff_width']}, vocabulary {config['vocabulary']}, "
        f"{document['parameters']:,} parameters; seed {document['seed']}, {document['dtype']}, recipe "
        f"{document['recipe']}{scale}."
    )


def reduction_sentence(document: Mapping[str, Any]) -> str:
    """What every absolute value depends on: the loss's reduction and the number of valid targets."""
    return loss_sentence(document["initialized"]["valid_positions"])


def loss_sentence(count: int, reduction: str = "mean over valid targets") -> str:
    """The same of any arm with that many valid targets."""
    if not reduction.startswith("mean"):
        return f"The loss is the model's own ({reduction}), in nats; another reduction scales every absolute adjoint."
    targets = "1 valid target" if count == 1 else f"{count} valid targets"
    return (
        f"The loss is the mean over {targets}, in nats. An adjoint is the derivative of that mean: another reduction "
        "or number of targets scales every absolute adjoint, and no ratio."
    )


def outsized_sentence(tokens: pd.DataFrame) -> str | None:
    """Where one token alone makes a site's RMS, in one sentence; None where none does."""
    states = tokens[tokens["quantity"] == "activation"]
    quotients = states["rms"] / states[WITHOUT_LARGEST]
    found = states[quotients > OUTSIZED]
    if found.empty:
        return None
    worst = max(found.to_dict("records"), key=lambda row: float(row["rms"] / row[WITHOUT_LARGEST]))
    return (
        f"One token outweighs all others at {len(found)} of {len(states)} states: at site {worst['site']} "
        f"({worst['label']}, {worst['arm']}) the RMS is {worst['rms']:.4g} with it and {worst[WITHOUT_LARGEST]:.4g} "
        "without."
    )


def observe_figures(document: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> dict[str, go.Figure]:
    """Ratios, absolute RMS and contributions, by the names of their files."""
    band, sites, contributions = Band(*document["band"]), tables["sites"], tables["contributions"]
    found = {f"{quantity}-ratio": ratio_figure(sites, band, quantity) for quantity in RATIO_TITLES}
    found |= {f"{quantity}-rms": token_figure(tables["tokens"], quantity) for quantity in RATIO_TITLES}
    return found | {"contribution-to-stream": contribution_figure(contributions)}


def observe_contents(document: Mapping[str, Any]) -> Contents:
    """Everything the landing page can show of an observe document, open or not."""
    tables = observe_tables(document)
    outsized = outsized_sentence(tables["tokens"])
    return Contents(
        title=TITLE,
        paragraphs=[*observe_paragraphs(document), *([] if outsized is None else [outsized])],
        tables=tables,
        figures=observe_figures(document, tables),
    )


def observe_report(document: Mapping[str, Any]) -> str:
    """The self-contained HTML report of an observe document; the same document gives the same bytes."""
    return report_text(observe_contents(document))
