"""A run's state after every block: blocks over all passes, the time left by a clock in hand, and the sites reached."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from core.decoder.config import DecoderConfig
from core.health.kept_run import kept_document
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.health.run_watch import RunState, RunWatch

pytestmark = pytest.mark.fast
BLOCKS = 3
REQUEST = ObserveRequest(config=DecoderConfig(blocks=BLOCKS), driver="block")


class Stop(Exception):
    """Ends a run from within."""


class Clock:
    """Every block takes 2 seconds forward and 5 in reverse, in passes of three blocks each."""

    def __init__(self, computed: int = 0) -> None:
        self.now, self._calls, self._computed = 100.0, 0, computed

    def __call__(self) -> float:
        if self._calls:
            self.now += 2.0 if (self._computed + self._calls - 1) % (2 * BLOCKS) < BLOCKS else 5.0
        self._calls += 1
        return self.now


def followed(request: ObserveRequest, folder: Path, *, until: int | None = None, computed: int = 0) -> list[RunState]:
    states: list[RunState] = []

    def shown(state: RunState) -> None:
        states.append(state)
        if len(states) == until:
            raise Stop

    watch = RunWatch(request, shown, Clock(computed))
    try:
        kept_document(request, folder, seen=watch.seen, told=watch.told)
    except Stop:
        assert until is not None
    return states


def test_blocks_and_time_left_are_counted_over_one_pass(tmp_path: Path) -> None:
    states = followed(REQUEST, tmp_path)
    assert [(state.done, state.total) for state in states] == [(done, 6) for done in range(1, 7)]
    # Until a block was timed in reverse it is taken to be twice one forward.
    assert [state.seconds_left for state in states] == [16.0, 14.0, 12.0, 10.0, 5.0, 0.0]


def test_passes_of_other_graphs_are_counted_together(tmp_path: Path) -> None:
    states = followed(ObserveRequest(config=REQUEST.config, recipe="realformer", driver="block"), tmp_path)
    assert [(state.done, state.total) for state in states] == [(done, 12) for done in range(1, 13)]
    assert [list(state.reached) for state in states] == [["realformer"]] * 6 + [["unscaled"]] * 6
    assert states[5].seconds_left == 3 * 2.0 + 3 * 5.0
    assert states[-1].seconds_left == 0.0


def test_a_resumed_run_times_only_what_it_computes(tmp_path: Path) -> None:
    followed(REQUEST, tmp_path, until=4)
    states = followed(REQUEST, tmp_path, computed=4)
    assert [(state.done, state.seconds_left) for state in states] == [(5, 5.0), (6, 0.0)]


def test_the_profile_grows_forward_then_in_reverse_to_that_of_the_document(tmp_path: Path) -> None:
    states = followed(REQUEST, tmp_path)
    document = observe_document(REQUEST)
    for name, key in ((REQUEST.recipe, "initialized"), ("unscaled", "same_base_unscaled_control")):
        sites = document[key]["sites"]
        for state in states:
            one = state.reached[name]
            forward, reverse = min(state.done, BLOCKS), max(0, state.done - BLOCKS)
            assert list(one.labels) == [site["label"] for site in sites]
            for found, column, reached in (
                (one.activation, "activation_rms", np.arange(2 * BLOCKS + 1) <= 2 * forward),
                (one.adjoint, "adjoint_rms", np.arange(2 * BLOCKS + 1) >= 2 * (BLOCKS - reverse)),
            ):
                expected = np.array([site[column] for site in sites])
                known = reached if column == "activation_rms" or reverse else np.zeros_like(reached)
                assert np.isnan(found[~known]).all()
                assert (found[known] == expected[known]).all()
