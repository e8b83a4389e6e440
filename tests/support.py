"""What tests of the engine and the command line share: batches, observations beside the references, running a verb."""

from __future__ import annotations

import contextlib
import io
import json
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from core.cli import run
from core.decoder.base_draw import BaseDraw
from core.decoder.batch import Batch
from core.decoder.config import DecoderConfig
from core.errors import DepthscopeError
from core.health.arms import observe_arms
from core.health.observation import Observation
from core.recipes.catalogue import recipe

Rows = Sequence[tuple[Any, ...]]
# Far above what linear work needs and far below what quadratic work would take on inputs of full size.
RUNAWAY_SECONDS = 60.0

# A row is (inputs, targets[, valid[, segments]]).
ROW: Rows = [([0, 99, 100, 101], [99, 100, 101, 1])]
RAGGED: Rows = [
    ([0, 99, 100, 101, 7, 3], [99, 100, 101, 7, 3, 1]),
    ([5, 50], [50, 1]),
    ([8], [9]),
]
MASKED: Rows = [
    ([0, 99, 100, 101, 7, 3], [99, 100, 101, 7, 3, 1], [False, True, True, False, True, False]),
    ([5, 50], [50, 1], [True, True]),
    ([8], [9], [False]),
]
PACKED: Rows = [
    (*MASKED[0], [4, 4, 0, 0, 0, 9]),
    (*MASKED[1], [1, 2]),
    (*MASKED[2], [0]),
]
BATCHES = {"row": ROW, "ragged": RAGGED, "masked": MASKED, "packed": PACKED}


@contextlib.contextmanager
def no_runaway() -> Iterator[None]:
    """Fail a test whose work grows out of hand instead of waiting for it; counts this process's own time only."""

    def stop(*_: object) -> None:
        pytest.fail(f"still computing after {RUNAWAY_SECONDS:g} seconds of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, RUNAWAY_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def batch_of(rows: Rows) -> Batch:
    """The engine's batch of the same rows."""
    full = [(*row, None, None)[:4] for row in rows]
    inputs, targets = ([row[part] for row in full] for part in (0, 1))
    valid = [[True] * len(row[0]) if row[2] is None else row[2] for row in full]
    segments = [[0] * len(row[0]) if row[3] is None else row[3] for row in full]
    return Batch.from_rows(inputs, targets, valid, segments)


def observe_one(config: DecoderConfig, name: str, seed: int, rows: Rows, **options: Any) -> Observation:
    """One recipe on one seed, alone in its pass."""
    return observe_arms(BaseDraw(config, [seed]), [recipe(name)], batch_of(rows), **options)[0].observation


def assert_agrees(observation: Observation, member: int, reference: dict[str, Any], tolerance: float = 1e-12) -> None:
    """Loss, every site and every contribution of one member beside a plain reference, relative."""
    assert observation.loss_nats[member] == pytest.approx(reference["loss"], rel=tolerance, abs=0)
    assert observation.labels == [site[0] for site in reference["sites"]]
    for values, part in ((observation.activation_rms, 1), (observation.adjoint_rms, 2)):
        np.testing.assert_allclose(values[member], [site[part] for site in reference["sites"]], rtol=tolerance)
    if "contributions" not in reference:
        return
    for ours, theirs in zip(observation.contributions, reference["contributions"], strict=True):
        label, branch, raw, contribution, stream, cosine = theirs
        assert (observation.labels[ours.site], ours.branch) == (label, branch)
        np.testing.assert_allclose(
            [ours.raw_rms[member], ours.contribution_rms[member], ours.stream_rms[member]],
            [raw, contribution, stream],
            rtol=tolerance,
        )
        # A cosine has the scale 1 whatever its value.
        assert ours.cosine[member] == pytest.approx(np.nan if cosine is None else cosine, abs=tolerance, nan_ok=True)


def assert_same_member(ours: Observation, member: int, theirs: Observation, other: int, tolerance: float) -> None:
    """Two members of two passes, every number of both."""
    assert ours.labels == theirs.labels
    assert ours.valid_positions == theirs.valid_positions
    np.testing.assert_allclose(ours.loss_nats[member], theirs.loss_nats[other], rtol=tolerance)
    np.testing.assert_allclose(ours.activation_rms[member], theirs.activation_rms[other], rtol=tolerance)
    np.testing.assert_allclose(ours.adjoint_rms[member], theirs.adjoint_rms[other], rtol=tolerance)
    for a, b in zip(ours.contributions, theirs.contributions, strict=True):
        assert (a.site, a.block, a.branch) == (b.site, b.block, b.branch)
        for part in ("raw_rms", "contribution_rms", "stream_rms"):
            np.testing.assert_allclose(getattr(a, part)[member], getattr(b, part)[other], rtol=tolerance)
        np.testing.assert_allclose(a.cosine[member], b.cosine[other], rtol=0, atol=tolerance)


def refused(call: Callable[[], Any]) -> str | None:
    """The sentence of the refusal that `call` raises, None where it returns; anything else it raises is passed on."""
    try:
        call()
    except DepthscopeError as refusal:
        return str(refusal)
    return None


@dataclass(frozen=True)
class Outcome:
    """What a run of the command line left: exit status, standard output and standard error."""

    status: int
    out: str
    err: str

    def document(self) -> Any:
        """Standard output as the one JSON document it must be."""
        return json.loads(self.out)


def run_cli(*arguments: object) -> Outcome:
    """Run the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([str(argument) for argument in arguments])
    return Outcome(status, out.getvalue(), err.getvalue())
