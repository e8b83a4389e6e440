"""The same decoder as ordinary torch modules, one model at a time: what batching over members is worth by itself.

Xavier uniform weights from torch's own generator, RMSNorm, rotary attention, SwiGLU, a tied head; no library, no hooks.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from core.decoder.config import DecoderConfig
from tests.benchmarks.hooked_llama import rms


class Norm(nn.Module):
    """x / sqrt(mean(x^2) + epsilon) times a gain."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(config.width, dtype=torch.float64))
        self.epsilon = config.rms_epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.epsilon) * self.gain


class Attention(nn.Module):
    """Causal attention with rotary positions, as many key/value heads as query heads."""

    def __init__(self, config: DecoderConfig, scale: float) -> None:
        super().__init__()
        self.heads = config.heads
        self.query, self.key, self.value = (linear(config.width, config.width) for _ in range(3))
        self.output = linear(config.width, config.width, scale)

    def forward(self, x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape

        def split(y: torch.Tensor) -> torch.Tensor:
            return y.view(rows, length, self.heads, -1).transpose(1, 2)

        query, key = (rotated(split(matrix(x)), turn) for matrix in (self.query, self.key))
        mixed = functional.scaled_dot_product_attention(query, key, split(self.value(x)), is_causal=True)
        return self.output(mixed.transpose(1, 2).reshape(rows, length, width))


class FeedForward(nn.Module):
    """down(silu(gate x) * up x)."""

    def __init__(self, config: DecoderConfig, scale: float) -> None:
        super().__init__()
        self.gate, self.up = linear(config.width, config.ff_width), linear(config.width, config.ff_width)
        self.down = linear(config.ff_width, config.width, scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class PlainDecoder(nn.Module):
    """A pre-norm decoder whose writers are multiplied by `scale`."""

    def __init__(self, config: DecoderConfig, scale: float) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(config.vocabulary, config.width, dtype=torch.float64))
        nn.init.xavier_uniform_(self.table)
        self.blocks = nn.ModuleList(
            nn.ModuleList((Norm(config), Attention(config, scale), Norm(config), FeedForward(config, scale)))
            for _ in range(config.blocks)
        )
        self.final_norm = Norm(config)
        size = config.head_width
        self.frequencies = config.rope_base ** (-2 * torch.arange(size // 2, dtype=torch.float64) / size)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Logits and the 2L + 1 states of the stream."""
        angles = torch.arange(ids.shape[1], dtype=torch.float64)[:, None] * self.frequencies
        turn = torch.polar(torch.ones_like(angles), angles)
        states = [self.table[ids]]
        for first_norm, attention, second_norm, feed_forward in self.blocks:  # type: ignore[misc]
            states.append(states[-1] + attention(first_norm(states[-1]), turn))
            states.append(states[-1] + feed_forward(second_norm(states[-1])))
        return self.final_norm(states[-1]) @ self.table.T, states


def observe_plain(model: PlainDecoder, ids: torch.Tensor, targets: torch.Tensor) -> list[tuple[float, float]]:
    """Activation and adjoint RMS of every state, for the mean loss over all targets."""
    logits, states = model(ids)
    loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    adjoints = torch.autograd.grad(loss, states)
    return [(rms(state.detach()), rms(adjoint)) for state, adjoint in zip(states, adjoints, strict=True)]


def linear(fan_in: int, fan_out: int, scale: float = 1.0) -> nn.Linear:
    """A matrix without bias, Xavier uniform times `scale`."""
    matrix = nn.Linear(fan_in, fan_out, bias=False, dtype=torch.float64)
    nn.init.xavier_uniform_(matrix.weight, gain=scale)
    return matrix


def rotated(x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Interleaved feature pairs turned by their position's angles."""
    return torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * turn).flatten(-2)
