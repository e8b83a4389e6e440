"""Build a family of the installed transformers library at small size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

ROPE = {"rope_type": "default", "rope_theta": 10000.0}
MLA = {"q_lora_rank": 8, "kv_lora_rank": 8}

# What small sizes alone cannot decide, a family of the library at a time. `blocks` entries a block stand in lists of
# that length; the depth is filled in where `{blocks}` asks for it.
FAMILY_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "cohere_compass_text": {"rope_parameters": {"full_attention": ROPE, "sliding_attention": ROPE}},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0}},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "mamba2": {"num_heads": 8, "head_dim": 8},
    "musicgen": {"num_codebooks": 1},
    "musicgen_melody": {"num_codebooks": 1},
    "reformer": {"is_decoder": True, "axial_pos_shape": [8, 8], "axial_pos_embds_dim": [8, 24], "feed_forward_size": 64},
    "xmod": {"default_language": "en_XX"},
}
# An entry a block, repeated as often as the depth asks for.
FAMILY_LAYERS: Mapping[str, Mapping[str, list[Any]]] = {
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "reformer": {"attn_layers": ["local", "lsh"]},
}


def family_model(family: str, blocks: int, seed: int = 0) -> tuple[Any, Any]:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    import transformers
    from core.audit.inputs import random_batch
    from core.audit.shrink import small_settings

    model_class = getattr(transformers, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[family])
    config_class = model_class.config_class
    default = config_class()
    settings = small_settings(default.to_dict(), blocks)
    settings |= FAMILY_SETTINGS.get(family, {})
    for key, pattern in FAMILY_LAYERS.get(family, {}).items():
        settings[key] = [pattern[block % len(pattern)] for block in range(blocks)]
    if family == "gpt_neo":
        settings["attention_types"] = [[["global", "local"], blocks // 2]]
    if family == "dory":
        settings |= {"num_hidden_layers": 6*blocks//2}
    config = config_class(**settings)
    torch.manual_seed(seed)
    model = model_class._from_config(config, attn_implementation="eager", dtype=torch.float32)
    return model, random_batch(90, seed)
