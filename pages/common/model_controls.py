"""The controls of the current model, and the valid frozen `ObserveRequest` that their values describe.

The name of a control is its name in the URL and in the manifest. Typed or uploaded input is not in the URL. Where 0
means "as the model has it", the help of the control explains it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from core.audit.survey_table import shipped_survey
from core.decoder.base_draw import Distribution
from core.decoder.batch import Batch, chapter_batch, parse_rows
from core.decoder.config import DTYPE_NAMES, MLPS, NORMS, DecoderConfig
from core.errors import BatchError, DepthscopeError
from core.health.band import Band
from core.health.request import ObserveRequest
from core.numerals import checked_seed
from core.recipes.catalogue import RUNNABLE, recipe
from core.recipes.recipe import JOINT
from core.strict_json import parse_json
from core.sweep.request import uniform_batch
from pages.common import panels
from pages.common.widgets import Control, defaults_of, values_of

CHAPTER, RANDOM, ROWS, WORDS, UPLOADED_BATCH = "chapter", "random", "rows", "text", "uploaded"
BATCHES = (CHAPTER, RANDOM, ROWS, WORDS, UPLOADED_BATCH)
# Session entry: the batch that was uploaded last, or the sentence why it was refused.
UPLOADED = "uploaded batch"
NARROW, DEFAULTS = DecoderConfig(), ObserveRequest()
# Narrow decoders of this depth take seconds over 32 seeds, reduced twins a minute.
MOST_BLOCKS = 1024
# The slider's end as long as no deeper model was chosen, and the session entry of its present end.
USUAL_BLOCKS, SPAN = 128, "depths of the slider"


def _size(name: str, label: str, upper: int, help: str) -> Control:
    default = getattr(NARROW, name) or NARROW.key_value_heads
    return Control(
        name=name, label=label, kind="whole", default=default, lower=1, upper=upper, step=1, help=help, bound=False
    )


def band_limits() -> tuple[Control, Control]:
    """Return the controls of the lower and the upper limit of a band."""
    limits: dict[str, Any] = {"kind": "number", "lower": 1e-12, "upper": 1e12, "format": "%g", "bound": False}
    return (
        Control(
            name="band_lower", label="Band from", default=DEFAULTS.band.lower,
            help="The smallest ratio that is not called too small; it belongs to the band.", **limits,
        ),
        Control(
            name="band_upper", label="Band to", default=DEFAULTS.band.upper,
            help="The largest ratio that is not called too large; it belongs to the band.", **limits,
        ),
    )  # fmt: skip


BLOCKS = Control(
    name="blocks", label="Depth L, blocks", kind="slider", default=NARROW.blocks, lower=1, upper=MOST_BLOCKS, step=1,
    bound=False,
    help="Complete decoder blocks. Each adds to the residual stream twice, so it is looked at in 2L + 1 places.",
)  # fmt: skip
SEED = Control(
    name="seed", label="Seed", kind="whole", default=DEFAULTS.seed, lower=0, upper=2**53 - 1, step=1, bound=False,
    help="The random weights that the curves show. The verdict counts this seed and the ones after it.",
)  # fmt: skip
RECIPE = Control(
    name="recipe", label="Recipe", kind="recipe", default=DEFAULTS.recipe, options=RUNNABLE, bound=False,
    help="How the weights are scaled for the depth, once, at initialization; unscaled leaves them as they are drawn. "
    f"Type two names with a {JOINT} between them, such as lns{JOINT}gpt2, to combine them.",
)  # fmt: skip
SEEDS = Control(
    name="seeds", label="Seeds", kind="whole", default=32, lower=1, upper=256, step=1, bound=False,
    help="How many fresh models the verdict counts, from the seed on. One seed is one draw and proves nothing.",
)  # fmt: skip
SIZES = (
    _size("width", "Width D", 16384, "Features of the residual stream; the hidden size."),
    _size("heads", "Query heads", 1024, "Heads of attention. They share the width among them."),
    _size("kv_heads", "Key/value heads", 1024, "Fewer than the query heads where several share one; divides them."),
    _size("ff_width", "Feed-forward width", 65536, "Hidden features of the feed-forward; the intermediate size."),
    _size("vocabulary", "Vocabulary", 262144, "Entries of the embedding."),
    _size("positions", "Positions", 2**20, "The longest context; a longer input row raises it."),
)
GRAPH = (
    Control(
        name="head_dim", label="Features per head", kind="whole", default=0, lower=0, upper=16384, step=1, bound=False,
        help="0: the width divided by the query heads.",
    ),
    Control(
        name="norm", label="Norm", kind="choice", default=NARROW.norm, options=NORMS, bound=False,
        help="What is divided out before each branch: the root mean square, or mean and standard deviation.",
    ),
    Control(
        name="mlp", label="Feed-forward", kind="choice", default=NARROW.mlp, options=MLPS, bound=False,
        help="Gated with three matrices (swiglu), or two matrices with a GELU between them.",
    ),
    Control(
        name="position_encoding", label="Positions as", kind="choice", default=NARROW.position_encoding, bound=False,
        options=("rope", "learned"), help="Rotated queries and keys, or a learned table that is added to the input.",
    ),
    Control(
        name="tied", label="Head tied to the embedding", kind="toggle", default=NARROW.tied, bound=False,
        help="Whether the readout is the embedding matrix transposed.",
    ),
    Control(
        name="bias", label="Biases on block matrices", kind="toggle", default=NARROW.bias, bound=False,
        help="They begin at zero, so they change the count of parameters alone.",
    ),
    Control(
        name="query_key_norm", label="Norm on queries and keys", kind="toggle", default=NARROW.query_key_norm,
        bound=False, help="Each head's queries and keys are normalized, as in Qwen3.",
    ),
    Control(
        name="rope_base", label="Rotary base", kind="number", default=NARROW.rope_base, lower=1.0, upper=1e12,
        format="%g", bound=False, help="The slowest rotation; rope_theta in a config.json.",
    ),
    Control(
        name="rms_epsilon", label="Norm epsilon", kind="number", default=NARROW.rms_epsilon, lower=1e-30, upper=1.0,
        format="%g", bound=False, help="Stands inside the root of every norm.",
    ),
)  # fmt: skip
SPREADS = (
    Control(
        name="base_std", label="Standard deviation of weights", kind="number", default=0.0, lower=0.0, upper=1e6,
        format="%g", bound=False,
        help="Of a normal draw before any recipe; initializer_range in a config.json. 0: Xavier's uniform law.",
    ),
    Control(
        name="embedding_std", label="Standard deviation of embeddings", kind="number", default=0.0, lower=0.0,
        upper=1e6, format="%g", bound=False, help="Of token and position embeddings alone. 0: as all other weights.",
    ),
)  # fmt: skip
MORE = (
    Control(
        name="seed64", label="Any 64-bit seed", kind="text", default="", placeholder="0 to 18446744073709551615",
        help="Takes the place of the other seed as long as it is not empty.", bound=False,
    ),
    Control(
        name="dtype", label="Floating type", kind="choice", default=DEFAULTS.dtype, options=DTYPE_NAMES, bound=False,
        help="What the model computes in. Weights are always drawn in binary64 and cast once.",
    ),
    *band_limits(),
)  # fmt: skip
BATCH = Control(
    name="batch", label="Input", kind="choice", default=CHAPTER, options=BATCHES, bound=False,
    help="What the fresh model reads. chapter: the four ids 0, 99, 100, 101. random: uniform ids. Typed and uploaded "
    "input is not in the link.",
)  # fmt: skip
CONTEXT = Control(
    name="context", label="Context, tokens per row", kind="whole", default=32, lower=1, upper=4096, step=1, bound=False,
    help="The length of random rows. Attention at initialization averages over it.",
)  # fmt: skip
ROW_COUNT = Control(
    name="rows", label="Rows", kind="whole", default=1, lower=1, upper=64, step=1, bound=False,
    help="How many random rows are read at once.",
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
# What the library's own code builds where the decoder has not its graph; a small one where no file is its source.
FAMILIES = tuple(str(row["family"]) for row in shipped_survey()[0])
FAMILY_SIZES = {"blocks": 4, "width": 32}
FAMILY = Control(
    name="family", label="Family", kind="choice", default=None, options=FAMILIES, bound=False,
    takes="one of the families of the survey", placeholder=f"Choose one of {len(FAMILIES)}, or type",
    help="The kind of model, such as mixtral or gemma2, as the transformers library names it.",
)  # fmt: skip
# The digest of the file that the sizes were read from; never drawn.
FILE = Control(name="file", label="Digest of the config", kind="text", default="", bound=False)

ARCHITECTURE = (*SIZES, *GRAPH, *SPREADS)
MODEL = (
    BLOCKS, SEED, RECIPE, SEEDS, *ARCHITECTURE, *MORE, BATCH, CONTEXT, ROW_COUNT, INPUTS, TARGETS, TEXT, FAMILY,
    FILE,
)  # fmt: skip
FIELDS = ("blocks", *(control.name for control in (*SIZES, *GRAPH)))


def depth() -> Control:
    """Return the control of the depth, whose slider spans the usual depths, or more after a deeper model was chosen."""
    span = max(st.session_state.get(SPAN, USUAL_BLOCKS), 2 ** (BLOCKS.value - 1).bit_length())
    st.session_state[SPAN] = span
    return replace(BLOCKS, upper=span)


def request() -> ObserveRequest:
    """Return the frozen request that the controls describe now. Raises `DepthscopeError` if they are not valid."""
    return request_of(values_of(MODEL))


def request_of(values: Mapping[str, Any], batch: Batch | None = None) -> ObserveRequest:
    """Return the request for control values; a missing value is its control's default. Raises `DepthscopeError`."""
    full = defaults_of(MODEL) | dict(values)
    config = config_of(full)
    batch = batch or chosen_batch(full, config.vocabulary)
    if batch.longest > config.positions:
        config = config_of({**full, "positions": batch.longest})
    return ObserveRequest(
        config=config,
        # A typed 64-bit seed has priority over the seed of the number field.
        seed=checked_seed(full["seed64"].strip() or full["seed"]),
        recipe=recipe(full["recipe"]).name,
        dtype=full["dtype"],
        batch=batch,
        band=Band(full["band_lower"], full["band_upper"]),
        distribution=Distribution(std=full["base_std"] or None, embedding_std=full["embedding_std"] or None),
    )


