"""Small models of the families that the installed transformers library maps to a causal language model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..request import checked_family
from .hub import allowed, config_class_of
from .shrink import HEADS, WIDTH, Settings, small_settings

ROPE = {"rope_type": "default", "rope_theta": 10000.0}


@dataclass(frozen=True)
class Wide:
    """A size, or several, that grows in proportion to the width; the values are those at the smallest width."""

    sizes: tuple[int, ...]

    def of(self, scale: int) -> int | list[int]:
        """Return the size, or sizes, at `scale` times the smallest width."""
        found = [size * scale for size in self.sizes]
        return found if len(found) > 1 else found[0]


def _layers(*kinds: str) -> Callable[[int], list[str]]:
    return lambda blocks: [kinds[block % len(kinds)] for block in range(blocks)]


INDEXER = {
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": Wide((8,)),
    "indexer_budget": 8,
    "indexer_compress_ratio": 4,
}
_QWEN4 = {**INDEXER, "layer_types": _layers("linear_attention", "indexed_attention")}

# What patterns over names cannot decide, a family at a time. A callable is given the depth.
EXTRA_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "cohere_compass_text": {"rope_parameters": {"full_attention": ROPE, "sliding_attention": ROPE}},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0}},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dory": {
        "num_hidden_layers": lambda blocks: blocks + 2,
        "n_input_layers": 1,
        "n_recurrent_layers": lambda blocks: blocks,
        "n_output_layers": 1,
        "layer_types": lambda blocks: _layers("sliding_attention", "full_attention")(blocks + 2),
    },
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "dots3_note": {"text_config": {"head_dim": Wide((16,))}},
    "dots3_note_text": {"head_dim": Wide((16,))},
    "falcon_h1": {"mamba_d_head": "auto"},
    "gemma4_assistant": {
        "text_config": {
            "hidden_size_per_layer_input": 0,
            "vocab_size_per_layer_input": 0,
            "num_kv_shared_layers": lambda blocks: blocks,
        }
    },
    "gpt_neo": {"attention_types": lambda blocks: [[["global", "local"], blocks // 2]]},
    "granitemoehybrid": {"layer_types": _layers("linear_attention", "full_attention")},
    "lfm2_moe": {"layer_types": _layers("conv", "full_attention")},
    "mamba2": {"num_heads": 8, "head_dim": Wide((8,))},
    "musicgen": {"num_codebooks": 1},
    "musicgen_melody": {"num_codebooks": 1},
    # Its list of layers decides the depth; four kinds need four layers.
    "nemotron_h": {
        "num_hidden_layers": lambda blocks: 2 * blocks,
        "layers_block_type": lambda blocks: _layers("linear_attention", "moe", "full_attention", "mlp")(2 * blocks),
    },
    "qwen4_exp": _QWEN4,
    "qwen4_exp_text": _QWEN4,
    "reformer": {
        "is_decoder": True,
        "axial_pos_shape": [8, 8],
        "axial_pos_embds_dim": Wide((8, 24)),
        "feed_forward_size": Wide((64,)),
        "attn_layers": _layers("local", "lsh"),
    },
    "xmod": {"default_language": "en_XX"},
    # Its attention block is shared, so that there must be two places that share it.
    "zamba": {
        "num_hidden_layers": lambda blocks: 2 * blocks,
        "layer_types": lambda blocks: _layers("linear_attention", "hybrid")(2 * blocks),
        "attention_hidden_size": Wide((2 * WIDTH,)),
        "attention_head_dim": Wide((2 * WIDTH // HEADS,)),
    },
    "zamba2": {
        "num_hidden_layers": lambda blocks: 2 * blocks,
        "layers_block_type": lambda blocks: _layers("linear_attention", "hybrid")(2 * blocks),
        "n_mamba_heads": HEADS,
        "num_mem_blocks": 1,
    },
}


def family_settings(family: str, blocks: int, width: int = WIDTH) -> Settings:
    """Return the settings of a small model of `family`, with `blocks` blocks, as a dict.

    `width` is a multiple of `WIDTH`; sizes proportional to it follow, as far as the family's own sizes allow. Raises
    `AuditError` for an unknown family.
    """
    config_class = config_class_of(checked_family(family))
    scale = max(1, width // WIDTH)
    settings = small_settings(config_class().to_dict(), blocks, scale)
    return allowed(config_class, _merged(settings, EXTRA_SETTINGS.get(family, {}), blocks, scale))[0]


def _merged(settings: Settings, extra: Mapping[str, Any], blocks: int, scale: int) -> Settings:
    """Return `settings` updated with `extra`, nested mappings included, with depth and widths filled in."""
    merged = dict(settings)
    for key, value in extra.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = _merged(merged[key], value, blocks, scale)
        elif isinstance(value, Wide):
            merged[key] = value.of(scale)
        else:
            merged[key] = value(blocks) if callable(value) else value
    return merged
