"""Columns and words of the tables of sites and tokens, shared by one observation and a sweep; it needs no pandas."""

from __future__ import annotations

SITE_COLUMNS = (
    "arm", "recipe", "seed", "blocks", "site", "label", "activation_rms", "activation_ratio", "activation_band",
    "adjoint_rms", "adjoint_ratio", "adjoint_band", "loss_nats", "status", "reason",
)  # fmt: skip
INITIALIZED, SAME_BASE_CONTROL = "initialized", "control"
OBSERVED, REFUSED = "observed", "refused"
# Quantiles of the tokens' RMS at a site, and the RMS over all tokens but the largest.
TOKEN_LEVELS = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95, "largest": 1.0}
WITHOUT_LARGEST = "without_largest"
TOKEN_STATISTICS = (*TOKEN_LEVELS, WITHOUT_LARGEST)
