"""The controls that pages share, and the frozen request they make: widgets in, a valid `ObserveRequest` out.

Their names are the URL's and the manifest's: blocks, seed, recipe, width, heads, kv_heads, ff_width, vocabulary,
positions, seed64, dtype, band_lower, band_upper and batch. What is typed or uploaded as input is not in the URL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from core.decoder.batch import Batch, chapter_batch, parse_rows
from core.decoder.config import DTYPE_NAMES, DecoderConfig
from core.errors import BatchError, DepthscopeError, RecipeError
from core.health.band import Band
from core.health.request import ObserveRequest
from core.numerals import checked_seed
from core.recipes.catalogue import RUNNABLE, recipe
from core.recipes.recipe import JOINT
from core.strict_json import parse_json
from pages.common import panels
from pages.common.widgets import Control, defaults_of, values_of

BATCHES = ("chapter", "rows", "text", "uploaded")
# Session entry: the batch that was uploaded last, or the sentence why it was refused.
UPLOADED = "uploaded batch"
NARROW, DEFAULTS = DecoderConfig(), ObserveRequest()


def _size(name: str, label: str, upper: int, help: str | None = None) -> Control:
    default = getattr(NARROW, name) or NARROW.key_value_heads
    return Control(name=name, label=label, kind="whole", default=default, lower=1, upper=upper, step=1, help=help)


def band_limits(lower: str, upper: str, help: str | None = None) -> tuple[Control, Control]:
    """The controls of a band's two limits, by their names."""
    limits: dict[str, Any] = {"kind": "number", "lower": 1e-12, "upper": 1e12, "format": "%g"}
    return (
        Control(name=lower, label="Band from", default=DEFAULTS.band.lower, help=help, **limits),
        Control(name=upper, label="Band to", default=DEFAULTS.band.upper, **limits),
    )


BLOCKS = Control(
    name="blocks", label="Depth L, blocks", kind="slider", default=NARROW.blocks, lower=1, upper=128, step=1,
    help="Complete decoder blocks. Each adds twice to the residual stream, so there are 2L + 1 sites.",
)  # fmt: skip
SEED = Control(
    name="seed", label="Seed", kind="slider", default=DEFAULTS.seed, lower=0, upper=9999, step=1,
    help="The SplitMix64 state before the first draw.",
)  # fmt: skip
RECIPE = Control(
    name="recipe", label="Recipe", kind="recipe", default=DEFAULTS.recipe, options=RUNNABLE,
    help="The law that sets the stored weights once, at initialization. The unscaled control is always beside it. "
    f"Type two names with a {JOINT} between them, such as lns{JOINT}gpt2, to combine them.",
)  # fmt: skip
SIZES = (
    _size("width", "Width D", 16384),
    _size("heads", "Query heads", 1024),
    _size("kv_heads", "Key/value heads", 1024),
    _size("ff_width", "Feed-forward width", 65536),
    _size("vocabulary", "Vocabulary", 262144),
    _size("positions", "Positions", 65536, "Position capacity; the longest input row raises it where it needs more."),
)
MORE = (
    Control(
        name="seed64", label="Any 64-bit seed", kind="text", default="", placeholder="0 to 18446744073709551615",
        help="Takes the place of the slider's seed as long as it is not empty.",
    ),
    Control(
        name="dtype", label="Floating type", kind="choice", default=DEFAULTS.dtype, options=DTYPE_NAMES,
        help="Draws are always made in binary64 and cast once.",
    ),
    *band_limits("band_lower", "band_upper"),
)  # fmt: skip
BATCH = Control(
    name="batch", label="Input", kind="choice", default="chapter", options=BATCHES,
    help="chapter: the row 0, 99, 100, 101 with targets 99, 100, 101, 1. Typed and uploaded input is not in the link.",
)  # fmt: skip
INPUTS = Control(
    name="inputs", label="Input ids", kind="text", default="0,99,100,101", linked=False,
    help="Ids separated by commas, rows by semicolons.",
)  # fmt: skip
TARGETS = Control(
    name="targets", label="Target ids", kind="text", default="99,100,101,1", linked=False,
    help="As many targets as inputs in every row.",
)  # fmt: skip
TEXT = Control(
    name="text", label="Text", kind="text", default="Depth is a choice.", linked=False,
    help="UTF-8 bytes plus 10, led by id 0, ending in target 1: this project's own convention for 266 entries.",
)  # fmt: skip

