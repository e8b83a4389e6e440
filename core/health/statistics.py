"""Statistics of sites and of contributions: all that an observation keeps of a state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from ..decoder.splitmix64 import FloatArray
from ..decoder.tape import Contribution
from ..decoder.valid import select_valid
from .rms import cosine_of_rows, rms_of_rows
from .token_rms import token_statistics

# Values stacked for one statistics call; more are taken site by site, so that memory stays flat.
STACKED_VALUES = 2**22


@dataclass(frozen=True)
class ContributionStatistics:
    """Statistics of one branch of one addition for E members, `[E]` each, pooled over valid positions.

    `raw_rms` is that of the branch output, `contribution_rms` that of what is added, `stream_rms` that of the stream it
    is added to. `cosine` is between contribution and stream, NaN if one of them is zero. `gain` belongs to the branch's
    norm, None while it is all ones.
    """

    site: int
    block: int
    branch: str
    raw_rms: FloatArray
    contribution_rms: FloatArray
    stream_rms: FloatArray
    cosine: FloatArray
    owns_gain: bool
    gain: FloatArray | None


def site_statistics(
    sites: Sequence[torch.Tensor], valid: npt.NDArray[np.bool_], tokens: bool
) -> tuple[FloatArray, FloatArray | None]:
    """Return (RMS `[E, S]`, token statistics `[E, S, statistics]` or None) of S sites, each a state `[E, B, T, D]`.

    Token statistics, as in `TOKEN_STATISTICS`, are computed if `tokens` is True.
    """
    members, width = sites[0].shape[0], sites[0].shape[-1]
    group = max(1, STACKED_VALUES // sites[0].numel())
    columns, quantiles = [], []
    for start in range(0, len(sites), group):
        part = sites[start : start + group]
        values = select_valid(torch.cat([site.detach() for site in part]), valid)
        columns.append(rms_of_rows(values).view(len(part), members))
        if tokens:
            quantiles.append(token_statistics(values, width).reshape(len(part), members, -1))
    rms = torch.cat(columns).T.contiguous().cpu().numpy()
    return rms, np.concatenate(quantiles).transpose(1, 0, 2) if tokens else None


def contribution_statistics(
    parts: Sequence[Contribution], valid: npt.NDArray[np.bool_]
) -> list[ContributionStatistics]:
    """Return one `ContributionStatistics` per contribution, in their order."""
    statistics: list[ContributionStatistics] = []
    group = max(1, STACKED_VALUES // parts[0].raw.numel()) if parts else 1
    for start in range(0, len(parts), group):
        part = parts[start : start + group]
        pooled = [
            select_valid(torch.cat([getattr(c, name).detach() for c in part]), valid)
            for name in ("raw", "contribution", "stream")
        ]
        raw, gained, stream = (rms_of_rows(values).view(len(part), -1).cpu().numpy() for values in pooled)
        cosine = cosine_of_rows(pooled[1], pooled[2]).view(len(part), -1).cpu().numpy()
        statistics += [
            ContributionStatistics(
                site=one.site,
                block=one.block,
                branch=one.branch,
                raw_rms=raw[index],
                contribution_rms=gained[index],
                stream_rms=stream[index],
                cosine=cosine[index],
                owns_gain=one.owns_gain,
                gain=gain_array(one.gain),
            )
            for index, one in enumerate(part)
        ]
    return statistics


def gain_array(gain: torch.Tensor | None) -> FloatArray | None:
    """Return a gain as a float64 NumPy array; None, which stands for ones, is returned unchanged."""
    return None if gain is None else gain.detach().to("cpu", torch.float64).numpy()
