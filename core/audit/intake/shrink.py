"""Small sizes for a configuration: small widths, heads, experts and vocabulary; the depth is kept or set.

Configurations name their sizes in about two hundred ways, so the rules below are patterns over those names. They decide
how large a model is built, not what is found in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

WIDTH, HEADS, HEAD_DIM, FF_WIDTH, VOCABULARY, POSITIONS = 32, 4, 8, 64, 128, 64
Settings = dict[str, Any]


@dataclass(frozen=True)
class Sizes:
    """Input of the rules: the new depth (None keeps it), the configuration's heads, the multiple of the width."""

    blocks: int | None
    heads: int | None
    scale: int


Rule = Callable[[int, Sizes], int]


def _to(size: int) -> Rule:
    return lambda old, _: min(old, size)


def _wide(size: int) -> Rule:
    return lambda old, sizes: min(old, size * sizes.scale)


def _key_value_heads(old: int, sizes: Sizes) -> int:
    if old == sizes.heads:
        return HEADS
    return min(old, HEADS // 2)


def _blocks(old: int, sizes: Sizes) -> int:
    return old if sizes.blocks is None else sizes.blocks


def _exactly(size: int) -> Rule:
    return lambda old, _: size if old else old


def _exactly_wide(size: int) -> Rule:
    return lambda old, sizes: size * sizes.scale if old else old


# The first pattern that matches a whole key decides.
RULES: tuple[tuple[str, Rule], ...] = (
    (
        r"(num_hidden_layers|n_layers?|num_layers|decoder_layers|num_decoder_layers|num_layers_per_stack|num_blocks)",
        _blocks,
    ),
    (r"(encoder_layers|depth|conf_num_hidden_layers|num_global_layers)", _to(2)),
    (r"(max_window_layers|num_dense_layers|first_k_dense_replace|num_nextn_predict_layers)", _to(1)),
    (r"num_kv_shared_layers", _to(0)),
    (r"n_(input|recurrent|output)_layers", _to(1)),
    (r"(swa_)?(num_key_value_heads|kv_n_heads|num_kv_heads|n_head_kv)", _key_value_heads),
    (r"(swa_|decoder_|encoder_|conf_)?(num_attention_heads|n_heads?|num_heads|attention_heads)", _exactly(HEADS)),
    (r"(index_n_heads|n_mamba_heads|linear_num_heads)", _to(2)),
    (r"linear_num_key_heads", _to(2)),
    (r"linear_num_value_heads", _to(4)),
    (r"qk_head_dim", _wide(2 * HEAD_DIM)),
    (r"rotary_dim", _to(4)),
    (r"mamba_n_heads", _exactly(8)),
    (r"(mamba_d_head|mamba_head_dim|mamba_headdim)", _exactly_wide(8)),
    (r"(mamba_d_ssm|time_step_rank|mamba_dt_rank)", _wide(8)),
    (r"(.*head_dim|d_kv|dim_head|kv_channels|.*state_size|.*d_state|global_head_dim)", _wide(HEAD_DIM)),
    (r".*(moe|expert).*(intermediate|ffn|hidden)_(hidden_)?size", _wide(16)),
    (r"(.*intermediate_size.*|.*ffn_dim|.*ffn_hidden_size|d_?ff|dim_ff|n_inner|mlp_dim|ff_dim)", _wide(FF_WIDTH)),
    (r".*rank", _to(8)),
    (r"(num_experts_per_tok(en)?|moe_top_?k|top_k_experts|num_selected_experts|moe_k)", _to(2)),
    (r"(num_experts|n_routed_experts|num_local_experts|moe_num_experts|zero_expert_num)", _to(4)),
    (r"(n_group|topk_group|num_expert_group|o_groups)", _to(1)),
    (r"(mamba_n_groups|n_groups|mamba_ngroups)", _to(2)),
    (r"(hidden_size|d_model|n_embd|emb(ed)?_dim|word_embed_proj_dim|embedding_size|dim|.*hidden_size.*)", _wide(WIDTH)),
    (
        r"(unpadded_)?(.*vocab_size.*|encoder_hash_byte_group_vocab|codebook_size|ngram_vocab_size_base)",
        _to(VOCABULARY),
    ),
    (
        r"(max_position_embeddings|n_positions|n_ctx|max_seq_len|model_max_length|.*max_source_positions)",
        _to(POSITIONS),
    ),
    (r"(.*chunk_size|.*sliding_window(_size)?|block_size|local_attention|keep_window_size|index_topk)", _to(8)),
)
_COMPILED = tuple((re.compile(pattern), rule) for pattern, rule in RULES)
HEAD_KEYS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads", "attention_heads")
DEPTH_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "num_decoder_layers")
TOKEN_KEY = re.compile(r".*(_token_id|_token_index|_token_ids)$")
# Where a configuration leaves these open, width and heads above decide them; `head_dim` is another.
OPEN_SIZES = {"num_key_value_heads": HEADS // 2}


def small_settings(current: Mapping[str, Any], blocks: int | None = None, scale: int = 1) -> Settings:
    """Return only the settings that must change to make a model small; `current` holds all its present settings.

    Sizes are only lowered, or set where they must fit each other: widths to a multiple of `scale`, heads, experts and
    vocabulary to fixed numbers. `blocks` is the new depth (None keeps it); a list with one entry per block then gets
    `blocks` entries, as many different ones as fit. A nested mapping that changes is returned whole.
    """
    heads = next((current[key] for key in HEAD_KEYS if isinstance(current.get(key), int)), None)
    depth = next((current[key] for key in DEPTH_KEYS if isinstance(current.get(key), int)), None)
    sizes = Sizes(blocks, heads, scale)
    changed: Settings = {}
    for key, value in current.items():
        if blocks is not None and depth is not None and isinstance(value, list) and len(value) == depth:
            value = changed[key] = varied(value, blocks)
        small = _small(key, value, sizes)
        if small != value:
            changed[key] = small
    return changed


def varied(entries: list[Any], count: int) -> list[Any]:
    """Return `count` entries of a list in their order, with as many different ones as possible.

    A list that is too short is extended with its last entry.
    """
    first = {repr(entry): place for place, entry in reversed(list(enumerate(entries)))}
    chosen = sorted(first.values())[:count]
    rest = (place for place in range(len(entries)) if place not in chosen)
    while len(chosen) < min(count, len(entries)):
        chosen.append(next(rest))
    chosen += [chosen[-1]] * (count - len(chosen))
    return [entries[place] for place in sorted(chosen)]


def _small(key: str, value: Any, sizes: Sizes) -> Any:
    if key == "per_layer_config" and isinstance(value, Mapping):
        kept = {place: inner for place, inner in value.items() if sizes.blocks is None or int(place) < sizes.blocks}
        return {place: {**inner, **small_settings(inner, scale=sizes.scale)} for place, inner in kept.items()}
    if isinstance(value, Mapping):
        return {**value, **small_settings(value, sizes.blocks, sizes.scale)} if _holds_sizes(value) else value
    if isinstance(value, list) and value and all(type(entry) is int for entry in value):
        return [_small(key.removesuffix("_per_layer"), entry, sizes) for entry in value]
    if value is None:
        return HEAD_DIM * sizes.scale if key == "head_dim" else OPEN_SIZES.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if TOKEN_KEY.fullmatch(key):
        return value if value < VOCABULARY else VOCABULARY - 1 - (value % 8)
    for pattern, rule in _COMPILED:
        if pattern.fullmatch(key):
            return rule(value, sizes)
    return value


def _holds_sizes(value: Mapping[str, Any]) -> bool:
    return "model_type" in value or any(type(inner) is int for inner in value.values())
