"""Small decoders written by hand, each with one way of carrying a residual stream that hooks on modules miss."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WIDTH, HEADS, FF, VOCABULARY, BLOCKS = 16, 2, 24, 37, 3


def rms(x: Tensor, eps: float = 1e-6) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


class Attention(nn.Module):
    """Causal attention; `weights(in, out)` makes a projection."""

    def __init__(self, project: Callable[[int, int], nn.Module] | None = None) -> None:
        super().__init__()
        project = project or (lambda i, o: nn.Linear(i, o, bias=False))
        self.mix = project(WIDTH, 3 * WIDTH)
        self.out = project(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, _ = x.shape
        q, k, v = (t.view(rows, length, HEADS, -1).transpose(1, 2) for t in self.mix(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH / HEADS)
        scores = scores.masked_fill(~torch.ones(length, length, dtype=torch.bool).tril(), float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, length, WIDTH))


class FeedForward(nn.Module):
    def __init__(self, project: Callable[[int, int], nn.Module] | None = None) -> None:
        super().__init__()
        project = project or (lambda i, o: nn.Linear(i, o))
        self.widen = project(WIDTH, FF)
        self.narrow = project(FF, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.narrow(functional.gelu(self.widen(x)))


class Decoder(nn.Module):
    """Embedding, blocks, final norm, head. A subclass says how a block goes from one state to the next."""

    def __init__(self, blocks: int = BLOCKS, **options: Any) -> None:
        super().__init__()
        self.options = options
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.first = nn.ModuleList(self.attention(block) for block in range(blocks))
        self.second = nn.ModuleList(self.feed_forward(block) for block in range(blocks))
        self.extra(blocks)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def attention(self, block: int) -> nn.Module:
        return Attention()

    def feed_forward(self, block: int) -> nn.Module:
        return FeedForward()

    def extra(self, blocks: int) -> None:
        """Further parameters."""

    def start(self, ids: Tensor) -> Tensor:
        return self.embed(ids)

    def block(self, x: Tensor, block: int) -> Tensor:
        x = x + self.first[block](rms(x))
        return x + self.second[block](rms(x))

    def end(self, x: Tensor) -> Tensor:
        return self.head(self.norm(x))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.start(ids)
        for block in range(len(self.first)):
            x = self.block(x, block)
        return self.end(x)


class InPlace(Decoder):
    def block(self, x: Tensor, block: int) -> Tensor:
        x += self.first[block](rms(x))
        x.add_(self.second[block](rms(x)))
        return x


class InPlaceThroughViews(Decoder):
    def start(self, ids: Tensor) -> Tensor:
        return self.embed(ids).clone()

    def block(self, x: Tensor, block: int) -> Tensor:
        x.view(-1, WIDTH).add_(self.first[block](rms(x)).reshape(-1, WIDTH))
        x[:] = x + self.second[block](rms(x))
        return x


class Tuples(Decoder):
    def block(self, x: Any, block: int) -> Any:
        x = x[0] if isinstance(x, tuple) else x
        x = torch.add(x, self.first[block](rms(x)))
        return (x + self.second[block](rms(x)), {"cache": None}, x.detach())

    def end(self, x: Any) -> Any:
        return {"hidden": x[2], "logits": self.head(self.norm(x[0]))}


class Transposed(nn.Module):
    """A projection stored [in, out]."""

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(fan_in, fan_out) * 0.2)
        self.bias = nn.Parameter(torch.randn(fan_out) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)


class Einsum(nn.Module):
    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(fan_in, fan_out) * 0.2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("btd,df->btf", x, self.weight)


class NoLinear(Decoder):
    def attention(self, block: int) -> nn.Module:
        return Attention(Transposed)

    def feed_forward(self, block: int) -> nn.Module:
        return FeedForward(Einsum)


class Functional(nn.Module):
    """No module at all: one flat dictionary of parameters and one function."""

    def __init__(self, blocks: int = BLOCKS) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(VOCABULARY, WIDTH))
        self.mix = nn.ParameterList(torch.randn(3 * WIDTH, WIDTH) * 0.2 for _ in range(blocks))
        self.out = nn.ParameterList(torch.randn(WIDTH, WIDTH) * 0.2 for _ in range(blocks))
        self.up = nn.ParameterList(torch.randn(FF, WIDTH) * 0.2 for _ in range(blocks))
        self.down = nn.ParameterList(torch.randn(WIDTH, FF) * 0.2 for _ in range(blocks))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table[ids]
        for mix, out, up, down in zip(self.mix, self.out, self.up, self.down, strict=True):
            q, k, v = functional.linear(rms(x), mix).chunk(3, -1)
            x = x + functional.linear(functional.scaled_dot_product_attention(q, k, v, is_causal=True), out)
            x = x + functional.linear(functional.relu(functional.linear(rms(x), up)), down)
        return rms(x) @ self.table.T


class Parallel(Decoder):
    def block(self, x: Tensor, block: int) -> Tensor:
        read = rms(x)
        return x + self.first[block](read) + self.second[block](read)


class ParallelGrouped(Decoder):
    def block(self, x: Tensor, block: int) -> Tensor:
        return (self.first[block](rms(x)) + self.second[block](rms(x))) * 0.5 + x


class Scaled(Decoder):
    """A constant on one branch, a vector that depends on the block on the other, a shortcut scaled too."""

    def extra(self, blocks: int) -> None:
        self.gains = nn.ParameterList(torch.full((WIDTH,), 0.1) * torch.rand(WIDTH) / (b + 1) for b in range(blocks))

    def block(self, x: Tensor, block: int) -> Tensor:
        x = torch.add(x, self.first[block](rms(x)), alpha=0.25)
        return 0.5 * x + self.gains[block] * self.second[block](rms(x))


class ScaledSum(Decoder):
    def block(self, x: Tensor, block: int) -> Tensor:
        x = (x + self.first[block](rms(x))) / math.sqrt(2)
        return torch.addcmul(x, self.second[block](rms(x)), torch.tensor(0.3))


class NormOut(Decoder):
    def extra(self, blocks: int) -> None:
        self.outer = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * blocks))
        for norm in self.outer:
            nn.init.normal_(norm.bias)

    def block(self, x: Tensor, block: int) -> Tensor:
        x = x + self.outer[2 * block](self.first[block](rms(x)))
        return x + 0.5 * rms(self.second[block](x))


class PostNorm(Decoder):
    def extra(self, blocks: int) -> None:
        self.after = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * blocks))

    def block(self, x: Tensor, block: int) -> Tensor:
        x = self.after[2 * block](2.0 * x + self.first[block](x))
        return self.after[2 * block + 1](2.0 * x + self.second[block](x))

    def end(self, x: Tensor) -> Tensor:
        return self.head(x)


class AfterNorm(Decoder):
    """The residual is taken after the norm: h = N(x); x = h + F(h)."""

    def block(self, x: Tensor, block: int) -> Tensor:
        h = rms(x)
        x = h + self.first[block](h)
        h = rms(x)
        return h + self.second[block](h)


class Dropout(Decoder):
    def extra(self, blocks: int) -> None:
        self.drop = nn.Dropout(0.5)

    def block(self, x: Tensor, block: int) -> Tensor:
        x = x + self.drop(self.first[block](self.drop(rms(x))))
        return self.drop(x) + self.drop(self.second[block](rms(x)))


class PositionsFirst(Decoder):
    def start(self, ids: Tensor) -> Tensor:
        return self.embed(ids).transpose(0, 1).contiguous()

    def block(self, x: Tensor, block: int) -> Tensor:
        x = x + self.first[block](rms(x).transpose(0, 1)).transpose(0, 1)
        return x + self.second[block](rms(x))

    def end(self, x: Tensor) -> Tensor:
        return super().end(x.transpose(0, 1))


class Flattened(Decoder):
    def start(self, ids: Tensor) -> Tensor:
        self.length = ids.shape[1]
        return self.embed(ids).view(-1, WIDTH)

    def block(self, x: Tensor, block: int) -> Tensor:
        mixed = self.first[block](rms(x).view(-1, self.length, WIDTH)).reshape(-1, WIDTH)
        x = x + mixed
        return x + self.second[block](rms(x))

    def end(self, x: Tensor) -> Tensor:
        return super().end(x).view(-1, self.length, VOCABULARY)


class ChannelsFirst(nn.Module):
    """Causal convolutions on [B, D, T]; no nn.Linear in the blocks."""

    def __init__(self, blocks: int = BLOCKS) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.mix = nn.ModuleList(nn.Conv1d(WIDTH, FF, 3) for _ in range(blocks))
        self.out = nn.ModuleList(nn.Conv1d(FF, WIDTH, 1) for _ in range(blocks))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids).transpose(1, 2)
        for mix, out in zip(self.mix, self.out, strict=True):
            x = x + out(functional.gelu(mix(functional.pad(x, (2, 0)))))
        return self.head(x.transpose(1, 2))


class Recurrence(nn.Module):
    """A gated linear recurrence along the positions, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.gate, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        values, gates = self.enter(x), torch.sigmoid(self.gate(x))
        state, outputs = torch.zeros_like(values[:, 0]), []
        for position in range(x.shape[1]):
            state = gates[:, position] * state + values[:, position]
            outputs.append(state)
        return self.out(torch.stack(outputs, dim=1) * functional.silu(values))


