"""The controls of the page Initialization."""

from __future__ import annotations

from core.recipes.catalogue import DEFAULT, RUNNABLE
from pages.common.widgets import Control

FAN_IN = Control(name="fan_in", label="Fan in", kind="whole", default=64, lower=1, upper=4096, step=1)
FAN_OUT = Control(name="fan_out", label="Fan out", kind="whole", default=64, lower=1, upper=4096, step=1)
SEED = Control(
    name="init_seed", label="Seed, any 64-bit", kind="text", default="17",
    help="The SplitMix64 state before the first draw.",
)  # fmt: skip
LAYERS = Control(
    name="layers", label="Layers of the expected propagation", kind="slider", default=4, lower=1, upper=64, step=1
)
DEPTH = Control(
    name="init_blocks", label="Depth L beside 1, 2 and 8, blocks", kind="slider", default=32, lower=1, upper=128, step=1
)
RECIPE = Control(name="init_recipe", label="Recipe", kind="choice", default=DEFAULT, options=RUNNABLE)

CONTROLS = (FAN_IN, FAN_OUT, SEED, LAYERS, DEPTH, RECIPE)
