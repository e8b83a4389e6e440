"""The page Signal lab shows the core's numbers, obeys its link, and answers what cannot run with one sentence."""

from __future__ import annotations

import pytest

from pages.common.lab_controls import PAGES, Bench
from tests.pages.lab_pages import assert_shows, linked, opened, other_value
from tests.pages.support import assert_no_trace, figures, sentences

# A second each at their own size; smaller here, for the page is the same.
SMALLER = {"linear-chain": {"width": "64"}, "relu-chain": {"width": "64"}, "tanh-chain": {"width": "64"}}
PAGE = PAGES["signal_lab"]
NAMES = [bench.experiment.name for bench in PAGE.benches]


def small(bench: Bench) -> dict[str, str]:
    return {bench.controls[key].name: text for key, text in SMALLER.get(bench.experiment.name, {}).items()}


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_opens_with_the_cores_numbers(name: str) -> None:
    bench = PAGE.bench(name)
    app = opened(PAGE, name, **small(bench))
    assert app.title[0].value == "Signal lab"
    assert app.subheader[0].value == bench.experiment.title
    assert_shows(app, name, bench.experiment.options(SMALLER.get(name, {})))


@pytest.mark.parametrize("name", NAMES)
def test_a_link_sets_every_control(name: str) -> None:
    bench = PAGE.bench(name)
    wanted = {control.name: other_value(control) for control in linked(bench)}
    wanted |= {bench.controls[key].name: int(text) for key, text in SMALLER.get(name, {}).items()}
    if name == "decoder-variance":
        wanted |= {"signal_decoder_variance_width": 6, "signal_decoder_variance_heads": 3}
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in wanted.items()}
    app = opened(PAGE, name, **texts)
    assert_no_trace(app)
    for key, value in wanted.items():
        assert app.session_state[key] == value
    assert not sentences(app, "info")[0].startswith("The link asks")


def test_the_page_shows_the_published_chain_to_the_printed_digits() -> None:
    app = opened(PAGE, "linear-chain")
    table = next(one.value for one in app.dataframe if "agrees" in one.value.columns)
    assert len(table) == 12
    assert set(table["agrees"]) == {"yes"}
    entry = PAGE.bench("linear-chain").experiment
    options = entry.options()
    expected = entry.published_table(options, entry.run(options))
    assert expected is not None
    assert table["published"].tolist() == expected["published"].tolist()


def test_a_preset_button_sets_the_controls_and_the_figure() -> None:
    app = opened(PAGE, "scaled-residual")
    button = next(one for one in app.button if one.label == "correlated branches")
    button.click().run()
    entry = PAGE.bench("scaled-residual").experiment
    assert_shows(app, "scaled-residual", entry.options(preset="correlated branches"))
    assert app.slider(key="signal_scaled_residual_branch_correlation").value == 0.5


def test_only_the_chosen_experiment_is_drawn() -> None:
    app = opened(PAGE, "compounding")
    assert len(figures(app)) == 1
    app.session_state[PAGE.selector.name] = PAGE.bench("soft-cap").experiment.label
    app.run()
    assert_shows(app, "soft-cap", PAGE.bench("soft-cap").experiment.options())
    app.session_state[PAGE.selector.name] = PAGE.bench("compounding").experiment.label
    app.run()
    assert_shows(app, "compounding", PAGE.bench("compounding").experiment.options())


@pytest.mark.parametrize(
    ("name", "link", "sentence"),
    [
        ("chain", {"signal_chain_width": "1024", "signal_chain_layers": "200"}, "weights exceed the limit"),
        (
            "scaled-residual",
            {"signal_scaled_residual_input_correlation": "0.9"},
            "below the square of input_correlation",
        ),
        ("norm-placement", {"signal_norm_placement_depths": "12,6"}, "in increasing order"),
        (
            "norm-placement",
            {"signal_norm_placement_depths": "![x](http://a.invalid/b.png)"},
            "it must be a whole number",
        ),
        ("width-update", {"signal_width_update_widths": "1e9"}, "it must be a whole number"),
        (
            "stream-growth",
            {"signal_stream_growth_width": "512", "signal_stream_growth_seeds": "32"},
            "exceed the limit",
        ),
        ("decoder-variance", {"signal_decoder_variance_heads": "3"}, "width 4 is not a multiple of heads 3"),
        ("decoder-variance", {"signal_decoder_variance_kv_heads": "x"}, "kv_heads is 'x'"),
    ],
)
def test_a_setting_that_cannot_run_is_one_sentence(name: str, link: dict[str, str], sentence: str) -> None:
    app = opened(PAGE, name, **link)
    assert_no_trace(app)
    found = sentences(app)
    assert len(found) == 1
    assert sentence in found[0]
    assert not figures(app)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("signal_chain_layers", "201"), ("signal_chain_layers", "nan"), ("signal_chain_width", "0"),
        ("signal_chain_activation", "<b>x</b>"), ("signal_experiment", "nothing"), ("signal_chain_seed", "-1"),
    ],
)  # fmt: skip
def test_a_link_that_no_control_can_take_is_named_and_the_default_used(parameter: str, value: str) -> None:
    app = opened(PAGE, "chain", **{parameter: value})
    assert_no_trace(app)
    notices = [sentence for sentence in sentences(app, "info") if sentence.startswith("The link asks for")]
    assert len(notices) == 1
    assert notices[0].startswith(f"The link asks for {parameter} = ")
    assert figures(app)


def test_the_unit_is_predicted_first_and_then_stepped_through() -> None:
    app = opened(PAGE, "sigmoid-unit", signal_sigmoid_unit_x="3", signal_sigmoid_unit_w="3")
    named = lambda: [trace["name"] for trace in figures(app)[0]["data"]]  # noqa: E731
    assert "this unit's slope" in named()
    app.button(key="unit-reset").click().run()
    assert_no_trace(app)
    assert app.number_input(key="signal_sigmoid_unit_x").value == 1.0
    assert named() == ["output", "slope of the output"]
    assert not sentences(app, "info")
    app.number_input(key="signal_sigmoid_unit_x").set_value(3.0).run()
    app.number_input(key="signal_sigmoid_unit_w").set_value(3.0).run()
    assert named() == ["output", "slope of the output"]
    for count in range(1, 8):
        app.button(key="unit-step").click().run()
        steps = next(one.value for one in app.dataframe if "formula" in one.value.columns)
        assert len(steps) == count
    assert steps["value"].tolist()[2] == 8.5
    assert f"{steps['value'].tolist()[4]:.7f}" == "0.0002034"
    assert app.button(key="unit-step").disabled
    assert sentences(app, "info")
    app.button(key="unit-play").click().run()
    assert named() == ["output", "slope of the output"]
