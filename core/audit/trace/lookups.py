"""Checks the ids of a table lookup before it runs: a device may crash on an id that is out of range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ...errors import BatchError

# Each look-up by rows, with whether it counts negative numbers from the end.
LOOKUPS: dict[Any, bool] = {
    torch.ops.aten.embedding.default: False,
    torch.ops.aten.index.Tensor: True,
    torch.ops.aten.index_select.default: False,
}


def check_lookup(
    table: torch.Tensor, rows: torch.Tensor, wraps: bool, ids: torch.Tensor | None, names: Mapping[int, str]
) -> None:
    """Check the index `rows` of a look-up in the parameter `table` `[N, D]`; other tables are not checked.

    `wraps` allows negative indices, `ids` are the ids of the batch, `names` maps the `id()` of a parameter to its name.
    Raises `BatchError` where an index is out of range, or where the ids of the batch are not integers.
    """
    if table.dim() != 2 or id(table) not in names or (rows.dtype == torch.bool and wraps):
        return
    name, count = names[id(table)], table.shape[0]
    own = ids is not None and (rows is ids or (rows.shape == ids.shape and torch.equal(rows, ids)))
    if rows.dtype not in (torch.int64, torch.int32):
        if own:
            kind = str(rows.dtype).removeprefix("torch.")
            raise BatchError(
                f"The ids are {kind}, but {name} is looked up by whole numbers; hand them in as torch.int64."
            )
        return
    outside = ((rows < (-count if wraps else 0)) | (rows >= count)).nonzero()
    if not len(outside):
        return
    place = tuple(outside[0].tolist())
    value = int(rows[place])
    if own and rows.dim() == 2:
        raise BatchError(
            f"The input id {value} in row {place[0]}, position {place[1]}, is outside the vocabulary of {count} of "
            f"{name}; ids run from 0 to {count - 1}."
        )
    raise BatchError(
        f"The forward looks up row {value} of {name}, which has rows 0 to {count - 1}; if they are positions, shorten "
        "the rows of the batch."
    )
