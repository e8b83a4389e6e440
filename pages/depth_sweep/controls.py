"""Controls of the page Depth sweep alone. Lists are typed as on the command line: `1,2,4`, seeds `0:32`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.decoder.config import DTYPE_NAMES
from core.recipes.catalogue import DEFAULT
from core.sweep.request import INPUTS, SweepRequest
from core.tables.sweep import STATISTICS
from pages.common.decoder_controls import band_limits
from pages.common.widgets import Control
from pages.recipes.controls import NAMES

FORM = SweepRequest()


def _list(name: str, label: str, help: str | None = None, placeholder: str | None = None) -> Control:
    default = getattr(FORM, name)
    return Control(
        name=f"sweep_{name}", label=label, kind="text", default=default, help=help,
        placeholder=placeholder or default or None,
    )  # fmt: skip


BLOCKS = _list("blocks", "Depths L, blocks", "Complete decoder blocks, separated by commas.")
SEEDS = _list("seeds", "Seeds", "Single seeds and ranges, separated by commas; a range such as 0:32 leaves 32 out.")
RECIPES = Control(
    name="sweep_recipes", label="Recipes", kind="recipes", options=NAMES, default=(DEFAULT,),
    placeholder="Choose recipes, or type a combination such as lns+gpt2",
    help="Each stands beside the unscaled control of the same base draw.",
)  # fmt: skip
SIZES = (
    _list("width", "Width D", "Lists of sizes go side by side; a single entry goes with every entry of the others."),
    _list("heads", "Query heads"),
    _list("kv_heads", "Key/value heads", placeholder="as many as query heads"),
    _list("ff_width", "Feed-forward width"),
    _list("vocabulary", "Vocabulary"),
    _list("positions", "Positions", placeholder="as many as the longest row"),
)
INPUT = Control(
    name="sweep_input", label="Input", kind="choice", default=FORM.input, options=INPUTS,
    help="chapter: the row 0, 99, 100, 101 with targets 99, 100, 101, 1. random tokens: uniform on the vocabulary.",
)  # fmt: skip
LENGTHS = _list("lengths", "Row lengths", "Of random tokens; several make a sweep over the length.")
ROWS = _list("rows", "Rows", "Of random tokens; several make a sweep over the number of rows.")
TEXT = Control(
    name="sweep_text", label="Text", kind="text", default="Depth is a choice.", linked=False,
    help="Where the input is text: UTF-8 bytes plus 10, led by id 0, ending in target 1. It is not in the link.",
)  # fmt: skip
DTYPE = _list("dtype", "Floating types", f"{', '.join(DTYPE_NAMES)}; several are swept side by side.")
BAND_LOWER, BAND_UPPER = band_limits(
    "sweep_band_lower", "sweep_band_upper", help="The band judges ratios; changing it computes nothing again."
)

STATISTIC = Control(
    name="sweep_statistic", label="Ratio", kind="segments", default="largest", options=tuple(STATISTICS),
    help="Over all sites, or at the far end: the last site's activation, and the input's adjoint.",
)  # fmt: skip
SPREAD = Control(name="sweep_spread", label="Spread of seeds", kind="toggle", default=True)
SERIES = Control(name="sweep_series", label="Series", kind="among", default="")
DEPTH = Control(name="sweep_depth", label="Depth L, blocks", kind="among", default="", place=10**6)
SEED = Control(name="sweep_seed", label="Seed", kind="among", default="")

AXES = (
    BLOCKS, SEEDS, RECIPES, *SIZES, INPUT, LENGTHS, ROWS, TEXT, DTYPE, BAND_LOWER, BAND_UPPER,
)  # fmt: skip
CONTROLS = (*AXES, STATISTIC, SPREAD, SERIES, DEPTH, SEED)


def request_of(values: Mapping[str, Any]) -> SweepRequest:
    """The sweep that control values ask for."""
    fields = {control.name.removeprefix("sweep_"): values[control.name] for control in AXES}
    return SweepRequest(**{**fields, "recipes": tuple(fields["recipes"])})
