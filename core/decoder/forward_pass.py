"""The forward pass of a decoder, run for E members (models) at once: a loop over `step`, which runs one block.

Activations are `[E, B, T, D]`: B rows of T positions with D features. In float32 and bfloat16 the norm's mean square,
the softmax and the loss are computed in float32; rotary angles are computed in float64 and then cast.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.nn import functional

from ..errors import ConfigError
from .attention import AttentionGeometry, Carry, attend
from .batch import Batch
from .drawn_matrix import DrawnMatrix
from .graph import Addition, Branch, Coefficient, Graph
from .mean_loss import mean_loss
from .operations import apply_norm, looked_up, matrix, project, project_jointly
from .progress import Told, silent
from .tape import Contribution, Tape
from .weights import WeightProvider, Weights, tensor


def forward(
    graph: Graph,
    weights: WeightProvider,
    batch: Batch,
    *,
    contributions: bool = True,
    parameter_gradients: bool = False,
    told: Told = silent,
) -> Tape:
    """Run every member (model) of `weights` over `batch` and return a `Tape`: states, contributions and losses.

    The loss of a member is the mean cross entropy over all valid targets, in nats. `contributions` keeps what each
    branch adds to the stream. `parameter_gradients` makes every stored weight an autograd leaf and puts it into
    `Tape.parameters` under its full name; gains of ones and biases of zeros that are not stored have none. `told(what,
    done, total)` is the progress callback, called after every block. Raises `BatchError` if the batch does not fit the
    decoder, and `ConfigError` for gradients of matrices that are drawn tile by tile.
    """
    config = weights.config
    batch.check(config)
    leaves = Leaves(parameter_gradients)
    stem = leaves.take(weights.stem(), "")
    x = embed(stem, batch, weights.members, graph.embedding_factor)
    if not parameter_gradients:
        x.requires_grad_()
    geometry = AttentionGeometry.of(config, batch, x)
    tape = Tape(labels=graph.site_labels(), states=[x], loss=x, valid=batch.valid, parameters=leaves.found)
    carry = Carry()
    for block, additions in enumerate(graph.blocks):
        block_weights = leaves.take(weights.block(block), f"blocks.{block}.")
        x, sites, parts, carry = step(additions, block, x, block_weights, carry, geometry, len(tape.states))
        tape.states.extend(sites)
        if contributions:
            tape.contributions.extend(parts)
        told("blocks forward", block + 1, len(graph.blocks))
    tail = leaves.take(weights.tail(), "")
    loss = mean_loss(graph, config, x, stem, tail, batch)
    gain = tensor(tail, "final_norm.gain") if graph.owns_final_gain else None
    return replace(tape, loss=loss, owns_final_gain=graph.owns_final_gain, final_gain=gain)


def step(
    additions: tuple[Addition, ...],
    block: int,
    x: torch.Tensor,
    weights: Weights,
    carry: Carry,
    geometry: AttentionGeometry,
    first_site: int,
) -> tuple[torch.Tensor, list[torch.Tensor], list[Contribution], Carry]:
    """Run one block; nothing is changed in place.

    Returns the state that leaves the block, the list of states after each addition, the contributions of its branches,
    and the carry for the next block. `x` is the state that enters, `block` the number of the block, and `first_site`
    the index of its first new state among the states of the whole decoder.
    """
    sites: list[torch.Tensor] = []
    parts: list[Contribution] = []
    for addition in additions:
        stream = _scaled(x, addition.shortcut, weights)
        total = stream
        for branch in addition.branches:
            raw, carry = _branch_output(branch, x, weights, carry, geometry)
            gained = raw if branch.norm_out is None else apply_norm(branch.norm_out, raw, weights, geometry.epsilon)
            gained = _scaled(gained, branch.coefficient, weights)
            total = total + gained
            owner = addition.gain_owner(branch)
            gain = None if owner is None else tensor(weights, owner)
            site = first_site + len(sites)
            parts.append(Contribution(site, block, branch.kind, raw, gained, stream, owner is not None, gain))
        x = total if addition.norm_after is None else apply_norm(addition.norm_after, total, weights, geometry.epsilon)
        sites.append(x)
    return x, sites, parts, carry


def _branch_output(
    branch: Branch, x: torch.Tensor, weights: Weights, carry: Carry, geometry: AttentionGeometry
) -> tuple[torch.Tensor, Carry]:
    read = x if branch.norm_in is None else apply_norm(branch.norm_in, x, weights, geometry.epsilon)
    if branch.kind == "attention":
        return attend(branch, read, weights, carry, geometry)
    return _feed_forward(branch, read, weights, geometry.epsilon), carry


def _feed_forward(branch: Branch, read: torch.Tensor, weights: Weights, epsilon: float) -> torch.Tensor:
    if "ffn.gate.weight" in weights:
        gate, up = project_jointly(read, weights, ("ffn.gate", "ffn.up")).chunk(2, dim=-1)
        hidden = functional.silu(gate if branch.gate_factor == 1.0 else gate * branch.gate_factor) * up
    else:
        hidden = functional.gelu(project(read, weights, "ffn.up"))
    if branch.hidden_norm is not None:
        hidden = apply_norm(branch.hidden_norm, hidden, weights, epsilon)
    return project(hidden, weights, "ffn.down")


def embed(stem: Weights, batch: Batch, members: int, factor: float) -> torch.Tensor:
    """Return the input state `[E, B, T, D]`: token embeddings times `factor`, plus learned positions if any.

    E is `members`. Padding reads the embedding of id 0.
    """
    x = looked_up(matrix(stem, "token_embedding.weight"), torch.from_numpy(np.where(batch.present, batch.inputs, 0)))
    if factor != 1.0:
        x = x * factor
    if "position_embedding.weight" in stem:
        placed = looked_up(matrix(stem, "position_embedding.weight"), torch.from_numpy(batch.positions))
        if placed.shape[0] != x.shape[0]:
            # Arms may share one of the two embeddings and differ in the other.
            x, placed = (_every_member(term, members) for term in (x, placed))
        x = x + placed
    # Members that share an embedding still need a state each, for its adjoint is theirs alone.
    return _every_member(x, members)


def _every_member(x: torch.Tensor, members: int) -> torch.Tensor:
    return x.repeat_interleave(members // x.shape[0], dim=0)


def _scaled(x: torch.Tensor, coefficient: Coefficient, weights: Weights) -> torch.Tensor:
    if isinstance(coefficient, str):
        scalar = tensor(weights, coefficient)
        assert scalar is not None
        return x * scalar.to(x.dtype).view(-1, 1, 1, 1)
    return x if coefficient == 1.0 else x * coefficient


@dataclass
class Leaves:
    """Makes weights autograd leaves if `wanted` is True, and keeps each one in the dict `found` under its full name."""

    wanted: bool

    def __post_init__(self) -> None:
        self.found: dict[str, torch.Tensor] = {}

    def take(self, weights: Weights, prefix: str) -> Weights:
        """Return the weights under the same keys, detached and requiring gradients if `wanted`, else as they are.

        `prefix`, such as `blocks.3.`, completes their names in `found`. Raises `ConfigError` for a matrix that is drawn
        tile by tile, which has no gradient.
        """
        if not self.wanted:
            return weights
        taken: dict[str, torch.Tensor | DrawnMatrix | None] = {}
        for name, weight in weights.items():
            if isinstance(weight, DrawnMatrix):
                raise ConfigError(
                    f"The matrix {prefix}{name} is drawn tile by tile and has no gradient; use dense weights."
                )
            taken[name] = None if weight is None else weight.detach().requires_grad_()
            if weight is not None:
                self.found[prefix + name] = taken[name]  # type: ignore[assignment]
        return taken
