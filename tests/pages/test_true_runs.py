"""A run at true size: its numbers are the model's own, one at a time on the server, cancelled and continued."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.decoder.config import DecoderConfig
from core.errors import BudgetError
from core.health import estimate
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.sweep.request import uniform_batch
from core.tables.observe import site_table
from pages.common import true_runs, twins
from tests.pages.conftest import Open
from tests.pages.support import assert_no_trace, downloads, figures, finished, sentences

LINK = {"width": "64", "heads": "2", "kv_heads": "2", "ff_width": "64", "batch": "random", "seeds": "2"}
BLOCKS = 6


@pytest.fixture(autouse=True)
def small_budget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A page runs so little at once that the model below is shown as a twin; no run outlives its test."""
    monkeypatch.setattr(twins, "MOST_WORK", 2**17)
    yield
    if true_runs.SLOT.job is not None:
        true_runs.SLOT.job.cancel()
    assert true_runs.SLOT.lock.acquire(timeout=60)
    true_runs.SLOT.lock.release()


def true_request(**changes: int) -> ObserveRequest:
    config = DecoderConfig(blocks=BLOCKS, width=64, heads=2, kv_heads=2, ff_width=64, positions=32)
    return ObserveRequest(config=replace(config, **changes), batch=uniform_batch(1, 32, 266))


def opened(open_app: Open, **link: str) -> AppTest:
    app = open_app(**{"blocks": str(BLOCKS), **LINK, **link})
    assert any("reduced twin" in said for said in sentences(app, "caption"))
    app.session_state["true-size"] = True
    return app.run()


def lines(app: AppTest) -> list[list[float]]:
    return [list(trace["y"]) for figure in figures(app) for trace in figure["data"] if "y" in trace]


def test_the_numbers_of_a_run_are_the_model_s_own_in_figures_tables_and_exports(open_app: Open) -> None:
    app = opened(open_app)
    (offer,) = sentences(app, "info")
    assert offer.startswith("Nothing was run yet. One seed of this model takes about 1 s of one core")
    before = lines(app)
    files = downloads(app)
    finished(app.button(key="run-it").click().run())
    assert_no_trace(app)
    expected = site_table(observe_document(true_request()))
    (table,) = (one.value for one in app.dataframe if "G ratio" in one.value.columns)
    recipe = expected[expected["arm"] == "initialized"]
    assert table["A ratio"].tolist() == pytest.approx(recipe["activation_ratio"].tolist(), rel=1e-12)
    ratios = pytest.approx(recipe["activation_ratio"].tolist(), rel=1e-12)
    assert any(ratios == values for values in lines(app) if len(values) == len(recipe))
    # One seed has no verdict table of its own; the verdict above stays that of the twin.
    assert set(files) - set(downloads(app)) == {"verdicts.csv", "verdicts.json"} or downloads(app) == files
    assert any("setting" not in said and "width 64," in said for said in sentences(app, "caption"))
    app.session_state["size-shown"] = "its reduced twin"
    assert lines(app.run()) == before
    assert "run-it" not in [button.key for button in app.button]


def begun(app: AppTest) -> true_runs.TrueRun:
    """Press the button, and let the process stand still after its first block."""
    app.button(key="run-it").click().run()
    job = true_runs.SLOT.job
    assert isinstance(job, true_runs.TrueRun)
    while job.work.state is None:
        time.sleep(0.001)
        assert not job.ended
    os.kill(job.work.pid, signal.SIGSTOP)
    return job


def test_a_cancelled_run_goes_on_and_others_see_only_that_the_server_is_busy(
    open_app: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(twins, "MOST_WORK", 2**19)
    link = {"blocks": "40", "seeds": "1"}
    app = opened(open_app, **link)
    job = begun(app)
    other = opened(open_app, **link, seed="5")
    assert "run-it" not in [button.key for button in other.button]
    (busy,) = (said for said in sentences(other, "info") if "busy" in said)
    assert busy.startswith("The server is busy with the run of another session, about ")
    assert len(figures(other)) == 2
    app.run()
    assert any("of 80 blocks, forward and in reverse, about" in str(bar.proto.text) for bar in app.get("progress"))
    assert len(figures(app)) == 3
    app.button(key="cancel-run").click().run()
    while not job.ended:
        time.sleep(0.01)
    app.run()
    assert sentences(app)[-1] == "The run was cancelled."
    assert job.work.state is not None
    done = job.work.state.done
    assert any(
        said.startswith(f"{done} of 80 blocks are kept; Continue goes on from there.")
        for said in sentences(app, "info")
    )
    assert app.button(key="run-it").label == "Continue"
    again = begun(app)
    assert again.work.state is not None
    assert again.work.state.done > done
    os.kill(again.work.pid, signal.SIGCONT)
    finished(app)
    assert_no_trace(app)
    (table,) = (one.value for one in app.dataframe if "G ratio" in one.value.columns)
    expected = site_table(observe_document(true_request(blocks=40)))
    recipe = expected[expected["arm"] == "initialized"]
    assert table["G ratio"].tolist() == pytest.approx(recipe["adjoint_ratio"].tolist(), rel=1e-12)
    assert other.run().button(key="run-it").label == "Run it"


@pytest.mark.parametrize("limit", ["memory", "time"])
def test_what_the_server_does_not_grant_is_one_sentence_with_the_twin_as_the_way_out(
    open_app: Open, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    if limit == "memory":
        # All of it is too little for the share of it that a run may use; the twin needs a fraction.
        wide = replace(true_request(width=512, ff_width=512), driver="block")
        needed = estimate.estimate(wide).total_bytes
        monkeypatch.setattr(estimate, "available_memory", lambda: needed)
    else:
        monkeypatch.setattr(true_runs, "LONGEST_SECONDS", 1e-9)
    app = opened(open_app, width="512", ff_width="512")
    assert_no_trace(app)
    (said,) = (said for said in sentences(app) if "reduced twin" in said)
    assert ("GiB may be used" in said) == (limit == "memory")
    assert ("this server grants one run" in said) == (limit == "time")
    assert "run-it" not in [button.key for button in app.button]


def test_a_run_leaves_nothing_once_its_room_is_cleared() -> None:
    room = true_runs.Room()
    work = room.start(true_request())
    assert room.work(true_request()) is work
    assert room.work(true_request(blocks=7)) is None
    (folder,) = Path(tempfile.gettempdir()).glob("depthscope-run-*")
    room.clear()
    assert not folder.exists()
    with pytest.raises(BudgetError, match="The run was stopped"):
        work.result()
    assert room.work(true_request()) is None
