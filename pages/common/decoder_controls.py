"""The controls that pages share, and the frozen request they make: widgets in, a valid `ObserveRequest` out.

Their names are the URL's and the manifest's: blocks, seed, recipe, width, heads, kv_heads, ff_width, vocabulary,
positions, seed64, dtype, band_lower, band_upper and batch. What is typed or uploaded as input is not in the URL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from core.decoder.batch import Batch, chapter_batch, parse_rows
from core.decoder.config import DTYPE_NAMES, DecoderConfig
from core.decoder.recipe_type import JOINT
from core.decoder.recipes import DEFAULT, RECIPES, recipe
from core.errors import BatchError, DepthscopeError, RecipeError
from core.health.band import DEFAULT_BAND, Band
from core.health.request import CHAPTER_SEED, ObserveRequest
from core.numerals import checked_seed
from core.strict_json import parse_json
from pages.common import panels
from pages.common.control import Control

RUNNABLE = tuple(known.name for known in RECIPES if known.refusal is None)
BATCHES = ("chapter", "rows", "text", "uploaded")
# Session entries: the batch that was uploaded last, or the sentence why it was refused.
UPLOADED, UPLOAD_REFUSAL = "uploaded batch", "upload refusal"


@dataclass(frozen=True, kw_only=True)
class OneRecipe(Control):
    """A recipe of the list, or a combination typed with a plus sign between its parts."""

    def draw(self, *, disabled: bool = False, label_visibility: Literal["visible", "collapsed"] = "visible") -> Any:
        """Draw the widget; a name as it was chosen, typed or linked, not yet checked."""
        self._enter_link()
        return st.selectbox(
            self.label, self.options, self.options.index(self.default), key=self.name, help=self.help,
            disabled=disabled, label_visibility=label_visibility, accept_new_options=True, persist_state="session",
            bind="query-params",
        )  # fmt: skip

    def checked(self, value: object) -> Any:
        """A name from a file; raises `RecipeError`."""
        return recipe(str(value)).name

    @property
    def rule(self) -> str:
        """What a link may ask for."""
        return f"a recipe, or several joined by {JOINT}"


DEPTH_AND_SEED = (
    Control(
        name="blocks", label="Depth L, blocks", kind="slider", default=8, lower=1, upper=128, step=1,
        help="Complete decoder blocks. Each adds twice to the residual stream, so there are 2L + 1 sites.",
    ),
    Control(
        name="seed", label="Seed", kind="slider", default=CHAPTER_SEED, lower=0, upper=9999, step=1,
        help="The SplitMix64 state before the first draw.",
    ),
    OneRecipe(
        name="recipe", label="Recipe", kind="choice", default=DEFAULT, options=RUNNABLE,
        help="The law that sets the stored weights once, at initialization. The unscaled control is always beside it. "
        f"Type two names with a {JOINT} between them, such as lns{JOINT}gpt2, to combine them.",
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

DECODER = (*DEPTH_AND_SEED, *SIZES, *MORE, BATCH, INPUTS, TARGETS, TEXT)
_BY_NAME = {control.name: control for control in DECODER}


def draw_decoder_controls(*, one_recipe: bool = True) -> None:
    """Draw every shared control where Streamlit stands; once a run, in the sidebar, on pages that observe decoders.

    A page that chooses recipes of its own leaves the control of one recipe out.
    """
    for control in DEPTH_AND_SEED:
        if one_recipe or control.name != "recipe":
            control.draw()
    if one_recipe:
        st.caption(_recipe_caption())
    with st.expander("Sizes"):
        for control in SIZES:
            control.draw()
    with st.expander("Input"):
        BATCH.draw()
        _draw_input(BATCH.value)
    with st.expander("Seed, type and band"):
        for control in MORE:
            control.draw()


def request() -> ObserveRequest:
    """The frozen request that the controls describe now; raises a `DepthscopeError` with the sentence to show."""
    values = {control.name: control.value for control in DECODER}
    return request_of(values, chosen_batch(values))


def request_of(values: Mapping[str, Any], batch: Batch | None = None) -> ObserveRequest:
    """The request of control values, missing ones at their defaults; raises a `DepthscopeError`."""
    full = {control.name: control.default for control in DECODER} | dict(values)
    if batch is None:
        batch = chosen_batch(full)
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
    refusal = st.session_state.get(UPLOAD_REFUSAL)
    if refusal is not None:
        raise BatchError(refusal)
    batch = st.session_state.get(UPLOADED)
    if batch is None:
        raise BatchError(
            "This setting reads an uploaded batch, which a link does not carry; upload its JSON file in the sidebar "
            "under Input, or choose another input there."
        )
    assert isinstance(batch, Batch)
    return batch


def keep_batch(data: bytes | Batch, name: str = "batch.json") -> None:
    """Keep an uploaded batch over page switches, or the sentence why the file of that name is refused."""
    try:
        batch = data if isinstance(data, Batch) else Batch.from_document(parse_json(data, source="The uploaded batch"))
    except DepthscopeError as error:
        st.session_state[UPLOADED], st.session_state[UPLOAD_REFUSAL] = None, panels.of_file(name, error)
    else:
        st.session_state[UPLOADED], st.session_state[UPLOAD_REFUSAL] = batch, None


def _keep_file() -> None:
    # The uploader forgets its file when another page is shown.
    file = st.session_state.get("batch_file")
    if file is not None:
        keep_batch(file.getvalue(), file.name)


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
        chosen = recipe(_BY_NAME["recipe"].value)
    except RecipeError:
        return "The page says what is wrong with this name."
    formulas = list(dict.fromkeys(law.formula for law in chosen.laws.values()))
    return f"{chosen.title}{': ' if formulas else ''}{', '.join(formulas)}".replace("*", "\\*")
