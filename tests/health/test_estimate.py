"""One cost model: a sweep's seconds are sums of an observation's, in proportion to what is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.decoder.base_draw import Distribution
from core.decoder.config import DecoderConfig
from core.decoder.parameters import layout
from core.health import estimate as cost
from core.health import pace as paces
from core.health.estimate import estimate
from core.health.pace import REFERENCE, Pace, machine_pace
from core.health.request import DTYPE_NAMES, ObserveRequest
from core.sweep.grid import SweepGrid
from core.sweep.plan import SweepPlan, pass_seconds

REQUEST = ObserveRequest()


def at(pace: Pace, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("core.health.estimate", "core.sweep.plan"):
        monkeypatch.setattr(f"{module}.machine_pace", lambda: pace)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_a_sweep_and_an_observation_count_alike(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two arms of one seed are one observation; only first touches of memory are the observation's own."""
    at(REFERENCE, monkeypatch)
    request = replace(REQUEST, dtype=dtype)
    (group,) = SweepPlan(SweepGrid(blocks=(8,), seeds=(4701,), dtypes=(dtype,))).groups
    alone = estimate(request)
    assert group.seconds == pytest.approx(alone.seconds - alone.total_bytes * cost.SECONDS_PER_BYTE)


def test_seconds_follow_the_machines_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = []
    for pace in (REFERENCE, Pace(moves=3.0, products=3.0)):
        at(pace, monkeypatch)
        seconds.append(estimate(REQUEST).seconds)
    assert seconds[1] == pytest.approx(3 * seconds[0])


def test_a_grid_is_cut_in_the_same_places_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts = []
    for pace in (Pace(moves=0.1, products=0.1), REFERENCE, Pace(moves=9.0, products=9.0)):
        at(pace, monkeypatch)
        bundles = SweepPlan(SweepGrid(blocks=(64, 256), seeds=tuple(range(600)))).groups
        cuts.append([chunk.seeds for group in bundles for chunk in group.chunks])
    assert cuts[0] == cuts[1] == cuts[2]


def test_draws_of_a_normal_law_cost_more() -> None:
    uniform, normal = (cost.draw_seconds(REQUEST.config, 1, Distribution(std)) for std in (None, 0.02))
    assert normal > uniform
    assert cost.draw_seconds(REQUEST.config, 5) == pytest.approx(5 * uniform)
    assert uniform == pytest.approx(layout(REQUEST.config).draws * cost.SECONDS_PER_DRAW)


def test_members_add_up_and_calls_do_not() -> None:
    one, two, three = (pass_seconds(REQUEST.config, REQUEST.batch, "float64", members) for members in (1, 2, 3))
    assert three - two == pytest.approx(two - one)
    assert one - (two - one) == pytest.approx(cost.call_seconds(REQUEST.config))


def test_bfloat16_costs_by_whether_the_processor_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products that a processor must emulate take longer than those of float32; without products nothing changes."""
    config = DecoderConfig(width=1024, heads=8, ff_width=4096)
    seconds = {}
    for has in (True, False):
        monkeypatch.setattr("core.health.estimate.has_bfloat16", lambda has=has: has)
        seconds[has] = cost.member_seconds(config, REQUEST.batch, "bfloat16")
    narrow = cost.member_seconds(config, REQUEST.batch, "float32")
    assert seconds[True] < narrow < seconds[False]


def test_an_estimate_measures_nothing_before_its_seconds_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def probed() -> Pace:
        raise AssertionError("the machine was measured")

    monkeypatch.setattr("core.health.estimate.machine_pace", probed)
    assert estimate(REQUEST).total_bytes > 0


def test_the_pace_is_measured_once_and_positive(monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine_pace()
    assert found.moves > 0
    assert found.products > 0
    monkeypatch.setattr(paces, "_shortest", lambda work: 1 / 0)
    assert machine_pace() is found
