"""Pages run without a browser: the app as a script, its widgets as objects."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from pages.common import outputs, seeds, true_runs, uploads

ROOT = Path(__file__).resolve().parents[2]
APP = ROOT / "pages" / "common" / "main.py"
Open = Callable[..., AppTest]


@pytest.fixture(autouse=True, scope="package")
def own_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test of a page touches the user's own store of finished cells."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPTHSCOPE_STORE", str(tmp_path_factory.mktemp("store") / "cells.sqlite"))
        yield


@pytest.fixture(autouse=True, scope="package")
def no_browser_to_wait_for() -> Iterator[None]:
    """Nobody draws figures here, so no run need leave a browser time to, and seeds are counted before them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "FIGURE_ALONE", 0.0)
        patch.setattr(seeds, "INLINE_WORK", 2**40)
        yield


@pytest.fixture(autouse=True)
def own_temporary_files(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that counts what an upload leaves behind counts nothing of other programs."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


@pytest.fixture(autouse=True)
def own_room(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All apps here are one session in Streamlit's eyes; what one test leaves does not lie there in the next."""
    room, run = uploads.Room(), true_runs.Room()
    monkeypatch.setattr(uploads, "room", lambda: room)
    monkeypatch.setattr(true_runs, "room", lambda: run)
    yield
    room.clear()
    run.clear()


@pytest.fixture
def open_app() -> Open:
    """Run the app once, with query parameters as a link would give them; optionally switch to another page."""

    def opened(page: str | None = None, **parameters: str) -> AppTest:
        app = AppTest.from_file(str(APP), default_timeout=180)
        for name, value in parameters.items():
            app.query_params[name] = value
        app.run()
        return app if page is None else app.switch_page(str(ROOT / page)).run()

    return opened
