"""The figures that `--figures DIR` writes, under the file names that the pages use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import plotly.graph_objects as go

Figures = dict[str, "go.Figure"]


def plan_figures(document: Mapping[str, Any]) -> Figures:
    """Return a dict from file name to figure for a `plan` document: the parameters per name pattern."""
    from ..figures.bars import role_figure
    from ..tables.studies import role_table

    return {"roles": role_figure(role_table(document))}


def init_figures(document: Mapping[str, Any]) -> Figures:
    """Return a dict from file name to figure for an `init` document: the histogram of the weights."""
    from ..figures.studies import histogram_figure
    from ..tables.studies import histogram_table

    return {"histogram": histogram_figure(histogram_table(document))}


def trace_figures(document: Mapping[str, Any]) -> Figures:
    """Return a dict from file name to figure for a `trace` document.

    Both ratios of every fixed decoder, the classified arrays and the laptop plan.
    """
    from ..figures.sites import RATIO_TITLES, ratio_figure
    from ..figures.studies import judged_figure
    from ..health.band import DEFAULT_BAND
    from ..tables.observe import site_table
    from ..tables.studies import classifier_table

    tables = {fixture["id"]: site_table(fixture) for fixture in document["fixtures"]}
    found = {
        f"{name}-{quantity}-ratio": ratio_figure(sites, DEFAULT_BAND, quantity)
        for name, sites in tables.items()
        for quantity in RATIO_TITLES
    }
    for name, rows in classifier_table(document["synthetic_classifiers"]).groupby("array", sort=False):
        found[f"{name}-array"] = judged_figure(rows, title=f"Supplied {name} ratios")
    return {**found, **plan_figures(document["laptop_plan"])}


def recipe_figures(document: Mapping[str, Any], request: Any) -> Figures:
    """Return a dict from file name to figure for a `recipes` document.

    A diagram of the last block of every recipe that can run, and, if asked for, what public code does under the names.
    """
    import pandas as pd

    from ..compare.drawing import drawing
    from ..figures.block import block_figure
    from ..figures.rows import drift_figure
    from ..figures.sites import RATIO_TITLES
    from ..recipes.catalogue import recipe
    from ..tables.writers import writer_table

    config, found = request.config, {}
    for card in document["recipes"]:
        if not card["refusal"]:
            nodes, edges = drawing(recipe(card["name"]).graph(config), config.blocks - 1)
            writers = writer_table(config, card["name"], config.blocks - 1, request.distribution)
            found[f"block-{card['name']}"] = block_figure(nodes, edges, writers, f"{card['name']}, the last block")
    if document.get("drift"):
        drift = pd.DataFrame(document["drift"])
        found |= {f"drift-{quantity}": drift_figure(drift, quantity) for quantity in RATIO_TITLES}
    return found