class StateSpace(Decoder):
    def attention(self, block: int) -> nn.Module:
        return Recurrence()


class Experts(nn.Module):
    """Two of three experts a token, gathered by index, beside a shared one."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 3)
        self.experts = nn.ModuleList(FeedForward() for _ in range(3))
        self.shared = FeedForward()

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, WIDTH)
        weights, chosen = self.router(flat).softmax(-1).topk(2, dim=-1)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            out.index_add_(0, token, expert(flat[token]) * weights[token, place, None])
        return out.view_as(x) + self.shared(x)


class Mixture(Decoder):
    def feed_forward(self, block: int) -> nn.Module:
        return Experts()


class Zero(Decoder):
    """ReZero gates and zero writers: every contribution is exactly 0."""

    def extra(self, blocks: int) -> None:
        self.gates = nn.ParameterList(torch.zeros(1) for _ in range(blocks))
        for branch in self.second:
            nn.init.zeros_(branch.narrow.weight)
            nn.init.zeros_(branch.narrow.bias)

    def block(self, x: Tensor, block: int) -> Tensor:
        x = x + self.gates[block] * self.first[block](rms(x))
        return x + self.second[block](rms(x))


class Shared(Decoder):
    """One block's parameters used again and again."""

    def block(self, x: Tensor, block: int) -> Tensor:
        return super().block(x, 0)

    def __init__(self, blocks: int = BLOCKS) -> None:
        super().__init__(1)
        self.repeats = blocks

    def forward(self, ids: Tensor) -> Tensor:
        x = self.start(ids)
        for _ in range(self.repeats):
            x = self.block(x, 0)
        return self.end(x)


