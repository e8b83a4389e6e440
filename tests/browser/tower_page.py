"""A page with nothing but a depth slider and the tower of made-up seeds, for the browser tests of any depth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from pages.common.outputs import Sheet
from pages.common.tower import tower

SEEDS = 4


def table(blocks: int) -> pd.DataFrame:
    """Two recipes whose ratios grow with depth, a few seeds of each; the first one leaves the band."""
    sites = np.tile(np.arange(2 * blocks + 1), SEEDS)
    seeds = np.repeat(np.arange(SEEDS), 2 * blocks + 1)
    labels = ["input", *(f"block.{at // 2}.after_{('attention', 'feed_forward')[at % 2]}" for at in range(2 * blocks))]
    parts = []
    for recipe, growth in (("unscaled", 3.0), ("depth-scaled", 1.0)):
        exponent = growth * sites / sites.max() + 0.1 * seeds * np.sin(sites)
        ratios = {"activation_ratio": 10**exponent, "adjoint_ratio": 10 ** (growth - exponent)}
        head = {"recipe": recipe, "blocks": blocks, "seed": seeds.astype(str), "site": sites}
        parts.append(pd.DataFrame({**head, "label": labels * SEEDS, **ratios}))
    return pd.concat(parts, ignore_index=True)


st.title("Tower")
depth = st.slider("Depth", 1, 4096, 8, key="blocks", bind="query-params")
tower(Sheet("residual_health", "Tower"), table(depth), follow="blocks", preview=table)
