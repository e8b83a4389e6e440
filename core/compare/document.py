"""The `recipes` document for JSON: the cards of recipes and, on request, results that need runs of decoders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from .. import __version__
from ..decoder.base_draw import XAVIER, Distribution
from ..decoder.config import DecoderConfig
from ..health.request import ObserveRequest
from .card import card, cards
from .difference import difference_table
from .request import ComparisonRequest

SCHEMA = "depthscope.recipes/1"


def recipes_document(
    config: DecoderConfig, names: Sequence[str] = (), distribution: Distribution = XAVIER
) -> dict[str, Any]:
    """Return the summary cards of the named recipes or combinations as a dict for JSON.

    If `names` is empty, all recipes of the catalogue are included. No weights are drawn. Raises `RecipeError` for an
    unknown name.
    """
    found = [card(name, config, distribution) for name in names] or cards(config, distribution)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "config": config.document(),
        "base_initializer_id": distribution.name,
        "recipes": [one.document() for one in found],
    }


def measured_report(request: ObserveRequest) -> dict[str, Any]:
    """Return the `effects` and `warnings` of `combination_report` as a dict for JSON; undefined numbers are None."""
    from .combinations import combination_report  # torch, and only where arms are observed

    report = combination_report(request)
    return {
        "effects": [_mapping(asdict(effect)) for effect in report.effects],
        "warnings": [_mapping(asdict(warning)) for warning in report.warnings],
    }


def drift_rows(request: ComparisonRequest) -> list[dict[str, Any]]:
    """Return the rows of `drift_table` as dicts for JSON: public code compared with the recipes that it names.

    Undefined numbers are None.
    """
    from .drift_table import drift_table  # torch, and only where arms are observed

    return _rows(drift_table(request))


def difference_rows(
    first: str, second: str, config: DecoderConfig, distribution: Distribution = XAVIER
) -> list[dict[str, Any]]:
    """Return the rows of `difference_table` as dicts for JSON: what differs between two recipes."""
    return _rows(difference_table(first, second, config, distribution))


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [_mapping(row) for row in table.to_dict("records")]


def _mapping(row: Mapping[Any, Any]) -> dict[str, Any]:
    undefined = {key for key, value in row.items() if isinstance(value, float) and not math.isfinite(value)}
    return {str(key): None if key in undefined else value for key, value in row.items()}
