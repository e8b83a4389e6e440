"""Small decoders that carry, each, one fault of an initialization or of a stream, with the healthy model beside it.

Every function returns a model. Widths are small; the shape of a fault does not depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

BLOCKS, WIDTH, HEADS, WORDS = 4, 32, 4, 53
WIDE = 4 * WIDTH
ALPHA, BETA = (2 * BLOCKS) ** 0.25, (8 * BLOCKS) ** -0.25


def dense(fan_in: int, fan_out: int, std: float) -> nn.Linear:
    made = nn.Linear(fan_in, fan_out, bias=False)
    nn.init.normal_(made.weight, std=std)
    return made


class Heads(nn.Module):
    """Causal attention with separate or fused query, key and value."""

    def __init__(self, std: float, writer: float, *, fused: bool = False, value: float | None = None) -> None:
        super().__init__()
        value = std if value is None else value
        stds = {"query": std, "key": std, "value": value}
        self.fused = dense(WIDTH, 3 * WIDTH, std) if fused else None
        if self.fused is not None:
            nn.init.normal_(self.fused.weight[2 * WIDTH :].detach(), std=value)
        else:
            for name, each in stds.items():
                setattr(self, name, dense(WIDTH, WIDTH, each))
        self.output = dense(WIDTH, WIDTH, writer)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, _ = x.shape
        parts = [self.query(x), self.key(x), self.value(x)] if self.fused is None else self.fused(x).chunk(3, -1)
        query, key, value = (part.view(rows, length, HEADS, -1).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(mixed.transpose(1, 2).reshape(rows, length, WIDTH))


class Gelu(nn.Module):
    def __init__(self, std: float, writer: float) -> None:
        super().__init__()
        self.up, self.down = dense(WIDTH, WIDE, std), dense(WIDE, WIDTH, writer)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.gelu(self.up(x)))


class Swiglu(nn.Module):
    def __init__(self, std: float, writer: float) -> None:
        super().__init__()
        self.gate, self.up, self.down = dense(WIDTH, WIDE, std), dense(WIDTH, WIDE, std), dense(WIDE, WIDTH, writer)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    """Two branches with their norms; `step` takes a layer and a state and returns the next state."""

    def __init__(self, step: Callable[[Layer, Tensor], Tensor], mix: nn.Module, feed: nn.Module) -> None:
        super().__init__()
        self.step, self.mix, self.feed = step, mix, feed
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.step(self, x)


class Stack(nn.Module):
    """Table, layers, norm, head; `factor` multiplies the table's rows."""

    def __init__(
        self, layer: Callable[[], nn.Module], *, blocks: int = BLOCKS, table: float = 0.02, factor: float = 1.0
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        nn.init.normal_(self.table.weight, std=table)
        self.layers = nn.ModuleList(layer() for _ in range(blocks))
        self.norm, self.head, self.factor = nn.LayerNorm(WIDTH), dense(WIDTH, WORDS, 0.02), factor

    def start(self, ids: Tensor) -> Tensor:
        return self.table(ids) * self.factor if self.factor != 1 else self.table(ids)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.start(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x.to(self.head.weight.dtype)))


def pre_norm(layer: Layer, x: Tensor) -> Tensor:
    x = x + layer.mix(layer.first(x))
    return x + layer.feed(layer.second(x))


def post_norm(layer: Layer, x: Tensor) -> Tensor:
    x = layer.first(x + layer.mix(x))
    return layer.second(x + layer.feed(x))


def overwritten(layer: Layer, x: Tensor) -> Tensor:
    x = layer.first(x + layer.mix(x))
    return layer.second(2 * layer.feed(x))


def no_second_shortcut(layer: Layer, x: Tensor) -> Tensor:
    x = x + layer.mix(layer.first(x))
    return layer.feed(layer.second(x))


def half_behind_norm(layer: Layer, x: Tensor) -> Tensor:
    x = layer.second(x + layer.mix(layer.first(x)))
    return x + layer.feed(x)


def in_bfloat16(layer: Layer, x: Tensor) -> Tensor:
    x = (x.float() + layer.mix(layer.first(x.float()))).bfloat16()
    return (x.float() + layer.feed(layer.second(x.float()))).bfloat16()


def parallel(layer: Layer, x: Tensor) -> Tensor:
    return x + layer.mix(layer.first(x)) + layer.feed(layer.second(x))


def deep_norm(layer: Layer, x: Tensor) -> Tensor:
    x = layer.first(ALPHA * x + layer.mix(x))
    return layer.second(ALPHA * x + layer.feed(x))


