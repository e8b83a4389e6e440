"""Several settings in one picture: their recipe arms as one table, and what differs per site."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ..health.columns import INITIALIZED, SITE_COLUMNS
from .frame import frame

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
    rows: dict[int, dict[str, object]] = {}
    for pin, site, activation, adjoint in zip(
        overlay["pin"], overlay["site"], overlay["activation_ratio"], overlay["adjoint_ratio"], strict=True
    ):
        row = rows.setdefault(site, {"site": site})
        row |= {f"A ratio, {pin}": activation, f"G ratio, {pin}": adjoint}
    columns = ["site", *(f"{letter} ratio, {name}" for letter in "AG" for name in names)]
    table = frame([rows[site] for site in sorted(rows)], columns)
    table[columns[1:]] = table[columns[1:]].astype(float)
    for letter in "AG":
        for name in names[1:]:
            first = table[f"{letter} ratio, {names[0]}"]
            table[f"{letter}, {name} / {names[0]}"] = table[f"{letter} ratio, {name}"] / first
    return table
