"""What one would write without this project: a `transformers` LLaMA at a time, its residual stream read by hooks.

The model is built anew for each observation, randomly initialized by its own library, with a tied head. The stream is
what enters each norm: two a layer and the final one, so 2L + 1 states of L layers.
"""

from __future__ import annotations

from typing import Any

import torch

from core.decoder.config import DecoderConfig


def llama(config: DecoderConfig) -> Any:
    """A LLaMA of the decoder's sizes in float64."""
    import transformers  # the one slow import, wanted by the benchmarks alone

    transformers.logging.set_verbosity_error()
    sizes = transformers.LlamaConfig(
        hidden_size=config.width,
        intermediate_size=config.ff_width,
        num_hidden_layers=config.blocks,
        num_attention_heads=config.heads,
        num_key_value_heads=config.key_value_heads,
        vocab_size=config.vocabulary,
        max_position_embeddings=max(config.positions, 16),
        tie_word_embeddings=True,
    )
    return transformers.LlamaForCausalLM(sizes).to(torch.float64)


def observe_llama(model: Any, ids: torch.Tensor) -> list[tuple[float, float]]:
    """Activation and adjoint RMS of every state, for the library's mean next-token loss on `ids` `[rows, T]`."""
    stream: list[torch.Tensor] = []

    def remember(_: Any, entering: tuple[torch.Tensor, ...]) -> None:
        entering[0].retain_grad()
        stream.append(entering[0])

    norms = [norm for layer in model.model.layers for norm in (layer.input_layernorm, layer.post_attention_layernorm)]
    hooks = [norm.register_forward_pre_hook(remember) for norm in (*norms, model.model.norm)]
    try:
        model(ids, labels=ids, use_cache=False).loss.backward()
    finally:
        for hook in hooks:
            hook.remove()
    return [(rms(state.detach()), rms(state.grad)) for state in stream]


def rms(values: torch.Tensor | None) -> float:
    """Root mean square of all values."""
    assert values is not None
    return float(values.square().mean().sqrt())