def alpha_on_branch(layer: Layer, x: Tensor) -> Tensor:
    x = x + ALPHA * layer.mix(x)
    return x + ALPHA * layer.feed(x)


def half_steps(layer: Layer, x: Tensor) -> Tensor:
    x = x + 0.5 * layer.feed(layer.second(x))
    return x + layer.mix(layer.first(x))


def gpt2_std(blocks: int = BLOCKS) -> float:
    return 0.02 * (2 * blocks) ** -0.5


def stack(
    step: Callable[[Layer, Tensor], Tensor] = pre_norm,
    *,
    writer: float = gpt2_std(),
    feed: Callable[[float, float], nn.Module] = Gelu,
    **options: float,
) -> Stack:
    return Stack(lambda: Layer(step, Heads(0.02, writer), feed(0.02, writer)), **options)  # type: ignore[arg-type]


def narrow() -> Stack:
    """A stack whose stream is rounded to bfloat16 from the table on."""
    made = stack(in_bfloat16)
    made.table = made.table.bfloat16()
    return made


def deepnorm(
    step: Callable[[Layer, Tensor], Tensor] = deep_norm, *, fused: bool = False, value: float = BETA
) -> Stack:  # fmt: skip
    """DeepNorm's weights: Xavier's, times beta on value, output, up and down."""
    square, tall = WIDTH**-0.5, (2 / (WIDTH + WIDE)) ** 0.5
    made = Stack(
        lambda: Layer(
            step, Heads(square, square * BETA, fused=fused, value=square * value), Gelu(tall * BETA, tall * BETA)
        )
    )
    made.norm = nn.Identity()  # type: ignore[assignment]
    return made


class Gained(Layer):
    """LayerScale: one learned gain a channel on each branch."""

    def __init__(self, first: float, second: float) -> None:
        super().__init__(pre_norm, Heads(0.02, 0.02), Gelu(0.02, 0.02))
        self.gain_mix, self.gain_feed = (nn.Parameter(torch.full((WIDTH,), value)) for value in (first, second))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.gain_mix * self.mix(self.first(x))
        return x + self.gain_feed * self.feed(self.second(x))


class Conditioned(Layer):
    """adaLN: one matrix makes the gates of both branches from a condition, for the model that holds it."""

    def __init__(self, *, zero: bool) -> None:
        super().__init__(pre_norm, Heads(0.02, 0.02), Gelu(0.02, 0.02))
        self.modulation = nn.Linear(WIDTH, 2 * WIDTH)
        if zero:
            nn.init.zeros_(self.modulation.weight)
            nn.init.zeros_(self.modulation.bias)