DECODER = (BLOCKS, SEED, RECIPE, *SIZES, *MORE, BATCH, INPUTS, TARGETS, TEXT)


def draw(*, one_recipe: bool = True) -> None:
    """Draw every shared control where Streamlit stands; once a run, in the sidebar, on pages that observe decoders.

    A page that chooses recipes itself leaves out the control of one recipe.
    """
    BLOCKS.draw()
    SEED.draw()
    if one_recipe:
        RECIPE.draw()
        st.caption(_recipe_caption())
    with st.expander("Sizes"):
        for control in SIZES:
            control.draw()
    with st.expander("Input"):
        _draw_input(BATCH.draw())
    with st.expander("Seed, type and band"):
        for control in MORE:
            control.draw()


def request() -> ObserveRequest:
    """The frozen request that the controls describe now; raises a `DepthscopeError` with the sentence to show."""
    return request_of(values_of(DECODER))


def request_of(values: Mapping[str, Any], batch: Batch | None = None) -> ObserveRequest:
    """The request of control values, missing ones at their defaults; raises a `DepthscopeError`."""
    full = defaults_of(DECODER) | dict(values)
    batch = batch or chosen_batch(full)
    sizes = {control.name: full[control.name] for control in SIZES}
    sizes["positions"] = max(sizes["positions"], batch.longest)
    return ObserveRequest(
        config=DecoderConfig(blocks=full["blocks"], **sizes),
        # A typed 64-bit seed goes before the slider's.
        seed=checked_seed(full["seed64"].strip() or full["seed"]),
        recipe=recipe(full["recipe"]).name,
        dtype=full["dtype"],
        batch=batch,
        band=Band(full["band_lower"], full["band_upper"]),
    )


def chosen_batch(values: Mapping[str, Any]) -> Batch:
    """The input that control values choose; raises `BatchError` or `StorageError` with the sentence to show."""
    kind = values["batch"]
    if kind == "rows":
        return Batch.from_rows(parse_rows("inputs", values["inputs"]), parse_rows("targets", values["targets"]))
    if kind == "text":
        return Batch.from_text(values["text"])
    if kind == "uploaded":
        return _uploaded()
    return chapter_batch()


def _uploaded() -> Batch:
    batch = st.session_state.get(UPLOADED)
    if isinstance(batch, Batch):
        return batch
    raise BatchError(
        batch
        or "This setting reads an uploaded batch, which a link does not carry; upload its JSON file in the sidebar "
        "under Input, or choose another input there."
    )


def _keep_file() -> None:
    """Callback of the uploader, which forgets its file when another page is shown."""
    file = st.session_state.get("batch_file")
    if file is not None:
        keep_batch(file.getvalue(), file.name)


def keep_batch(data: bytes, name: str = "batch.json") -> None:
    """Keep an uploaded batch, or the sentence why the file of that name is refused."""
    try:
        st.session_state[UPLOADED] = Batch.from_document(parse_json(data, source="The uploaded batch"))
    except DepthscopeError as error:
        st.session_state[UPLOADED] = panels.of_file(name, error)


def _draw_input(kind: str) -> None:
    if kind == "rows":
        INPUTS.draw()
        TARGETS.draw()
    elif kind == "text":
        TEXT.draw()
    elif kind == "uploaded":
        st.file_uploader(
            "Batch, JSON", type=["json"], key="batch_file", max_upload_size=1, on_change=_keep_file,
            help='{"inputs": [[..]], "targets": [[..]], "valid": [[true, ..]], "segments": [[0, ..]]}; the last two '
            "may be left out.",
        )  # fmt: skip


def _recipe_caption() -> str:
    try:
        chosen = recipe(RECIPE.value)
    except RecipeError:
        return "The page says what is wrong with this name."
    formulas = list(dict.fromkeys(law.formula for law in chosen.laws.values()))
    return f"{chosen.title}{': ' if formulas else ''}{', '.join(formulas)}".replace("*", "\\*")
