"""Given arrays of ratios that show how the band classifies: as below, within or above it.

No decoder is run for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..health.band import DEFAULT_BAND, Band, classify

SYNTHETIC_RATIOS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "activation": (1.0, 1.2, 8.0, 101.0),
        "adjoint": (0.001, 0.5, 0.8, 1.0),
        "boundary": (0.01, 1.0, 100.0),
    }
)


def synthetic_classifiers(
    ratios: Mapping[str, Sequence[float]] = SYNTHETIC_RATIOS, band: Band = DEFAULT_BAND
) -> dict[str, dict[str, list[Any]]]:
    """Return a dict that maps each name to `{"ratios": [...], "bands": [...]}`, with one classification per ratio.

    A classification is "below", "within" or "above" the band. Raises `ConfigError` if a ratio is not finite.
    """
    return {
        name: {"ratios": list(values), "bands": [classify(value, band) for value in values]}
        for name, values in ratios.items()
    }
