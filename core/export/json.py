"""Tables and figures as JSON: exact numbers, missing values as null."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go


def json_text(table: pd.DataFrame) -> str:
    """Return the table as JSON text, a list of rows: floats in full, missing values null, infinities as text."""
    names = [str(name) for name in table.columns]
    columns = [[plain_value(value) for value in table[name].tolist()] for name in table.columns]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return json.dumps(rows, allow_nan=False, indent=1, ensure_ascii=False) + "\n"


def plain_value(value: Any) -> Any:
    """Return a cell as a JSON value: NaN becomes None, an infinity the text `inf` or `-inf`."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or value is pd.NA:
        return None
    return value if isinstance(value, bool | int | float | str) else str(value)


def figure_json(figure: go.Figure) -> str:
    """Return the figure as Plotly JSON text, with arrays as lists of numbers."""
    return json.dumps(plain_figure(figure), allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def plain_figure(figure: go.Figure) -> dict[str, Any]:
    found = _plain_tree(figure.to_dict())
    assert isinstance(found, dict)
    found.get("layout", {}).pop("template", None)
    return found


def _plain_tree(value: Any) -> Any:
    """Return Plotly's tree with arrays, also base64-packed ones, as lists and nonfinite numbers as null."""
    if isinstance(value, dict):
        if set(value) >= {"dtype", "bdata"}:
            packed = np.frombuffer(base64.b64decode(value["bdata"]), dtype=np.dtype(value["dtype"]))
            shape = [int(size) for size in str(value.get("shape", packed.size)).split(",")]
            return _plain_tree(packed.reshape(shape).tolist())
        return {key: _plain_tree(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain_tree(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain_tree(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if isinstance(value, np.generic) else value
