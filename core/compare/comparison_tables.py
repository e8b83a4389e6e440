"""Tables of a comparison of recipes, one row per observation; undefined numbers are NaN.

`profile_table` has the columns of a sweep's long table, so `largest_table`, `share_table` and the predictions of
`core.compare.overlays` accept either. A cell is one recipe on one seed at one depth. A cell that cannot run, or whose
ratios are not finite, is one row without a residual site, with the status `refused` and the reason.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..health.columns import INITIALIZED, OBSERVED, SITE_TYPES
from ..health.sites import site_rows, site_values
from .comparison import Comparison

QUANTITIES = ("activation", "adjoint")
HEAD = ("recipe", "seed", "blocks")
MEASURED = ("raw_rms", "contribution_rms", "stream_rms", "cosine")
CONTRIBUTION_COLUMNS = (
    *HEAD, "site", "label", "block", "branch", "raw_rms", "contribution_rms", "stream_rms", "contribution_to_stream",
    "cosine",
)  # fmt: skip
LARGEST_COLUMNS = (*HEAD, "quantity", "site", "label", "ratio", "within_band")
SHARE_COLUMNS = ("recipe", "blocks", "site", "label", "quantity", "share_within", "seeds")


def profile_table(comparison: Comparison) -> pd.DataFrame:
    """Return one row per recipe, seed, depth and residual site, with RMS values and ratios (columns `SITE_COLUMNS`).

    A site is a state of the residual stream. Seeds are text, since an integer column cannot hold all of them.
    """
    band, parts = comparison.request.band, []
    for chunk, arm, members in comparison.arms():
        seen, reasons = arm.observation, [arm.observation.refusal(member) for member in members]
        states = list(zip(chunk.seeds, members, reasons, strict=True))
        kept = [member for _, member, reason in states if reason is None]
        rms, ratios = (
            [values[kept] for values in pair] for pair in ((seen.activation_rms, seen.adjoint_rms), seen.ratios)
        )
        observed = [(seed, float(seen.loss_nats[member])) for seed, member, reason in states if reason is None]
        refused = [(seed, str(reason)) for seed, _, reason in states if reason is not None]
        values = site_values(seen.labels, rms, ratios, band)
        parts.append(site_rows(INITIALIZED, arm.recipe.name, chunk.config.blocks, observed, values, refused))
    nothing = [np.empty((0, 0))] * 2
    no_sites = site_values((), nothing, nothing, band)
    for chunk in comparison.chunks:
        for name, sentence in chunk.refused.items():
            refused = [(seed, sentence) for seed in chunk.seeds]
            parts.append(site_rows(INITIALIZED, name, chunk.config.blocks, [], no_sites, refused))
    return pd.concat([pd.DataFrame(part).astype(SITE_TYPES) for part in parts], ignore_index=True)


def contribution_table(comparison: Comparison) -> pd.DataFrame:
    """Return one row per recipe, seed, depth and branch: what the branch adds to the residual stream.

    Columns are `CONTRIBUTION_COLUMNS`; `site` is the index of the state after the addition.
    """
    rows = [
        {
            "recipe": arm.recipe.name, "seed": str(seed), "blocks": chunk.config.blocks,
            "site": found.site, "label": arm.observation.labels[found.site], "block": found.block,
            "branch": found.branch, **{name: getattr(found, name)[member] for name in MEASURED},
        }
        for chunk, arm, members in comparison.arms()
        for seed, member in zip(chunk.seeds, members, strict=True)
        for found in arm.observation.contributions
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=list(CONTRIBUTION_COLUMNS))
    table["contribution_to_stream"] = table["contribution_rms"] / table["stream_rms"].where(table["stream_rms"] > 0)
    return table


def largest_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the largest ratio over the residual sites, one row per recipe, seed, depth and quantity.

    The quantity is activation or adjoint (gradient of the mean loss). Columns are `LARGEST_COLUMNS`: `site` is where
    the largest ratio is, `within_band` is True if all sites are within the band.
    """
    observed = rows[rows["status"] == OBSERVED]
    parts = []
    for name in QUANTITIES:
        cells = observed.groupby(list(HEAD), sort=False)
        part = observed.loc[cells[f"{name}_ratio"].idxmax(), [*HEAD, "site", "label", f"{name}_ratio"]]
        within = (observed[f"{name}_band"] == "within").groupby([observed[key] for key in HEAD], sort=False).all()
        part = part.rename(columns={f"{name}_ratio": "ratio"}).assign(quantity=name, within_band=within.to_numpy())
        parts.append(part)
    return pd.concat(parts, ignore_index=True)[list(LARGEST_COLUMNS)]


def share_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the share of seeds whose ratio is within the band, one row per recipe, depth, residual site and quantity.

    Columns are `SHARE_COLUMNS`; `seeds` counts the seeds observed.
    """
    observed = rows[rows["status"] == OBSERVED]
    parts = [observed.assign(quantity=name, within=observed[f"{name}_band"] == "within") for name in QUANTITIES]
    grouped = pd.concat(parts).groupby(["recipe", "blocks", "site", "label", "quantity"], sort=False)["within"]
    return grouped.agg(share_within="mean", seeds="size").reset_index()[list(SHARE_COLUMNS)]
