"""Published constants of depth recipes as functions of the depth, also for encoder-decoder models.

All functions raise `RecipeError` if a count is not a positive integer.
"""

from __future__ import annotations

import math

from ..errors import RecipeError

GPT2_STD = 0.02


def deepnorm_constants(blocks: int) -> dict[str, float]:
    """Return DeepNorm's `alpha` (factor on the shortcut) and `beta` (gain of the weights) for a model of one stack.

    alpha = (2N)^(1/4) and beta = (8N)^(-1/4) for N = `blocks`. Source: Wang et al. 2022.
    """
    n = _count(blocks)
    return {"alpha": (2 * n) ** 0.25, "beta": (8 * n) ** -0.25}


def deepnorm_encoder_decoder_constants(encoder_blocks: int, decoder_blocks: int) -> dict[str, float]:
    """Return DeepNorm's `encoder alpha`, `encoder beta`, `decoder alpha` and `decoder beta`.

    For N encoder and M decoder blocks they are 0.81 (N^4 M)^(1/16), 0.87 (N^4 M)^(-1/16), (3M)^(1/4) and (12M)^(-1/4).
    alpha is the factor on the shortcut and beta the gain of the weights. Source: Wang et al. 2022.
    """
    m = _count(decoder_blocks)
    mixed = _count(encoder_blocks) ** 4 * m
    return {
        "encoder alpha": 0.81 * mixed ** (1 / 16),
        "encoder beta": 0.87 * mixed ** (-1 / 16),
        "decoder alpha": (3 * m) ** 0.25,
        "decoder beta": (12 * m) ** -0.25,
    }


def gpt2_writer_std(blocks: int, base_std: float = GPT2_STD) -> float:
    """Return the standard deviation base_std / sqrt(2L) of the matrices that end a branch in GPT-2, for L = `blocks`.

    Source: Radford et al. 2019, section 2.3.
    """
    return base_std / math.sqrt(2 * _count(blocks))


def t_fixup_constants(blocks: int, width: int) -> dict[str, float]:
    """Return T-Fixup's `decoder factor` (9N)^(-1/4), `encoder factor` 0.67 N^(-1/4) and `embedding std` d^(-1/2).

    N = `blocks` is the number of blocks on each side, d the width. The decoder's factor also multiplies both input
    embeddings. Source: Huang et al. 2020.
    """
    n = _count(blocks)
    return {
        "decoder factor": (9 * n) ** -0.25,
        "encoder factor": 0.67 * n**-0.25,
        "embedding std": 1 / math.sqrt(_count(width)),
    }


def fixup_factor(branches: int, layers: int) -> float:
    """Return Fixup's factor B^(-1/(2m-2)) for B = `branches` branches of m = `layers` layers each, m at least 2.

    Source: Zhang, Dauphin and Ma 2019.
    """
    return math.pow(_count(branches), -1 / (2 * _count(layers, least=2) - 2))


def _count(value: object, *, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RecipeError(
            f"{value!r} is not a whole number of at least {least}; a recipe's constants count from there."
        )
    return value
