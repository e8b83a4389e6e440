"""RMS of every token by itself, and its quantiles: what one outsized token hides in the RMS of a whole site.

A token's RMS is over its D features. Where one of 36 tokens is 300 times the rest, a site's RMS is 50 times what 35 of
its tokens have; the quantiles and the RMS without the largest token tell.
"""

from __future__ import annotations

import numpy as np
import torch

from ..decoder.splitmix64 import FloatArray
from .columns import TOKEN_LEVELS, TOKEN_STATISTICS
from .rms import rms_of_rows


def token_statistics(values: torch.Tensor, width: int) -> FloatArray:
    """`TOKEN_STATISTICS` of each row of `values` `[E, n * width]` float64, `[E, len(TOKEN_STATISTICS)]`.

    Quantiles interpolate linearly between order statistics. The last column is the RMS over all tokens but the largest,
    NaN where there is one token alone.
    """
    tokens = rms_of_rows(values.reshape(-1, width)).view(len(values), -1).sort(dim=1).values
    rest = rms_of_rows(tokens[:, :-1]) if tokens.shape[1] > 1 else torch.full_like(tokens[:, 0], torch.nan)
    # A state that is not finite is refused by whoever reads the observation, not here.
    with np.errstate(all="ignore"):
        levels = np.quantile(tokens.cpu().numpy(), list(TOKEN_LEVELS.values()), axis=1)
    found = np.stack([*levels, rest.cpu().numpy()], axis=1)
    assert found.shape[1] == len(TOKEN_STATISTICS)
    return found
