"""The table of RMS values divided by those at a chosen reference residual site."""

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
    """Return the RMS of every residual site over that at the reference site; missing if undefined.

    There is one row per arm (recipe, then unscaled control) and site.
    """
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
    """Return the recipe's rows of a `reference_table` for display, beside the usual ratios A_s / A_0 and G_s / G_last.

    A_s is the RMS of state s and G_s that of the gradient with respect to it. `sites` is the site table.
    """
    ours = table[table["arm"] == INITIALIZED].reset_index(drop=True)
    defined = sites[sites["arm"] == INITIALIZED].reset_index(drop=True)
    view = defined[["site", "label", "activation_ratio", "adjoint_ratio"]].assign(
        activation_to_reference=ours["activation_to_reference"], adjoint_to_reference=ours["adjoint_to_reference"]
    )
    return view.rename(columns=lambda name: name.replace("_", " "))
