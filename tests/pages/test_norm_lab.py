"""The page Norm lab shows the core's numbers on a typed row and on a decoder's, and keeps the row."""

from __future__ import annotations

import pytest

from pages.common.lab_controls import PAGES
from tests.pages.lab_pages import assert_shows, linked, opened, other_value
from tests.pages.support import assert_no_trace, figures, sentences

PAGE = PAGES["norm_lab"]
NAMES = [bench.experiment.name for bench in PAGE.benches]
ON_A_ROW = [name for name in NAMES if name not in ("residual-once", "one-pass-moments", "accumulation")]


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_opens_with_the_cores_numbers(name: str) -> None:
    app = opened(PAGE, name)
    assert app.title[0].value == "Norm lab"
    assert_shows(app, name, PAGE.bench(name).experiment.options())


@pytest.mark.parametrize("name", NAMES)
def test_a_link_sets_every_control(name: str) -> None:
    bench = PAGE.bench(name)
    # A control that others wait for hides them at another value, so each of those is linked by itself.
    whens = [option.when for option in bench.experiment.declared.values()]
    awaited = {bench.controls[when[0]].name for when in whens if when}
    values = {control.name: other_value(control) for control in linked(bench)}
    together = {key: value for key, value in values.items() if key not in awaited}
    for wanted in (together, *({key: value} for key, value in values.items() if key in awaited)):
        app = opened(PAGE, name, **{key: str(value) for key, value in wanted.items()})
        assert_no_trace(app)
        for key, value in wanted.items():
            assert app.session_state[key] == value


@pytest.mark.parametrize("name", ON_A_ROW)
def test_every_experiment_takes_a_row_of_a_decoder(name: str) -> None:
    given = {"source": "decoder", "site": "3", "position": "1", "blocks": "2", "width": "6", "seed": "7"}
    app = opened(PAGE, name, **{f"norm_{key}": text for key, text in given.items()})
    assert_shows(app, name, PAGE.bench(name).experiment.options(given))


def test_the_row_is_kept_from_experiment_to_experiment() -> None:
    app = opened(PAGE, "norm-steps")
    app.text_input(key="norm_x").set_value("1, 2, 3, 4, 5.5; 0,0,0,0,1").run()
    for name in ("norm-gradients", "norm-jacobian", "variance-divisor"):
        app.session_state[PAGE.selector.name] = PAGE.bench(name).experiment.label
        app.run()
        assert_shows(app, name, PAGE.bench(name).experiment.options({"x": "1, 2, 3, 4, 5.5; 0,0,0,0,1"}))


def test_the_hand_arithmetic_agrees_to_three_decimals() -> None:
    for norm in ("layernorm", "rmsnorm"):
        app = opened(PAGE, "norm-steps", norm_steps_norm=norm)
        table = next(one.value for one in app.dataframe if "agrees" in one.value.columns)
        assert len(table) == 7
        assert set(table["agrees"]) == {"yes"}


def test_a_constant_row_without_epsilon_is_refused_in_words() -> None:
    app = opened(PAGE, "norm-epsilon", norm_epsilon_norm="layernorm", norm_epsilon_epsilon="0")
    assert_no_trace(app)
    assert "layernorm divides 0 by 0" in sentences(app, "info")[0]
    assert figures(app)


@pytest.mark.parametrize(
    ("name", "link", "sentence"),
    [
        ("norm-steps", {"norm_x": "1,2,abc"}, "holds 'abc'"),
        ("norm-steps", {"norm_x": "1,2;3"}, "make all equal"),
        ("norm-steps", {"norm_x": "nan"}, "holds 'nan'"),
        ("norm-steps", {"norm_x": "1e200"}, "numbers of size"),
        ("norm-steps", {"norm_x": "0,0", "norm_steps_epsilon": "0"}, "divides 0 by 0"),
        ("norm-steps", {"norm_steps_gain": "1,2"}, "gain has 2 numbers and the row has 4"),
        ("norm-jacobian", {"norm_x": ",".join(["1"] * 65)}, "give 1 to 64"),
        ("norm-invariances", {"norm_source": "decoder", "norm_site": "17"}, "sites 0 to 16"),
        ("norm-invariances", {"norm_source": "decoder", "norm_width": "100"}, "rows of up to 64 features"),
        ("norm-gradients", {"norm_gradients_upstream": "1"}, "upstream has 1 numbers"),
        ("sharded-moments", {"norm_sharded_moments_ranks": "5"}, "give every rank at least one"),
        ("one-pass-moments", {"norm_one_pass_moments_drawn_width": "16384"}, "rows of up to 4096"),
    ],
)
def test_a_setting_that_cannot_run_is_one_sentence(name: str, link: dict[str, str], sentence: str) -> None:
    app = opened(PAGE, name, **link)
    assert_no_trace(app)
    found = sentences(app)
    assert len(found) == 1
    assert sentence in found[0]
    assert not figures(app)


def test_an_empty_text_is_the_default() -> None:
    app = opened(PAGE, "norm-steps")
    app.text_input(key="norm_x").set_value("").run()
    assert_shows(app, "norm-steps", PAGE.bench("norm-steps").experiment.options())
