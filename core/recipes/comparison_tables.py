"""A comparison as long tables, one row an observation; undefined numbers are NaN.

A seed is text, for it may pass what a column of integers holds. What has no finite ratios, or does not run at a depth,
carries the status `refused` and the sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from core.decoder.splitmix64 import FloatArray
from core.health.arms import Arm
from core.health.band import Band, classify
from core.recipes.comparison import Chunk, Comparison

OBSERVED, REFUSED = "observed", "refused"
QUANTITIES = ("activation", "adjoint")
HEAD = ("recipe", "seed", "blocks")
PROFILE_COLUMNS = (
    *HEAD, "site", "label", "activation_rms", "activation_ratio", "activation_band", "adjoint_rms", "adjoint_ratio",
    "adjoint_band", "loss_nats", "status", "reason",
)  # fmt: skip
CONTRIBUTION_COLUMNS = (
    *HEAD, "site", "label", "block", "branch", "raw_rms", "contribution_rms", "stream_rms", "contribution_to_stream",
    "cosine",
)  # fmt: skip
LARGEST_COLUMNS = (*HEAD, "quantity", "site", "label", "ratio", "within_band", "status", "reason")
SHARE_COLUMNS = ("recipe", "blocks", "site", "label", "quantity", "share_within", "seeds", "refused")
# Stands for a site where a recipe was refused before it had any.
NO_SITE = -1


def profile_table(comparison: Comparison) -> pd.DataFrame:
    """Every site of every member that ran (`PROFILE_COLUMNS`); RMS in units of the stream, ratios dimensionless."""
    parts = []
    for chunk, arm, members in comparison.arms():
        observation = arm.observation
        sites = len(observation.labels)
        part = _head(chunk, arm, sites)
        part |= {"site": np.tile(np.arange(sites), len(members)), "label": observation.labels * len(members)}
        for name in QUANTITIES:
            ratios = getattr(observation, f"{name}_ratio")[members].ravel()
            part[f"{name}_rms"] = getattr(observation, f"{name}_rms")[members].ravel()
            part[f"{name}_ratio"] = ratios
            part[f"{name}_band"] = _bands(ratios, comparison.request.band)
        part["loss_nats"] = np.repeat(observation.loss_nats[members], sites)
        parts.append(pd.DataFrame(part | _status(arm, members, sites)))
    return _joined(parts, PROFILE_COLUMNS)


def contribution_table(comparison: Comparison) -> pd.DataFrame:
    """What every branch adds to the stream (`CONTRIBUTION_COLUMNS`); `site` is the state after the addition."""
    parts = []
    for chunk, arm, members in comparison.arms():
        found, labels = arm.observation.contributions, arm.observation.labels
        part = _head(chunk, arm, len(found))
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


def largest_table(comparison: Comparison) -> pd.DataFrame:
    """The largest ratio of every member and quantity, and whether all its ratios lie within the band.

    A recipe that does not run at a depth has its rows too, at site `NO_SITE`.
    """
    rows: list[tuple[object, ...]] = []
    for chunk, arm, members in comparison.arms():
        for seed, member in zip(chunk.seeds, members, strict=True):
            reason = arm.observation.refusal(member)
            for name in QUANTITIES:
                head = (arm.recipe.name, str(seed), chunk.config.blocks, name)
                if reason is not None:
                    rows.append((*head, NO_SITE, "", np.nan, False, REFUSED, str(reason)))
                    continue
                ratios = getattr(arm.observation, f"{name}_ratio")[member]
                site = int(np.argmax(ratios))
                within = set(_bands(ratios, comparison.request.band)) == {"within"}
                rows.append((*head, site, arm.observation.labels[site], ratios[site], within, OBSERVED, ""))
    rows += [
        (recipe, str(seed), chunk.config.blocks, name, NO_SITE, "", np.nan, False, REFUSED, reason)
        for chunk in comparison.chunks
        for recipe, reason in chunk.refused.items()
        for seed in chunk.seeds
        for name in QUANTITIES
    ]
    return pd.DataFrame(rows, columns=list(LARGEST_COLUMNS))


def share_table(profiles: pd.DataFrame) -> pd.DataFrame:
    """Share of observed seeds whose ratio lies within the band, by recipe, depth, site and quantity; from profiles."""
    seen = profiles["status"] == OBSERVED
    rows = pd.concat(
        [
            profiles.assign(
                quantity=name, seen=seen, within=(profiles[f"{name}_band"] == "within").astype(float).where(seen)
            )
            for name in QUANTITIES
        ]
    )
    grouped = rows.groupby(["recipe", "blocks", "site", "label", "quantity"], sort=False)
    shares = grouped.agg(share_within=("within", "mean"), seeds=("seen", "sum"), total=("seen", "size")).reset_index()
    shares["refused"] = shares["total"] - shares["seeds"]
    return shares[list(SHARE_COLUMNS)]


def _head(chunk: Chunk, arm: Arm, rows: int) -> dict[str, object]:
    return {
        "recipe": arm.recipe.name,
        "seed": np.repeat([str(seed) for seed in chunk.seeds], rows),
        "blocks": chunk.config.blocks,
    }


def _status(arm: Arm, members: Sequence[int], rows: int) -> dict[str, object]:
    reasons = [arm.observation.refusal(member) for member in members]
    return {
        "status": np.repeat([OBSERVED if reason is None else REFUSED for reason in reasons], rows),
        "reason": np.repeat(["" if reason is None else str(reason) for reason in reasons], rows),
    }


def _bands(ratios: FloatArray, band: Band) -> list[str]:
    return [classify(ratio, band) if np.isfinite(ratio) else "" for ratio in ratios.tolist()]


def _joined(parts: list[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    if not parts:
        return pd.DataFrame(columns=list(columns))
    return pd.concat(parts, ignore_index=True)[list(columns)]
