"""Several settings in one picture: their recipe arms as one table, and what differs per site."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ..health.columns import INITIALIZED, SITE_COLUMNS
from .frame import frame
from .observe import QUANTITIES

OVERLAY_COLUMNS = ("pin", *SITE_COLUMNS)


def overlay_table(sites: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The recipe arms of several site tables, each row led by its setting's name."""
    parts = [table[table["arm"] == INITIALIZED].assign(pin=name) for name, table in sites.items()]
    if not parts:
        return frame([], OVERLAY_COLUMNS)
    return pd.concat(parts, ignore_index=True)[list(OVERLAY_COLUMNS)]


def quotient_table(overlay: pd.DataFrame) -> pd.DataFrame:
    """One row per site: every setting's ratios, and how many times larger each is than the first setting's.

    Sites are matched by their index; a setting without that site leaves the cells missing.
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
