"""The request for a plan: a decoder, the length of a row, and parameters that the decoder's config cannot describe."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..decoder.config import LARGEST_SIZE, DecoderConfig
from ..decoder.parameters import ParameterSpec, Role, layout
from ..errors import ConfigError, shown


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """A decoder whose parameters are counted but never built.

    `context` is the number of positions of one row, by default the config's. `extra` are further parameters of every
    block; their names contain `{b}` for the block. `assumed` maps keys missing in a file to the values used. Raises
    `ConfigError` if `context` is not valid.
    """

    config: DecoderConfig
    context: int | None = None
    extra: tuple[ParameterSpec, ...] = ()
    assumed: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.context is None:
            object.__setattr__(self, "context", self.config.positions)
        context = self.context
        if isinstance(context, bool) or not isinstance(context, int) or not 0 < context <= LARGEST_SIZE:
            raise ConfigError(f"context is {shown(context)}; it must be a whole number between 1 and 2^53.")
        if self.config.position_encoding == "learned" and context > self.config.positions:
            raise ConfigError(
                f"context {context} exceeds the {self.config.positions} learned positions; shorten the context."
            )
        assert all("{b}" in spec.name for spec in self.extra), "extra parameters belong to blocks"

    @property
    def row_positions(self) -> int:
        """The number of positions of one row, `context` as an integer."""
        assert self.context is not None
        return self.context


def biases(config: DecoderConfig, roles: Collection[Role]) -> tuple[ParameterSpec, ...]:
    """Return the description of a zero bias `[fan_out]` for each block matrix whose kind is in `roles`, in order."""
    return tuple(
        ParameterSpec(name=spec.name.removesuffix("weight") + "bias", shape=spec.shape[1:], role="bias", fill="zeros")
        for spec in layout(config).block_template
        if spec.role in roles
    )


def query_key_gains(config: DecoderConfig) -> tuple[ParameterSpec, ...]:
    """Return the descriptions of two gains `[head_dim]`, of the norms on queries and on keys in every block."""
    return tuple(
        ParameterSpec(
            name=f"blocks.{{b}}.attention.{side}_norm.gain", shape=(config.head_width,), role="gain", fill="ones"
        )
        for side in ("query", "key")
    )
