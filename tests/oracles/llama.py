"""The strongest outside reference: our weights inside the published `transformers` LLaMA.

The library's code runs unchanged, but it casts norms, rotary angles and the softmax to float32 whatever the model's
type. `LiftedToDouble` answers each such request with float64, so that agreement can be asked for to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor
from torch.overrides import TorchFunctionMode

from core.decoder.config import DecoderConfig
from tests.oracles.plain_decoder import Row, make_row

BLOCK_NAMES = {
    "attention_norm.gain": "input_layernorm.weight",
    "attention.query.weight": "self_attn.q_proj.weight",
    "attention.key.weight": "self_attn.k_proj.weight",
    "attention.value.weight": "self_attn.v_proj.weight",
    "attention.output.weight": "self_attn.o_proj.weight",
    "ffn_norm.gain": "post_attention_layernorm.weight",
    "ffn.gate.weight": "mlp.gate_proj.weight",
    "ffn.up.weight": "mlp.up_proj.weight",
    "ffn.down.weight": "mlp.down_proj.weight",
}


class LiftedToDouble(TorchFunctionMode):
    """Inside this context every request for float32 is answered with float64."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """Run `func` with float32 replaced among its arguments."""
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        return func(*map(_double, args), **{name: _double(value) for name, value in (kwargs or {}).items()})


def observe_llama(
    weights: Mapping[str, np.ndarray], config: DecoderConfig, rows: Sequence[tuple], *, permute_rotary: bool = True
) -> dict[str, Any]:
    """Loss and per-site activation and adjoint RMS of LLaMA holding `weights` (our names, `[fan_in, fan_out]`).

    A row is (inputs, targets[, valid[, segments]]); shorter rows are padded on the right. Returns `loss`, the mean
    cross-entropy over valid targets; `sites`, [(label, activation RMS, adjoint RMS)]; and `states`, `adjoints`:
    float64 arrays [site, row, position, width]. Without `permute_rotary` the half-split pairs of the library read
    our interleaved columns as they stand, which is a different decoder.
    """
    batch = [make_row(row) for row in rows]
    longest = max(len(row.inputs) for row in batch)
    inputs, targets = (
        torch.tensor([_pad(getattr(row, ids), longest, 0) for row in batch]) for ids in ("inputs", "targets")
    )
    valid = torch.tensor([_pad(row.valid, longest, False) for row in batch])
    with LiftedToDouble():
        model = build_llama(weights, config, permute_rotary=permute_rotary)
        states, logits = _forward(model, inputs, batch, longest)
        loss = torch.nn.functional.cross_entropy(logits[valid], targets[valid])
        adjoints = torch.autograd.grad(loss, states)
    labels = ["input"]
    for block in range(config.blocks):
        labels += [f"block.{block}.after_attention", f"block.{block}.after_feed_forward"]
    pairs = zip(labels, states, adjoints, strict=True)
    return {
        "loss": loss.item(),
        "sites": [(label, _rms(state[valid]), _rms(adjoint[valid])) for label, state, adjoint in pairs],
        "states": torch.stack(states).detach().numpy(),
        "adjoints": torch.stack(adjoints).numpy(),
    }


def build_llama(
    weights: Mapping[str, np.ndarray], config: DecoderConfig, *, permute_rotary: bool = True
) -> transformers.LlamaForCausalLM:
    """A float64 LLaMA of `config`'s sizes that holds `weights`; torch's generator is left as it was."""
    assert (config.norm, config.mlp, config.position_encoding, config.bias) == ("rmsnorm", "swiglu", "rope", False)
    llama = transformers.LlamaConfig(
        vocab_size=config.vocabulary,
        hidden_size=config.width,
        intermediate_size=config.ff_width,
        num_hidden_layers=config.blocks,
        num_attention_heads=config.heads,
        num_key_value_heads=config.key_value_heads,
        head_dim=config.head_width,
        max_position_embeddings=config.positions,
        rms_norm_eps=config.rms_epsilon,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_base},
        tie_word_embeddings=config.tied,
        attn_implementation="eager",
    )
    with torch.random.fork_rng(devices=[]):
        model = transformers.LlamaForCausalLM(llama).to(torch.float64).eval()
    model.load_state_dict(llama_state(weights, config, permute_rotary=permute_rotary), strict=True)
    return model


def llama_state(
    weights: Mapping[str, np.ndarray], config: DecoderConfig, *, permute_rotary: bool = True
) -> dict[str, Tensor]:
    """`weights` under the library's names: matrices transposed, the table not, rotary rows permuted."""
    table = torch.tensor(np.asarray(weights["token_embedding.weight"]))
    state = {
        "model.embed_tokens.weight": table,
        "model.norm.weight": torch.tensor(np.asarray(weights["final_norm.gain"])),
        "lm_head.weight": table if config.tied else torch.tensor(np.asarray(weights["head.weight"]).T.copy()),
    }
    for block in range(config.blocks):
        for ours, theirs in BLOCK_NAMES.items():
            values = np.asarray(weights[f"blocks.{block}.{ours}"]).T.copy()
            if permute_rotary and ours in ("attention.query.weight", "attention.key.weight"):
                values = halves_from_pairs(values, config.head_width)
            state[f"model.layers.{block}.{theirs}"] = torch.tensor(values)
    return state


def halves_from_pairs(rows: np.ndarray, head_dim: int) -> np.ndarray:
    """Rows of every head reordered from pairs (0, 1), (2, 3), ... to first members, then second members."""
    order = [*range(0, head_dim, 2), *range(1, head_dim, 2)]
    return np.concatenate([rows[start : start + head_dim][order] for start in range(0, len(rows), head_dim)])


def _forward(
    model: transformers.LlamaForCausalLM, inputs: Tensor, batch: list[Row], longest: int
) -> tuple[list[Tensor], Tensor]:
    """Residual states as the norms receive them, and the logits."""
    states: list[Tensor] = []
    norms = [norm for layer in model.model.layers for norm in (layer.input_layernorm, layer.post_attention_layernorm)]
    handles = [
        norm.register_forward_pre_hook(lambda module, args: states.append(args[0]))
        for norm in (*norms, model.model.norm)
    ]
    try:
        positions = torch.tensor([_pad(row.positions(), longest, 0) for row in batch])
        mask = attention_mask(batch, longest)
        logits = model(input_ids=inputs, attention_mask=mask, position_ids=positions, use_cache=False).logits
    finally:
        for handle in handles:
            handle.remove()
    return states, logits


def attention_mask(batch: list[Row], longest: int) -> Tensor:
    """The library's own [row, position] padding mask, or with several segments an additive [row, 1, query, key]."""
    if all(len(set(row.segments)) == 1 for row in batch):
        return torch.tensor([_pad([1] * len(row.inputs), longest, 0) for row in batch])
    mask = torch.full((len(batch), 1, longest, longest), torch.finfo(torch.float64).min, dtype=torch.float64)
    for index, row in enumerate(batch):
        for query in range(longest):
            seen = row.seen(query) if query < len(row.inputs) else [query]
            mask[index, 0, query, seen] = 0.0
    return mask


def _pad(values: Sequence[Any], longest: int, filler: Any) -> list[Any]:
    return [*values, *[filler] * (longest - len(values))]


def _rms(features: Tensor) -> float:
    return features.detach().square().mean().sqrt().item()


def _double(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value
