"""Plain reference decoder: one member, one row, one position and one head at a time, every recipe a branch.

It is slow and obvious on purpose. `observe_plain` draws, builds and observes; `observe_parameters` does so for given
parameters. Adjoints are autograd's gradients of the mean loss at the state vectors themselves, all paths summed.
Statistics are taken over valid positions only, in two passes with scaling by the largest magnitude.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tests.oracles.plain_weights import Sizes, plain_base_draw, plain_recipe_weights

RECIPES = (
    "unscaled", "depth-scaled", "gpt2", "zero-writer", "block-indexed", "lingua-global", "wang", "ds-init", "lns",
    "completep", "layerscale", "rezero", "skipinit", "fixup", "deepscalelm", "post-norm", "deepnorm", "admin",
    "peri-norm", "parallel", "normformer", "realformer", "ngpt", "dyt", "mup",
)  # fmt: skip
POST_NORM = ("post-norm", "deepnorm", "admin")
Parameters = dict[str, Tensor]
Nudge = tuple[str, int, int, int, float]


@dataclass(frozen=True)
class Row:
    """One row: ids, targets, which positions count, and the segment of each."""

    inputs: list[int]
    targets: list[int]
    valid: list[bool]
    segments: list[int]

    def positions(self) -> list[int]:
        """Positions counted from the start of each segment."""
        return [position - self.segments.index(segment) for position, segment in enumerate(self.segments)]

    def seen(self, position: int) -> list[int]:
        """The position itself and every earlier one of its segment."""
        return [earlier for earlier in range(position + 1) if self.segments[earlier] == self.segments[position]]


@dataclass
class RowTape:
    """What one row's forward leaves behind: labelled states, additions and the loss of each valid target."""

    states: list[tuple[str, list[Tensor]]] = field(default_factory=list)
    additions: list[tuple[str, str, list[Tensor], list[Tensor], list[Tensor]]] = field(default_factory=list)
    losses: list[Tensor] = field(default_factory=list)


