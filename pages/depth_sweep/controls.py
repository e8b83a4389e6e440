"""Controls of the page Depth sweep. Lists are typed as on the command line: `1,2,4`, seeds `0:32`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.health.request import ObserveRequest
from core.recipes.catalogue import DEFAULT
from core.sweep.grid import SweepGrid
from core.sweep.ranges import parse_sizes, seeds_or_range
from core.sweep.request import SweepRequest
from core.tables.sweep import STATISTICS
from pages.common.widgets import Control
from pages.recipes.controls import NAMES

FORM = SweepRequest()


def _list(name: str, label: str, help: str) -> Control:
    default = getattr(FORM, name)
    return Control(name=f"sweep_{name}", label=label, kind="text", default=default, help=help, placeholder=default)


BLOCKS = _list(
    "blocks",
    "Depths L, blocks",
    "Complete decoder blocks, separated by commas; other sizes stay.",
)
SEEDS = _list("seeds", "Seeds", "Single seeds and ranges, separated by commas; a range such as 0:32 leaves 32 out.")
RECIPES = Control(
    name="sweep_recipes", label="Recipes", kind="recipes", options=NAMES, default=(DEFAULT,),
    placeholder="Choose recipes, or type a combination such as lns+gpt2",
    help="Each stands beside the unscaled control of the same base draw.",
)  # fmt: skip
STATISTIC = Control(
    name="sweep_statistic", label="Ratio", kind="segments", default="largest", options=tuple(STATISTICS),
    help="Over all sites, or at the far end: the last site's activation, and the input's adjoint.",
)  # fmt: skip
SPREAD = Control(name="sweep_spread", label="Spread of seeds", kind="toggle", default=True)
SERIES = Control(name="sweep_series", label="Series", kind="among", default="")
DEPTH = Control(name="sweep_depth", label="Depth L, blocks", kind="among", default="", place=10**6)
SEED = Control(name="sweep_seed", label="Seed", kind="among", default="")

AXES = (BLOCKS, SEEDS, RECIPES)
CONTROLS = (*AXES, STATISTIC, SPREAD, SERIES, DEPTH, SEED)


def grid_of(values: Mapping[str, Any], names: Sequence[str], base: ObserveRequest, most_seeds: int) -> SweepGrid:
    """Return the grid of a sweep of the recipes `names`; `values` are those of the controls, `base` is the model.

    Raises `DepthscopeError` if it is not valid.
    """
    return SweepGrid(
        blocks=parse_sizes("Depths", values["sweep_blocks"]),
        seeds=seeds_or_range(values["sweep_seeds"], most_seeds),
        recipes=tuple(names),
        sizes=(base.config,),
        dtypes=(base.dtype,),
        batches=(base.batch,),
        distribution=base.distribution,
        band=base.band,
        budget=base.budget,
    )