def config_of(values: Mapping[str, Any]) -> DecoderConfig:
    """Return the decoder for control values. Raises `ConfigError` if the sizes are not valid."""
    sizes = {name: values[name] for name in FIELDS}
    return DecoderConfig(**{**sizes, "head_dim": sizes["head_dim"] or None})


def values_for(config: DecoderConfig, distribution: Distribution) -> dict[str, Any]:
    """Return the control values that describe a decoder and its base draw."""
    found = {name: getattr(config, name) for name in FIELDS}
    if config.head_width * config.heads == config.width:
        found["head_dim"] = 0
    return {**found, "base_std": distribution.std or 0.0, "embedding_std": distribution.embedding_std or 0.0}


def chosen_batch(values: Mapping[str, Any], vocabulary: int = NARROW.vocabulary) -> Batch:
    """Return the input that control values choose. Raises `BatchError` or `StorageError` if it cannot be read."""
    kind = values["batch"]
    if kind == RANDOM:
        return uniform_batch(values["rows"], values["context"], vocabulary)
    if kind == ROWS:
        return Batch.from_rows(parse_rows("inputs", values["inputs"]), parse_rows("targets", values["targets"]))
    if kind == WORDS:
        return Batch.from_text(values["text"])
    if kind == UPLOADED_BATCH:
        return _uploaded()
    return chapter_batch()


def _uploaded() -> Batch:
    batch = st.session_state.get(UPLOADED)
    if isinstance(batch, Batch):
        return batch
    raise BatchError(
        batch
        or "This setting reads an uploaded batch, which a link does not carry; press Change, upload its JSON file "
        "under Input, or choose another input there."
    )


def keep_batch(data: bytes, name: str = "batch.json") -> None:
    """Store an uploaded batch in the session, or the sentence that explains why the file `name` is not valid."""
    try:
        st.session_state[UPLOADED] = Batch.from_document(parse_json(data, source="The uploaded batch"))
    except DepthscopeError as error:
        st.session_state[UPLOADED] = panels.of_file(name, error)
