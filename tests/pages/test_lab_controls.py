"""Controls of the lab pages: read off the options, unique, complete, and turned back into the same options."""

from __future__ import annotations

import itertools

import pytest
import streamlit as st

from core.errors import DepthscopeError
from core.lab.experiments import EXPERIMENTS
from pages.common.lab_controls import PAGES, Bench, LabPage
from pages.common.widgets import Control
from tests.pages.lab_pages import ends

BENCHES = [(page, bench) for page in PAGES.values() for bench in page.benches]
PREFIXES = {"signal_lab": "signal_", "norm_lab": "norm_", "residual_paths": "paths_"}


def refused(bench: Bench) -> str | None:
    """The sentence with which the controls' options are refused; anything but a refusal goes on up."""
    try:
        bench.options()
    except DepthscopeError as error:
        return str(error)
    return None


@pytest.fixture(autouse=True)
def _empty_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "session_state", {})


def test_every_experiment_has_its_place_and_every_option_its_control() -> None:
    assert sorted(bench.experiment.name for _, bench in BENCHES) == sorted(EXPERIMENTS)
    for page, bench in BENCHES:
        assert bench.experiment.page == page.name
        drawn, declared = set(bench.controls), set(bench.experiment.options_type.declared())
        # The norms with a moment need no share and no alpha.
        assert declared - drawn == ({"share", "alpha"} if bench.experiment.name == "norm-epsilon" else set())


def test_names_are_unique_over_all_pages_and_carry_the_pages_prefix() -> None:
    names = [control.name for page in PAGES.values() for control in page.controls]
    assert len(set(names)) == len(names)
    for page in PAGES.values():
        assert all(control.name.startswith(PREFIXES[page.name]) for control in page.controls)
        assert len({bench.experiment.label for bench in page.benches}) == len(page.benches)


@pytest.mark.parametrize(
    ("page", "bench"), BENCHES, ids=lambda item: getattr(getattr(item, "experiment", item), "name", "")
)
def test_the_defaults_are_the_experiments_own(page: LabPage, bench: Bench) -> None:
    assert bench.options() == bench.experiment.options()


@pytest.mark.parametrize(
    ("page", "bench"), BENCHES, ids=lambda item: getattr(getattr(item, "experiment", item), "name", "")
)
def test_every_preset_is_reached_through_the_controls(page: LabPage, bench: Bench) -> None:
    for preset, given in bench.experiment.presets.items():
        st.session_state.clear()
        st.session_state.update(bench.setting(given))
        assert bench.options() == bench.experiment.options(preset=preset)
        st.session_state.clear()
        st.session_state.update(page.setting(bench.experiment.name, given))
        assert page.chosen is bench
        assert bench.options() == bench.experiment.options(preset=preset)


@pytest.mark.parametrize(
    ("page", "bench"), BENCHES, ids=lambda item: getattr(getattr(item, "experiment", item), "name", "")
)
def test_every_value_that_a_control_can_hold_is_an_option_or_one_sentence(page: LabPage, bench: Bench) -> None:
    for control in bench.controls.values():
        for value in [*ends(control), *(["", "x", "1,2", "9" * 40, "1e400", "-1"] if control.kind == "text" else [])]:
            st.session_state.clear()
            st.session_state[control.name] = value
            sentence = refused(bench)
            assert sentence is None or (sentence.endswith(".") and "\n" not in sentence)


@pytest.mark.parametrize(
    ("page", "bench"), BENCHES, ids=lambda item: getattr(getattr(item, "experiment", item), "name", "")
)
def test_what_a_manifest_holds_is_what_the_controls_take(page: LabPage, bench: Bench) -> None:
    for control in bench.controls.values():
        assert control.checked(control.default) == control.default
        for value in ends(control):
            assert control.checked(value) == value


def test_a_hidden_control_does_not_count() -> None:
    bench = PAGES["signal_lab"].bench("chain")
    st.session_state["signal_chain_factor"] = 3.0
    assert bench.options() == bench.experiment.options()
    st.session_state["signal_chain_spread"] = "custom"
    assert bench.options() == bench.experiment.options({"spread": "custom", "factor": 3.0})


def test_a_field_waits_for_what_its_master_waits_for() -> None:
    bench = PAGES["norm_lab"].bench("one-pass-moments")
    for source, seen in (("drawn", {"seed", "drawn_width"}), ("typed", {"x"}), ("decoder", {"seed", "site", "width"})):
        st.session_state["norm_one_pass_moments_source"] = source
        for option in ("seed", "drawn_width", "x", "site", "width"):
            assert bench.counts(option) is (option in seen), (source, option)


def test_a_preset_keeps_the_row_that_was_typed() -> None:
    bench = PAGES["norm_lab"].bench("norm-steps")
    st.session_state["norm_x"] = "1,2,3"
    st.session_state["norm_steps_epsilon"] = 1.0
    st.session_state.update(bench.setting({"norm": "rmsnorm"}))
    options = bench.options()
    assert options == bench.experiment.options({"norm": "rmsnorm", "x": "1,2,3"})


def test_controls_that_share_a_name_are_the_same() -> None:
    for page in PAGES.values():
        found: dict[str, Control] = {}
        for control in itertools.chain.from_iterable(bench.controls.values() for bench in page.benches):
            assert found.setdefault(control.name, control) == control
