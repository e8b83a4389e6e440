"""The table of a run that has not ended, and the sentences on its progress and its cost."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ..health.estimate import Estimate
from ..health.request import ObserveRequest
from ..health.run_watch import Reached, RunState
from ..sweep.progress import clock
from .frame import frame

COLUMNS = ("recipe", "seed", "blocks", "site", "label", "activation_rms", "adjoint_rms")


def reached_table(request: ObserveRequest, reached: Mapping[str, Reached]) -> pd.DataFrame:
    """Return one row per recipe and site, with the RMS of state and adjoint; NaN where the run has not been yet."""
    rows = []
    for name, one in reached.items():
        head = {"recipe": name, "seed": str(request.seed), "blocks": request.config.blocks}
        sites = enumerate(zip(one.labels, one.activation.tolist(), one.adjoint.tolist(), strict=True))
        rows += [
            {**head, "site": site, "label": label, "activation_rms": activation, "adjoint_rms": adjoint}
            for site, (label, activation, adjoint) in sites
        ]
    return frame(rows, COLUMNS)


def cost_words(cost: Estimate) -> str:
    """Return the estimated time and memory of a run as text."""
    return f"about {clock(max(1.0, cost.seconds))} of one core and {cost.total_bytes / 2**30:.2f} GiB of memory"


def left_words(seconds: float) -> str:
    """Return the estimated time left as text."""
    return f"about {clock(max(1.0, seconds))} left"


def progress_words(state: RunState) -> str:
    """Return finished blocks and the time left as text."""
    return f"{state.done:,} of {state.total:,} blocks, forward and in reverse, {left_words(state.seconds_left)}"
