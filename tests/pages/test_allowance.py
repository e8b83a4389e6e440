"""A session that computed its share waits; time gives it back; other sessions are not touched."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import BudgetError
from pages.common import allowance


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Both clocks in the test's hand, and a separate session."""
    state: dict[str, Any] = {}
    now = {"wall": 1000.0, "work": 0.0}
    monkeypatch.setattr("streamlit.session_state", state)
    monkeypatch.setattr("time.monotonic", lambda: now["wall"])
    monkeypatch.setattr("time.thread_time", lambda: now["work"])
    return now


def work(clock: dict[str, float], seconds: float) -> None:
    with allowance.charged():
        clock["wall"] += seconds
        clock["work"] += seconds


def test_a_session_waits_once_its_share_is_used_and_goes_on_later(clock: dict[str, float]) -> None:
    for _ in range(4):
        work(clock, 8.0)
    with pytest.raises(BudgetError, match=r"more than 30 s within a minute; wait 36 s"):
        work(clock, 1.0)
    clock["wall"] += 37
    work(clock, 1.0)


def test_small_work_is_never_refused(clock: dict[str, float]) -> None:
    for _ in range(1000):
        clock["wall"] += 0.3
        work(clock, 0.05)


def test_work_that_fails_is_charged_too(clock: dict[str, float]) -> None:
    def failing() -> None:
        with allowance.charged():
            clock["work"] += 31
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    with pytest.raises(BudgetError):
        work(clock, 1.0)
