"""The long table as a parquet file, a slice at a time."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from core.sweep.frames import slice_frame
from core.sweep.rows import columns, slices

if TYPE_CHECKING:
    from core.sweep.run import SweepRun

_FLOATS = ("activation_rms", "activation_ratio", "adjoint_rms", "adjoint_ratio", "loss_nats")
_INTEGERS = ("blocks", "site", "width", "heads", "kv_heads", "head_dim", "ff_width", "vocabulary", "positions")
_FLAGS = ("tied", "bias")


def write_rows(stream: IO[bytes], run: SweepRun) -> None:
    """Write the long table; numbers and bands of refused cells are null and empty, seeds are text."""
    names = columns(run)
    schema = pa.schema([(name, _kind(name)) for name in names])
    with pq.ParquetWriter(stream, schema) as writer:
        for part in slices(run):
            frame = slice_frame(part, names)
            if len(frame):
                writer.write_table(pa.Table.from_pandas(frame, schema=schema, preserve_index=False))


def _kind(name: str) -> pa.DataType:
    if name in _FLOATS:
        return pa.float64()
    if name in _FLAGS:
        return pa.bool_()
    return pa.int64() if name in _INTEGERS else pa.string()
