"""The block-by-block driver: observes a decoder that never exists in memory as a whole.

The forward pass keeps only the state before each block, not the autograd graph. The reverse pass goes from the last
block to the first and computes one vector-Jacobian product each, in a graph of that block alone. A block's weights are
requested, used and dropped, in both passes. If the weights are drawn inside products and hold no memory, the graph of a
block is kept from the forward pass as long as `graph_room` bytes suffice, and this block is not computed twice. With
dense matrices a graph would hold them too, so the block is always computed again.

The `Carry` that blocks hand on beside the state (summed attention scores) has its own adjoint, which is handed back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from ..decoder.attention import AttentionGeometry, Carry
from ..decoder.batch import Batch
from ..decoder.forward_pass import Leaves, embed, step
from ..decoder.graph import Graph
from ..decoder.mean_loss import mean_loss
from ..decoder.profile import Record
from ..decoder.progress import Told, silent
from ..decoder.splitmix64 import FloatArray
from ..decoder.tape import Contribution, recording
from ..decoder.weights import WeightProvider, Weights, tensor
from .block_records import (
    INPUT,
    LOSS,
    Records,
    contribution_record,
    forward_name,
    reverse_name,
    site_record,
)
from .estimate import graph_bytes
from .observation import Observation, checked_adjoints
from .statistics import gain_array

Sink = Callable[[str, torch.Tensor], None]
COUNTED = "blocks, forward and in reverse"
# Of a weight with a leading size of members.
MATRIX = 3


@dataclass(frozen=True)
class _Local:
    """One block's own graph: what enters it, the states after its additions, what leaves it, and its leaves."""

    x: torch.Tensor
    scores: torch.Tensor | None
    sites: list[torch.Tensor]
    parts: list[Contribution]
    after: Carry
    leaves: Leaves


