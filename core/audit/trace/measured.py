"""The numbers of a discovered chain: every state, shortcut and contribution, and how exactly they add up.

The shortcut is the term of an addition that comes from the state before it, a contribution what a branch adds. Two sums
are compared with the recorded one: that of the shortcut and the contributions as recorded, and that of the same terms
recomputed from the state before and each branch's output, multiplied by the coefficients found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch

from .branches import Branch
from .chain import Chain
from .flow import Factor, Vertex
from .layout import Layout, layout_at
from .spine import Addition, Term

Spread = Literal["constant", "per channel", "per position", "varying"]


@dataclass(frozen=True)
class Coefficient:
    """A coefficient of the forward.

    `value` is the number, or the RMS if it varies; `spread` says how it varies, `lowest` and `highest` its range.
    """

    value: float
    spread: Spread = "constant"
    lowest: float = 1.0
    highest: float = 1.0


@dataclass(frozen=True)
class MeasuredBranch:
    """One contribution as tensors `[B, T, D]`: `raw` is the branch's output, `contribution` what it adds."""

    branch: Branch
    raw: torch.Tensor
    contribution: torch.Tensor
    coefficient: Coefficient


@dataclass(frozen=True)
class MeasuredAddition:
    """One addition in numbers; tensors are `[B, T, D]`.

    `error` is the largest difference between the recorded sum and the sum of its parts, relative to the sum's largest
    value. `stream` is the shortcut plus the terms that earlier states add without a matrix. `shortcut` is the
    coefficient of the state before, None if more than views and scales lie between that state and the sum.
    `norm_after`: a norm, or a function of each feature, follows the sum.
    """

    stream: torch.Tensor
    next_state: torch.Tensor
    branches: list[MeasuredBranch]
    shortcut: Coefficient | None
    norm_after: bool
    error: float


class Missing(Exception):
    """Raised if the recording or the layout does not give a value; the message names the value."""


@dataclass
class Reader:
    """Reads values of a recorded stream as tensors `[B, T, D]`.

    `kept` marks the valid positions. `replaced` holds values of another run, used instead of the recorded ones.
    """

    chain: Chain
    layout: Layout
    kept: torch.Tensor
    replaced: Mapping[Vertex, torch.Tensor] = field(default_factory=dict)

    def value(self, vertex: Vertex, what: str) -> torch.Tensor:
        """Return the value of a vertex (output of an operation), `[B, T, D]`.

        Raises `Missing` if it cannot be read; `what` names the value in the message.
        """
        return self._normalized(self._raw(vertex), vertex, None, what)

    def _raw(self, vertex: Vertex) -> torch.Tensor | None:
        replaced = self.replaced.get(vertex)
        return self.chain.flow.value(vertex) if replaced is None else replaced

    def term(self, term: Term, like: Vertex, what: str) -> torch.Tensor:
        """Return a term of an addition `[B, T, D]` as it enters the sum at the vertex `like`, with its factors.

        Raises `Missing` if it cannot be read; `what` names it in the message.
        """
        value = term.constant if term.leaf is None else self._raw(term.leaf)
        return self.scaled(self._normalized(value, term.leaf, like, what), term.factors, like, what)

    def _normalized(
        self, value: torch.Tensor | None, vertex: Vertex | None, like: Vertex | None, what: str
    ) -> torch.Tensor:
        """Return `value` as `[B, T, D]`, by the layout at `vertex`, else by broadcasting it to `like` if given.

        Raises `Missing` where neither fits, or where `value` is None.
        """
        if value is None:
            raise Missing(f"{what} is computed out of sight, so its value is unknown")
        flow = self.chain.flow
        layout = self.layout if vertex is None else layout_at(flow, self.layout, vertex)
        normalized = layout.normalized(value)
        if normalized is None and like is not None:
            normalized = self.layout.spread(value, flow.shape(like))
        if normalized is None:
            raise Missing(f"{what} has shape {list(value.shape)}, which does not hold the batch's positions")
        return normalized

    def scaled(self, value: torch.Tensor, factors: Sequence[Factor], like: Vertex, what: str) -> torch.Tensor:
        """Return `value` `[B, T, D]` times all `factors`, each broadcast to the shape at the vertex `like` first.

        Raises `Missing` if a factor does not fit; `what` names the value in the message.
        """
        for factor in factors:
            if not isinstance(factor, torch.Tensor):
                value = value if factor == 1.0 else value * factor
                continue
            spread = self.layout.spread(factor, self.chain.flow.shape(like))
            if spread is None:
                raise Missing(f"{what} is multiplied by a factor of shape {list(factor.shape)} that does not fit")
            value = value * spread.to(value.dtype)
        return value

    def coefficient(
        self, shares: Sequence[Sequence[Factor]], outside: Sequence[Factor], like: Vertex, what: str
    ) -> Coefficient:
        """Return the `Coefficient`: the sum over `shares` of the product of their factors, times those `outside`."""
        width = math.prod(self.chain.flow.shape(like)) // (self.layout.rows * self.layout.positions)
        ones = torch.ones(*self.kept.shape, width, dtype=torch.float64)
        values = sum(self.scaled(ones, [*share, *outside], like, what) for share in shares)
        assert isinstance(values, torch.Tensor)
        return summarized(values[self.kept])