class Skips(Decoder):
    """The first state is brought to every block, and an early state to the last one."""

    def extra(self, blocks: int) -> None:
        self.shares = nn.Parameter(torch.rand(blocks, 2))

    def forward(self, ids: Tensor) -> Tensor:
        x = first = rms(self.start(ids))
        early = None
        for block in range(len(self.first)):
            x = self.shares[block, 0] * x + self.shares[block, 1] * first
            x = self.block(x, block)
            early = x if early is None else early
        return self.end(x + 0.5 * early)


class Unit(Decoder):
    """nGPT's update: h <- unit(h + a (unit(F(h)) - h))."""

    def extra(self, blocks: int) -> None:
        self.rates = nn.ParameterList(torch.full((WIDTH,), 0.05) for _ in range(2 * blocks))

    def start(self, ids: Tensor) -> Tensor:
        return functional.normalize(self.embed(ids), dim=-1)

    def block(self, x: Tensor, block: int) -> Tensor:
        for place, branch in enumerate((self.first[block], self.second[block])):
            target = functional.normalize(branch(x), dim=-1)
            x = functional.normalize(x + self.rates[2 * block + place] * (target - x), dim=-1)
        return x

    def end(self, x: Tensor) -> Tensor:
        return self.head(x)


class Lerp(Decoder):
    def block(self, x: Tensor, block: int) -> Tensor:
        x = torch.lerp(x, self.first[block](rms(x)), 0.1)
        return x - self.second[block](rms(x))


