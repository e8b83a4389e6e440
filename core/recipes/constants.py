"""Published constants of depth recipes as functions of depth, those that no decoder-only stack uses included."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from core.errors import RecipeError

GPT2_STD = 0.02


@dataclass(frozen=True, kw_only=True)
class ResidualConstants:
    """DeepNorm's pair for one side: shortcut coefficient `alpha`, gain `beta` of value, output and feed-forward."""

    side: Literal["encoder", "decoder"]
    alpha: float
    beta: float


@dataclass(frozen=True, kw_only=True)
class TFixupConstants:
    """T-Fixup's factors: `decoder` also acts on both input embeddings, whose standard deviation is `embedding_std`."""

    decoder: float
    encoder: float
    embedding_std: float


def deepnorm_constants(*, encoder_blocks: int = 0, decoder_blocks: int = 0) -> tuple[ResidualConstants, ...]:
    """DeepNorm's constants of an encoder (N), a decoder (M) or both, the encoder first.

    Source: Wang et al. 2022. Encoder only: alpha (2N)^(1/4), beta (8N)^(-1/4); decoder only: the same in M. Together:
    encoder 0.81 (N^4 M)^(1/16) and 0.87 (N^4 M)^(-1/16), decoder (3M)^(1/4) and (12M)^(-1/4). Refuses no blocks at all.
    """
    n, m = _count(encoder_blocks, least=0), _count(decoder_blocks, least=0)
    if n and m:
        mixed = n**4 * m
        return (
            ResidualConstants(side="encoder", alpha=0.81 * mixed ** (1 / 16), beta=0.87 * mixed ** (-1 / 16)),
            ResidualConstants(side="decoder", alpha=(3 * m) ** 0.25, beta=(12 * m) ** -0.25),
        )
    if not n and not m:
        raise RecipeError(
            "DeepNorm's constants need at least one block; give an encoder's depth, a decoder's, or both."
        )
    depth = n or m
    return (
        ResidualConstants(
            side="encoder" if n else "decoder", alpha=(2 * depth) ** 0.25, beta=(8 * depth) ** -0.25
        ),
    )  # fmt: skip


def gpt2_writer_std(blocks: int, base_std: float = GPT2_STD) -> float:
    """Standard deviation base / sqrt(2L) of GPT-2's writers. Source: Radford et al. 2019, section 2.3."""
    return base_std / math.sqrt(2 * _count(blocks))


def t_fixup_constants(blocks: int, width: int) -> TFixupConstants:
    """Factors (9N)^(-1/4) and 0.67 N^(-1/4) for N blocks each side, and d^(-1/2). Source: Huang et al. 2020."""
    n = _count(blocks)
    return TFixupConstants(
        decoder=(9 * n) ** -0.25, encoder=0.67 * n**-0.25, embedding_std=1 / math.sqrt(_count(width))
    )


def fixup_factor(branches: int, layers: int) -> float:
    """L^(-1/(2m-2)) for L branches of m >= 2 layers each. Source: Zhang, Dauphin and Ma 2019."""
    return math.pow(_count(branches), -1 / (2 * _count(layers, least=2) - 2))


def constants_at(name: str, blocks: int, width: int) -> dict[str, float]:
    """What a recipe's card prints of published constants, with `blocks` on every side; empty for most recipes."""
    if name == "deepnorm":
        (only,) = deepnorm_constants(decoder_blocks=blocks)
        return {"alpha": only.alpha, "beta": only.beta}
    if name == "deepnorm-encoder-decoder":
        sides = deepnorm_constants(encoder_blocks=blocks, decoder_blocks=blocks)
        return {f"{s.side} {key}": getattr(s, key) for s in sides for key in ("alpha", "beta")}
    if name == "t-fixup":
        found = t_fixup_constants(blocks, width)
        return {
            "decoder factor": found.decoder,
            "encoder factor": found.encoder,
            "embedding std": found.embedding_std,
        }
    if name == "gpt2":
        return {"writer std on base std 0.02": gpt2_writer_std(blocks)}
    if name == "fixup":
        return {f"factor at m = {layers}": fixup_factor(2 * blocks, layers) for layers in (2, 3, 4)}
    return {}


def _count(value: object, *, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RecipeError(
            f"{value!r} is not a whole number of at least {least}; a recipe's constants count from there."
        )
    return value
