"""The head and the mean loss of every member (model), with all logits at once or tile by tile over the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from .batch import Batch
from .config import DecoderConfig
from .drawn_matrix import DrawnMatrix
from .graph import Graph
from .operations import apply_norm, matrix, product
from .threads import on_all_cores
from .weights import Weights

# Bytes of logits from which a dense head is read in tiles too; whole, logits and their softmax take three times this.
LARGE_LOGITS = 2**28
# Numbers of one tile of the head, all of its rows and some of the vocabulary; it is read twice while in the cache.
HEAD_TILE = 2**19
# Rows that go through the head at once, and parts of the vocabulary that are summed apart: each part holds a sum of the
# size of the rows, and sums are put together in order, so that the result does not depend on the number of threads.
ROWS, PARTS = 128, 16


def mean_loss(
    graph: Graph, config: DecoderConfig, x: torch.Tensor, stem: Weights, tail: Weights, batch: Batch
) -> torch.Tensor:
    """Return the mean cross entropy of each of E members over the valid targets: float64 `[E]`, in nats.

    `x` `[E, B, T, D]` is the last state of the stream; the final norm and the head are applied here. `stem` holds the
    embeddings (read if the head is tied), `tail` the final norm and an untied head. A large head is read in tiles, so
    that the logits never exist at once.
    """
    if graph.final_norm is not None:
        x = apply_norm(graph.final_norm, x, tail, config.rms_epsilon)
    chosen = torch.from_numpy(np.flatnonzero(batch.valid)).to(x.device)
    x = x.flatten(1, 2)
    if len(chosen) != x.shape[1]:
        x = x[:, chosen]
    head = matrix(stem, "token_embedding.weight").mT if config.tied else matrix(tail, "head.weight")
    targets = torch.from_numpy(batch.targets[batch.valid]).to(x.device)
    if isinstance(head, DrawnMatrix) or _is_large(x, head):
        loss: torch.Tensor = _TiledLoss.apply(x, head, graph.logit_factor, targets)  # type: ignore[no-untyped-call]
        return loss
    logits = product(x, head)
    if graph.logit_factor != 1.0:
        logits = logits * graph.logit_factor
    wide = logits.dtype if logits.dtype == torch.float64 else torch.float32
    nats = functional.cross_entropy(logits.flatten(0, -2).to(wide), targets.repeat(x.shape[0]), reduction="none")
    return nats.view(x.shape[0], -1).to(torch.float64).mean(dim=1)


def _is_large(x: torch.Tensor, head: torch.Tensor) -> bool:
    size = x.shape[0] * x.shape[1] * head.shape[-1] * x.element_size()
    return size > LARGE_LOGITS and not head.requires_grad and x.device.type == "cpu"


class _TiledLoss(torch.autograd.Function):
    """The mean loss; its adjoint is found in the same pass, for logits are not kept."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, head: torch.Tensor | DrawnMatrix, factor: float, targets: torch.Tensor
    ) -> torch.Tensor:
        with torch.no_grad():
            nats, adjoint = _Pass(x.detach(), head, factor, targets).run()
        ctx.adjoint = adjoint.to(x.dtype) if ctx.needs_input_grad[0] else None
        return nats

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return ctx.adjoint * gradients[0].to(ctx.adjoint.dtype)[:, None, None], None, None, None


@dataclass
class _Sum:
    """Over some of the vocabulary: largest logit, sum of exp(logit - largest), and sum of that times the columns."""

    largest: torch.Tensor
    total: torch.Tensor
    columns: torch.Tensor

    def raise_to(self, largest: torch.Tensor) -> None:
        """Refer the sums to another largest logit."""
        kept = (self.largest - largest).exp()
        self.largest = largest
        self.total *= kept
        self.columns *= kept[:, None]

    def join(self, other: _Sum) -> None:
        """Add the sums over another part."""
        largest = torch.maximum(self.largest, other.largest)
        self.raise_to(largest)
        other.raise_to(largest)
        self.total += other.total
        self.columns += other.columns


class _DenseHead:
    """A head that stands in memory, read by the same names as a `DrawnMatrix`."""

    def __init__(self, head: torch.Tensor, wide: torch.dtype) -> None:
        self.slices, self._head, self._wide = head.shape[0], head, wide

    def before(self) -> torch.Tensor:
        return torch.ones(1, dtype=self._wide)

    after = before

    def room(self, size: int) -> Any:
        return None

    def tile(self, room: Any, number: int, rows: slice, columns: slice) -> torch.Tensor:
        return self._head[number, rows, columns].to(self._wide)


