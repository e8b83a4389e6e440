"""Sizes of a decoder, and the budget that a caller allows for it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from ..errors import BudgetError, ConfigError, Remedy, shown

NormFamily = Literal["rmsnorm", "layernorm"]
MlpFamily = Literal["swiglu", "gelu"]
PositionFamily = Literal["rope", "learned"]

NORMS: tuple[NormFamily, ...] = get_args(NormFamily)
MLPS: tuple[MlpFamily, ...] = get_args(MlpFamily)
# Floating types that the engine runs in, and where.
DTYPE_NAMES = ("float64", "float32", "bfloat16")
DEVICES = ("cpu", "cuda")
# How a decoder is observed: as a whole, block by block, or as its memory demands.
DRIVERS = ("auto", "graph", "block")

SIZE_FIELDS = ("blocks", "width", "heads", "kv_heads", "ff_width", "vocabulary", "positions")
LARGEST_SIZE = 2**53
# Fields that few decoders set; a document says them only of those.
RARE = ("query_key_norm", "true_sizes")


@dataclass(frozen=True, kw_only=True)
class TrueSizes:
    """Sizes of the wide decoder that a reduced twin stands for; depth, graph and multipliers are those of the twin."""

    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ff_width: int
    vocabulary: int
    positions: int


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """A valid decoder-only architecture; sizes are checked when an object is created. Raises `ConfigError`.

    `blocks` is the depth L: the number of complete blocks, each with an attention and a feed-forward addition.
    `head_dim` is `width / heads` unless given. The defaults are the narrow eight-block decoder of the chapter.
    `rms_epsilon` is inside the root of every norm. `query_key_norm` puts a norm on each head's query and key.
    `true_sizes` is set by `reduced_twin` alone.
    """

    blocks: int = 8
    width: int = 4
    heads: int = 1
    kv_heads: int | None = None
    ff_width: int = 4
    vocabulary: int = 266
    positions: int = 4
    rope_base: float = 10000.0
    rms_epsilon: float = 1e-6
    head_dim: int | None = None
    norm: NormFamily = "rmsnorm"
    mlp: MlpFamily = "swiglu"
    position_encoding: PositionFamily = "rope"
    tied: bool = True
    bias: bool = False
    query_key_norm: bool = False
    true_sizes: TrueSizes | None = None

    def __post_init__(self) -> None:
        if self.kv_heads is None:
            object.__setattr__(self, "kv_heads", self.heads)
        for field in SIZE_FIELDS:
            _require_size(field, getattr(self, field))
        self._resolve_head_dim()
        if self.heads % self.key_value_heads:
            raise ConfigError(
                f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}; every key/value head serves "
                "the same number of query heads."
            )
        if self.position_encoding == "rope" and self.head_width % 2:
            raise ConfigError(
                f"head_dim {self.head_width} is odd, but rotary positions turn features in pairs; choose width and "
                "heads whose quotient is even."
            )
        _require_positive("rope_base", self.rope_base)
        _require_positive("rms_epsilon", self.rms_epsilon)
        _require_choice("norm", self.norm, NORMS)
        _require_choice("mlp", self.mlp, MLPS)
        _require_choice("position_encoding", self.position_encoding, get_args(PositionFamily))
        for flag in ("tied", "bias", "query_key_norm"):
            if not isinstance(getattr(self, flag), bool):
                raise ConfigError(f"{flag} must be true or false, not {shown(getattr(self, flag))}.")

    def _resolve_head_dim(self) -> None:
        if self.head_dim is not None:
            _require_size("head_dim", self.head_dim)
            return
        if self.width % self.heads:
            raise ConfigError(
                f"width {self.width} is not a multiple of heads {self.heads}; choose heads that divide the width."
            )
        object.__setattr__(self, "head_dim", self.width // self.heads)

    @property
    def key_value_heads(self) -> int:
        """The number of key/value heads; never None."""
        assert self.kv_heads is not None
        return self.kv_heads

    @property
    def head_width(self) -> int:
        """The number of features per head; never None."""
        assert self.head_dim is not None
        return self.head_dim

    @property
    def additions(self) -> int:
        """The number of residual additions of the sequential topology, 2L."""
        return 2 * self.blocks

    @property
    def true_config(self) -> DecoderConfig:
        """The wide decoder that a reduced twin stands for; any other decoder returns itself."""
        return self if self.true_sizes is None else replace(self, true_sizes=None, **asdict(self.true_sizes))

    def document(self) -> dict[str, Any]:
        """Return every field, in order of declaration, as plain JSON values; a field of `RARE` only if it is set."""
        return {name: value for name, value in asdict(self).items() if value or name not in RARE}

    @classmethod
    def from_document(cls, fields: Mapping[str, Any]) -> DecoderConfig:
        """Rebuild the config from what `document` returned.

        Raises `ConfigError`, `KeyError` or `TypeError` if it cannot.
        """
        named = {name: fields[name] for name in cls().document()}
        true = fields.get("true_sizes")
        return cls(
            **named,
            query_key_norm=fields.get("query_key_norm", False),
            true_sizes=None if true is None else TrueSizes(**true),
        )


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The limits that a caller allows; `check` raises `BudgetError` before any array exists.

    `remedy` is what a caller can do about too many parameters.
    """

    max_parameters: int = 2**28
    max_positions: int = 65_536
    max_blocks: int = 4_096
    remedy: Remedy = Remedy.PARAMETERS

    def check(self, config: DecoderConfig, parameters: int) -> None:
        """Raise `BudgetError` if a decoder exceeds a limit; `parameters` is how many numbers are to exist at once."""
        if config.blocks > self.max_blocks:
            raise BudgetError(f"{config.blocks} blocks exceed the limit of {self.max_blocks}; ask for fewer blocks.")
        if config.positions > self.max_positions:
            raise BudgetError(
                f"{config.positions} positions exceed the budget of {self.max_positions}",
                "shorten the rows",
                Remedy.POSITIONS,
            )
        if parameters > self.max_parameters:
            raise BudgetError(
                f"{parameters:,} parameters exceed the budget of {self.max_parameters:,}",
                "make the decoder smaller",
                Remedy.PARAMETERS,
            )


def _require_size(field: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{field} must be a whole number, not {shown(value)}.")
    if not 0 < value <= LARGEST_SIZE:
        raise ConfigError(f"{field} is {shown(value)}; it must lie between 1 and 2^53.")


def _require_positive(field: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
        raise ConfigError(f"{field} is {shown(value)}; it must be a positive finite number.")


def _require_choice(field: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{field} {shown(value)} is not one of {', '.join(choices)}.")
