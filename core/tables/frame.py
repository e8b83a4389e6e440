"""Tables of exactly the columns that are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd


def frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """A table of exactly `columns`, in order; what a row holds beyond them is left out, what it lacks is missing."""
    return pd.DataFrame({name: [row.get(name) for row in rows] for name in columns}, columns=list(columns))