class BlockRun:
    """The observation of every member (model) of `weights` on `batch`, block by block.

    `finish` computes everything and returns the observation; `steps` computes one block at a time, and `profile`
    returns what is known so far. `contributions` also measures what each branch adds, `tokens` the RMS of single
    tokens. `gradients(name, gradient)` is called with the derivative of the loss by each parameter, under its full
    name, once its block has been passed in reverse. `graph_room` is the number of bytes of blocks' graphs that may be
    kept.

    A step whose result is stored in the journal of `records` is not computed again, and its gradients are not reported
    again.
    """

    def __init__(
        self,
        graph: Graph,
        weights: WeightProvider,
        batch: Batch,
        *,
        contributions: bool = True,
        tokens: bool = False,
        gradients: Sink | None = None,
        graph_room: int = 0,
        records: Records | None = None,
        device: str = "cpu",
    ) -> None:
        batch.check(weights.config)
        self._graph, self._weights, self._batch = graph, weights, batch
        self._contributions, self._tokens, self._gradients = contributions, tokens, gradients
        self._room, self._device = graph_room, device
        self._records, self._labels = records or Records(graph), graph.site_labels()
        sizes = [len(additions) for additions in graph.blocks]
        # The first site of every block, and one past the last.
        self._firsts = np.cumsum([1, *sizes]).tolist()
        self._states: dict[int, torch.Tensor] = {}
        self._scores: dict[int, torch.Tensor] = {}
        self._kept: dict[int, _Local] = {}
        self._stem_gradients: dict[str, torch.Tensor] = {}

    @property
    def total(self) -> int:
        """The number of steps of the run: every block forward and in reverse."""
        return 2 * len(self._graph.blocks)

    def finish(self, told: Told = silent) -> Observation:
        """Compute what is missing and return the `Observation`.

        `told(what, done, total)` is called after every computed block of the forward and of the reverse pass.
        """
        for done in self.steps():
            told(COUNTED, done, self.total)
        return self.observation()

    def steps(self) -> Iterator[int]:
        """Compute what is missing; yield the number of finished steps out of `total` after each computed block.

        A run that stops between two blocks can be continued by another one with the same journal. Raises
        `ObservationError` if the loss does not depend on a state.
        """
        self._states[0] = self._done(INPUT, self._input)["state"]
        self._geometry = AttentionGeometry.of(self._weights.config, self._batch, self._states[0])
        yield from self._forward_steps()
        adjoint = self._done(LOSS, self._loss)["adjoint"]
        yield from self._reverse_steps(adjoint)

    def _forward_steps(self) -> Iterator[int]:
        for block in range(len(self._graph.blocks)):
            before = self._records.computed
            passed = self._done(forward_name(block), partial(self._forward, block))
            self._states[block + 1] = passed["state"]
            if "scores" in passed:
                self._scores[block + 1] = passed["scores"]
            if self._records.computed > before:
                yield block + 1

    def _reverse_steps(self, adjoint: torch.Tensor) -> Iterator[int]:
        scores: torch.Tensor | None = None
        for block in reversed(range(len(self._graph.blocks))):
            before = self._records.computed
            passed = self._done(reverse_name(block), partial(self._reverse, block, adjoint, scores))
            adjoint, scores = passed["adjoint"], passed.get("scores")
            # Nothing reads them any more.
            del self._states[block + 1]
            self._scores.pop(block + 1, None)
            if self._records.computed > before:
                yield self.total - block
        if self._gradients is not None:
            self._hand_over_stem(adjoint)

    def profile(self) -> tuple[FloatArray, FloatArray]:
        """Return (activation RMS, adjoint RMS), `[E, S]` each for E members (models) and S sites (states).

        NaN at sites not reached yet.
        """
        return self._records.profile(self._weights.members)

    def observation(self) -> Observation:
        """Return the `Observation` of a run whose steps are all done."""
        return self._records.observation(self._batch.valid_count, self._weights.config.width)

    def _done(self, name: str, compute: Callable[[], Record]) -> Record:
        passed = self._records.take(name, recording(self._device)(compute))
        return {key: value.to(self._device) for key, value in passed.items()}

    def _statistics(self, sites: Sequence[torch.Tensor]) -> Record:
        return site_record(sites, self._batch.valid, self._tokens)

    def _input(self) -> Record:
        with torch.no_grad():
            x = embed(self._weights.stem(), self._batch, self._weights.members, self._graph.embedding_factor)
        return {"state": x, **self._statistics([x])}

    def _forward(self, block: int) -> Record:
        weights = self._weights.block(block)
        kept = self._keeps(weights)
        with torch.set_grad_enabled(kept):
            local = self._through(block, weights)
        if kept:
            self._kept[block] = replace(local, parts=[])
        record = {"state": local.sites[-1].detach(), **self._statistics(local.sites)}
        if local.after.scores is not None:
            record["scores"] = local.after.scores.detach()
        return record | (contribution_record(local.parts, self._batch.valid) if self._contributions else {})

    def _keeps(self, weights: Weights) -> bool:
        """Return whether a block's graph is kept for the reverse, and take its bytes from what may be kept."""
        needed = self._weights.members * graph_bytes(self._weights.config, self._batch, self._states[0].element_size())
        dense = any(isinstance(weight, torch.Tensor) and weight.dim() == MATRIX for weight in weights.values())
        if dense or needed > self._room:
            return False
        self._room -= needed
        return True

    def _through(self, block: int, weights: Weights) -> _Local:
        """Run one block on detached inputs, so that its graph reaches no other block."""
        x, scores = self._states[block].detach().requires_grad_(), self._scores.get(block)
        scores = None if scores is None else scores.detach().requires_grad_()
        leaves = Leaves(self._gradients is not None)
        weights = leaves.take(weights, f"blocks.{block}.")
        additions, first = self._graph.blocks[block], self._firsts[block]
        _, sites, parts, after = step(additions, block, x, weights, Carry(scores), self._geometry, first)
        return _Local(x, scores, sites, parts, after, leaves)

    def _loss(self) -> Record:
        config, leaves = self._weights.config, Leaves(self._gradients is not None)
        # An untied head does not read the embedding.
        stem = leaves.take(self._weights.stem(), "") if config.tied else {}
        tail = leaves.take(self._weights.tail(), "")
        x = self._states[len(self._graph.blocks)].detach().requires_grad_()
        loss = mean_loss(self._graph, config, x, stem, tail, self._batch)
        adjoint, *found = torch.autograd.grad(loss.sum(), [x, *leaves.found.values()], allow_unused=True)
        (adjoint,) = checked_adjoints([adjoint], self._labels, len(self._labels) - 1)
        for name, gradient in zip(leaves.found, found, strict=True):
            if gradient is not None and name in stem:
                self._stem_gradients[name] = gradient
            elif gradient is not None and self._gradients is not None:
                self._gradients(name, gradient)
        record = {"adjoint": adjoint, "loss": loss.detach().to("cpu", torch.float64), **self._statistics([adjoint])}
        gain = gain_array(tensor(tail, "final_norm.gain") if self._graph.owns_final_gain else None)
        return record if gain is None else {**record, "final_gain": torch.from_numpy(gain)}

    def _reverse(self, block: int, adjoint: torch.Tensor, scores: torch.Tensor | None) -> Record:
        """Return the adjoints of what enters a block, from those of what leaves it; and of the sites between."""
        local = self._kept.pop(block, None) or self._through(block, self._weights.block(block))
        outputs, given = [local.sites[-1]], [adjoint]
        if scores is not None and local.after.scores is not None:
            outputs.append(local.after.scores)
            given.append(scores)
        sites = [local.x, *local.sites[:-1]]
        entered = [] if local.scores is None else [local.scores]
        leaves = local.leaves.found
        found = torch.autograd.grad(outputs, [*sites, *entered, *leaves.values()], given, allow_unused=True)
        adjoints = checked_adjoints(found[: len(sites)], self._labels, self._firsts[block] - 1)
        if self._gradients is not None:
            for name, gradient in zip(leaves, found[len(sites) + len(entered) :], strict=True):
                if gradient is not None:
                    self._gradients(name, gradient)
        record = {"adjoint": adjoints[0], **self._statistics(adjoints)}
        passed = found[len(sites)] if entered else None
        return record if passed is None else {**record, "scores": passed}

    def _hand_over_stem(self, adjoint: torch.Tensor) -> None:
        """Hand over the embeddings' gradients: through the input state, and through a tied head."""
        assert self._gradients is not None
        leaves = Leaves(True)
        stem = leaves.take(self._weights.stem(), "")
        with recording(self._device):
            x = embed(stem, self._batch, self._weights.members, self._graph.embedding_factor)
            found = torch.autograd.grad(x, list(leaves.found.values()), adjoint, allow_unused=True)
        for name, gradient in zip(leaves.found, found, strict=True):
            terms = [term for term in (gradient, self._stem_gradients.pop(name, None)) if term is not None]
            if terms:
                self._gradients(name, terms[0] if len(terms) == 1 else terms[0] + terms[1])
