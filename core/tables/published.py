"""The published six-decimal values of the four fixed decoders, beside the values that the core computes.

Source of `published.csv`: the tables of the chapter, one row per number, as printed. The smallest and largest ratios of
a control are over all residual sites, so their rows have no site.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from .frame import frame
from .observe import ARM_KEYS

FILE = "published.csv"
DECIMALS = 6
COMPARED_COLUMNS = ("fixture", "arm", "site", "label", "quantity", "published", "computed", "rounded", "agrees")
EXTREMES = {"min": min, "max": max}


@lru_cache(maxsize=1)
def published_rows() -> tuple[dict[str, Any], ...]:
    """Return the published numbers as dicts with the keys `fixture`, `arm`, `site`, `quantity` and `published`.

    `arm` is the recipe or the control; `site` is the residual site, None for all of them; `published` is text, as
    printed.
    """
    with open(Path(__file__).with_name(FILE), encoding="utf-8", newline="") as stream:
        rows: list[dict[str, Any]] = list(csv.DictReader(stream))
    return tuple({**row, "site": int(row["site"]) if row["site"] else None} for row in rows)


def compared_table(documents: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row per published number, beside the computed one in full and rounded to six decimals.

    `documents` maps the name of a fixture to its `observe` document. `agrees` is "yes" or "no", for the rounded number.
    """
    rows = []
    for row in published_rows():
        if row["fixture"] not in documents:
            continue
        sites = documents[row["fixture"]][ARM_KEYS[row["arm"]]]["sites"]
        computed = _computed(sites, row["site"], row["quantity"])
        rounded = f"{computed:.{DECIMALS}f}"
        rows.append(
            {
                **row,
                "label": "all sites" if row["site"] is None else sites[row["site"]]["label"],
                "computed": computed,
                "rounded": rounded,
                "agrees": "yes" if rounded == row["published"] else "no",
            }
        )
    return frame(rows, COMPARED_COLUMNS).astype({"site": "Int64"})


def _computed(sites: Sequence[Mapping[str, Any]], site: int | None, quantity: str) -> float:
    if site is not None:
        return float(sites[site][quantity])
    name, extreme = quantity.rsplit("_", 1)
    return float(EXTREMES[extreme](row[name] for row in sites))


def agreement_sentence(table: pd.DataFrame) -> str:
    """Return a sentence with the number of published values that agree; `table` is a `compared_table`."""
    agreeing, total = int((table["agrees"] == "yes").sum()), len(table)
    if agreeing == total:
        return f"All {total} published values agree at six decimals."
    return f"{agreeing} of {total} published values agree at six decimals; {total - agreeing} do not."
