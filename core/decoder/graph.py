"""The graph of a decoder's residual stream as data: the additions of every block, with their norms and coefficients.

An addition adds the output of one branch (or of two parallel ones) to the stream. A recipe declares a `Topology`, and
`Topology.build` expands it to a `Graph` for every block of a decoder. The forward pass interprets the graph and knows
no recipes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from .config import DecoderConfig, NormFamily

BranchKind = Literal["attention", "feed_forward"]
NormKind = Literal[NormFamily, "tanh", "unit"]
NORM_TITLES: Mapping[NormKind, str] = {
    "rmsnorm": "RMSNorm", "layernorm": "LayerNorm", "tanh": "tanh", "unit": "unit length",
}  # fmt: skip
# A scalar known from the depth, or the key of one that the weights provide for each member.
Coefficient = float | str

TANH_SLOPE = 0.5


@dataclass(frozen=True)
class DepthLaw:
    """A coefficient of the forward pass that depends on the depth.

    `formula` is its text. `value(block, blocks)` computes it from the block number, counted from 0, and the number of
    blocks.
    """

    formula: str
    value: Callable[[int, int], float]

    def __call__(self, block: int, blocks: int) -> float:
        """Return the coefficient in block number `block`, counted from 0, of `blocks` blocks."""
        return self.value(block, blocks)


@dataclass(frozen=True)
class Norm:
    """A norm over the last axis, the features of one state x; `factor` multiplies its result.

    - rmsnorm: x / sqrt(mean(x^2) + epsilon).
    - layernorm: the same, applied to x - mean(x).
    - tanh: tanh(x / 2).
    - unit: x divided by its Euclidean length.

    `parameter` is the prefix of the keys of its gain and bias, such as `attention_norm`, None if it has neither.
    """

    kind: NormKind
    parameter: str | None = None
    factor: float = 1.0


@dataclass(frozen=True)
class Branch:
    """One branch F (attention or feed-forward): it adds coefficient * norm_out(F(norm_in(x))) to the stream x.

    A norm that is None is left out. For attention, `score_factor` multiplies the query-key products, `score_sum` adds
    the previous block's scores to them, and `query_key_norm` is applied to each head's query and key after rotation.
    For feed-forward, `gate_factor` multiplies the gate before its SiLU, and `hidden_norm` is applied before the last
    matrix. A coefficient is a number, or the key of a scalar in the weights.
    """

    kind: BranchKind
    norm_in: Norm | None = None
    norm_out: Norm | None = None
    coefficient: Coefficient = 1.0
    score_factor: float = 1.0
    score_sum: bool = False
    query_key_norm: Norm | None = None
    gate_factor: float = 1.0
    hidden_norm: Norm | None = None


@dataclass(frozen=True)
class Addition:
    """One update of the stream x: norm_after(shortcut * x + the sum of the branches' contributions).

    Every branch reads x. `label` names the state after it. `norm_after` is left out if None. `shortcut` is a number, or
    the key of a scalar in the weights.
    """

    branches: tuple[Branch, ...]
    label: str
    shortcut: Coefficient = 1.0
    norm_after: Norm | None = None

    def gain_owner(self, branch: Branch) -> str | None:
        """Return the key of the gain that belongs to `branch`, such as `attention_norm.gain`; None if there is none.

        It is the gain of the norm before the branch or, without such a norm, of the norm after the addition.
        """
        norm = branch.norm_in or self.norm_after
        return None if norm is None or norm.parameter is None else f"{norm.parameter}.gain"


@dataclass(frozen=True)
class Graph:
    """The residual stream of a decoder as data.

    `blocks[b]` holds the additions of block b. `final_norm` comes before the head, None if there is none.
    `embedding_factor` multiplies the token embeddings and `logit_factor` the logits.
    """

    blocks: tuple[tuple[Addition, ...], ...]
    final_norm: Norm | None
    embedding_factor: float = 1.0
    logit_factor: float = 1.0

    @property
    def owns_final_gain(self) -> bool:
        """True if the final norm has a gain among the decoder's parameters."""
        return self.final_norm is not None and self.final_norm.parameter is not None

    def site_labels(self) -> list[str]:
        """Return the labels of all sites (states of the stream) in forward order: `input`, then `block.{b}.{name}`."""
        labels = ["input"]
        for block, additions in enumerate(self.blocks):
            labels += [f"block.{block}.{addition.label}" for addition in additions]
        return labels


@dataclass(frozen=True)
class Topology:
    """What a recipe declares about the graph, for any depth and sizes.

    `norm` stands for the decoder's own kind of norm, with its parameters at the places where a decoder has them.
    `shortcut`, `branch` and `norm_in_factor` are laws of the depth, None for 1; `measured` takes the shortcut from a
    profile step on a batch. `parallel` makes one addition of both branches. `score_exponent` p gives the score factor
    head_dim^p. `embedding_scaled` multiplies embeddings by sqrt(width), and `logit_numerator` n multiplies logits by n
    / width.
    """

    norm_in: Literal["norm", "tanh"] | None = "norm"
    norm_out: Literal["norm", "unit"] | None = None
    norm_after: Literal["norm", "unit"] | None = None
    final_norm: Literal["norm", "tanh"] | None = "norm"
    parallel: bool = False
    shortcut: DepthLaw | Literal["measured"] | None = None
    branch: DepthLaw | None = None
    norm_in_factor: DepthLaw | None = None
    attention_norm_out: bool = False
    hidden_norm: bool = False
    score_sum: bool = False
    score_exponent: float = -0.5
    query_key_unit: bool = False
    gate_scaled: bool = False
    embedding_scaled: bool = False
    logit_numerator: float | None = None

    def build(self, config: DecoderConfig) -> Graph:
        """Return the `Graph` of this topology for every block of `config`; it may be shared by several callers."""
        return _built(self, config)

    def _graph(self, config: DecoderConfig) -> Graph:
        # A reduced twin keeps the multipliers of the decoder that it stands for.
        width = config.true_config.width
        return Graph(
            blocks=tuple(self._additions(block, config) for block in range(config.blocks)),
            final_norm=_norm(self.final_norm, config, "final_norm"),
            embedding_factor=math.sqrt(width) if self.embedding_scaled else 1.0,
            logit_factor=1.0 if self.logit_numerator is None else self.logit_numerator / width,
        )

    def _additions(self, block: int, config: DecoderConfig) -> tuple[Addition, ...]:
        attention = self._branch("attention", "attention_norm", block, config)
        feed_forward = self._branch("feed_forward", "ffn_norm", block, config)
        if self.parallel:
            return (self._addition((attention, feed_forward), "after_parallel", "attention_norm", block, config),)
        return (
            self._addition((attention,), "after_attention", "attention_norm", block, config),
            self._addition((feed_forward,), "after_feed_forward", "ffn_norm", block, config),
        )

    def _addition(
        self, branches: tuple[Branch, ...], label: str, norm: str, block: int, config: DecoderConfig
    ) -> Addition:
        shortcut: Coefficient = 1.0
        if self.shortcut == "measured":
            shortcut = f"{branches[0].kind}_shortcut"
        elif self.shortcut is not None:
            shortcut = self.shortcut(block, config.blocks)
        return Addition(
            branches=branches, label=label, shortcut=shortcut, norm_after=_norm(self.norm_after, config, norm)
        )

    def _branch(self, kind: BranchKind, norm: str, block: int, config: DecoderConfig) -> Branch:
        attention = kind == "attention"
        norm_in_factor = self.norm_in_factor(block, config.blocks) if self.norm_in_factor else 1.0
        norm_out = "norm" if self.attention_norm_out and attention else self.norm_out
        return Branch(
            kind=kind,
            norm_in=_norm(self.norm_in, config, norm, norm_in_factor),
            # A second norm on the same branch owns no stored gain: gains start at one wherever a recipe says norm.
            norm_out=_norm(norm_out, config, None),
            coefficient=self.branch(block, config.blocks) if self.branch else 1.0,
            score_factor=self._score_factor(config) if attention else 1.0,
            score_sum=self.score_sum and attention,
            query_key_norm=self._query_key_norm(config) if attention else None,
            # Of unit vectors the gate has an RMS of 1 / sqrt(width), in a reduced twin too, which this makes 1.
            gate_factor=math.sqrt(config.width) if self.gate_scaled and not attention else 1.0,
            hidden_norm=_norm("norm", config, None) if self.hidden_norm and not attention else None,
        )

    def _query_key_norm(self, config: DecoderConfig) -> Norm | None:
        return Norm("unit") if self.query_key_unit else _norm("norm" if config.query_key_norm else None, config, None)

    def _score_factor(self, config: DecoderConfig) -> float:
        """Return head_dim^exponent; in a reduced twin, times the factor that keeps the RMS of the scores.

        The RMS of a sum over `head_dim` independent products grows with sqrt(head_dim); that of a product of unit
        vectors falls with it.
        """
        factor = math.pow(config.true_config.head_width, self.score_exponent)
        ratio = math.sqrt(config.true_config.head_width / config.head_width)
        return factor / ratio if self.query_key_unit else factor * ratio


PRE_NORM = Topology()


@lru_cache(maxsize=64)
def _built(topology: Topology, config: DecoderConfig) -> Graph:
    # Pure and small; a sweep asks for the same few graphs thousands of times.
    return topology._graph(config)


def _norm(kind: str | None, config: DecoderConfig, parameter: str | None, factor: float = 1.0) -> Norm | None:
    if kind is None:
        return None
    if kind == "norm":
        return Norm(config.norm, parameter, factor)
    return Norm("tanh" if kind == "tanh" else "unit", None, factor)
