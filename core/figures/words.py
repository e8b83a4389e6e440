"""Figures in words, read off their tables: alternative texts, and the points that an axis cannot show."""

from __future__ import annotations

import numpy as np
import pandas as pd

from core.figures.marks import has_place
from core.figures.sites import series


def undrawn(table: pd.DataFrame, column: str, *, log: bool = True) -> list[str]:
    """The points that a figure of `column` cannot show, each as text: missing, infinite, and on a log axis <= 0."""
    values = table[column].to_numpy(dtype=float)
    hidden = np.flatnonzero(~has_place(values, log))
    names = ["recipe" if "recipe" in table.columns else "arm", "label" if "label" in table.columns else "site"]
    names = [name for name in names if name in table.columns]
    return [", ".join([*(str(table[name].iloc[row]) for name in names), f"{values[row]:g}"]) for row in hidden]


def alternative_text(table: pd.DataFrame, column: str, what: str) -> str:
    """One sentence that says of a figure what it shows: each series' first, last, least and greatest value."""
    parts = []
    for name, rows in series(table):
        values = rows[column].to_numpy(dtype=float)
        finite = values[np.isfinite(values)]
        if len(finite):
            parts.append(
                f"{name} starts at {values[0]:.4g}, ends at {values[-1]:.4g}, least {finite.min():.4g}, greatest "
                f"{finite.max():.4g}"
            )
    return f"{what} over {table['site'].nunique()} residual sites: {'; '.join(parts) or 'no finite value'}."


def hidden_points(rows: pd.DataFrame, column: str = "median") -> list[str]:
    """Per recipe, how many points a logarithmic axis cannot show, and why."""
    found = []
    for name, part in rows.groupby("recipe", sort=False):
        zero, missing = int((part[column] <= 0).sum()), int(part[column].isna().sum())
        parts = [f"{zero} of {len(part)} points are 0"] if zero else []
        parts += [f"{missing} of {len(part)} undefined"] if missing else []
        found += [f"{name}, {' and '.join(parts)}"] if parts else []
    return found


def described(rows: pd.DataFrame, x: str, what: str, column: str = "median") -> str:
    """A figure of lines in words: every recipe's first and last value."""
    parts = []
    for name, part in rows.groupby("recipe", sort=False):
        seen = part[part[column].notna()]
        if len(seen):
            first, last = seen.iloc[0], seen.iloc[-1]
            parts.append(f"{name} from {first[column]:.4g} at {x} {first[x]} to {last[column]:.4g} at {last[x]}")
    return f"{what}: {'; '.join(parts) or 'no value'}."
