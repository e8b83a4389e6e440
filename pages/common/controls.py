"""The controls that pages share, and the frozen request they make: widgets in, a valid `ObserveRequest` out.

The URL names are documented here and on the page *Method and limits*: blocks, seed, seed64, recipe, width, heads,
kv_heads, ff_width, vocabulary, positions, dtype, band_lower, band_upper, batch.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.decoder.base_draw import XAVIER
from core.decoder.batch import Batch, chapter_batch, parse_rows
from core.decoder.config import Budget, DecoderConfig
from core.decoder.recipes import DEFAULT, RECIPES, recipe
from core.decoder.splitmix64 import checked_seed
from core.errors import BatchError
from core.health.band import DEFAULT_BAND, Band
from core.health.request import CHAPTER_SEED, DTYPE_NAMES, ObserveRequest
from core.strict_json import parse_json
from pages.common.control import Control

RUNNABLE = tuple(known.name for known in RECIPES if known.refusal is None)
BATCHES = ("chapter", "rows", "text", "uploaded")
UPLOADED_BATCH = "uploaded batch"

DEPTH_AND_SEED = (
    Control(
        name="blocks", label="Depth L, blocks", kind="slider", default=8, lower=1, upper=128, step=1,
        help="Complete decoder blocks. Each adds twice to the residual stream, so there are 2L + 1 sites.",
    ),
    Control(
        name="seed", label="Seed", kind="slider", default=CHAPTER_SEED, lower=0, upper=9999, step=1,
        help="The SplitMix64 state before the first draw.",
    ),
    Control(
        name="recipe", label="Recipe", kind="choice", default=DEFAULT, options=RUNNABLE,
        help="The law that sets the stored weights once, at initialization. The unscaled control is always beside it.",
    ),
)  # fmt: skip
SIZES = (
    Control(name="width", label="Width D", kind="whole", default=4, lower=1, upper=16384, step=1),
    Control(name="heads", label="Query heads", kind="whole", default=1, lower=1, upper=1024, step=1),
    Control(name="kv_heads", label="Key/value heads", kind="whole", default=1, lower=1, upper=1024, step=1),
    Control(name="ff_width", label="Feed-forward width", kind="whole", default=4, lower=1, upper=65536, step=1),
    Control(name="vocabulary", label="Vocabulary", kind="whole", default=266, lower=1, upper=262144, step=1),
    Control(
        name="positions", label="Positions", kind="whole", default=4, lower=1, upper=65536, step=1,
        help="Position capacity; the longest input row raises it where it needs more.",
    ),
)  # fmt: skip
MORE = (
    Control(
        name="seed64", label="Any 64-bit seed", kind="text", default="", placeholder="0 to 18446744073709551615",
        help="Takes the place of the slider's seed as long as it is not empty.",
    ),
    Control(
        name="dtype", label="Floating type", kind="choice", default="float64", options=DTYPE_NAMES,
        help="Draws are always made in binary64 and cast once.",
    ),
    Control(
        name="band_lower", label="Band from", kind="number", default=DEFAULT_BAND.lower, lower=1e-12, upper=1e12,
        format="%g",
    ),
    Control(
        name="band_upper", label="Band to", kind="number", default=DEFAULT_BAND.upper, lower=1e-12, upper=1e12,
        format="%g",
    ),
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

DECODER = (*DEPTH_AND_SEED, *SIZES, *MORE, BATCH)
UNLINKED = (INPUTS, TARGETS, TEXT)


def decoder_sidebar() -> None:
    """Draw every shared control in the sidebar; called once a run by `app.py` on pages that observe decoders."""
    with st.sidebar:
        for control in DEPTH_AND_SEED:
            control.draw()
        st.caption(_recipe_caption())
        with st.expander("Sizes"):
            for control in SIZES:
                control.draw()
        with st.expander("Input"):
            BATCH.draw()
            _batch_widgets()
        with st.expander("Seed, type and band"):
            for control in MORE:
                control.draw()


def request(*, budget: Budget | None = None) -> ObserveRequest:
    """The frozen request that the controls describe; raises a `DepthscopeError` with the sentence to show."""
    batch = current_batch()
    values = {control.name: control.value for control in SIZES}
    values["positions"] = max(values["positions"], batch.longest)
    return ObserveRequest(
        config=DecoderConfig(blocks=st.session_state.blocks, **values),
        seed=current_seed(),
        recipe=st.session_state.recipe,
        dtype=_value("dtype"),
        batch=batch,
        band=Band(_value("band_lower"), _value("band_upper")),
        budget=budget or Budget(),
        distribution=XAVIER,
    )


def current_seed() -> int:
    """The typed 64-bit seed, else the slider's; raises `SeedError`."""
    typed = str(_value("seed64")).strip()
    return checked_seed(typed or _value("seed"))


def current_batch() -> Batch:
    """The chosen input; raises `BatchError` or `StorageError` with the sentence to show."""
    kind = BATCH.value
    if kind == "rows":
        return Batch.from_rows(parse_rows("inputs", INPUTS.value), parse_rows("targets", TARGETS.value))
    if kind == "text":
        return Batch.from_text(TEXT.value)
    if kind == "uploaded":
        data = st.session_state.get(UPLOADED_BATCH)
        if data is None:
            raise BatchError(
                "This setting reads an uploaded batch, which a link does not carry; upload its JSON file in the "
                "sidebar under Input, or choose another input there."
            )
        return Batch.from_document(parse_json(data, source="The uploaded batch"))
    return chapter_batch()


def _value(name: str) -> Any:
    return next(control for control in DECODER if control.name == name).value


def _recipe_caption() -> str:
    chosen = recipe(st.session_state.recipe)
    laws = dict.fromkeys(f"{law.formula}" for law in chosen.laws.values())
    return f"{chosen.title}{': ' + ', '.join(laws) if laws else ''}"


def _batch_widgets() -> None:
    kind = BATCH.value
    if kind == "rows":
        INPUTS.draw()
        TARGETS.draw()
    elif kind == "text":
        TEXT.draw()
    elif kind == "uploaded":
        st.file_uploader(
            "Batch, JSON", type=["json"], key="batch_file", max_upload_size=1, on_change=_keep_upload,
            help='{"inputs": [[..]], "targets": [[..]], "valid": [[true, ..]], "segments": [[0, ..]]}; the last two '
            "may be left out.",
        )  # fmt: skip


def _keep_upload() -> None:
    # The uploader forgets its file when another page is shown, so the bytes are kept beside it.
    file = st.session_state.get("batch_file")
    if file is not None:
        st.session_state[UPLOADED_BATCH] = file.getvalue()
