"""Controls of the page Bands. The visitor's ratios are typed, so they are in the manifest and not in the link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from core.health.band import DEFAULT_BAND
from pages.common.widgets import Control, assign

LOWER = Control(
    name="lower", label="Lower limit", kind="number", default=DEFAULT_BAND.lower, lower=1e-12, upper=1e12, format="%g"
)
UPPER = Control(
    name="upper", label="Upper limit", kind="number", default=DEFAULT_BAND.upper, lower=1e-12, upper=1e12, format="%g"
)
RATIOS = Control(
    name="ratios", label="Ratios, separated by commas", kind="text", default="1, 3.2, 0.004, 250, 100", linked=False,
    help="Paste a column of your own; the table beside it can be edited cell by cell.",
)  # fmt: skip

CONTROLS = (LOWER, UPPER, RATIOS)


def edited_text(ratios: Sequence[float], edits: Mapping[str, Any]) -> str:
    """Return the ratios after the visitor's changes in the table editor, as text for the text field.

    `edits` are Streamlit's lists of edited, deleted and added rows. Floats are written exactly.
    """
    changed, deleted = edits["edited_rows"], set(edits["deleted_rows"])
    values = [changed.get(row, {}).get("ratio", ratio) for row, ratio in enumerate(ratios) if row not in deleted]
    values += [row.get("ratio") for row in edits["added_rows"]]
    return ", ".join(repr(float(value)).removesuffix(".0") for value in values if value is not None)


def keep_edits(key: str, ratios: Sequence[float]) -> None:
    """Callback of the table editor with this key: write its changes into the text field, which the manifest stores."""
    assign({RATIOS.name: edited_text(ratios, st.session_state[key])})