class Fused(Decoder):
    """The writer's product is added to the stream by one fused operation."""

    def block(self, x: Tensor, block: int) -> Tensor:
        x = x + self.first[block](rms(x))
        inner = functional.gelu(self.second[block].widen(rms(x)))
        narrow = self.second[block].narrow
        flat = torch.addmm(x.view(-1, WIDTH), inner.view(-1, FF), narrow.weight.T)
        return flat.view_as(x)


class FusedWithCoefficients(Decoder):
    """Fused operations that scale what they add and what they add it to."""

    def block(self, x: Tensor, block: int) -> Tensor:
        x = torch.addcdiv(x, self.first[block](rms(x)), torch.tensor(4.0))
        inner, narrow = functional.gelu(self.second[block].widen(rms(x))), self.second[block].narrow
        if block % 2 == 0:
            flat = torch.addmm(x.view(-1, WIDTH), inner.view(-1, FF), narrow.weight.T, beta=2.0, alpha=0.5)
            return flat.view_as(x)
        return torch.baddbmm(x, inner, narrow.weight.T.expand(len(x), FF, WIDTH), beta=2.0, alpha=0.5)


class Bounded(Decoder):
    """The stream is kept within a range that it does not leave, and chosen over itself."""

    def block(self, x: Tensor, block: int) -> Tensor:
        x = torch.clamp(x + self.first[block](rms(x)), -6e4, 6e4)
        x = torch.nan_to_num(x + self.second[block](rms(x)))
        present = torch.ones(x.shape[1], 1, dtype=torch.bool)
        return torch.where(present, x, torch.zeros_like(x))


class Clipping(Decoder):
    """The range cuts values off, so the stream is no sum any more."""

    def block(self, x: Tensor, block: int) -> Tensor:
        x = torch.clamp(x + self.first[block](rms(x)), -0.5, 0.5)
        return x + self.second[block](rms(x))


class WeightNorm(Decoder):
    """Writers made of a direction and a length, which are undefined where both are zero."""

    def extra(self, blocks: int) -> None:
        for branch in self.second:
            nn.utils.parametrizations.weight_norm(branch.narrow)


class InsideTheModule(Decoder):
    """A branch's module is handed the residual and returns the next state."""

    def attention(self, block: int) -> nn.Module:
        class Adding(Attention):
            def forward(self, x: Tensor, residual: Tensor) -> Tensor:  # type: ignore[override]
                return residual + super().forward(x)

        return Adding()

    def block(self, x: Tensor, block: int) -> Tensor:
        x = self.first[block](rms(x), x)
        return x + self.second[block](rms(x))


class Chunked(Decoder):
    """The feed-forward runs on pieces of the sequence."""

    def block(self, x: Tensor, block: int) -> Tensor:
        x = x + self.first[block](rms(x))
        return x + torch.cat([self.second[block](rms(piece)) for piece in x.split(5, dim=1)], dim=1)


class EveryOtherToken(Decoder):
    """A fixed mask decides which positions a branch writes to."""

    def block(self, x: Tensor, block: int) -> Tensor:
        x = x + self.first[block](rms(x))
        return x + (torch.arange(x.shape[1]) % 2).to(x.dtype)[:, None] * self.second[block](rms(x))


class Casts(Decoder):
    """Branches in bfloat16, the stream in float32."""

    def block(self, x: Tensor, block: int) -> Tensor:
        x = x + self.first[block](rms(x)).to(torch.bfloat16).to(torch.float32)
        return x + self.second[block](rms(x)).to(torch.bfloat16)


class TorchLayers(nn.Module):
    """torch.nn's own encoder layers, with a causal mask."""

    def __init__(self, blocks: int = BLOCKS, norm_first: bool = True) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, FF, batch_first=True, norm_first=norm_first) for _ in range(blocks)
        )
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return self.head(x)