class PlainRow:
    """The forward of one row under one recipe; `shortcuts` holds Admin's w_i, one an addition."""

    def __init__(
        self, recipe: str, sizes: Sizes, parameters: Parameters, row: Row, shortcuts: Sequence[float], nudge: Any
    ) -> None:
        self.recipe, self.sizes, self.parameters, self.row = recipe, sizes, parameters, row
        self.shortcuts, self.nudge = shortcuts, nudge
        self.route: dict[tuple[int, int], Tensor] = {}
        self.tape = RowTape()

    def run(self) -> RowTape:
        """Embed, add every branch, and take the loss."""
        x = self.record("input", self.embed())
        for block in range(self.sizes.blocks):
            if self.recipe == "parallel":
                x = self.parallel(x, block)
                continue
            x = self.addition(x, block, "attention")
            x = self.addition(x, block, "feed_forward")
        self.read_out(x)
        return self.tape

    def embed(self) -> list[Tensor]:
        """State 0 of every position."""
        states = []
        for token, position in zip(self.row.inputs, self.row.positions(), strict=True):
            state = self.parameters["token_embedding.weight"][token]
            if self.recipe == "dyt":
                state = state * math.sqrt(self.sizes.width)
            if self.sizes.position_encoding == "learned":
                state = state + self.parameters["position_embedding.weight"][position]
            states.append(state.clone().requires_grad_())
        return states

    def record(self, label: str, states: list[Tensor]) -> list[Tensor]:
        """Keep the states of a site; a nudge for this site moves one coordinate first."""
        if self.nudge is not None and self.nudge[0] == label:
            _, position, feature, delta = self.nudge
            bump = torch.zeros(self.sizes.width, dtype=torch.float64)
            bump[feature] = delta
            states = [state + bump if t == position else state for t, state in enumerate(states)]
        self.tape.states.append((label, states))
        return states

    def addition(self, x: list[Tensor], block: int, branch: str) -> list[Tensor]:
        """One residual addition: read, branch, contribution, shortcut, and a norm on the sum where there is one."""
        label = f"block.{block}.after_{branch}"
        raw = self.branch(x, block, branch)
        contribution = [self.contribute(value, branch) for value in raw]
        stream = [self.shortcut(value, 2 * block + (branch == "feed_forward")) for value in x]
        self.tape.additions.append((label, branch, raw, contribution, stream))
        after = [a + b for a, b in zip(stream, contribution, strict=True)]
        if self.recipe in POST_NORM:
            after = [self.norm(value, norm_name(block, branch)) for value in after]
        if self.recipe == "ngpt":
            after = [unit(value) for value in after]
        return self.record(label, after)

    def parallel(self, x: list[Tensor], block: int) -> list[Tensor]:
        """Both branches read the same state and are added together."""
        label, after = f"block.{block}.after_parallel", x
        for branch in ("attention", "feed_forward"):
            raw = self.branch(x, block, branch)
            self.tape.additions.append((label, branch, raw, raw, x))
            after = [a + b for a, b in zip(after, raw, strict=True)]
        return self.record(label, after)

    def branch(self, x: list[Tensor], block: int, branch: str) -> list[Tensor]:
        """The branch's own output on what it reads."""
        read = [self.read(value, block, branch) for value in x]
        if branch == "attention":
            return self.attention(read, block)
        return [self.feed_forward(value, block) for value in read]

    def read(self, x: Tensor, block: int, branch: str) -> Tensor:
        """What a branch reads of the state."""
        if self.recipe in (*POST_NORM, "skipinit", "fixup", "ngpt"):
            return x
        normed = self.norm(x, norm_name(block, branch))
        return normed / math.sqrt(block + 1) if self.recipe == "lns" else normed

    def contribute(self, raw: Tensor, branch: str) -> Tensor:
        """What is added of a branch's output."""
        layers = self.sizes.blocks
        if self.recipe == "completep":
            return raw / (layers / 2)
        if self.recipe == "layerscale":
            return raw * (0.1 if layers <= 18 else 1e-5 if layers <= 24 else 1e-6)
        if self.recipe in ("rezero", "skipinit"):
            return raw * 0.0
        if self.recipe == "deepscalelm":
            return raw * math.sqrt(1 / layers)
        if self.recipe == "peri-norm" or (self.recipe == "normformer" and branch == "attention"):
            return self.norm(raw, None)
        if self.recipe == "ngpt":
            return unit(raw) * 0.05
        return raw

    def shortcut(self, x: Tensor, index: int) -> Tensor:
        """The shortcut term of addition `index`."""
        layers = self.sizes.blocks
        if self.recipe == "deepscalelm":
            return x * math.sqrt(1 - 1 / layers)
        if self.recipe == "deepnorm":
            return x * (2 * layers) ** 0.25
        if self.recipe == "admin":
            return x * self.shortcuts[index]
        if self.recipe == "ngpt":
            return x * 0.95
        return x

    def norm(self, x: Tensor, name: str | None) -> Tensor:
        """The norm `name`, or one with unit gain that owns no parameter."""
        if self.recipe == "dyt":
            return torch.tanh(0.5 * x)
        if self.sizes.norm == "layernorm":
            x = x - x.sum() / len(x)
        x = x / torch.sqrt((x * x).sum() / len(x) + self.sizes.rms_epsilon)
        if name is None:
            return x
        x = x * self.parameters[f"{name}.gain"]
        return x + self.parameters[f"{name}.bias"] if self.sizes.norm == "layernorm" else x

    def apply(self, x: Tensor, name: str) -> Tensor:
        """A matrix stored `[fan_in, fan_out]`, with its bias where there is one."""
        out = x @ self.parameters[f"{name}.weight"]
        return out + self.parameters[f"{name}.bias"] if self.sizes.bias else out

    def attention(self, read: list[Tensor], block: int) -> list[Tensor]:
        """Causal attention inside segments, query head h on key/value head h // (heads / kv_heads)."""
        prefix, size = f"blocks.{block}.attention", self.sizes.head_width
        queries = [self.split(self.apply(x, f"{prefix}.query"), size) for x in read]
        keys = [self.split(self.apply(x, f"{prefix}.key"), size) for x in read]
        values = [self.split(self.apply(x, f"{prefix}.value"), size) for x in read]
        for position, place in enumerate(self.row.positions()):
            queries[position] = [self.turn(head, place) for head in queries[position]]
            keys[position] = [self.turn(head, place) for head in keys[position]]
        outputs = []
        for position in range(len(read)):
            seen, heads = self.row.seen(position), []
            for head in range(self.sizes.heads):
                shared = head // (self.sizes.heads // self.sizes.kv_heads)
                scores = torch.stack([(queries[position][head] * keys[s][shared]).sum() for s in seen])
                weights = torch.softmax(self.scale_scores(scores, position, head), dim=0)
                heads.append(sum(weight * values[s][shared] for weight, s in zip(weights, seen, strict=True)))
            outputs.append(self.apply(torch.cat(heads), f"{prefix}.output"))
        return outputs

    def split(self, x: Tensor, size: int) -> list[Tensor]:
        """Consecutive heads of `size` features."""
        return [x[start : start + size] for start in range(0, len(x), size)]

    def turn(self, head: Tensor, position: int) -> Tensor:
        """Rotate the interleaved pairs (0, 1), (2, 3), ... of one head by position * base^(-2i/head_dim)."""
        if self.sizes.position_encoding == "rope":
            turned = []
            for i in range(len(head) // 2):
                angle = position * self.sizes.rope_base ** (-2 * i / len(head))
                cosine, sine = math.cos(angle), math.sin(angle)
                turned.append(head[2 * i] * cosine - head[2 * i + 1] * sine)
                turned.append(head[2 * i] * sine + head[2 * i + 1] * cosine)
            head = torch.stack(turned)
        return unit(head) if self.recipe == "ngpt" else head

    def scale_scores(self, scores: Tensor, position: int, head: int) -> Tensor:
        """The score factor, and RealFormer's running sum over blocks."""
        size = self.sizes.head_width
        if self.recipe == "mup":
            return scores / size
        if self.recipe == "ngpt":
            return scores * math.sqrt(size)
        scores = scores / math.sqrt(size)
        if self.recipe == "realformer":
            scores = scores + self.route.get((position, head), torch.zeros_like(scores))
            self.route[position, head] = scores
        return scores

    def feed_forward(self, x: Tensor, block: int) -> Tensor:
        """SwiGLU, or the two matrices with an exact GELU between them."""
        prefix = f"blocks.{block}.ffn"
        hidden = self.apply(x, f"{prefix}.up")
        if self.sizes.mlp == "gelu":
            hidden = 0.5 * hidden * (1 + torch.erf(hidden / math.sqrt(2)))
        else:
            gate = self.apply(x, f"{prefix}.gate")
            gate = gate * math.sqrt(self.sizes.width) if self.recipe == "ngpt" else gate
            hidden = gate * torch.sigmoid(gate) * hidden
        if self.recipe == "normformer":
            hidden = self.norm(hidden, None)
        return self.apply(hidden, f"{prefix}.down")

    def read_out(self, x: list[Tensor]) -> None:
        """The final norm where the recipe keeps it, the head, and the loss of every valid target in nats."""
        for state, target, counts in zip(x, self.row.targets, self.row.valid, strict=True):
            if not counts:
                continue
            state = state if self.recipe in (*POST_NORM, "ngpt") else self.norm(state, "final_norm")
            table = self.parameters["token_embedding.weight"]
            logits = table @ state if self.sizes.tied else state @ self.parameters["head.weight"]
            logits = logits * (4 / self.sizes.width) if self.recipe == "mup" else logits
            self.tape.losses.append(torch.logsumexp(logits, dim=0) - logits[target])


def observe_plain(
    recipe: str,
    *,
    seed: int,
    rows: Sequence[tuple],
    std: float | None = None,
    embedding_std: float | None = None,
    truncate: float | None = None,
    **sizes: Any,
) -> dict[str, Any]:
    """Draw, build and observe the decoder of `recipe` on `rows`.

    `sizes` are the fields of `Sizes`; `kv_heads` defaults to `heads` and `positions` to max(4, longest row). A row is
    (inputs, targets[, valid[, segments]]), the last two may be None. `std` asks for a normal base draw, `embedding_std`
    for one of the embeddings alone, `truncate` for its truncation. See `observe_parameters` for the result. Raises
    ValueError for what the table refuses.
    """
    longest = max(len(row[0]) for row in rows)
    given = {name: value for name, value in sizes.items() if value is not None}
    checked = Sizes(**{"kv_heads": sizes["heads"], "positions": max(4, longest), **given})
    base = plain_base_draw(checked, seed, std=std, truncate=truncate, embedding_std=embedding_std)
    return observe_parameters(recipe, checked, plain_recipe_weights(recipe, checked, base, std=std), rows)


def observe_parameters(
    recipe: str, sizes: Sizes, parameters: Mapping[str, Any], rows: Sequence[tuple], *, nudge: Nudge | None = None
) -> dict[str, Any]:
    """Observe `recipe`'s graph with `parameters` as they are (a recipe's weight law is not applied again).

    Returns `loss`; `sites`, a list of (label, activation RMS, adjoint RMS); `contributions`, a list of (label of the
    state after, branch, raw RMS, contribution RMS, stream RMS, cosine or None); `valid_positions`; `shortcuts`
    (Admin's w_i); and `states`, `adjoints`: a site's vectors as lists [row][position], adjoints None where invalid.
    `nudge` = (label, row, position, feature, delta) moves one coordinate of one state, for finite differences.
    """
    refuse(recipe, sizes)
    tensors = {name: torch.as_tensor(values, dtype=torch.float64) for name, values in parameters.items()}
    batch = [make_row(row) for row in rows]
    shortcuts = admin_shortcuts(sizes, tensors, batch) if recipe == "admin" else []
    tapes = forward(recipe, sizes, tensors, batch, shortcuts, nudge)
    losses = [loss for tape in tapes for loss in tape.losses]
    loss = sum(losses[1:], losses[0]) / len(losses)
    adjoints = state_adjoints(loss, tapes, batch)
    sites = []
    for site, (label, _) in enumerate(tapes[0].states):
        states = rms(valid_features([tape.states[site][1] for tape in tapes], batch))
        sites.append((label, states, rms(valid_features(adjoints[site], batch))))
    return {
        "loss": loss.item(),
        "sites": sites,
        "contributions": summarize_additions(tapes, batch),
        "valid_positions": len(losses),
        "shortcuts": list(shortcuts),
        "states": [[[v.tolist() for v in tape.states[s][1]] for tape in tapes] for s in range(len(sites))],
        "adjoints": [[[None if v is None else v.tolist() for v in row] for row in site] for site in adjoints],
    }


def refuse(recipe: str, sizes: Sizes) -> None:
    """Raise ValueError for what has no definition."""
    if recipe not in RECIPES:
        raise ValueError(f"no plain definition of {recipe!r}")
    if recipe == "deepscalelm" and sizes.blocks < 2:
        raise ValueError("deepscalelm needs at least two blocks")
    if recipe == "ngpt" and (sizes.position_encoding, sizes.mlp) != ("rope", "swiglu"):
        raise ValueError("ngpt is defined with rotary positions and SwiGLU only")


def make_row(row: Sequence[Any]) -> Row:
    """A row with its defaults: everything valid, one segment."""
    inputs, targets, valid, segments = (*row, None, None)[:4]
    size = len(inputs)
    made = Row(
        list(inputs),
        list(targets),
        [True] * size if valid is None else list(valid),
        [0] * size if segments is None else list(segments),
    )
    assert len(made.targets) == len(made.valid) == len(made.segments) == size
    return made


def forward(
    recipe: str, sizes: Sizes, parameters: Parameters, batch: list[Row], shortcuts: Sequence[float], nudge: Any
) -> list[RowTape]:
    """Every row by itself."""
    tapes = []
    for index, row in enumerate(batch):
        here = None if nudge is None or nudge[1] != index else (nudge[0], *nudge[2:])
        tapes.append(PlainRow(recipe, sizes, parameters, row, shortcuts, here).run())
    return tapes


def admin_shortcuts(sizes: Sizes, parameters: Parameters, batch: list[Row]) -> list[float]:
    """Admin's w_i from one profiling pass with w = 1: w_i^2 = 1 + the sum of earlier branch outputs' variances."""
    profile = forward("post-norm", sizes, parameters, batch, [], None)
    shortcuts, total = [], 1.0
    for index in range(2 * sizes.blocks):
        shortcuts.append(math.sqrt(total))
        features = valid_features([tape.additions[index][2] for tape in profile], batch)
        mean = math.fsum(features) / len(features)
        total += math.fsum((value - mean) ** 2 for value in features) / len(features)
    return shortcuts


def state_adjoints(loss: Tensor, tapes: list[RowTape], batch: list[Row]) -> list[list[list[Tensor | None]]]:
    """Gradients of the loss at every state, [site][row][position]; None at invalid positions."""
    places, vectors = [], []
    adjoints: list[list[list[Tensor | None]]] = []
    for site in range(len(tapes[0].states)):
        adjoints.append([[None] * len(row.inputs) for row in batch])
        for index, (tape, row) in enumerate(zip(tapes, batch, strict=True)):
            for position, counts in enumerate(row.valid):
                if counts:
                    places.append((site, index, position))
                    vectors.append(tape.states[site][1][position])
    gradients = torch.autograd.grad(loss, vectors)
    for (site, index, position), gradient in zip(places, gradients, strict=True):
        adjoints[site][index][position] = gradient
    return adjoints


def summarize_additions(tapes: list[RowTape], batch: list[Row]) -> list[tuple]:
    """(label, branch, raw RMS, contribution RMS, stream RMS, cosine) of every branch of every addition."""
    summary = []
    for index, (label, branch, *_) in enumerate(tapes[0].additions):
        raw, contribution, stream = (
            valid_features([tape.additions[index][part] for tape in tapes], batch) for part in (2, 3, 4)
        )
        summary.append((label, branch, rms(raw), rms(contribution), rms(stream), cosine(contribution, stream)))
    return summary


def valid_features(vectors: Iterable[Sequence[Tensor | None]], batch: list[Row]) -> list[float]:
    """All features of all valid positions, [row][position] flattened, by selection."""
    features: list[float] = []
    for row_vectors, row in zip(vectors, batch, strict=True):
        for vector, counts in zip(row_vectors, row.valid, strict=True):
            if counts:
                features.extend(vector.tolist())
    return features


def rms(features: list[float]) -> float:
    """Root of the mean square, first pass the largest magnitude, second pass the scaled squares."""
    largest = max(abs(value) for value in features)
    if largest == 0.0:
        return 0.0
    return largest * math.sqrt(math.fsum((value / largest) ** 2 for value in features) / len(features))


def cosine(a: list[float], b: list[float]) -> float | None:
    """Cosine of two lists of features, None where either is zero."""
    lengths = rms(a), rms(b)
    if 0.0 in lengths:
        return None
    return math.fsum((x / lengths[0]) * (y / lengths[1]) for x, y in zip(a, b, strict=True)) / len(a)


def unit(x: Tensor) -> Tensor:
    """The vector at unit Euclidean norm, without an epsilon."""
    return x / torch.sqrt((x * x).sum())


def norm_name(block: int, branch: str) -> str:
    """Name of the norm that belongs to a branch."""
    return f"blocks.{block}.{'attention_norm' if branch == 'attention' else 'ffn_norm'}"
