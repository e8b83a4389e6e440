"""What an experiment hands over: named scalars, long tables and sentences, as one JSON document where asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.strict_json import json_integer

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """`summary` holds scalars by name, `tables` long tables by name (one row an observation), `notes` the premises.

    A value that is undefined or passes its floating type is None in the summary and NaN or infinite in a table.
    """

    summary: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    notes: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        """The result for JSON; what is not finite is null and counted under `undefined`."""
        tables = {name: _records(table) for name, table in self.tables.items()}
        summary = {name: _plain(value) for name, value in self.summary.items()}
        cells = [cell for records in tables.values() for record in records for cell in record.values()]
        undefined = sum(cell is None for cell in [*cells, *summary.values()])
        return {"summary": summary, "tables": tables, "notes": list(self.notes), "undefined": undefined}


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    columns = {str(name): [_plain(value) for value in table[name].tolist()] for name in table.columns}
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def _plain(value: Any) -> Any:
    import numpy as np  # the list of experiments waits for no array library

    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, int):
        return json_integer(value)
    found = float(value)
    return found if math.isfinite(found) else None