class Streams(Decoder):
    """Two streams side by side, read and written through weights that the batch decides (hyper-connections)."""

    def extra(self, blocks: int) -> None:
        self.decide = nn.ModuleList(nn.Linear(2 * WIDTH, 8) for _ in range(2 * blocks))

    def start(self, ids: Tensor) -> Tensor:
        return self.embed(ids).unsqueeze(2).repeat(1, 1, 2, 1)

    def block(self, x: Tensor, block: int) -> Tensor:
        for place, branch in enumerate((self.first[block], self.second[block])):
            weights = torch.sigmoid(self.decide[2 * block + place](rms(x.flatten(2))))
            read, write, mix = weights[..., :2], weights[..., 2:4], weights[..., 4:].unflatten(-1, (2, 2))
            out = branch(rms((read.unsqueeze(-1) * x).sum(2)))
            x = write.unsqueeze(-1) * out.unsqueeze(2) + torch.matmul(mix, x)
        return x

    def end(self, x: Tensor) -> Tensor:
        return super().end(x.sum(2))


class Highway(Decoder):
    """x <- (1 - t) x + t F(x), t a gate that the batch decides."""

    def extra(self, blocks: int) -> None:
        self.gate = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(blocks))

    def block(self, x: Tensor, block: int) -> Tensor:
        t = torch.sigmoid(self.gate[block](x))
        x = (1 - t) * x + t * self.first[block](rms(x))
        return x + self.second[block](rms(x))


class Features(Decoder):
    """Reads floating features [B, T, D] in place of token ids."""

    def forward(self, features: Tensor) -> Tensor:
        x = features
        for block in range(len(self.first)):
            x = self.block(x, block)
        return self.end(x)


@torch.jit.script
def add_scripted(x: Tensor, y: Tensor, scale: float) -> Tensor:
    out = torch.dropout(y * scale, 0.1, False)
    return x + out


class Scripted(Decoder):
    def block(self, x: Tensor, block: int) -> Tensor:
        x = add_scripted(x, self.first[block](rms(x)), 0.5)
        return add_scripted(x, self.second[block](rms(x)), 1.0)


class Square(torch.autograd.Function):
    """A function with a derivative written by hand, as fused kernels have."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return 2 * ctx.saved_tensors[0] * gradients[0]


class Custom(Decoder):
    def block(self, x: Tensor, block: int) -> Tensor:
        x = x + self.first[block](rms(x))
        inner = self.second[block]
        return x + inner.narrow(Square.apply(inner.widen(rms(x))))


class StackedSum(Decoder):
    """Additions written as a sum over a stack, and by Python's own `sum`."""

    def block(self, x: Tensor, block: int) -> Tensor:
        x = torch.stack([x, self.first[block](rms(x))]).sum(0)
        return sum([x, self.second[block](rms(x))])


