"""Compare what public code does under a recipe's name with the recipe itself, on the same random base weights."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..decoder.base_draw import BaseDraw
from ..decoder.parameters import WRITERS, layout
from ..health.arms import observe_arms
from ..recipes.catalogue import recipe
from ..recipes.recipe import Recipe
from ..recipes.variants import VARIANTS
from .effects import largest_change
from .request import ComparisonRequest, runnable_recipes

DRIFT_COLUMNS = (
    "variant", "recipe", "code_base", "place", "says", "does", "blocks", "seeds", "output_first", "output_last",
    "down_first", "down_last", "other_tensors", "declared_activation_ratio", "variant_activation_ratio",
    "declared_adjoint_ratio", "variant_adjoint_ratio", "largest_change",
)  # fmt: skip


def drift_table(request: ComparisonRequest) -> pd.DataFrame:
    """Return one row per variant in public code that runs on the request's decoder (columns `DRIFT_COLUMNS`).

    `output_*` and `down_*` are the variant's factor on the matrix that ends the attention or feed-forward branch,
    divided by the recipe's factor, in the first and the last block; NaN if the recipe's factor is 0. `other_tensors`
    counts the kinds of other matrices with another factor. The ratio columns are medians over seeds of the largest
    ratio over residual sites; `largest_change` is the largest relative change of an RMS over all sites and seeds.
    """
    rows = []
    for variant in VARIANTS:
        pair = [recipe(variant.recipe), variant.as_recipe()]
        runnable, _ = runnable_recipes(pair, request.config)
        if len(runnable) == len(pair):
            counts = {"blocks": request.config.blocks, "seeds": len(request.seeds)}
            said = {**vars(variant), "variant": variant.name, **counts}
            rows.append({**said, **_written(pair, request), **_observed(pair, request)})
    return pd.DataFrame(rows, columns=list(DRIFT_COLUMNS))


def _written(pair: list[Recipe], request: ComparisonRequest) -> dict[str, object]:
    config, row, others = request.config, {}, 0
    parts = layout(config)
    for spec in (*parts.stem, *parts.block_template, *parts.tail):
        if not spec.draws:
            continue
        std = request.distribution.base_std(spec)
        ends = [0, config.blocks - 1] if "{b}" in spec.name else [0]
        declared, found = ([one.coefficient(spec, block, config, std) for block in ends] for one in pair)
        if spec.role in WRITERS:
            for place, ours, theirs in zip(("first", "last"), found, declared, strict=True):
                row[f"{spec.role}_{place}"] = ours / theirs if theirs else np.nan
        else:
            others += not np.allclose(declared, found, rtol=1e-12, atol=0)
    return {**row, "other_tensors": others}


def _observed(pair: list[Recipe], request: ComparisonRequest) -> dict[str, object]:
    draw = BaseDraw(request.config, request.seeds, request.distribution)
    declared, variant = observe_arms(
        draw, pair, request.batch, dtype=request.dtype, device=request.device, contributions=False
    )
    row: dict[str, object] = {}
    for title, arm in (("declared", declared), ("variant", variant)):
        members = [arm.member(index) for index in range(len(request.seeds))]
        for quantity in ("activation", "adjoint"):
            largest = getattr(arm.observation, f"{quantity}_ratio")[members].max(axis=1)
            row[f"{title}_{quantity}_ratio"] = float(np.median(largest))
    row["largest_change"] = max(largest_change(variant, declared, index)[0] for index in range(len(request.seeds)))
    return row
