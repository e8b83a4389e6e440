"""Columns and words of the long table of sites, shared by one observation and a sweep; it needs no pandas."""

from __future__ import annotations

SITE_COLUMNS = (
    "arm", "recipe", "seed", "blocks", "site", "label", "activation_rms", "activation_ratio", "activation_band",
    "adjoint_rms", "adjoint_ratio", "adjoint_band", "loss_nats", "status", "reason",
)  # fmt: skip
INITIALIZED, SAME_BASE_CONTROL = "initialized", "control"
OBSERVED, REFUSED = "observed", "refused"
