"""Experiment: soft-capped logits, cap * tanh(logit / cap), and the slope that capping leaves.

Source: Gemma Team, "Gemma 2" (2024): cap 50 on attention scores, 30 on final logits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.lab.options import Options, number
from core.lab.result import Result

POINTS = 201


@dataclass(frozen=True, kw_only=True)
class SoftCapOptions(Options):
    """A cap and one logit to look at."""

    cap: float = number(50.0, 1e-3, 1e6, "Largest size a logit can reach; Gemma 2 has 50 in attention, 30 at the end.")
    logit: float = number(50.0, -1e6, 1e6, "Logit before the cap.")


def soft_cap(options: SoftCapOptions) -> Result:
    """The capped logit and its slope 1 - tanh^2. Table: `curve` over four caps to either side."""
    logits = np.linspace(-4 * options.cap, 4 * options.cap, POINTS)
    squashed = np.tanh(logits / options.cap)
    one = np.tanh(options.logit / options.cap)
    return Result(
        summary={
            "capped": options.cap * one,
            "slope": 1.0 - one**2,
            "half_slope_at": options.cap * np.arctanh(0.5**0.5),
        },
        tables={"curve": pd.DataFrame({"logit": logits, "capped": options.cap * squashed, "slope": 1.0 - squashed**2})},
    )
