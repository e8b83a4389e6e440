"""Small decoders written by hand whose every matrix is drawn by a function that a test gives: any fault can be made."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from core.audit.initialization.judge import Judgement, judge
from core.audit.initialization.rebuild import Rebuilder
from core.audit.run import audit

VOCABULARY, HEADS = 41, 4
IDS = (torch.arange(2 * 9).reshape(2, 9) * 7) % VOCABULARY


@dataclass(frozen=True)
class At:
    """Where a matrix stands: its role (query, key, value, output, gate, up, down), block, depth and fans."""

    role: str
    block: int
    blocks: int
    fan_in: int
    fan_out: int

    @property
    def writes(self) -> bool:
        return self.role in ("output", "down")


# The standard deviation of a matrix, by its place.
Std = Callable[[At], float]


def gpt2(at: At, base: float = 0.02) -> float:
    return base / math.sqrt(2 * at.blocks) if at.writes else base


def rms(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Dense(nn.Module):
    """`x W^T`, drawn with std(at); stored [in, out] where `transposed`."""

    def __init__(self, at: At, std: Std, *, transposed: bool = False, draw: Any = None) -> None:
        super().__init__()
        shape = (at.fan_in, at.fan_out) if transposed else (at.fan_out, at.fan_in)
        self.transposed = transposed
        unit = torch.randn(shape) if draw is None else draw(shape)
        self.weight = nn.Parameter(unit * std(at))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight if self.transposed else functional.linear(x, self.weight)


class Mixing(nn.Module):
    def __init__(self, make: Callable[[str, int, int], nn.Module], width: int) -> None:
        super().__init__()
        self.width = width
        self.query, self.key, self.value = (make(role, width, width) for role in ("query", "key", "value"))
        self.output = make("output", width, width)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, _ = x.shape
        q, k, v = (f(x).view(rows, length, HEADS, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(mixed.transpose(1, 2).reshape(rows, length, self.width))


class Gated(nn.Module):
    """SwiGLU."""

    def __init__(self, make: Callable[[str, int, int], nn.Module], width: int, ff: int) -> None:
        super().__init__()
        self.gate, self.up, self.down = make("gate", width, ff), make("up", width, ff), make("down", ff, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Plain(nn.Module):
    def __init__(self, make: Callable[[str, int, int], nn.Module], width: int, ff: int) -> None:
        super().__init__()
        self.up, self.down = make("up", width, ff), make("down", ff, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.gelu(self.up(x)))


class Drawn(nn.Module):
    """Embedding, pre-norm blocks, final norm, head. `forward_factor(block, blocks)` multiplies every contribution."""

    def __init__(
        self,
        std: Std = gpt2,
        *,
        blocks: int = 4,
        width: int = 64,
        ff: int = 172,
        gated: bool = True,
        transposed: bool = False,
        tied: bool = False,
        seed: int = 0,
        forward_factor: Callable[[int, int], float] = lambda block, blocks: 1.0,
        norm_out: bool = False,
        draw: Any = None,
        embedding: float = 1.0,
    ) -> None:
        super().__init__()
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(VOCABULARY, width)
        nn.init.normal_(self.embed.weight, std=embedding)
        self.attention, self.ffn = nn.ModuleList(), nn.ModuleList()
        for block in range(blocks):

            def make(role: str, fan_in: int, fan_out: int, block: int = block) -> nn.Module:
                return Dense(At(role, block, blocks, fan_in, fan_out), std, transposed=transposed, draw=draw)

            self.attention.append(Mixing(make, width))
            self.ffn.append(Gated(make, width, ff) if gated else Plain(make, width, ff))
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        if tied:
            self.head.weight = self.embed.weight
        self.factor, self.norm_out = forward_factor, norm_out
        torch.set_rng_state(state)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        blocks = len(self.attention)
        for block, branches in enumerate(zip(self.attention, self.ffn, strict=True)):
            for branch in branches:
                gained = branch(rms(x))
                gained = rms(gained) if self.norm_out else gained
                factor = self.factor(block, blocks)
                x = x + (gained if factor == 1.0 else factor * gained)
        return self.head(rms(x))


def judged(model: nn.Module, **options: Any) -> Judgement:
    """Audit and judge, on the same ids always."""
    return judge(audit(model, IDS), **options)


def two_depths(std: Std, **options: Any) -> tuple[nn.Module, Rebuilder]:
    """A model, and a source that builds it at another depth."""
    depth = options.pop("blocks", 4)

    def build(blocks: int | None) -> nn.Module:
        return Drawn(std, blocks=depth if blocks is None else blocks, **options)

    return build(None), Rebuilder(build=build, deep=True)


def kinds(judgement: Judgement) -> list[str]:
    return [finding.kind for finding in judgement.findings]


def unscaled_model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """For the command line: a model that scales no writer, and its inputs."""
    return Drawn(lambda at: 0.02, blocks=2, width=32, ff=64), (IDS,)


def gpt2_model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """For the command line: a model that meets GPT-2's rule, and its inputs."""
    return Drawn(gpt2, blocks=2, width=32, ff=64), (IDS,)
