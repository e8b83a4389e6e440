"""The table of RMS relative to a chosen reference site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..health.columns import INITIALIZED
from ..health.reference import Reference, relative_rms
from .frame import frame
from .observe import head_of_arms

REFERENCE_COLUMNS = (
    "arm", "recipe", "seed", "blocks", "site", "label", "reference", "activation_to_reference", "adjoint_to_reference",
)  # fmt: skip


def reference_table(document: Mapping[str, Any], reference: Reference) -> pd.DataFrame:
    """Return both arms' RMS divided by that at the reference site, dimensionless; undefined values are missing."""
    parts = [
        frame(arm["sites"], ("site", "label")).assign(
            **head,
            reference=reference,
            activation_to_reference=pd.Series(relative_rms(arm, "activation", reference), dtype=float),
            adjoint_to_reference=pd.Series(relative_rms(arm, "adjoint", reference), dtype=float),
        )
        for head, arm in head_of_arms(document)
    ]
    return pd.concat(parts, ignore_index=True)[list(REFERENCE_COLUMNS)]


def reference_view(table: pd.DataFrame, sites: pd.DataFrame) -> pd.DataFrame:
    """Return the ratios to the reference site beside A_s / A_0 and G_s / G_last: one row per site, the recipe's arm."""
    ours = table[table["arm"] == INITIALIZED].reset_index(drop=True)
    defined = sites[sites["arm"] == INITIALIZED].reset_index(drop=True)
    view = defined[["site", "label", "activation_ratio", "adjoint_ratio"]].assign(
        activation_to_reference=ours["activation_to_reference"], adjoint_to_reference=ours["adjoint_to_reference"]
    )
    return view.rename(columns=lambda name: name.replace("_", " "))
