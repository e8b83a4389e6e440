"""The request for an observation; it is checked without torch, before any array of the decoder exists."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..decoder.base_draw import XAVIER, Distribution
from ..decoder.batch import Batch, chapter_batch
from ..decoder.config import DEVICES, DRIVERS, DTYPE_NAMES, Budget, DecoderConfig
from ..decoder.parameters import layout
from ..errors import ConfigError
from ..numerals import checked_seed
from ..recipes.catalogue import DEFAULT, recipe
from .band import DEFAULT_BAND, Band

CHAPTER_SEED = 4701


@dataclass(frozen=True, kw_only=True)
class ObserveRequest:
    """Everything that determines an observation; the defaults are those of the published example.

    `driver` is `graph` (the whole decoder and its autograd graph in memory), `block` (one block at a time) or `auto`:
    `graph` if it needs at most `max_memory` bytes (by default half of the free memory) and its parameters fit the
    budget, else `block`.
    """

    config: DecoderConfig = field(default_factory=DecoderConfig)
    seed: int = CHAPTER_SEED
    recipe: str = DEFAULT
    dtype: str = "float64"
    device: str = "cpu"
    batch: Batch = field(default_factory=chapter_batch)
    band: Band = DEFAULT_BAND
    budget: Budget = field(default_factory=Budget)
    distribution: Distribution = XAVIER
    driver: str = "graph"
    max_memory: int | None = None

    def check(self) -> None:
        """Raise the first error of a request that cannot run: driver, budget, seed, recipe, batch, dtype, device."""
        if self.driver not in DRIVERS:
            raise ConfigError(f"The driver {str(self.driver)[:40]!r} is not offered; choose {', '.join(DRIVERS)}.")
        # Block by block, the parameters never exist at once.
        self.budget.check(self.config, layout(self.config).parameters if self.driver == "graph" else 0)
        checked_seed(self.seed)
        recipe(self.recipe).graph(self.config)
        self.batch.check(self.config)
        checked_names(self.dtype, self.device)


def checked_names(dtype: str, device: str) -> None:
    """Raise `ConfigError` if the engine does not offer the dtype or the device."""
    if dtype not in DTYPE_NAMES:
        raise ConfigError(f"The dtype {str(dtype)[:40]!r} is not offered; choose one of {', '.join(DTYPE_NAMES)}.")
    if device not in DEVICES:
        raise ConfigError(f"The device {str(device)[:40]!r} is not offered; choose cpu or cuda.")
