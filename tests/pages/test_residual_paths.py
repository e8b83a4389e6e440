"""The page Residual paths shows the core's numbers, shares one decoder, and counts exactly however large the state."""

from __future__ import annotations

import pytest

from pages.common.lab_controls import PAGES
from tests.pages.lab_pages import assert_shows, linked, opened, other_value
from tests.pages.support import assert_no_trace, figures, sentences

PAGE = PAGES["residual_paths"]
NAMES = [bench.experiment.name for bench in PAGE.benches]


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_opens_with_the_cores_numbers(name: str) -> None:
    app = opened(PAGE, name)
    assert app.title[0].value == "Residual paths"
    assert_shows(app, name, PAGE.bench(name).experiment.options())


@pytest.mark.parametrize("name", NAMES)
def test_a_link_sets_every_control(name: str) -> None:
    wanted = {control.name: other_value(control) for control in linked(PAGE.bench(name))}
    if "paths_width" in wanted:
        wanted |= {"paths_width": 6, "paths_heads": 3, "paths_recipe": "gpt2"}
    app = opened(PAGE, name, **{key: str(value) for key, value in wanted.items()})
    assert_no_trace(app)
    assert not sentences(app)
    for key, value in wanted.items():
        assert app.session_state[key] == value


def test_one_decoder_stands_for_all_experiments() -> None:
    app = opened(PAGE, "jacobian-product", paths_blocks="3", paths_recipe="unscaled")
    for name in ("branch-interaction", "stream-expansion", "update-geometry"):
        app.session_state[PAGE.selector.name] = PAGE.bench(name).experiment.label
        app.run()
        assert_shows(app, name, PAGE.bench(name).experiment.options({"blocks": 3, "recipe": "unscaled"}))


@pytest.mark.parametrize(
    ("name", "link", "sentence"),
    [
        ("jacobian-product", {"paths_width": "100"}, "a dense Jacobian their square"),
        ("jacobian-product", {"paths_blocks": "256", "paths_width": "64"}, "take up to 16 blocks"),
        ("stream-expansion", {"paths_recipe": "post-norm"}, "no sum of its updates"),
        ("branch-interaction", {"paths_recipe": "parallel"}, "parallel already"),
    ],
)
def test_a_setting_that_cannot_run_is_one_sentence(name: str, link: dict[str, str], sentence: str) -> None:
    app = opened(PAGE, name, **link)
    assert_no_trace(app)
    found = sentences(app)
    assert len(found) == 1
    assert sentence in found[0]
    assert not figures(app)


def test_the_ledger_is_exact_where_no_machine_number_is() -> None:
    app = opened(PAGE, "residual-ledger")
    assert "67,108,864 elements, 128 MiB" in sentences(app, "info")[0]
    assert "moves 384 MiB" in sentences(app, "info")[0]
    huge = {"batch": str(2**40), "positions": str(2**40), "width": str(2**40), "blocks": str(2**20), "additions": "3"}
    app = opened(PAGE, "residual-ledger", **{f"paths_residual_ledger_{key}": text for key, text in huge.items()})
    assert_no_trace(app)
    ledger = next(one.value for one in app.dataframe if "elements" in one.value.columns)
    assert ledger["elements"].iloc[0] == f"{2**120:,}"
    assert ledger["bytes"].iloc[3] == f"{3 * 2**120 * 3 * 2**20 * 2:,}"
