"""The table of the writers of one block: the matrices that end a branch and so write into the residual stream."""

from __future__ import annotations

import pandas as pd

from ..decoder.base_draw import XAVIER, Distribution
from ..decoder.config import DecoderConfig
from ..decoder.parameters import WRITERS, layout
from ..recipes.catalogue import recipe
from .frame import frame

WRITER_COLUMNS = ("block", "site", "label", "writer", "fan_in", "fan_out", "factor", "base_std", "stored_std")


def writer_table(
    config: DecoderConfig, recipe_name: str, block: int, distribution: Distribution = XAVIER
) -> pd.DataFrame:
    """Return one row per writer (matrix that ends a branch) of a block: fans, factor, standard deviations.

    `factor` multiplies the base weights; `base_std` and `stored_std` are the standard deviations before and after.
    `site` is the index of the state after the addition.
    """
    chosen = recipe(recipe_name)
    additions = chosen.graph(config).blocks[block]
    first = 1 + sum(len(earlier) for earlier in chosen.graph(config).blocks[:block])
    rows = []
    for spec in (spec for spec in layout(config).block(block) if spec.role in WRITERS):
        kind = "attention" if spec.role == "output" else "feed_forward"
        place = next(i for i, addition in enumerate(additions) if any(b.kind == kind for b in addition.branches))
        std = distribution.base_std(spec)
        factor = chosen.coefficient(spec, block, config, std)
        rows.append(
            {
                "block": block,
                "site": first + place,
                "label": f"block.{block}.{additions[place].label}",
                "writer": spec.name,
                "fan_in": spec.shape[0],
                "fan_out": spec.shape[1],
                "factor": factor,
                "base_std": std,
                "stored_std": factor * std,
            }
        )
    return frame(rows, WRITER_COLUMNS)


def writer_view(writers: pd.DataFrame) -> pd.DataFrame:
    """Return a `writer_table` (matrices that end a branch) for display, in fewer and shorter columns."""
    names = [str(name).split(".", 2)[2].removesuffix(".weight") for name in writers["writer"]]
    fans = [f"{rows} × {columns}" for rows, columns in zip(writers["fan_in"], writers["fan_out"], strict=True)]
    return pd.DataFrame(
        {
            "matrix": names,
            "fans": fans,
            "factor": writers["factor"],
            "base std": writers["base_std"],
            "stored std": writers["stored_std"],
            "site": writers["site"],
        }
    )
