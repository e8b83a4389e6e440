"""Guided tours: every stop sets page and controls, by its buttons and by its link, and may be left at any time."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from core.lab.tours import TOURS, Step, tour
from pages.common import navigation, tours
from pages.common.lab_controls import PAGES
from tests.pages.conftest import ROOT
from tests.pages.lab_pages import straight
from tests.pages.support import assert_no_trace, figures, sentences

STOPS = [(name, index) for name, walk in TOURS.items() for index in range(len(walk.steps))]


def in_link(app: AppTest, name: str) -> str | None:
    """A query parameter of the page's address."""
    found = app.query_params.get(name)
    return found[-1] if isinstance(found, list) else found


def press(app: AppTest, key: str, step: Step | None = None) -> None:
    """Press a button; where it leads to a stop on another page, have the test's runs stand there as a browser does."""
    app.button(key=key).click().run()
    if step is not None:
        app.switch_page(str(ROOT / script(step)))


def script(step: Step) -> str:
    return str(navigation.ENTRIES[step.page].script)


def assert_at(app: AppTest, step: Step) -> None:
    """The page of a stop, with its sentences and all its controls."""
    assert_no_trace(app)
    entry = navigation.ENTRIES[step.page]
    assert app.title[0].value == entry.title
    text = " ".join(str(element.value) for element in app.markdown).replace("\\", "")
    for sentence in step.sentences:
        assert sentence in text
    for key, value in tours.setting(step).items():
        assert key not in app.session_state or app.session_state[key] == value
    for name, wanted in step.parameters.items():
        if step.page in PAGES:
            page = PAGES[step.page]
            name, wanted = (
                (page.selector.name, page.bench(wanted).experiment.label)
                if name == "experiment"
                else (page.bench(step.parameters["experiment"]).controls[name].name, wanted)
            )
        found = app.session_state[name]
        assert (
            type(found)(float(wanted)) == found
            if isinstance(found, float | int) and not isinstance(found, bool)
            else str(found).lower() == wanted.lower()
        )
    assert figures(app)
    # A verdict has its first sentence in bold; a refusal has none.
    assert not [said for said in sentences(app) if not said.startswith("**")]


@pytest.mark.parametrize(("name", "index"), STOPS)
def test_a_stops_link_opens_it(name: str, index: int) -> None:
    step = tour(name).step(index)
    app = straight(script(step), **{key: str(value) for key, value in tours.link(name, index).items()})
    assert_at(app, step)
    assert in_link(app, "tour") == name
    assert in_link(app, "stop") == str(index + 1)


@pytest.mark.parametrize("name", TOURS)
def test_next_and_back_lead_through_the_whole_tour(name: str) -> None:
    walk = tour(name)
    app = straight("pages/norm_lab/norm_lab.py")
    press(app, f"tour-{name}", walk.steps[0])
    for index, step in enumerate(walk.steps):
        assert_at(app, step)
        assert in_link(app, "stop") == str(index + 1)
        assert app.button(key="tour-back").disabled is (index == 0)
        assert app.button(key="tour-next").disabled is (index == len(walk.steps) - 1)
        if index < len(walk.steps) - 1:
            press(app, "tour-next", walk.steps[index + 1])
    press(app, "tour-back", walk.steps[-2])
    assert_at(app, walk.steps[-2])


def test_a_stop_may_be_played_with_and_come_back_to() -> None:
    step = TOURS["root-l"].step(1)
    app = straight(script(step), tour="root-l", stop="2")
    app.slider(key="signal_scaled_residual_branches").set_value(100).run()
    assert_no_trace(app)
    assert "together add variance 1;" in sentences(app, "info")[0]
    press(app, "tour-next")
    press(app, "tour-back")
    assert_at(app, step)


def test_a_link_with_controls_of_its_own_keeps_them() -> None:
    app = straight(
        "pages/signal_lab/signal_lab.py", tour="root-l", stop="2", signal_experiment="Scaled residual",
        signal_scaled_residual_branches="100",
    )  # fmt: skip
    assert_no_trace(app)
    assert app.slider(key="signal_scaled_residual_branches").value == 100


def test_a_tour_waits_on_another_page_and_ends_at_a_click() -> None:
    app = straight("pages/norm_lab/norm_lab.py", tour="root-l", stop="2")
    assert_no_trace(app)
    assert "The tour waits for you." in [element.value for element in app.markdown]
    press(app, "tour-resume", TOURS["root-l"].step(1))
    assert_at(app, TOURS["root-l"].step(1))
    press(app, "tour-end")
    assert_no_trace(app)
    assert in_link(app, "tour") is None
    assert in_link(app, "stop") is None
    assert app.button(key="tour-root-l")


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ({"tour": "moon"}, "The tour 'moon' is unknown"),
        ({"tour": "root-l", "stop": "8"}, "stops 1 to 7"),
        ({"tour": "root-l", "stop": "0"}, "stops 1 to 7"),
        ({"tour": "root-l", "stop": "9" * 5000}, "stops 1 to 7"),
        ({"tour": "![x](http://a.invalid/b.png)"}, "is unknown"),
    ],
)
def test_a_link_to_no_stop_is_one_sentence(link: dict[str, str], sentence: str) -> None:
    app = straight("pages/signal_lab/signal_lab.py", **link)
    assert_no_trace(app)
    assert len(sentences(app)) == 1
    assert sentence in sentences(app)[0]
    assert figures(app)
    app.run()
    assert not sentences(app)
