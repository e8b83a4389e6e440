"""The JSON document of the observation of one arm (one recipe on one seed)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..decoder.splitmix64 import FloatArray
from ..numerals import finite
from .band import DEFAULT_BAND, Band
from .columns import TOKEN_STATISTICS
from .observation import Observation
from .sites import site_values
from .statistics import ContributionStatistics

Document = dict[str, Any]


def arm_document(observation: Observation, member: int, band: Band = DEFAULT_BAND) -> Document:
    """Return one member (one seed of one recipe) of an observation as JSON values.

    The keys are the loss in nats, the number of valid positions, the RMS of input and last adjoint, `within_band`,
    `sites`, `branches`, `contributions`, `undefined` (number of undefined cosines) and `final_norm_gain`. Undefined
    values are None. If measured, a site also has `activation_tokens` and `adjoint_tokens`: the quantiles of its tokens'
    RMS. Raises `ObservationError` if the member has ratios that are not finite.
    """
    refusal = observation.refusal(member)
    if refusal is not None:
        raise refusal
    sites = _sites(observation, member, band)
    contributions = [_contribution(c, member) for c in observation.contributions]
    return {
        "loss_nats": float(observation.loss_nats[member]),
        "valid_positions": observation.valid_positions,
        "loss_reduction": "mean over valid targets",
        "input_activation_rms": float(observation.activation_rms[member, 0]),
        "terminal_adjoint_rms": float(observation.adjoint_rms[member, -1]),
        "within_band": all(s["activation_band"] == s["adjoint_band"] == "within" for s in sites),
        "sites": sites,
        "branches": _branches(observation, member),
        "contributions": contributions,
        "undefined": sum(c["cosine"] is None for c in contributions),
        "final_norm_gain": _gain(observation.owns_final_gain, observation.final_gain, member, observation),
    }


def _sites(observation: Observation, member: int, band: Band) -> list[Document]:
    """Return one row per site: the columns of the table of sites, then the token statistics if they were measured."""
    rms, ratios = (observation.activation_rms, observation.adjoint_rms), observation.ratios
    one = slice(member, member + 1)
    columns = site_values(observation.labels, [x[one] for x in rms], [x[one] for x in ratios], band)
    for name in ("activation_tokens", "adjoint_tokens"):
        statistics: FloatArray | None = getattr(observation, name)
        if statistics is not None:
            columns[name] = [
                {level: finite(value) for level, value in zip(TOKEN_STATISTICS, values, strict=True)}
                for values in statistics[member].tolist()
            ]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _contribution(statistics: ContributionStatistics, member: int) -> Document:
    contribution, stream = float(statistics.contribution_rms[member]), float(statistics.stream_rms[member])
    return {
        "site": statistics.site,
        "block": statistics.block,
        "branch": statistics.branch,
        "raw_rms": finite(float(statistics.raw_rms[member])),
        "contribution_rms": finite(contribution),
        "stream_rms": finite(stream),
        "contribution_to_stream": finite(contribution / stream) if stream > 0 else None,
        "cosine": finite(float(statistics.cosine[member])),
    }


def _branches(observation: Observation, member: int) -> list[Document]:
    blocks: dict[int, Document] = {}
    for c in observation.contributions:
        row = blocks.setdefault(c.block, {"block": c.block})
        row[f"{c.branch}_output_rms"] = finite(float(c.raw_rms[member]))
        row[f"{c.branch}_norm_gain"] = _gain(c.owns_gain, c.gain, member, observation)
    return list(blocks.values())


def _gain(owned: bool, gain: FloatArray | None, member: int, observation: Observation) -> list[float] | None:
    if not owned:
        return None
    if gain is None:
        return np.ones(observation.width).tolist()
    shared = observation.members // len(gain)
    return [float(value) for value in gain[member // shared]]
