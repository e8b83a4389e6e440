"""The four fixed decoder sizes of the published example (see `core.tables.published`), as configs by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .config import DecoderConfig

FIXTURES: Mapping[str, DecoderConfig] = MappingProxyType(
    {
        "narrow-1": DecoderConfig(blocks=1),
        "narrow-2": DecoderConfig(blocks=2),
        "narrow-8": DecoderConfig(blocks=8),
        "cpu-bridge": DecoderConfig(blocks=2, width=16, heads=2, ff_width=20, positions=16),
    }
)
