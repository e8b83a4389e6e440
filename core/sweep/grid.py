"""The grid of a sweep as frozen data: what is computed and in which order."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ..canonical import canonical_json
from ..decoder.base_draw import XAVIER, Distribution
from ..decoder.batch import Batch, chapter_batch
from ..decoder.config import Budget, DecoderConfig
from ..errors import SweepError, shown
from ..health.band import DEFAULT_BAND, Band
from ..health.columns import INITIALIZED, SAME_BASE_CONTROL
from ..health.request import checked_names
from ..numerals import checked_seed
from ..recipes.catalogue import CONTROL, DEFAULT, recipe
from .ranges import DEPTHS, seed_text

MAX_CELLS = 2**22
AXES = ("blocks", "seeds", "recipes", "sizes", "dtypes", "batches")
# Positions up to which a batch is written out; a larger one is named by its digest.
WRITTEN_POSITIONS = 4096
# Columns of the axes that vary over a grid beside the depth, with their types; any other one is text.
SIZE_TYPES = {
    **dict.fromkeys(("width", "heads", "kv_heads", "head_dim", "ff_width", "vocabulary", "positions"), "int64"),
    **dict.fromkeys(("norm", "mlp", "position_encoding"), "str"), "tied": "bool", "bias": "bool",
}  # fmt: skip


@dataclass(frozen=True)
class GridArm:
    """One arm of the tables: a recipe in the role `initialized` or, for the unscaled control, `same_base_control`."""

    arm: str
    recipe: str


@dataclass(frozen=True, eq=False)
class Setting:
    """What the (recipe, seed) cells of all seeds and recipes share: a decoder at one depth, a dtype and a batch.

    `columns` are (name, value) pairs for the tables: those sizes, dtypes and batches that vary over the grid.
    """

    config: DecoderConfig
    dtype: str
    batch: Batch
    columns: tuple[tuple[str, int | str], ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class SweepGrid:
    """All combinations of the axes (depths, seeds, recipes, sizes, dtypes, batches).

    Every recipe is compared with the unscaled control on the same random base weights. `blocks` are the depths; each
    replaces the depth of every config in `sizes`. The band only classifies ratios. Raises `SweepError`, or the error of
    the axis that is wrong.
    """

    blocks: tuple[int, ...] = DEPTHS
    seeds: Sequence[int] = tuple(range(32))
    recipes: tuple[str, ...] = (DEFAULT,)
    sizes: tuple[DecoderConfig, ...] = (DecoderConfig(),)
    dtypes: tuple[str, ...] = ("float64",)
    batches: tuple[Batch, ...] = field(default_factory=lambda: (chapter_batch(),))
    device: str = "cpu"
    distribution: Distribution = XAVIER
    band: Band = DEFAULT_BAND
    budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        for axis in AXES:
            values = getattr(self, axis)
            # A range is listed once it is known to be short enough.
            object.__setattr__(self, axis, values if isinstance(values, range) else tuple(values))
            if not getattr(self, axis):
                raise SweepError(f"The sweep has no {axis}; give at least one.")
        self._check_size()
        object.__setattr__(self, "seeds", tuple(checked_seed(seed) for seed in self.seeds))
        # A combination is written in several ways; its cells have one identity.
        object.__setattr__(self, "recipes", tuple(recipe(name).name for name in self.recipes))
        object.__setattr__(self, "sizes", tuple(replace(size, blocks=1) for size in self.sizes))
        for axis in AXES:
            seen: set[Any] = set()
            for value in getattr(self, axis):
                one = value.digest() if isinstance(value, Batch) else value
                if one in seen:
                    name = "A batch" if isinstance(value, Batch) else shown(value)
                    raise SweepError(f"{name} stands twice among the {axis} of the sweep; give each once.")
                seen.add(one)
        for blocks in self.blocks:
            replace(self.sizes[0], blocks=blocks)
        for dtype in self.dtypes:
            checked_names(dtype, self.device)

    def _check_size(self) -> None:
        """Raise `SweepError` if there are too many cells.

        They are counted from the lengths of the axes, before millions of seeds are listed.
        """
        recipes = len({*self.recipes, CONTROL})
        cells = len(self.seeds) * recipes * math.prod(map(len, (self.blocks, self.sizes, self.dtypes, self.batches)))
        if cells > MAX_CELLS:
            raise SweepError(
                f"The sweep has {cells:,} cells and may have {MAX_CELLS:,}; give fewer seeds, depths or recipes."
            )

    @cached_property
    def arms(self) -> tuple[GridArm, ...]:
        """The arms of the tables in order: every recipe, then the unscaled control."""
        return (*(GridArm(INITIALIZED, name) for name in self.recipes), GridArm(SAME_BASE_CONTROL, CONTROL))

    @cached_property
    def computed(self) -> tuple[str, ...]:
        """The names of the recipes to compute; that of the control is there once, even if it is also asked for."""
        return tuple(dict.fromkeys(arm.recipe for arm in self.arms))

    @property
    def cells(self) -> int:
        """The number of (recipe, seed) cells to compute: settings times computed recipes times seeds."""
        settings = len(self.blocks) * len(self.sizes) * len(self.dtypes) * len(self.batches)
        return settings * len(self.computed) * len(self.seeds)

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """All settings in the order of the tables: by size, then dtype, then batch, then depth."""
        varying = [name for name in SIZE_TYPES if len({getattr(size, name) for size in self.sizes}) > 1]
        labels = self._batch_labels()
        found: list[Setting] = []
        for size in self.sizes:
            for dtype in self.dtypes:
                for label, batch in zip(labels, self.batches, strict=True):
                    columns = [(name, getattr(size, name)) for name in varying]
                    columns += [("dtype", dtype)] * (len(self.dtypes) > 1) + [("batch", label)] * (len(labels) > 1)
                    found += [Setting(replace(size, blocks=b), dtype, batch, tuple(columns)) for b in self.blocks]
        return tuple(found)

    @property
    def extra_columns(self) -> tuple[str, ...]:
        """The names of the table columns for the axes that vary, apart from depth, recipe and seed."""
        return tuple(name for name, _ in self.settings[0].columns)

    @property
    def axis_types(self) -> dict[str, str]:
        """A dict from the name of each extra column to its pandas type."""
        return {name: SIZE_TYPES.get(name, "str") for name in self.extra_columns}

    def _batch_labels(self) -> list[str]:
        """Return `rows x positions` for every batch, with a number where two have the same shape."""
        shapes = [f"{batch.inputs.shape[0]}x{batch.longest}" for batch in self.batches]
        return [
            shape if shapes.count(shape) == 1 else f"{shape}#{shapes[: index + 1].count(shape)}"
            for index, shape in enumerate(shapes)
        ]

    def document(self) -> dict[str, Any]:
        """Return the grid as a dict for JSON; seeds are ranges in text, since they may exceed 2^53."""
        return {
            "blocks": list(self.blocks),
            "seeds": seed_text(self.seeds),
            "recipes": list(self.recipes),
            "sizes": [{k: v for k, v in size.document().items() if k != "blocks"} for size in self.sizes],
            "dtypes": list(self.dtypes),
            "batches": [_batch_document(batch) for batch in self.batches],
            "device": self.device,
            "base_draw": {
                "std": self.distribution.std,
                "truncated_at_sigma": self.distribution.cut,
                "embedding_std": self.distribution.embedding_std,
            },
            "band": [self.band.lower, self.band.upper],
            "budget": {"max_parameters": self.budget.max_parameters, "max_positions": self.budget.max_positions},
        }

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the grid's canonical JSON, as hexadecimal text."""
        return hashlib.sha256(canonical_json(self.document()).encode()).hexdigest()


def _batch_document(batch: Batch) -> dict[str, Any]:
    written = batch.document() if batch.inputs.size <= WRITTEN_POSITIONS else {}
    rows, positions = batch.inputs.shape
    return {"digest": batch.digest(), "rows": rows, "positions": positions, "valid_count": batch.valid_count, **written}