class _Pass:
    """One pass over the vocabulary: logits of a tile, their exponentials, and those times the same tile transposed."""

    def __init__(self, x: torch.Tensor, head: torch.Tensor | DrawnMatrix, factor: float, targets: torch.Tensor) -> None:
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        self.head = head if isinstance(head, DrawnMatrix) else _DenseHead(head, wide)
        self.targets, self.dtype, self.shape = targets, x.dtype, x.shape
        rows = x.to(wide).view(self.head.slices, -1, *x.shape[1:])
        self.before = self.head.before()
        # What multiplies the logits of a column: `[slices, arms, 1, vocabulary]`.
        self.scale = (self.head.after() * factor).expand(*rows.shape[:2], 1, head.shape[-1])
        self.rows = rows * self.before
        self.logits = rows.new_empty(rows.shape[:3])
        self.aims = torch.empty_like(self.rows)
        self.step = max(1, HEAD_TILE // x.shape[-1])

    def run(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mean loss `[E]` in float64 and its derivative with respect to the rows `[E, targets, D]`."""
        slices, arms, count, _ = self.rows.shape
        height = max(1, ROWS // arms)
        nats = self.logits.new_empty(self.logits.shape, dtype=torch.float64)
        for number in range(slices):
            for start in range(0, count, height):
                chosen = slice(start, min(start + height, count))
                found = self._sum(number, chosen)
                place = (number, slice(None), chosen)
                largest, total = (part.double().view(arms, -1) for part in (found.largest, found.total))
                nats[place] = total.log() + largest - self.logits[place]
                mean = (found.columns / found.total.to(found.columns.dtype)[:, None]).view(arms, -1, self.shape[-1])
                self.aims[place] = mean - self.aims[place]
        adjoint = self.aims * self.before / count
        return nats.view(self.shape[:2]).mean(dim=1), adjoint.view(self.shape)

    def _sum(self, number: int, chosen: slice) -> _Sum:
        """Sum over the whole vocabulary for some rows of one slice; its parts are shared among the cores."""
        vocabulary = self.scale.shape[-1]
        size = -(-vocabulary // PARTS)
        parts = [range(start, min(start + size, vocabulary)) for start in range(0, vocabulary, size)]
        found: list[_Sum | None] = [None] * len(parts)

        def fill(part: int) -> None:
            found[part] = self._part(number, chosen, parts[part])

        on_all_cores(fill, range(len(parts)))
        first, *others = [part for part in found if part is not None]
        for other in others:
            first.join(other)
        return first

    def _part(self, number: int, chosen: slice, part: range) -> _Sum:
        rows = self.rows[number, :, chosen]
        flat = rows.reshape(-1, rows.shape[-1])
        sums = _Sum(
            flat.new_full((len(flat),), -torch.inf),
            flat.new_zeros(len(flat), dtype=torch.float64),
            flat.new_zeros(flat.shape),
        )
        room = self.head.room(self.step * self.shape[-1])
        for start in range(part.start, part.stop, self.step):
            columns = slice(start, min(start + self.step, part.stop))
            tile = self.head.tile(room, number, slice(0, self.shape[-1]), columns)
            scale = self.scale[number, :, :, columns]
            logits = (flat @ tile).view(*rows.shape[:2], -1) * scale
            # A dense head rounds its logits; so does this pass.
            logits = logits.to(self.dtype).to(flat.dtype)
            self._pick(number, chosen, columns, tile, logits)
            sums.raise_to(torch.maximum(sums.largest, logits.flatten(0, 1).amax(dim=1)))
            weights = (logits - sums.largest.view(*rows.shape[:2], 1)).exp()
            sums.total += weights.flatten(0, 1).sum(dim=1)
            sums.columns.addmm_((weights * scale).flatten(0, 1), tile.mT)
        return sums

    def _pick(self, number: int, chosen: slice, columns: slice, tile: torch.Tensor, logits: torch.Tensor) -> None:
        """Keep the logits of the targets that stand in this tile, and their columns."""
        targets = self.targets[chosen]
        here = torch.nonzero((targets >= columns.start) & (targets < columns.stop)).flatten()
        if len(here):
            places = targets[here] - columns.start
            self.logits[number, :, here + chosen.start] = logits[:, here, places]
            scale = self.scale[number, :, 0, columns][:, places]
            self.aims[number, :, here + chosen.start] = tile[:, places].mT * scale[:, :, None]
