"""Controls of the page Health alone."""

from __future__ import annotations

from core.health.reference import REFERENCES
from pages.common.widgets import Control

BOTH, RECIPE_ONLY, CONTROL_ONLY = "both arms", "recipe", "control"
LOGARITHMIC, LINEAR = "logarithmic", "linear"

ARMS = Control(
    name="arms", label="Arms shown", kind="segments", default=BOTH, options=(BOTH, RECIPE_ONLY, CONTROL_ONLY)
)
SCALE = Control(
    name="scale", label="Vertical axis", kind="segments", default=LOGARITHMIC, options=(LOGARITHMIC, LINEAR)
)
REFERENCE = Control(
    name="reference", label="Reference site", kind="segments", default="first block", options=REFERENCES,
)  # fmt: skip
BLOCK = Control(
    name="block", label="Block, counted from 0", kind="whole", default=0, lower=0, upper=4095, step=1, width=240,
)  # fmt: skip
SITE = Control(
    name="site", label="Chosen site", kind="text", default="", placeholder="none", width=140,
    takes="the number of a residual site",
    help="Click on a site in the tower or a curve, or type its number: its block opens with its numbers.",
)  # fmt: skip

CONTROLS = (ARMS, SCALE, REFERENCE, BLOCK, SITE)
