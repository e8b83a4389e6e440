"""A comparison as long tables, one row per observation, and what is read off such tables; undefined numbers are NaN.

`profile_table` has exactly the columns of a sweep's long table, so `largest_table`, `share_table` and the overlays
against depth read either. A cell that was refused, or whose recipe does not run, is one row without a site, with the
status `refused` and the sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..health.arms import Arm
from ..health.band import classify
from ..health.columns import INITIALIZED, OBSERVED, REFUSED, SITE_COLUMNS
from .comparison import Chunk, Comparison

QUANTITIES = ("activation", "adjoint")
HEAD = ("recipe", "seed", "blocks")
CONTRIBUTION_COLUMNS = (
    *HEAD, "site", "label", "block", "branch", "raw_rms", "contribution_rms", "stream_rms", "contribution_to_stream",
    "cosine",
)  # fmt: skip
LARGEST_COLUMNS = (*HEAD, "quantity", "site", "label", "ratio", "within_band")
SHARE_COLUMNS = ("recipe", "blocks", "site", "label", "quantity", "share_within", "seeds")


def profile_table(comparison: Comparison) -> pd.DataFrame:
    """Every site of every member (`SITE_COLUMNS`); RMS in units of the stream, ratios dimensionless.

    A seed is text, for it may pass what a column of integers holds.
    """
    parts, refused = [], list(_refused_recipes(comparison))
    for chunk, arm, members in comparison.arms():
        observation = arm.observation
        reasons = [observation.refusal(member) for member in members]
        sites, kept = len(observation.labels), [index for index, reason in enumerate(reasons) if reason is None]
        refused += [
            (arm.recipe.name, seed, chunk.config.blocks, str(reason))
            for seed, reason in zip(chunk.seeds, reasons, strict=True)
            if reason is not None
        ]
        chosen = [members[index] for index in kept]
        part = _head(chunk, arm, [chunk.seeds[index] for index in kept], sites)
        part |= {"site": np.tile(np.arange(sites), len(kept)), "label": observation.labels * len(kept)}
        for name in QUANTITIES:
            ratios = getattr(observation, f"{name}_ratio")[chosen].ravel()
            part[f"{name}_rms"] = getattr(observation, f"{name}_rms")[chosen].ravel()
            part[f"{name}_ratio"] = ratios
            part[f"{name}_band"] = [classify(ratio, comparison.request.band) for ratio in ratios.tolist()]
        part |= {"loss_nats": np.repeat(observation.loss_nats[chosen], sites), "status": OBSERVED, "reason": ""}
        parts.append(pd.DataFrame(part))
    table = _joined([*parts, _refused_rows(refused)], SITE_COLUMNS)
    table["arm"] = INITIALIZED
    return table.astype({"site": "Int64"})


def contribution_table(comparison: Comparison) -> pd.DataFrame:
    """What every branch adds to the stream (`CONTRIBUTION_COLUMNS`); `site` is the state after the addition."""
    parts = []
    for chunk, arm, members in comparison.arms():
        found, labels = arm.observation.contributions, arm.observation.labels
        part = _head(chunk, arm, chunk.seeds, len(found))
        part["site"] = np.tile([c.site for c in found], len(members))
        part["label"] = [labels[c.site] for c in found] * len(members)
        part["block"] = np.tile([c.block for c in found], len(members))
        part["branch"] = [c.branch for c in found] * len(members)
        for name in ("raw_rms", "contribution_rms", "stream_rms", "cosine"):
            part[name] = np.stack([getattr(c, name)[members] for c in found], axis=1).ravel()
        frame = pd.DataFrame(part)
        frame["contribution_to_stream"] = frame["contribution_rms"] / frame["stream_rms"].where(frame["stream_rms"] > 0)
        parts.append(frame)
    return _joined(parts, CONTRIBUTION_COLUMNS)


def largest_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The largest ratio of every observed cell and quantity, its site, and whether all of them lie within the band."""
    observed = rows[rows["status"] == OBSERVED]
    parts = []
    for name in QUANTITIES:
        cells = observed.groupby(list(HEAD), sort=False)
        part = observed.loc[cells[f"{name}_ratio"].idxmax(), [*HEAD, "site", "label", f"{name}_ratio"]]
        within = (observed[f"{name}_band"] == "within").groupby([observed[key] for key in HEAD], sort=False).all()
        part = part.rename(columns={f"{name}_ratio": "ratio"}).assign(quantity=name, within_band=within.to_numpy())
        parts.append(part)
    return _joined(parts, LARGEST_COLUMNS)


def share_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Share of observed seeds whose ratio lies within the band, by recipe, depth, site and quantity."""
    observed = rows[rows["status"] == OBSERVED]
    parts = [observed.assign(quantity=name, within=observed[f"{name}_band"] == "within") for name in QUANTITIES]
    grouped = pd.concat(parts).groupby(["recipe", "blocks", "site", "label", "quantity"], sort=False)["within"]
    return grouped.agg(share_within="mean", seeds="size").reset_index()[list(SHARE_COLUMNS)]


def _head(chunk: Chunk, arm: Arm, seeds: Sequence[int], rows: int) -> dict[str, object]:
    return {
        "recipe": arm.recipe.name,
        "seed": np.repeat(np.array([str(seed) for seed in seeds], dtype=object), rows),
        "blocks": chunk.config.blocks,
    }


def _refused_recipes(comparison: Comparison) -> list[tuple[str, int, int, str]]:
    return [
        (recipe, seed, chunk.config.blocks, reason)
        for chunk in comparison.chunks
        for recipe, reason in chunk.refused.items()
        for seed in chunk.seeds
    ]


def _refused_rows(refused: Sequence[tuple[str, int, int, str]]) -> pd.DataFrame:
    rows = [
        {"recipe": recipe, "seed": str(seed), "blocks": blocks, "label": "", "status": REFUSED, "reason": reason}
        | {f"{name}_band": "" for name in QUANTITIES}
        for recipe, seed, blocks, reason in refused
    ]
    return pd.DataFrame(rows, columns=[name for name in SITE_COLUMNS if name != "arm"]) if rows else pd.DataFrame()


def _joined(parts: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    kept = [part for part in parts if len(part)]
    if not kept:
        return pd.DataFrame(columns=list(columns))
    return pd.concat(kept, ignore_index=True).reindex(columns=list(columns))
