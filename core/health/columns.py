"""Names and types of the columns in the tables of sites and of tokens, and the values of text columns.

A site is a state of the residual stream. Imports no array library.
"""

from __future__ import annotations

# What a column holds, by the names that pandas has for types; only a refused cell has no site.
SITE_TYPES = {
    "arm": "str", "recipe": "str", "seed": "str", "blocks": "int64", "site": "Int64", "label": "str",
    "activation_rms": "float64", "activation_ratio": "float64", "activation_band": "str",
    "adjoint_rms": "float64", "adjoint_ratio": "float64", "adjoint_band": "str",
    "loss_nats": "float64", "status": "str", "reason": "str",
}  # fmt: skip
SITE_COLUMNS = tuple(SITE_TYPES)
INITIALIZED, SAME_BASE_CONTROL = "initialized", "control"
# The arms of an audit: the model, and a copy of it with the repairs applied.
AUDITED, REPAIRED = "model", "repaired twin"
OBSERVED, REFUSED = "observed", "refused"
# Quantiles of the tokens' RMS at a site, and the RMS over all tokens but the largest.
TOKEN_LEVELS = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95, "largest": 1.0}
WITHOUT_LARGEST = "without_largest"
TOKEN_STATISTICS = (*TOKEN_LEVELS, WITHOUT_LARGEST)
