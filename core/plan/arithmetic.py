"""Exact counts of parameters and bytes of a decoder that is never built.

Everything is integer arithmetic on the list of parameters; no array is allocated, whatever the size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .. import __version__
from ..decoder.config import DecoderConfig
from ..decoder.parameters import ParameterSpec, layout
from ..recipes.law import depth_factor
from ..strict_json import json_integer
from .request import PlanRequest

SCHEMA = "depthscope.plan/1"
DTYPE_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2}
ADAM_MOMENTS = 2
BYTES_MEANING = {
    "weights": "every parameter once, in the dtype",
    "gradients": "one gradient a parameter, in the dtype",
    "adam_moments_float32": "two moments a parameter, in float32 whatever the dtype",
    "residual_stream": "all 2L+1 residual states of one row of the context, in the dtype",
}


@dataclass(frozen=True)
class RoleRow:
    """All tensors whose names differ only in the block: their description, and how many there are."""

    spec: ParameterSpec
    tensors: int

    @property
    def coordinates(self) -> int:
        """The exact number of parameters in all these tensors."""
        return self.tensors * self.spec.coordinates

    def document(self) -> dict[str, Any]:
        """Return the row as a dict for JSON; counts beyond 2^53 are text."""
        return {
            "pattern": self.spec.name,
            "role": self.spec.role,
            "fill": self.spec.fill,
            "tensors": self.tensors,
            "shape": [json_integer(size) for size in self.spec.shape],
            "coordinates": json_integer(self.coordinates),
        }


def plan_document(subject: DecoderConfig | PlanRequest, context: int | None = None) -> dict[str, Any]:
    """Return the parameters, bytes and depth factor of a decoder as a dict for JSON, the `plan` document.

    `subject` is a `DecoderConfig`, or a `PlanRequest`, which can have parameters that a config cannot describe.
    `context` is the number of positions of the row whose residual states are counted, by default the config's. Raises
    `ConfigError`.
    """
    request = subject
    if isinstance(request, DecoderConfig):
        request = PlanRequest(config=request, context=context)
    elif context is not None:
        request = PlanRequest(config=request.config, context=context, extra=request.extra, assumed=request.assumed)
    config, rows = request.config, role_rows(request)
    parameters = sum(row.coordinates for row in rows)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "config": config.document(),
        "context": request.row_positions,
        "assumed": dict(request.assumed),
        "tied": config.tied,
        "parameters": json_integer(parameters),
        "parameter_tensors": json_integer(sum(row.tensors for row in rows)),
        "by_role": [row.document() for row in rows],
        "formula": formula(rows),
        "factor": depth_factor(config.blocks),
        "residual_states": json_integer(config.additions + 1),
        "bytes": byte_counts(parameters, residual_coordinates(request)),
        "bytes_meaning": dict(BYTES_MEANING),
        "executed": False,
    }


def role_rows(request: PlanRequest) -> tuple[RoleRow, ...]:
    """Return one `RoleRow` per name pattern, in the order in which the parameters are drawn.

    The parameters of a block that the config cannot describe follow the block's own.
    """
    parts = layout(request.config)
    blocks = request.config.blocks
    return (
        *(RoleRow(spec, 1) for spec in parts.stem),
        *(RoleRow(spec, blocks) for spec in parts.block_template + request.extra),
        *(RoleRow(spec, 1) for spec in parts.tail),
    )


def residual_coordinates(request: PlanRequest) -> int:
    """Return the number of entries of all residual states of one row: (number of additions + 1) * context * width."""
    return (request.config.additions + 1) * request.row_positions * request.config.width


def byte_counts(parameters: int, residual: int) -> dict[str, dict[str, int | str]]:
    """Return a dict from dtype to the bytes of weights, gradients, Adam's moments and residual states.

    `parameters` and `residual` are the numbers of parameters and of entries of the residual states.
    """
    moments = ADAM_MOMENTS * DTYPE_BYTES["float32"] * parameters
    return {
        dtype: {
            "weights": json_integer(size * parameters),
            "gradients": json_integer(size * parameters),
            "adam_moments_float32": json_integer(moments),
            "residual_stream": json_integer(size * residual),
        }
        for dtype, size in DTYPE_BYTES.items()
    }


def formula(rows: Iterable[RoleRow]) -> str:
    """Return the number of parameters as a sum in text: outside + blocks × (one block) = total."""
    rows = tuple(rows)
    in_blocks = [row for row in rows if "{b}" in row.spec.name]
    first = rows.index(in_blocks[0])
    before, after = rows[:first], rows[first + len(in_blocks) :]
    block = f"{in_blocks[0].tensors}×({_sum_of_products(in_blocks)})"
    terms = [part for part in (_sum_of_products(before), block, _sum_of_products(after)) if part]
    return f"{' + '.join(terms)} = {sum(row.coordinates for row in rows)}"


def _sum_of_products(rows: Iterable[RoleRow]) -> str:
    """Return the sum of the rows' shapes as text; equal shapes are written once with their count in front."""
    shapes = Counter(row.spec.shape for row in rows)
    return " + ".join("×".join(map(str, (number, *shape) if number > 1 else shape)) for shape, number in shapes.items())