class Conditional(Stack):
    """A stack whose gates are made from the rows' first tokens, before the first layer."""

    def __init__(self, *, zero: bool) -> None:
        super().__init__(lambda: Conditioned(zero=zero))
        self.condition = nn.Embedding(WORDS, WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        given, x = functional.silu(self.condition(ids[:, 0]))[:, None], self.start(ids)
        for layer in self.layers:
            one, two = layer.modulation(given).chunk(2, -1)
            x = x + one * layer.mix(layer.first(x))
            x = x + two * layer.feed(layer.second(x))
        return self.head(self.norm(x))


def fewer_heads(share: int) -> Stack:
    """Every matrix by its fan-in and the writers by depth, the output projection by a share of its heads."""

    def layer() -> Layer:
        made = Layer(pre_norm, Heads(WIDTH**-0.5, 0.0), Gelu(WIDTH**-0.5, (2 * BLOCKS * WIDE) ** -0.5))
        nn.init.normal_(made.mix.output.weight, std=(2 * BLOCKS * WIDTH / share) ** -0.5)
        return made

    return Stack(layer)


def clip_like() -> Stack:
    """CLIP's text tower as one library draws it: query, key and value scaled by depth, the output projection not."""
    base, depth = WIDTH**-0.5, (2 * BLOCKS) ** -0.5

    def layer() -> Layer:
        return Layer(pre_norm, Heads(base * depth, base), Gelu((2 * WIDTH) ** -0.5, base * depth))

    return Stack(layer)


def zero_inside(name: str) -> Stack:
    """Gated feed-forwards of which one matrix, the gate or the up projection, is zero."""
    made = stack(feed=Swiglu)
    for layer in made.layers:
        nn.init.zeros_(getattr(layer.feed, name).weight)
    return made


class Routed(Layer):
    """A feed-forward scaled by its token's score against a vector drawn at 1."""

    def __init__(self) -> None:
        fan = 1 / math.sqrt(3)
        super().__init__(
            pre_norm, Heads(fan * WIDTH**-0.5, fan * WIDTH**-0.5), Gelu(fan * WIDTH**-0.5, fan * WIDE**-0.5)
        )
        self.token = nn.Parameter(torch.randn(1, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix(self.first(x))
        read = self.second(x)
        return x + torch.sigmoid(read @ self.token.t()) * self.feed(read)


def repeated(parts: int, axis: int) -> Stack:
    """A healthy stack whose up projections hold one draw in every part, as shards that were seeded alike do."""
    made = stack()
    for layer in made.layers:
        weight = layer.feed.up.weight
        with torch.no_grad():
            weight.copy_(torch.cat([weight.chunk(parts, axis)[0]] * parts, axis))
    return made


class Translator(nn.Module):
    """torch's own encoder-decoder on one table; its cross-attention uses slices of a jointly drawn matrix."""

    def __init__(self, *, norm_first: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.body = nn.Transformer(WIDTH, HEADS, 2, 2, WIDE, 0.0, batch_first=True, norm_first=norm_first)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        return self.head(self.body(x, x))


def macaron(depth: int = 2) -> Stack:
    """Half steps at any depth: 0.5 is a depth law by coincidence at 2 and at 4 blocks, and at no two."""
    return stack(half_steps, writer=0.02, blocks=depth)


def deepening(num_layers: int) -> Stack:
    """GPT-2's rule at the depth that is asked for; the depth has no default."""
    return stack(writer=gpt2_std(num_layers), blocks=num_layers)


def counted_as_eight(n_layer: int = 4) -> Stack:
    """Writers scaled for eight blocks, whatever the depth is."""
    return stack(writer=gpt2_std(8), blocks=n_layer)


def no_depth(blocks: str = "four") -> Stack:
    """An argument named as a depth that is none."""
    return stack()


def plain() -> Layer:
    """A layer as torch.nn.Linear draws its matrices."""
    made = Layer(pre_norm, Heads(1.0, 1.0), Gelu(1.0, 1.0))
    for module in made.modules():
        if isinstance(module, nn.Linear):
            module.reset_parameters()
    return made


def indexed() -> Stack:
    """Every matrix by its fan-in, the writers by the index of their block too."""
    made = fewer_heads(1)
    for block, layer in enumerate(made.layers):
        for writer in (layer.mix.output, layer.feed.down):
            nn.init.normal_(writer.weight, std=(2 * (block + 1) * writer.in_features) ** -0.5)
    return made


# Healthy models by kind: how to build one, the rule to judge it by, and the right verdict.
HEALTHY: dict[str, tuple[Callable[[], nn.Module], str, str]] = {
    "pre-norm": (stack, "auto", "applied"),
    "gated": (lambda: stack(feed=Swiglu), "auto", "applied"),
    "unscaled": (lambda: stack(writer=0.02), "auto", "no-rule-declared"),
    "torch's own draw": (lambda: Stack(plain), "auto", "no-rule-declared"),
    "block-indexed": (indexed, "auto", "applied"),
    "parallel": (lambda: stack(parallel), "auto", "applied"),
    "post-norm": (lambda: stack(post_norm, writer=0.02), "auto", "no-rule-declared"),
    "deepnorm": (deepnorm, "auto", "applied"),
    "deepnorm declared": (deepnorm, "deepnorm", "applied"),
    "deepnorm fused": (lambda: deepnorm(fused=True), "auto", "applied"),
    "layerscale": (lambda: Stack(lambda: Gained(0.1, 0.1)), "layerscale", "applied"),
    "adaLN-Zero": (lambda: Conditional(zero=True), "auto", "zero-by-construction"),
    "adaLN-Zero declared": (lambda: Conditional(zero=True), "rezero", "zero-by-construction"),
    "scaled table": (lambda: stack(table=WIDTH**-0.5, factor=WIDTH**0.5), "auto", "applied"),
    "all heads": (lambda: fewer_heads(1), "gpt2", "applied"),
    "router's token": (lambda: Stack(Routed), "auto", "no-rule-declared"),
    "macaron of 2": (lambda: stack(half_steps, writer=0.02, blocks=2), "auto", "no-rule-declared"),
    "macaron of 4": (lambda: stack(half_steps, writer=0.02), "auto", "no-rule-declared"),
    "encoder-decoder": (lambda: Translator(norm_first=True), "auto", "no-rule-declared"),
    "encoder-decoder post-norm": (lambda: Translator(norm_first=False), "auto", "no-rule-declared"),
}
