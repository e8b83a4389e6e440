"""What every test shares: one thread, a fixed hypothesis profile, and the caller's torch settings put back."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# Tensors in tests are small, and two threads on small tensors wait for each other. Subprocesses inherit this.
os.environ["OMP_NUM_THREADS"] = "1"

settings.register_profile("depthscope", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("depthscope")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The command line sets the thread count of its process; in tests that process is this one."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(autouse=True)
def silent_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine, no test's standard error has a line of progress that it did not ask for."""
    monkeypatch.setattr("core.command.progress.LOG_FIRST", float("inf"))


@pytest.fixture(scope="session")
def document() -> dict[str, Any]:
    """The observe document of the narrow eight-block decoder."""
    return _observed(8)


@pytest.fixture(scope="session")
def deep_document() -> dict[str, Any]:
    """Thirty-two narrow blocks: the control leaves the band, the scaled arm stays."""
    return _observed(32)


def _observed(blocks: int) -> dict[str, Any]:
    from core.decoder.config import DecoderConfig
    from core.health.report import observe_document
    from core.health.request import ObserveRequest

    return observe_document(ObserveRequest(config=DecoderConfig(blocks=blocks)))
