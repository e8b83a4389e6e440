"""Sizes of a reduced twin of a configuration: all widths in proportion, the depth and the graph unchanged.

The twin is a narrower model with the ratios of the wide one. The rules are patterns over the names of settings: if they
do not fit a family, building or running the twin raises an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...decoder.twin import LEAST_VOCABULARY, in_proportion, twin_heads
from ...errors import AuditError
from .config_file import WIDTH_KEYS
from .shrink import HEAD_KEYS, TOKEN_KEY, Settings

POSITIONS = 512


@dataclass(frozen=True)
class Twin:
    """The true width and heads of a configuration, and those of its twin.

    Heads are (query heads, key/value heads, features per head).
    """

    true_width: int
    width: int
    true_heads: tuple[int, int, int]
    heads: tuple[int, int, int]

    def proportion(self, size: int) -> int:
        """Return a number of features scaled to the twin's width."""
        return in_proportion(size, self.width, self.true_width)

    def head_size(self, size: int) -> int:
        """Return a number of features inside a head, scaled to the twin's head size; an even number stays even."""
        found = in_proportion(size, self.heads[2], self.true_heads[2])
        return max(2, found - found % 2) if size % 2 == 0 else found


Rule = Callable[[Any, Twin], Any]
# The first pattern that matches a whole key decides; a key that none matches stays.
RULES: tuple[tuple[str, Rule], ...] = (
    (r"(swa_|decoder_)?(num_attention_heads|n_heads?|num_heads|attention_heads)", lambda _, twin: twin.heads[0]),
    (r"(swa_)?(num_key_value_heads|kv_n_heads|num_kv_heads|n_head_kv)", lambda _, twin: twin.heads[1]),
    (r"(linear|mamba|index|indexer).*", lambda old, _: old),
    (r"(.*head_dim|d_kv|dim_head|kv_channels|rotary_dim)", lambda old, twin: twin.head_size(old)),
    # Scores of a narrower head have a smaller RMS by the root of the ratio, which these make up for.
    (r"query_pre_attn_scalar", lambda old, twin: type(old)(round(old * twin.heads[2] / twin.true_heads[2]))),
    (r"attention_multiplier", lambda old, twin: old * math.sqrt(twin.true_heads[2] / twin.heads[2])),
    (
        r"(.*intermediate_size.*|.*ffn_dim|.*ffn_hidden_size|d_?ff|dim_ff|n_inner|mlp_dim|ff_dim|.*lora_rank|lru_width)",
        lambda old, twin: twin.proportion(old),
    ),
    (
        r"(hidden_size|d_model|n_embd|emb(ed)?_dim|word_embed_proj_dim|embedding_size|dim_model|.*hidden_size)",
        lambda old, twin: twin.proportion(old),
    ),
    (r"(unpadded_)?vocab_size.*", lambda old, _: min(old, LEAST_VOCABULARY)),
    (r"(max_position_embeddings|n_positions|n_ctx|max_seq_len)", lambda old, _: min(old, POSITIONS)),
)
_COMPILED = tuple((re.compile(pattern), rule) for pattern, rule in RULES)


def true_width(settings: Mapping[str, Any]) -> int:
    """Return the width of the stream in a configuration. Raises `AuditError` where it has none."""
    for key in WIDTH_KEYS:
        if type(settings.get(key)) is int and settings[key] > 0:
            return int(settings[key])
    raise AuditError("The configuration names no width of its stream, so no narrower twin of it can be built.")


def twin_settings(current: Mapping[str, Any], width: int) -> Settings:
    """Return only the settings to change for a twin of `width`; `current` holds all present settings.

    Raises `AuditError` if no head size fits that width.
    """
    twin = _twin(current, width)
    changed: Settings = {}
    for key, value in current.items():
        small = _small(key, value, twin)
        if small != value:
            changed[key] = small
    return changed


def _twin(current: Mapping[str, Any], width: int) -> Twin:
    true = true_width(current)
    heads = next((current[key] for key in HEAD_KEYS if type(current.get(key)) is int), 1)
    shared = next(
        (current[key] for key in ("num_key_value_heads", "n_head_kv") if type(current.get(key)) is int), heads
    )
    size = current["head_dim"] if type(current.get("head_dim")) is int else true // heads
    found = None
    if heads > 0 and shared > 0 and size > 0:
        inner = in_proportion(heads * size, width, true)
        # Many families refuse a width that is no multiple of the heads, whatever their size.
        dividing = width if true % heads == 0 else 0
        found = twin_heads(inner, heads, min(shared, heads), size, exact=heads * size == true, dividing=dividing)
    if found is None:
        raise AuditError(f"A twin of width {width} has no head with an even head_dim of at least 16.")
    return Twin(true, width, (heads, shared, size), found)


def _small(key: str, value: Any, twin: Twin) -> Any:
    # Zero and less mean that a part is absent.
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return value
    if TOKEN_KEY.fullmatch(key):
        return value if value < LEAST_VOCABULARY else LEAST_VOCABULARY - 1 - (value % 8)
    for pattern, rule in _COMPILED:
        if pattern.fullmatch(key):
            return rule(value, twin)
    return value
