"""A sweep that is asked to end by a signal says so in a sentence, and leaves what an interrupt leaves."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from core.sweep.process import Stopped, stoppable
from tests.sweep.support import start
from tests.sweep.test_interruption import LONG, assert_gone, children_of, wait_for_cells


@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_asks_it_to_end_is_answered_in_a_sentence(
    tmp_path: Path, asked: signal.Signals, workers: tuple[str, ...]
) -> None:
    process = start(*LONG, *workers, "--store", tmp_path / "cells.sqlite", "--out", tmp_path / "out")
    wait_for_cells(process, tmp_path / "cells.sqlite")
    children = children_of(process.pid)
    process.send_signal(asked)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (128 + asked, "")
    assert err.splitlines()[-1] == (
        f"Stopped by {asked.name}; finished cells are kept in {tmp_path / 'cells.sqlite'}; run the same command to go "
        "on."
    )
    assert "Traceback" not in err
    assert_gone(children)
    assert os.listdir(tmp_path / "out") == ["manifest.json"]


def test_a_signal_that_the_caller_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        with pytest.raises(Stopped), stoppable():
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
