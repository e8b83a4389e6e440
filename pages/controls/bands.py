"""Controls of the page Bands alone. The edited ratios are typed, so they are in the manifest and not in the link."""

from __future__ import annotations

from core.health.band import DEFAULT_BAND
from pages.common.control import Control

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
