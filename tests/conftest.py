"""What every test shares: one thread, a fixed hypothesis profile, and the caller's torch settings put back."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Tensors in tests are small, and two threads on small tensors wait for each other. Subprocesses inherit this.
os.environ["OMP_NUM_THREADS"] = "1"
# What `use_one_thread` sets at the start of a program, before the first product.
os.environ["MKL_CBWR"] = "AUTO,STRICT"

# `pytest -m fast`: the laws of the core that need no other library and no process, in half a minute.
FAST = (
    "test_files.py", "test_numerals.py", "test_strict_json.py", "command/test_help.py", "audit/test_initialization.py",
    "compare/test_cards.py", "construction", "decoder/test_batch.py", "decoder/test_config.py",
    "decoder/test_distribution.py", "decoder/test_engine_gradients.py", "decoder/test_splitmix64.py",
    "decoder/test_xavier.py", "export/test_compare.py", "figures/test_chart.py", "health", "plan/test_plan.py",
    "recipes", "sweep/test_grid.py", "sweep/test_keys.py", "sweep/test_store.py",
)  # fmt: skip
HERE = Path(__file__).parent

settings.register_profile("depthscope", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("depthscope")


def is_fast(path: Path) -> bool:
    """Whether the tests of a file belong to the fast ones."""
    return any(path.is_relative_to(HERE / part) for part in FAST)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave other files unread where only the fast ones are asked for, for reading all takes ten seconds."""
    wanted = config.getoption("markexpr") != "fast" or collection_path.suffix != ".py" or is_fast(collection_path)
    return None if wanted else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the fast tests; a heavy one among them is not."""
    for item in items:
        if is_fast(item.path) and item.get_closest_marker("heavy") is None:
            item.add_marker(pytest.mark.fast)


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
