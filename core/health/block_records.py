"""The records of a block-by-block run: the result of each step, and the observation that they form together.

A record is a dict of tensors, so that it can be stored: the state or adjoint that the next step needs, and the
statistics of the sites that the step has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from ..decoder.graph import Graph
from ..decoder.profile import Record
from ..decoder.splitmix64 import FloatArray
from ..decoder.tape import Contribution
from .observation import Observation
from .statistics import ContributionStatistics, contribution_statistics, site_statistics

# What the next step needs, and nobody after it.
PASSED = ("state", "adjoint", "scores")
INPUT, LOSS = "input", "loss"
PART_STATISTICS = ("raw_rms", "contribution_rms", "stream_rms", "cosine")


def forward_name(block: int) -> str:
    """Return the name of the step of block number `block` in the forward pass, such as `forward-00003`."""
    return f"forward-{block:05}"


def reverse_name(block: int) -> str:
    """Return the name of the step of block number `block` in the reverse pass, such as `reverse-00003`."""
    return f"reverse-{block:05}"


class Journal(Protocol):
    """A store of the records of finished steps, so that a run can continue after its process has ended."""

    def find(self, name: str) -> Record | None:
        """Return the record of the step `name`, a dict of tensors; None if the step has not finished."""
        ...

    def keep(self, name: str, record: Record) -> None:
        """Store the record of the step `name`."""
        ...


def site_record(sites: Sequence[torch.Tensor], valid: npt.NDArray[np.bool_], tokens: bool) -> Record:
    """Return the statistics of n consecutive sites by name: `rms` `[E, n]` for E members.

    With `tokens` also `tokens` `[E, n, statistics]`, the quantiles of single tokens' RMS in the order of
    `TOKEN_STATISTICS`.
    """
    rms, quantiles = site_statistics(sites, valid, tokens)
    found = {"rms": torch.from_numpy(rms)}
    return found if quantiles is None else {**found, "tokens": torch.from_numpy(quantiles)}


def contribution_record(parts: Sequence[Contribution], valid: npt.NDArray[np.bool_]) -> Record:
    """Return the statistics of the branches of one block by name, `[branches, E]` each.

    The names are `raw_rms`, `contribution_rms`, `stream_rms` and `cosine`; `gain.{index}` holds the gain of a branch's
    norm unless it is all ones.
    """
    statistics = contribution_statistics(parts, valid)
    record = {name: torch.from_numpy(np.stack([getattr(one, name) for one in statistics])) for name in PART_STATISTICS}
    gains = {f"gain.{index}": one.gain for index, one in enumerate(statistics) if one.gain is not None}
    return record | {name: torch.from_numpy(gain) for name, gain in gains.items()}


class Records:
    """The records of one run: taken from its journal if stored there, otherwise computed and stored.

    `computed` counts the steps that were computed.
    """

    def __init__(self, graph: Graph, journal: Journal | None = None) -> None:
        self._graph, self._journal = graph, journal
        self._blocks = range(len(graph.blocks))
        self._found: dict[str, Record] = {}
        # How many steps were not found in the journal.
        self.computed = 0

    def done(self, name: str, compute: Callable[[], Record]) -> Record:
        """Return the record of the step `name`: from the journal, or `compute()`, which is then stored."""
        record = None if self._journal is None else self._journal.find(name)
        if record is None:
            record = compute()
            self.computed += 1
            if self._journal is not None:
                self._journal.keep(name, record)
        return record

    def take(self, name: str, compute: Callable[[], Record]) -> Record:
        """Return only what the next step needs of the step `name` (state, adjoint, scores).

        Its statistics are kept here.
        """
        record = self.done(name, compute)
        self._found[name] = {key: value for key, value in record.items() if key not in PASSED}
        return {key: value for key, value in record.items() if key in PASSED}

    def profile(self, members: int) -> tuple[FloatArray, FloatArray]:
        """Return (activation RMS, adjoint RMS), `[members, sites]` each; NaN at sites (states) not reached yet."""
        shape = (members, len(self._graph.site_labels()))
        activation, adjoint = np.full(shape, np.nan), np.full(shape, np.nan)
        if forward := self._forward():
            reached = _joined(forward, "rms")
            activation[:, : reached.shape[1]] = reached
        if reverse := self._reverse():
            reached = _joined(reverse, "rms")
            adjoint[:, shape[1] - reached.shape[1] :] = reached
        return activation, adjoint

    def observation(self, valid_positions: int, width: int) -> Observation:
        """Return the `Observation` that the records of a finished run form."""
        forward, reverse, loss = self._forward(), self._reverse(), self._found[LOSS]
        return Observation(
            labels=self._graph.site_labels(),
            activation_rms=_joined(forward, "rms"),
            adjoint_rms=_joined(reverse, "rms"),
            loss_nats=loss["loss"].numpy(),
            valid_positions=valid_positions,
            width=width,
            contributions=self._contributions(),
            owns_final_gain=self._graph.owns_final_gain,
            final_gain=loss["final_gain"].numpy() if "final_gain" in loss else None,
            activation_tokens=_joined(forward, "tokens") if "tokens" in loss else None,
            adjoint_tokens=_joined(reverse, "tokens") if "tokens" in loss else None,
        )

    def _forward(self) -> list[Record]:
        """Return the records of the forward that are there, in the order of sites."""
        names = (INPUT, *map(forward_name, self._blocks))
        return [self._found[name] for name in names if name in self._found]

    def _reverse(self) -> list[Record]:
        """Return the records of the reverse that are there, in the order of sites."""
        names = (*map(reverse_name, self._blocks), LOSS)
        return [self._found[name] for name in names if name in self._found]

    def _contributions(self) -> list[ContributionStatistics]:
        statistics, first = [], 1
        for block, additions in enumerate(self._graph.blocks):
            record = self._found[forward_name(block)]
            if PART_STATISTICS[0] not in record:
                return []
            parts = [(site, one, branch) for site, one in enumerate(additions, first) for branch in one.branches]
            for part, (site, addition, branch) in enumerate(parts):
                raw, contribution, stream, cosine = (record[name][part].numpy() for name in PART_STATISTICS)
                gain, owns = record.get(f"gain.{part}"), addition.gain_owner(branch) is not None
                stored = None if gain is None else gain.numpy()
                statistics.append(
                    ContributionStatistics(
                        site, block, branch.kind, raw, contribution, stream, cosine, owns_gain=owns, gain=stored
                    )
                )
            first += len(additions)
        return statistics


def _joined(records: Sequence[Record], name: str) -> FloatArray:
    return np.ascontiguousarray(np.concatenate([record[name].numpy() for record in records], axis=1))
