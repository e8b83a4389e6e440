"""What the tests of the lab pages have in common: open one experiment, and compare it with the core's own result."""

from __future__ import annotations

from typing import Any

from streamlit.testing.v1 import AppTest

from core.lab.experiments import experiment
from core.lab.options import Options
from pages.common.lab_controls import Bench, LabPage
from pages.common.widgets import Control
from tests.pages.conftest import APP, ROOT
from tests.pages.support import assert_no_trace, figures, sentences


def opened(page: LabPage, name: str, **parameters: str) -> AppTest:
    """The page at an experiment, with more query parameters, as a link opens it in a new session."""
    return straight(
        f"pages/{page.name}/{page.name}.py", **{page.selector.name: page.bench(name).experiment.label, **parameters}
    )


def straight(script: str, **parameters: str) -> AppTest:
    """A page as a link opens it in a new session, without the landing page before it."""
    app = AppTest.from_file(str(APP), default_timeout=60)
    for name, value in parameters.items():
        app.query_params[name] = value
    return app.switch_page(str(ROOT / script)).run()


def assert_shows(app: AppTest, name: str, options: Options) -> None:
    """The page shows the core's numbers for these options: sentence, figures and tables."""
    assert_no_trace(app)
    assert not sentences(app)
    view = experiment(name)
    result = view.run(options)
    assert sentences(app, "info")[0] == view.reading(result.summary)
    pictures = view.pictures(result, view.subject(options))
    drawn = figures(app)
    assert len(drawn) == len(pictures)
    for one, picture in zip(drawn, pictures.values(), strict=True):
        expected = picture(theme="light").to_plotly_json()
        assert one["layout"]["title"]["text"] == expected["layout"]["title"]["text"]
        for found, wanted in zip(one["data"], expected["data"], strict=True):
            for axis in ("x", "y", "z"):
                assert _plain(found.get(axis)) == _plain(wanted.get(axis))
    shown = [element.value for element in app.dataframe]
    for key, table in view.tables.items():
        wanted_table = table.of(result.tables[key])
        assert any(list(one.columns) == list(wanted_table.columns) and one.equals(wanted_table) for one in shown), key


def other_value(control: Control) -> Any:
    """A value of the control that is not its default."""
    if control.kind in ("choice", "segments"):
        return next(option for option in control.options if option != control.default)
    if control.kind == "toggle":
        return not control.default
    assert control.lower is not None
    assert control.upper is not None
    above = control.default + (control.step or 0.125)
    return above if above <= control.upper else control.default - (control.step or 0.125)


def ends(control: Control) -> list[Any]:
    """Both ends of a control, or all its options."""
    if control.kind in ("choice", "segments"):
        return list(control.options)
    if control.kind == "toggle":
        return [True, False]
    return [] if control.kind == "text" else [control.lower, control.upper]


def linked(bench: Bench) -> list[Control]:
    """The controls that are drawn at the defaults and can stand in a link as numbers, choices or switches."""
    shown = [control for name, control in bench.controls.items() if bench.counts(name)]
    return [control for control in shown if control.linked and control.kind != "text"]


def _plain(values: Any) -> Any:
    return None if values is None else [list(row) if isinstance(row, list | tuple) else row for row in values]
