"""The record of how a decoder was constructed, stored beside its weights; it is read and checked without torch."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .. import __version__
from ..decoder.config import Budget, DecoderConfig
from ..decoder.graph import Graph
from ..decoder.parameters import layout
from ..errors import DepthscopeError, Remedy, StorageError
from ..files import is_room
from ..numerals import checked_seed
from ..recipes.catalogue import recipe
from ..strict_json import JsonValue, read_json

SCHEMA = "depthscope.record/1"
RECORD = "record.json"
ARMS = ("initialized", "control")
# What a save by an earlier version left behind where it was interrupted.
PARTIAL = ".partial"
MAX_RECORD_BYTES = 2**22
# Types that weights are stored in, as a record and as a safetensors header name them.
HEADER_DTYPES = {"float64": "F64", "float32": "F32", "bfloat16": "BF16"}
# What a profile step measured: one mapping per block, from the shortcut's key to its coefficient.
Shortcuts = tuple[Mapping[str, float], ...]


@dataclass(frozen=True, kw_only=True)
class ConstructionRecord:
    """How a decoder was constructed: its sizes, recipe, base draw and generator states.

    `factor` is the coefficient that all matrices selected by the recipe were multiplied by; None if they differ, none
    is selected or rows or columns were normalized. `selected_names` are these matrices, and `transformed_tensors`
    counts those whose values changed. The generator states before and after the draw are integers from 0 to 2^64 - 1.
    `shortcuts` holds the coefficients that a profile step measured, one mapping per block; None without such a step.
    """

    config: DecoderConfig
    recipe: str
    base_initializer_id: str
    factor: float | None
    initial_rng_state: int
    final_rng_state: int
    selected_names: tuple[str, ...]
    transformed_tensors: int
    shortcuts: Shortcuts | None = None

    @property
    def policy_id(self) -> str:
        """The identity of the recipe's rule in records and documents, such as `depth-scaled/1`."""
        return f"{self.recipe}/1"


class Stored(NamedTuple):
    """What the record in a run's folder says: the construction, the dtype of the weights, and their SHA-256 digests.

    `digests` maps `initialized` and `control` to the digest of the file of weights; it is empty for folders of an
    earlier version.
    """

    record: ConstructionRecord
    dtype: str
    digests: Mapping[str, str]


def read_record(folder: str | os.PathLike[str], budget: Budget | None = None) -> Stored:
    """Return the `Stored` record of the run saved in `folder`, without reading weights.

    Raises `StorageError` if the record is missing or damaged, `BudgetError` if the sizes exceed `budget`, and the
    errors of invalid sizes or an unknown recipe.
    """
    place = Path(folder)
    if not place.is_dir():
        raise StorageError(f"{place} is not a folder", Remedy.SAVED)
    if not (place / RECORD).exists():
        raise StorageError(f"The folder {place} has no {RECORD}", Remedy.RESTORED)
    return _parsed(read_json(place / RECORD, max_bytes=MAX_RECORD_BYTES), budget or Budget())


def weights_name(arm: str) -> str:
    """Return the file name of the weights of `arm`, which is `initialized` (with the recipe) or `control` (without)."""
    return f"{arm}.safetensors"


def check_run_folder(folder: str | os.PathLike[str]) -> None:
    """Raise `StorageError` if the folder holds anything but a run, or cannot be written to."""
    place, own = Path(folder), [RECORD, *map(weights_name, ARMS)]
    try:
        names = os.listdir(place) if place.exists() else []
    except OSError as error:
        raise StorageError(f"The run cannot be saved in {place}: {one_line(error)}.") from error
    foreign = sorted(name for name in set(names) - {*own, *(name + PARTIAL for name in own)} if not is_room(name))
    if foreign:
        raise StorageError(f"The folder {place} holds {foreign[0]!r}; save into an empty folder or an earlier run's.")


def record_document(record: ConstructionRecord, dtype: str, digests: Mapping[str, str]) -> dict[str, Any]:
    """Return a record as a dict of JSON values, with the dtype of the weights and the SHA-256 of each file."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "config": record.config.document(),
        "dtype": dtype,
        "recipe": record.recipe,
        "policy_id": record.policy_id,
        "base_initializer_id": record.base_initializer_id,
        "factor": record.factor,
        "initial_rng_state": str(record.initial_rng_state),
        "final_rng_state": str(record.final_rng_state),
        "selected_names": list(record.selected_names),
        "transformed_tensors": record.transformed_tensors,
        "shortcuts": None if record.shortcuts is None else [dict(block) for block in record.shortcuts],
        "sha256": dict(digests),
    }


def _parsed(document: JsonValue, budget: Budget) -> Stored:
    try:
        fields: dict[str, Any] = dict(document)  # type: ignore[arg-type]
        if fields.pop("schema") != SCHEMA:
            raise StorageError(f"{RECORD} is not a {SCHEMA} record", Remedy.RESTORED)
        dtype = fields["dtype"]
        if dtype not in HEADER_DTYPES:
            raise StorageError(f"{RECORD} names an unknown dtype; it may be {', '.join(HEADER_DTYPES)}.")
        config = DecoderConfig.from_document(fields["config"])
        budget.check(config, layout(config).parameters)
        chosen = recipe(fields["recipe"])
        record = ConstructionRecord(
            config=config,
            recipe=chosen.name,
            base_initializer_id=str(fields["base_initializer_id"]),
            factor=None if fields["factor"] is None else float(fields["factor"]),
            initial_rng_state=checked_seed(fields["initial_rng_state"]),
            final_rng_state=checked_seed(fields["final_rng_state"]),
            selected_names=tuple(str(name) for name in fields["selected_names"]),
            transformed_tensors=int(fields["transformed_tensors"]),
            shortcuts=_shortcuts(chosen.graph(config), fields["shortcuts"]),
        )
        digests = {arm: str(fields["sha256"][arm]) for arm in ARMS} if "sha256" in fields else {}
    except DepthscopeError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(f"{RECORD} is not a whole record ({one_line(error)})", Remedy.RESTORED) from error
    return Stored(record, dtype, digests)


def _shortcuts(graph: Graph, stored: Any) -> Shortcuts | None:
    """Return the measured shortcuts by block, one positive finite number per key; None if the graph measures none."""
    keys = [{addition.shortcut for addition in block if isinstance(addition.shortcut, str)} for block in graph.blocks]
    if not any(keys):
        return None
    found = tuple({key: float(value) for key, value in block.items()} for block in stored)
    if [set(block) for block in found] != keys or not all(0 < v < math.inf for block in found for v in block.values()):
        raise StorageError(f"{RECORD} does not hold the shortcut of every addition", Remedy.RESTORED)
    return found


def one_line(error: Exception) -> str:
    """Return the reason of an error as one line of at most 120 characters."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:120]
