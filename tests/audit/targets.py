"""Models of other kinds than decoders: images, reconstructions, encoders beside decoders, conditions, caches."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, HEADS, BLOCKS, VOCABULARY = 24, 3, 3, 31


class Mix(nn.Module):
    """Attention over the positions of `memory`, its own where there is none; written with a softmax."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        k, v = self.kv(x if memory is None else memory).chunk(2, -1)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (self.q(x), k, v))
        scores = (q @ k.transpose(-1, -2) / 3.0 + self.bias(q.shape[-2], k.shape[-2])).softmax(-1)
        return self.out((scores @ v).transpose(1, 2).flatten(2))

    def bias(self, rows: int, columns: int) -> Tensor:
        return torch.zeros(rows, columns)


class Dense(nn.Module):
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.gelu(self.up(x)))


class Layer(nn.Module):
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.dense = Mix(width), Dense(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix(self.first(x))
        return x + self.dense(self.second(x))


def layers(count: int = BLOCKS, width: int = WIDTH) -> nn.ModuleList:
    return nn.ModuleList(Layer(width) for _ in range(count))


class Picture(nn.Module):
    """Patches of an image and a class token; `labelled` returns a scalar loss, else logits of classes."""

    def __init__(self, labelled: bool = True) -> None:
        super().__init__()
        self.labelled = labelled
        self.patch, self.token = nn.Conv2d(3, WIDTH, 4, 4), nn.Parameter(torch.randn(1, 1, WIDTH))
        self.layers, self.head = layers(), nn.Linear(WIDTH, 5)

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.patch(pixels).flatten(2).mT
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(x[:, 0])
        return functional.cross_entropy(logits, torch.arange(len(pixels))) if self.labelled else logits


class Convolutions(nn.Module):
    """Two stages of different widths and sizes, features on axis 1, a depthwise and two pointwise convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 2, 2)
        self.join = nn.Conv2d(8, 12, 2, 2)
        self.stages = nn.ModuleList(nn.ModuleList(self.cell(width) for _ in range(2)) for width in (8, 12))
        self.head = nn.Linear(12, 4)

    def cell(self, width: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, groups=width),
            nn.Conv2d(width, 2 * width, 1),
            nn.GELU(),
            nn.Conv2d(2 * width, width, 1),
        )

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.stem(pixels)
        for number, stage in enumerate(self.stages):
            x = self.join(x) if number else x
            for cell in stage:  # type: ignore[attr-defined]
                x = x + cell(x)
        return self.head(x.mean((2, 3)))


class Reconstruction(nn.Module):
    """A loss against the model's own input; without `residual` that difference is the only addition there is."""

    def __init__(self, residual: bool = True) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(6, WIDTH), nn.Linear(WIDTH, 6)
        self.layers = layers()
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        h = self.enter(x)
        for layer in self.layers:
            h = layer(h) if self.residual else layer.dense(h)
        return (self.leave(h) - x).square().mean()


class Both(nn.Module):
    """An encoder over features and a decoder over tokens that reads it by cross-attention."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.embed = nn.Linear(7, WIDTH), nn.Embedding(VOCABULARY, WIDTH)
        self.encoder, self.decoder = layers(2), layers(BLOCKS)
        self.cross = nn.ModuleList(Mix() for _ in range(BLOCKS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids: Tensor, features: Tensor) -> Tensor:
        memory = self.enter(features)
        for layer in self.encoder:
            memory = layer(memory)
        x = self.embed(input_ids)
        for layer, cross in zip(self.decoder, self.cross, strict=True):
            x = x + layer.mix(layer.first(x))  # type: ignore[operator]
            x = x + cross(functional.layer_norm(x, (WIDTH,)), memory)
            x = x + layer.dense(layer.second(x))  # type: ignore[operator]
        return self.head(x)


class Text(nn.Module):
    """Tokens in, logits out."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.layers, self.head = nn.Embedding(VOCABULARY, WIDTH), self.made(), nn.Linear(WIDTH, VOCABULARY)

    def made(self) -> nn.ModuleList:
        return layers()

    def forward(self, ids: Tensor) -> Any:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@functools.lru_cache(8)
def kept_bias(rows: int, columns: int) -> Tensor:
    return torch.where(torch.arange(rows)[:, None] >= torch.arange(columns), 0.0, -1e9)


class Caching(Text):
    """The mask is built at the first forward and kept in a cache of the module's file."""

    def made(self) -> nn.ModuleList:
        found = layers()
        for layer in found:
            layer.mix.bias = kept_bias
        return found


class Inner(Text):
    """A derivative is taken inside the forward by torch.func."""

    def forward(self, ids: Tensor) -> Any:
        weight = self.layers[0].dense.up.weight.detach()  # type: ignore[union-attr]
        slope = torch.func.grad(lambda w: (w * w).sum())(weight)
        return super().forward(ids) + 0.0 * slope.mean()


class Conditioned(nn.Module):
    """adaLN: shifts, scales and gates of both branches come from one matrix over a condition."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.time, self.layers = nn.Linear(6, WIDTH), nn.Linear(4, WIDTH), layers()
        self.change = nn.ModuleList(nn.Linear(WIDTH, 4 * WIDTH) for _ in range(BLOCKS))
        self.leave = nn.Linear(WIDTH, 6)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        h, condition = self.enter(x), functional.silu(self.time(time))
        for layer, change in zip(self.layers, self.change, strict=True):
            shift, scale, one, two = change(condition).unsqueeze(1).chunk(4, -1)
            h = h + one * layer.mix(layer.first(h) * (1 + scale) + shift)  # type: ignore[operator]
            h = h + two * layer.dense(layer.second(h))  # type: ignore[operator]
        return self.leave(h)


class Sublayer(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(WIDTH), inner

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(self.norm(x))


class Flat(Text):
    """Attention and feed-forward alternate in one flat list."""

    def made(self) -> nn.ModuleList:
        return nn.ModuleList(Sublayer(inner) for _ in range(BLOCKS) for inner in (Mix(), Dense()))


class Tokens(nn.Module):
    """Mixes patches by a feed-forward over positions, then channels by one over features."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.head = nn.Conv2d(3, WIDTH, 4, 4), nn.Linear(WIDTH, 5)
        self.layers = nn.ModuleList(nn.ModuleList([Dense(16), Dense()]) for _ in range(BLOCKS))

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.patch(pixels).flatten(2).mT
        for across, within in self.layers:  # type: ignore[misc]
            x = x + across(functional.layer_norm(x, (WIDTH,)).mT).mT
            x = x + within(functional.layer_norm(x, (WIDTH,)))
        return self.head(x.mean(1))


class Means(Text):
    """Norms written out: the mean that they subtract is no branch, and a part of the state is filled in place."""

    def forward(self, ids: Tensor) -> Any:
        x = self.embed(ids)
        for layer in self.layers:
            x = self.norm(x + layer.mix(x), layer.first)  # type: ignore[operator]
            x = self.norm(x + layer.dense(x), layer.second)  # type: ignore[operator]
        return self.head(x)

    def norm(self, x: Tensor, like: nn.Module) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        square = (x - mean).pow(2).mean(-1, keepdim=True)
        return like.weight * ((x - mean) / torch.sqrt(square + 1e-6)) + like.bias  # type: ignore[operator]


class Filled(Text):
    """A part of the logits is filled in place."""

    def forward(self, ids: Tensor) -> Any:
        logits = super().forward(ids).clone()
        logits[:, :2].fill_(0.0)
        return logits


class Lost(Text):
    """The feed-forward adds its own output to itself, so the stream ends in every block."""

    def forward(self, ids: Tensor) -> Any:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer.first(x + layer.mix(x))  # type: ignore[operator]
            y = layer.dense(x)  # type: ignore[operator]
            x = layer.second(y + y)  # type: ignore[operator]
        return self.head(x)
