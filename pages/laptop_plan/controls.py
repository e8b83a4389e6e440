"""Controls of the page Laptop plan alone; their defaults are the laptop plan's own sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.decoder.config import DecoderConfig
from core.plan.presets import LAPTOP, PRESETS
from core.plan.request import PlanRequest
from pages.common.widgets import Control

PLAN = PRESETS[LAPTOP].request.config
OWN, UPLOADED = "own sizes", "uploaded config.json"
MODEL = Control(
    name="model", label="Decoder", kind="choice", default=LAPTOP, options=(*PRESETS, OWN, UPLOADED),
    help="A published decoder, your own sizes, or a Hugging Face config.json of yours.",
)  # fmt: skip


def _size(name: str, label: str, upper: int = 10**9) -> Control:
    return Control(
        name=f"plan_{name}", label=label, kind="whole", default=getattr(PLAN, name), lower=1, upper=upper, step=1
    )


SIZES = (
    _size("blocks", "Depth L, blocks", 10**6),
    _size("width", "Width D"),
    _size("heads", "Query heads"),
    _size("kv_heads", "Key/value heads"),
    _size("ff_width", "Feed-forward width"),
    _size("vocabulary", "Vocabulary"),
    _size("positions", "Context, positions"),
)
FAMILIES = (
    Control(name="plan_norm", label="Norm", kind="segments", default="rmsnorm", options=("rmsnorm", "layernorm")),
    Control(name="plan_mlp", label="Feed-forward", kind="segments", default="swiglu", options=("swiglu", "gelu")),
    Control(
        name="plan_position_encoding", label="Positions", kind="segments", default="rope", options=("rope", "learned")
    ),
    Control(name="plan_tied", label="Tied head", kind="toggle", default=True),
    Control(name="plan_bias", label="Biases on block matrices", kind="toggle", default=False),
)
TOKENS = Control(
    name="run_tokens", label="Tokens of the row that is run", kind="slider", default=128, lower=4, upper=512, step=4
)

CONTROLS = (MODEL, *SIZES, *FAMILIES, TOKENS)


def own_request(values: Mapping[str, Any]) -> PlanRequest:
    """The plan of sizes given by hand; raises `ConfigError`."""
    fields = {control.name.removeprefix("plan_"): values[control.name] for control in (*SIZES, *FAMILIES)}
    return PlanRequest(config=DecoderConfig(**fields))