def summarized(values: torch.Tensor) -> Coefficient:
    """Return the `Coefficient` that summarizes the values `[n, D]` at n positions and D channels."""
    lowest, highest = float(values.min()), float(values.max())
    if lowest == highest:
        return Coefficient(lowest, "constant", lowest, highest)
    spread: Spread = "varying"
    if bool((values == values[:1]).all()):
        spread = "per channel"
    elif bool((values == values[:, :1]).all()):
        spread = "per position"
    return Coefficient(float(values.double().square().mean().sqrt()), spread, lowest, highest)


def measured_addition(reader: Reader, addition: Addition, branches: Sequence[Branch], label: str) -> MeasuredAddition:
    """Read one addition, compare it with its recorded sum, and return it as a `MeasuredAddition`.

    Raises `Missing` if a part cannot be read.
    """
    like = addition.sum
    state = reader.value(addition.state, f"the state before {label}")
    total = reader.value(addition.sum, f"the sum of {label}")
    after = [step.factor for step in addition.after if step.kind == "scale"]
    norm_after = any(step.kind in ("norm", "pointwise") for step in addition.after)
    outside = [] if norm_after else after
    stream = reader.term(addition.shortcut, like, f"the shortcut of {label}")
    rebuilt, shortcut = stream, None
    if set(addition.kinds) <= {"view", "scale"}:
        rebuilt = reader.scaled(state, addition.state_factors, like, label)
        own = [term.factors for term in addition.carried if term.leaf == addition.state]
        shortcut = reader.coefficient([addition.state_factors, *own], outside, like, label)
    for term in addition.carried:
        carried = reader.term(term, like, f"what earlier states bring to {label}")
        stream, rebuilt = stream + carried, rebuilt + carried
    read, rebuilt, found = stream.double(), rebuilt.double(), []
    for branch in branches:
        measured, again = _branch(reader, branch, like, label, outside)
        read = read + measured.contribution.double()
        rebuilt = rebuilt + again.double()
        found.append(measured)
    error = max(difference(sum_, total, reader.kept) for sum_ in (read, rebuilt))
    next_state = reader.value(addition.next_state, f"the state after {label}")
    if outside:
        stream = reader.scaled(stream, outside, like, label)
        found = [replace(m, contribution=reader.scaled(m.contribution, outside, like, label)) for m in found]
        parts = stream.double() + sum(m.contribution.double() for m in found)
        error = max(error, difference(parts, next_state, reader.kept))
    return MeasuredAddition(stream, next_state, found, shortcut, norm_after, error)


def _branch(
    reader: Reader, branch: Branch, like: Vertex, label: str, outside: Sequence[Factor]
) -> tuple[MeasuredBranch, torch.Tensor]:
    what = f"a contribution of {label}"
    contribution = rebuilt = reader.term(Term(branch.leaf, branch.factors), like, what)
    raw = contribution
    value = reader.chain.flow.value(branch.raw)
    layout = layout_at(reader.chain.flow, reader.layout, branch.raw)
    normalized = None if value is None else layout.normalized(value)
    if normalized is not None:
        raw = normalized
        if not branch.norm_out:
            rebuilt = reader.scaled(raw, [*branch.inner, *branch.factors], like, label)
    # Behind a norm on the branch a vector is that norm's gain, not a coefficient.
    inner = [factor for factor in branch.inner if not (branch.norm_out and isinstance(factor, torch.Tensor))]
    factors = [*inner, *branch.factors]
    coefficient = reader.coefficient([factors], outside, like, label)
    return MeasuredBranch(branch, raw, contribution, coefficient), rebuilt


def difference(found: torch.Tensor, recorded: torch.Tensor, kept: torch.Tensor) -> float:
    """Return the largest difference over the `kept` positions, relative to the largest recorded value.

    The difference is absolute where all recorded values are zero.
    """
    wanted = recorded[kept].double()
    if found.shape != recorded.shape:
        found = found.expand(recorded.shape)
    largest = float(wanted.abs().max())
    error = float((found[kept] - wanted).abs().max())
    return error / largest if largest > 0 else error
