"""RMS of every single token and its quantiles, which show an outsized token that the RMS of a whole site hides.

A token's RMS is over its D features. If one of 36 tokens is 300 times the rest, the RMS of the site is 50 times that of
the other 35 tokens; the quantiles and the RMS without the largest token show this.
"""

from __future__ import annotations

import numpy as np
import torch

from ..decoder.splitmix64 import FloatArray
from .columns import TOKEN_LEVELS, TOKEN_STATISTICS
from .rms import rms_of_rows


def token_statistics(values: torch.Tensor, width: int) -> FloatArray:
    """Return quantiles of single tokens' RMS for each row of `values`: `[E, len(TOKEN_STATISTICS)]`.

    `values` is float64 `[E, n * width]`, n tokens of `width` features per member. Quantiles are interpolated linearly.
    The last column is the RMS over all tokens but the largest, NaN if there is only one token.
    """
    tokens = rms_of_rows(values.reshape(-1, width)).view(len(values), -1).sort(dim=1).values
    rest = rms_of_rows(tokens[:, :-1]) if tokens.shape[1] > 1 else torch.full_like(tokens[:, 0], torch.nan)
    # A state that is not finite is refused by whoever reads the observation, not here.
    with np.errstate(all="ignore"):
        levels = np.quantile(tokens.cpu().numpy(), list(TOKEN_LEVELS.values()), axis=1)
    found = np.stack([*levels, rest.cpu().numpy()], axis=1)
    assert found.shape[1] == len(TOKEN_STATISTICS)
    return found
