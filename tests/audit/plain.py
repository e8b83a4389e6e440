"""The project's decoder as somebody would write it by hand: a plain `nn.Module` holding the engine's very weights."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from core.decoder.config import DecoderConfig


class Norm(nn.Module):
    def __init__(self, gain: Tensor, epsilon: float) -> None:
        super().__init__()
        self.gain, self.epsilon = nn.Parameter(gain), epsilon

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon))


class Attention(nn.Module):
    def __init__(self, config: DecoderConfig, matrices: dict[str, Tensor]) -> None:
        super().__init__()
        self.config = config
        for name in ("query", "key", "value", "output"):
            setattr(self, name, nn.Parameter(matrices[f"attention.{name}.weight"]))

    def forward(self, x: Tensor) -> Tensor:
        config = self.config
        rows, length, _ = x.shape
        query = turned((x @ self.query).view(rows, length, config.heads, -1), config.rope_base)
        key = turned((x @ self.key).view(rows, length, config.key_value_heads, -1), config.rope_base)
        value = (x @ self.value).view(rows, length, config.key_value_heads, -1)
        group = config.heads // config.key_value_heads
        key, value = key.repeat_interleave(group, 2), value.repeat_interleave(group, 2)
        scores = torch.einsum("bihd,bjhd->bhij", query, key) / math.sqrt(config.head_width)
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf)
        return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), value).reshape(rows, length, -1) @ self.output


class FeedForward(nn.Module):
    def __init__(self, matrices: dict[str, Tensor]) -> None:
        super().__init__()
        for name in ("gate", "up", "down"):
            setattr(self, name, nn.Parameter(matrices[f"ffn.{name}.weight"]))

    def forward(self, x: Tensor) -> Tensor:
        return (nn.functional.silu(x @ self.gate) * (x @ self.up)) @ self.down


class Block(nn.Module):
    def __init__(self, config: DecoderConfig, matrices: dict[str, Tensor], topology: str) -> None:
        super().__init__()
        self.topology = topology
        self.attention_norm = Norm(matrices["attention_norm.gain"], config.rms_epsilon)
        self.attention = Attention(config, matrices)
        self.ffn_norm = Norm(matrices["ffn_norm.gain"], config.rms_epsilon)
        self.ffn = FeedForward(matrices)
        self.coefficient = 2.0 / config.blocks if topology == "completep" else 1.0

    def forward(self, x: Tensor) -> Tensor:
        if self.topology == "parallel":
            return x + self.attention(self.attention_norm(x)) + self.ffn(self.ffn_norm(x))
        if self.topology == "post-norm":
            x = self.attention_norm(x + self.attention(x))
            return self.ffn_norm(x + self.ffn(x))
        x = x + self.coefficient * self.attention(self.attention_norm(x))
        return x + self.coefficient * self.ffn(self.ffn_norm(x))


class PlainDecoder(nn.Module):
    """`weights` are the engine's stored values by name, `[fan_in, fan_out]`; `topology` a recipe's name."""

    def __init__(self, config: DecoderConfig, weights: dict[str, np.ndarray], topology: str = "unscaled") -> None:
        super().__init__()
        tensors = {name: torch.from_numpy(value.copy()) for name, value in weights.items()}
        self.token_embedding = nn.Parameter(tensors["token_embedding.weight"])
        self.blocks = nn.ModuleList(
            Block(config, {n.split(".", 2)[2]: t for n, t in tensors.items() if n.startswith(f"blocks.{b}.")}, topology)
            for b in range(config.blocks)
        )
        keeps_norm = topology != "post-norm"
        self.final_norm = Norm(tensors["final_norm.gain"], config.rms_epsilon) if keeps_norm else nn.Identity()

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token_embedding[ids]
        for block in self.blocks:
            x = block(x)
        return self.final_norm(x) @ self.token_embedding.T


def turned(x: Tensor, base: float) -> Tensor:
    """Interleaved rotary pairs of `[B, T, heads, head_dim]`."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * base ** (
        -torch.arange(half, dtype=torch.float64) / half
    )
    cos, sin = angles.cos()[:, None].to(x.dtype), angles.sin()[:, None].to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
