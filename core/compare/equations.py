"""The graph of a recipe as text: one equation per addition to the residual stream, with coefficients as formulas."""

from __future__ import annotations

from ..decoder.graph import TANH_SLOPE, DepthLaw, Topology

MODULES = {"attention": "A", "feed_forward": "M"}
WORDS = {
    "A": "attention",
    "M": "feed-forward",
    "N": "norm",
    "unit": "division by the Euclidean length",
    "x": "the residual stream",
    "L": "blocks",
    "l": "block, from 0",
    "d": "width",
}


def graph_equations(topology: Topology) -> list[str]:
    """Return a list of lines: one equation per addition in a block, what differs elsewhere, then the final norm."""
    attention, feed_forward = (_branch(topology, kind) for kind in MODULES)
    if topology.parallel:
        lines = [_addition(topology, f"{attention} + {feed_forward}")]
    else:
        lines = [_addition(topology, attention), _addition(topology, feed_forward)]
    return lines + _elsewhere(topology)


def graph_summary(topology: Topology) -> str:
    """Return the equations as one line; if both branches have the same equation, it is there once, with F for both."""
    lines = graph_equations(topology)
    first, second = lines[0], lines[1] if len(lines) > 1 else ""
    if second == first.replace("A(", "M("):
        lines = [first.replace("A(", "F("), *lines[2:]]
    return "; ".join(lines)


def _addition(topology: Topology, gained: str) -> str:
    factor = _factor(topology.shortcut) if isinstance(topology.shortcut, DepthLaw) else ""
    stream = "w x" if topology.shortcut == "measured" else f"{factor}x"
    return f"x <- {_normed(topology.norm_after, f'{stream} + {gained}')}"


def _branch(topology: Topology, kind: str) -> str:
    read = _normed(topology.norm_in, "x")
    if topology.norm_in_factor is not None:
        read = f"{_factor(topology.norm_in_factor)}{read}"
    inner = f"{MODULES[kind]}({read})"
    norm_out = "norm" if topology.attention_norm_out and kind == "attention" else topology.norm_out
    gained = _normed(norm_out, inner)
    return gained if topology.branch is None else f"{_factor(topology.branch)}{gained}"


def _normed(norm: str | None, inner: str) -> str:
    if norm is None:
        return inner
    if norm == "tanh":
        return f"tanh({TANH_SLOPE} {inner})"
    return f"{'N' if norm == 'norm' else 'unit'}({inner})"


def _factor(law: DepthLaw) -> str:
    return f"[{law.formula}] " if " " in law.formula else f"{law.formula} "


def _elsewhere(topology: Topology) -> list[str]:
    scores, logits = topology.score_exponent, topology.logit_numerator
    said = {
        "w^2 = 1 + the variances of the earlier branch outputs, measured once with w = 1": (
            topology.shortcut == "measured"
        ),
        "M normalizes its features before the down projection": topology.hidden_norm,
        "attention scores are summed over blocks before the softmax": topology.score_sum,
        "queries and keys are divided by their length a head, after rotation": topology.query_key_unit,
        f"scores times head_dim^({scores:g})": scores != -0.5,
        "gate input times d^(1/2)": topology.gate_scaled,
        "input embedding times d^(1/2)": topology.embedding_scaled,
        f"logits times {logits or 0:g}/d": logits is not None,
    }
    end = f"last state through {_normed(topology.final_norm, 'x')}" if topology.final_norm else "no final norm"
    return [*(line for line, holds in said.items() if holds), end]