class Autocast(Decoder):
    def forward(self, ids: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(ids)


class Checkpointed(Decoder):
    def block(self, x: Tensor, block: int) -> Tensor:
        return checkpoint(lambda y: Decoder.block(self, y, block), x, use_reentrant=False)


class Hidden(Decoder):
    """Reentrant checkpointing hides the block inside a function with a custom derivative."""

    def block(self, x: Tensor, block: int) -> Tensor:
        return checkpoint(lambda y: Decoder.block(self, y, block), x, use_reentrant=True)


class HiddenBranch(Decoder):
    """Reentrant checkpointing of a branch alone; its reverse pass refuses to be asked for some gradients."""

    def block(self, x: Tensor, block: int) -> Tensor:
        x = x + self.first[block](rms(x))
        return x + checkpoint(lambda y: self.second[block](rms(y)), x, use_reentrant=True)


class Fourier(Decoder):
    """Positions are mixed by a transform without parameters."""

    def block(self, x: Tensor, block: int) -> Tensor:
        x = x + torch.fft.fft(torch.fft.fft(rms(x), dim=-1), dim=-2).real
        return x + self.second[block](rms(x))


class OneVector(nn.Module):
    """Every matrix is a view of one flat parameter."""

    def __init__(self, blocks: int = BLOCKS) -> None:
        super().__init__()
        self.blocks = blocks
        self.theta = nn.Parameter(torch.randn(VOCABULARY * WIDTH + blocks * 2 * WIDTH * FF) * 0.1)

    def forward(self, ids: Tensor) -> Tensor:
        table, *rest = self.theta.split([VOCABULARY * WIDTH] + [WIDTH * FF] * 2 * self.blocks)
        x = table.view(VOCABULARY, WIDTH)[ids]
        for up, down in zip(rest[::2], rest[1::2], strict=True):
            x = x + functional.gelu(rms(x) @ up.view(WIDTH, FF)) @ down.view(FF, WIDTH)
        return x @ table.view(VOCABULARY, WIDTH).T


class LastPosition(Decoder):
    """Answers for the last position alone, as generation code does."""

    def end(self, x: Tensor) -> Any:
        return super().end(x[:, [-1]]), None


class CrossAttention(Decoder):
    """A decoder whose blocks read a memory too: three additions a block."""

    def extra(self, blocks: int) -> None:
        self.memory = nn.Embedding(VOCABULARY, WIDTH)
        self.cross = nn.ModuleList(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(blocks))

    def forward(self, ids: Tensor) -> Tensor:
        x, memory = self.start(ids), self.memory(ids)
        for block in range(len(self.first)):
            x = x + self.first[block](rms(x))
            x = x + self.cross[block](rms(x), memory, memory)[0]
            x = x + self.second[block](rms(x))
        return self.end(x)


class ValueRoute(Decoder):
    """The first block's values reach every later attention."""

    def forward(self, ids: Tensor) -> Tensor:
        x, first = self.start(ids), None
        for mixer, narrow in zip(self.first, self.second, strict=True):
            q, k, v = mixer.mix(rms(x)).chunk(3, -1)
            first = v if first is None else first
            v = 0.5 * v + 0.5 * first
            x = x + mixer.out(functional.scaled_dot_product_attention(q, k, v, is_causal=True))
            x = x + narrow(rms(x))
        return self.end(x)


class Gated(Decoder):
    """Coefficients are functions of parameters."""

    def extra(self, blocks: int) -> None:
        self.gates = nn.ParameterList(torch.tensor([0.1 * (b + 1)]) for b in range(blocks))

    def block(self, x: Tensor, block: int) -> Tensor:
        a = torch.tanh(self.gates[block])
        x = x + torch.sigmoid(self.gates[block]) * self.first[block](rms(x))
        return (1 - a) * x + a * self.second[block](rms(x))


class BareBranches(Decoder):
    """No output projection and no down projection: the branch ends in the values, and in an activation."""

    def block(self, x: Tensor, block: int) -> Tensor:
        q, k, v = self.first[block].mix(rms(x)).chunk(3, -1)
        x = x + functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + functional.relu(functional.linear(rms(x), self.first[block].out.weight))


class Positions(Decoder):
    """A learned position vector joins the stream in every block."""

    def extra(self, blocks: int) -> None:
        self.position = nn.Parameter(torch.randn(32, WIDTH))

    def block(self, x: Tensor, block: int) -> Tensor:
        return super().block(x + self.position[: x.shape[1]], block)


class Mutating(Decoder):
    """A forward that leaves traces: a buffer, a counter, a weight it rescales, and draws from three generators."""

    def extra(self, blocks: int) -> None:
        self.register_buffer("count", torch.zeros(()))
        self.calls = 0

    def start(self, ids: Tensor) -> Tensor:
        self.count += 1
        self.calls += 1
        torch.rand(3)
        random.random()
        np.random.rand()  # noqa: NPY002
        with torch.no_grad():
            self.second[0].narrow.weight.mul_(0.5)
        return super().start(ids)


class Silent(Decoder):
    """A block of the model that never runs."""

    def forward(self, ids: Tensor) -> Tensor:
        x = self.start(ids)
        for block in range(len(self.first)):
            x = x if block == 1 else self.block(x, block)
        return self.end(x)


class Detached(Decoder):
    def block(self, x: Tensor, block: int) -> Tensor:
        return super().block(x.detach() if block == 1 else x, block)


class WithoutGradients(Decoder):
    @torch.no_grad()
    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids)


class NoResidual(Decoder):
    def block(self, x: Tensor, block: int) -> Tensor:
        return self.second[block](self.first[block](rms(x)))
