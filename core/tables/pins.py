"""Tables of several saved settings: their recipes' ratios in one table, and the differences per residual site."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ..health.columns import INITIALIZED, SITE_COLUMNS
from .frame import frame
from .observe import QUANTITIES

OVERLAY_COLUMNS = ("pin", *SITE_COLUMNS)


def overlay_table(sites: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the site tables of several settings below each other, without the unscaled control.

    The first column, `pin`, is the name of the setting.
    """
    parts = [table[table["arm"] == INITIALIZED].assign(pin=name) for name, table in sites.items()]
    if not parts:
        return frame([], OVERLAY_COLUMNS)
    return pd.concat(parts, ignore_index=True)[list(OVERLAY_COLUMNS)]


def quotient_table(overlay: pd.DataFrame) -> pd.DataFrame:
    """Return one row per residual site: the ratios of every setting, and each divided by that of the first setting.

    Sites are matched by their index; values are missing if a setting does not have the site.
    """
    names = list(dict.fromkeys(overlay["pin"]))
    ratios = {
        letter: overlay.pivot_table(f"{quantity}_ratio", "site", "pin", dropna=False)[names]
        for quantity, letter in QUANTITIES.items()
    }
    parts = [table.add_prefix(f"{letter} ratio, ") for letter, table in ratios.items()]
    for letter, table in ratios.items():
        relative = table[names[1:]].div(table[names[0]], axis=0)
        parts.append(relative.add_prefix(f"{letter}, ").add_suffix(f" / {names[0]}"))
    return pd.concat(parts, axis=1).rename_axis(columns=None).reset_index()
