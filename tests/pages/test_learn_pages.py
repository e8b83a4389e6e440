"""The pages of the section learn show the core's numbers, obey their links and refuse in one sentence."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from core.lab.initializer import init_document
from core.plan.arithmetic import plan_document
from core.plan.presets import PRESETS
from core.tables.guide import DEFINITIONS, ESTABLISHES, GLOSSARY, PRACTICE
from core.tables.studies import moment_table, role_table
from pages.bands.controls import edited_text
from pages.common import navigation
from tests.pages.conftest import Open
from tests.pages.lab_pages import straight
from tests.pages.support import assert_no_trace, downloads, figures, sentences

LEARN = ("published_fixtures", "initialization", "laptop_plan", "bands", "method_and_limits")


def script(name: str) -> str:
    return f"pages/{name}/{name}.py"


def frames(app: AppTest, column: str) -> list[dict[str, list[object]]]:
    """Every table that has a column."""
    return [element.value.to_dict("list") for element in app.dataframe if column in element.value.columns]


@pytest.mark.parametrize("name", LEARN)
def test_every_page_opens_with_its_title_and_exports(open_app: Open, name: str) -> None:
    app = open_app(script(name))
    assert_no_trace(app)
    entry = navigation.ENTRIES[name]
    assert [title.value for title in app.title] == [entry.title]
    assert not app.error
    assert downloads(app)["Everything, as a zip"] == 1


def test_all_published_values_agree_on_the_page(open_app: Open) -> None:
    app = open_app(script("published_fixtures"))
    assert sentences(app, "success") == ["All 144 published values agree at six decimals."]
    app.segmented_control(key="fixture").set_value("cpu-bridge").run()
    shown = frames(app, "published")[0]
    assert set(shown["fixture"]) == {"cpu-bridge"}
    assert len(shown["fixture"]) == 5 * 4 + 6


def test_initialization_follows_its_controls(open_app: Open) -> None:
    app = open_app(script("initialization"), fan_in="8", fan_out="12", init_seed="18446744073709551615")
    assert_no_trace(app)
    expected = moment_table(init_document(8, 12, 2**64 - 1))
    assert frames(app, "variance_to_target")[0] == expected.to_dict("list")
    app.slider(key="init_blocks").set_value(50).run()
    assert frames(app, "half_bound")[0]["blocks"] == [1, 2, 8, 50]
    app.text_input(key="init_seed").set_value("seventeen").run()
    assert sentences(app) == ["The seed 'seventeen' is not a whole number; give one from 0 to 2^64 - 1."]
    app.text_input(key="init_seed").set_value("17").run()
    app.number_input(key="fan_in").set_value(4096)
    app.number_input(key="fan_out").set_value(4096).run()
    assert_no_trace(app)


@pytest.mark.parametrize("name", PRESETS)
def test_the_plan_counts_every_known_model_exactly(name: str) -> None:
    app = straight(script("laptop_plan"), model=name)
    assert_no_trace(app)
    assert app.metric[0].value == f"{int(plan_document(PRESETS[name].request)['parameters']):,}"
    roles = next(table.value for table in app.dataframe if "coordinates" in table.value.columns)
    assert roles.to_dict("list") == role_table(plan_document(PRESETS[name].request)).to_dict("list")


def test_bands_judge_typed_ratios_with_the_linked_limits(open_app: Open) -> None:
    app = open_app(script("bands"), lower="0.5", upper="2")
    app.text_input(key="ratios").set_value("0.5, 2, 2.0000001, 0.4").run()
    assert_no_trace(app)
    own = next(table for table in frames(app, "band") if "array" not in table)
    assert own["ratio"] == [2.0000001, 0.4, 0.5, 2.0]
    assert own["band"] == ["above", "below", "within", "within"]
    assert own["site"] == [2, 3, 0, 1]
    assert "band 0.5 to 2" in [trace["name"] for trace in figures(app)[-1]["data"]]
    app.text_input(key="ratios").set_value("1, <img src=x>").run()
    assert "is not a number; separate numbers by commas" in sentences(app)[0]
    app.number_input(key="lower").set_value(5.0).run()
    assert "lower limit 5 is above its upper limit 2" in sentences(app)[0]


def test_edits_of_the_table_are_kept_in_the_text_that_the_manifest_carries(open_app: Open) -> None:
    edits = {"edited_rows": {1: {"ratio": 0.1 + 0.2}}, "deleted_rows": [0, 3], "added_rows": [{"ratio": 7.0}, {}]}
    text = edited_text([5.0, 6.0, 1e-300, 8.0], edits)
    assert text == "0.30000000000000004, 1e-300, 7"
    app = open_app(script("bands"))
    app.text_input(key="ratios").set_value(text).run()
    assert_no_trace(app)
    own = next(table for table in frames(app, "band") if "array" not in table)
    assert own["ratio"] == [1e-300, 0.1 + 0.2, 7.0]


def test_the_glossary_is_searched_by_word_and_by_meaning(open_app: Open) -> None:
    app = open_app(script("method_and_limits"))
    assert frames(app, "meaning")[0]["word"] == list(GLOSSARY)
    app.text_input(key="glossary_text").set_value(" LOSS ").run()
    assert frames(app, "meaning")[0]["word"] == ["adjoint", "valid"]
    app.text_input(key="glossary_text").set_value("normalizer").run()
    assert frames(app, "meaning")[0]["word"] == ["normalizer"]
    app.text_input(key="glossary_text").set_value("<img src=x>").run()
    assert_no_trace(app)
    assert sentences(app, "info") == ["No word of the glossary is left; type less."]


def test_every_definition_limit_and_question_is_on_the_page(open_app: Open) -> None:
    app = open_app(script("method_and_limits"))
    assert {one.title for one in DEFINITIONS} <= {heading.value for heading in app.subheader}
    text = " ".join(str(element.value) for element in app.markdown)
    assert all(part in text for part in (*(one.text for one in (*DEFINITIONS, *PRACTICE)), *ESTABLISHES))


def test_practice_links_set_controls_that_their_pages_have(open_app: Open) -> None:
    for question in PRACTICE:
        entry = navigation.ENTRIES[question.page]
        controls = {control.name: control for control in entry.all_controls}
        for name, value in question.query.items():
            if name != "view":
                kind = type(controls[name].default)
                assert controls[name].checked(kind(value)) == kind(value)
    assert_no_trace(open_app(script("method_and_limits")))
