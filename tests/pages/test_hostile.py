"""Links and uploads meant to hurt: one sentence each, nothing rendered from them, and the page goes on working."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from streamlit.testing.v1 import AppTest

from pages.common import navigation
from pages.common.panels import escaped
from tests.pages.conftest import Open
from tests.pages.support import assert_no_trace, change, figures, sentences

IMAGE = "![x](http://example.invalid/a.png)"
TAG = "<img src=x onerror=alert(1)>"
FORMULA = "=HYPERLINK(1)"
LINKS = ("1e999", f"{IMAGE}{TAG}", FORMULA, "-1000000000", "nan", "9" * 400)
MEBIBYTE = 2**20
NESTED = b'{"inputs":' + b"[" * 100_000
# What a person uploads, the words of the one sentence about it.
BATCHES = {
    "not JSON": (b"not json", "is not JSON at line 1"),
    "deep nesting": (NESTED, "nests deeper than the 20 levels allowed"),
    "duplicate keys": (b'{"inputs": [[1]], "inputs": [[2]], "targets": [[1]]}', "gives the key 'inputs' twice"),
    "NaN literal": (b'{"inputs": [[NaN]], "targets": [[1]]}', "holds the literal NaN"),
    "infinity": (b'{"inputs": [[1e999]], "targets": [[1]]}', "too large for binary64"),
    "markup in a name": (json.dumps({IMAGE + TAG: 1}).encode(), "unknown key"),
    "formula in a name": (json.dumps({FORMULA: 1}).encode(), "unknown key '=HYPERLINK(1)'"),
    "vast id": (b'{"inputs": [[' + b"9" * 4000 + b']], "targets": [[1]]}', "whole number of 4000 digits"),
    "outside the vocabulary": (b'{"inputs": [[266]], "targets": [[1]]}', "outside the vocabulary of 266"),
    "empty rows": (b'{"inputs": [[]], "targets": [[]]}', ""),
    "no bytes": (b"", "is not JSON"),
    "not UTF-8": (b"\xff\xfe", "is not UTF-8"),
}


def texts(app: AppTest) -> str:
    """Everything that the page hands to the browser as markdown."""
    kinds = (app.markdown, app.caption, app.error, app.info, app.warning, app.success, app.title, app.subheader)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def assert_nothing_rendered(app: AppTest) -> None:
    """No image, link or tag of a hostile text stands unescaped in the page's markdown."""
    shown = texts(app)
    assert IMAGE not in shown
    assert TAG not in shown


@pytest.mark.parametrize("entry", navigation.ENTRIES.values(), ids=lambda entry: entry.name)
def test_a_link_with_nonsense_for_every_control_is_told_and_nothing_breaks(
    open_app: Open, entry: navigation.Entry
) -> None:
    # A recipe may be typed, which a page without a browser cannot carry; the landing page's tests link hostile ones.
    controls = [control for control in entry.all_controls if control.linked and control.name not in ("recipe", "file")]
    link = {control.name: LINKS[index % len(LINKS)] for index, control in enumerate(controls)}
    app = open_app(str(entry.script), **link)
    assert_no_trace(app)
    assert_nothing_rendered(app)
    assert [title.value for title in app.title] == [entry.title]
    if any(control.linked for control in entry.controls):
        assert sentences(app) or sentences(app, "info")


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_that_hurts_is_one_sentence_and_the_next_one_works(open_app: Open, name: str) -> None:
    data, words = BATCHES[name]
    app = change(open_app(batch="uploaded"), "Input, seeds and band")
    app.file_uploader(key="batch_file").set_value(("batch.json", data, "application/json")).run()
    assert_no_trace(app)
    assert_nothing_rendered(app)
    found = sentences(app)
    assert len(found) == 1
    assert words in found[0]
    assert len(found[0]) < 400
    assert not figures(app)
    good = json.dumps({"inputs": [[0, 5]], "targets": [[5, 1]]}).encode()
    change(app, "Input, seeds and band").file_uploader(key="batch_file").set_value(
        ("good.json", good, "application/json")
    ).run()
    assert not app.error
    assert len(figures(app)) == 2


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{}", "is no depthscope.manifest/1 manifest"),
        (NESTED, "nests deeper"),
        (b'{"schema": "depthscope.manifest/1", "schema": "depthscope.manifest/1"}', "gives the key 'schema' twice"),
        (b'{"schema": NaN}', "holds the literal NaN"),
        (b'{"schema": "depthscope.manifest/1", "' + TAG.encode() + b'": 1}', "unknown key"),
        (b'{"schema": "' + b"x" * 2 * MEBIBYTE + b'"}', "larger than the 1,048,576 bytes allowed"),
    ],
    ids=["other", "deep", "twice", "nan", "markup", "large"],
)
def test_a_manifest_that_hurts_is_one_sentence_and_the_page_stays(open_app: Open, data: bytes, words: str) -> None:
    app = open_app(blocks="3")
    app.file_uploader(key="manifest_file").set_value(("manifest.json", data, "application/json")).run()
    assert_no_trace(app)
    assert_nothing_rendered(app)
    found = sentences(app)
    assert len(found) == 1
    assert words in found[0]
    assert "L = 3 blocks" in figures(app)[0]["layout"]["title"]["text"]


def test_nesting_and_size_are_refused_before_anything_is_built() -> None:
    from pages.common import model_controls

    data = b"[" * (MEBIBYTE - 10)
    tracemalloc.start()
    try:
        model_controls.keep_batch(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MEBIBYTE


def test_a_zero_contribution_is_listed_beside_the_logarithmic_axis(open_app: Open) -> None:
    app = open_app(recipe="zero-writer", view="Contributions", blocks="2")
    assert_no_trace(app)
    captions = "\n".join(str(caption.value).replace("\\", "") for caption in app.caption)
    assert captions.count("Not drawn on this axis: zero-writer, attention at 1, 0") == 2
    app.segmented_control(key="scale").set_value("linear").run()
    assert "Not drawn" not in "\n".join(str(caption.value) for caption in app.caption)


def test_escaping_leaves_no_markdown_image() -> None:
    assert "![" not in escaped(IMAGE)
    assert escaped(TAG).startswith("\\<img")
