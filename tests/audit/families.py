"""Small models of the transformers library, built in this process from settings given by hand."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

from core.audit.intake.hub import allowed, built_config, built_model, library, model_class_of

SIZES = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "max_position_embeddings": 64,
}
GPT2 = {"vocab_size": 96, "n_embd": 32, "n_layer": 4, "n_head": 4, "n_positions": 64}


def family(name: str, seed: int = 0, **settings: Any) -> nn.Module:
    """A float32 model with eager attention, drawn from `seed`; the caller's generator is left alone."""
    library()
    model_class = model_class_of(name)
    sizes = GPT2 if name == "gpt2" else SIZES
    kept, _ = allowed(model_class.config_class, {**sizes, **settings})
    state = torch.get_rng_state()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = built_config(model_class.config_class, kept)
            return built_model(model_class, config, seed=seed, max_parameters=2**24)
    finally:
        torch.set_rng_state(state)
