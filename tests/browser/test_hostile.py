"""Uploads and typed text meant to hurt, in a real browser: a sentence each, nothing executed, no memory jump."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Visit, assert_clean_log
from tests.browser.harness import Visitor, resident_bytes, server_process, visit

pytestmark = pytest.mark.heavy
MEBIBYTE = 2**20
# A byte more and the uploader itself refuses the file: its megabyte is a million bytes.
LARGEST = 10**6
# Room for one visitor's run and Python's own habits; a file of 200 MB read into memory would not pass.
JUMP = 60 * MEBIBYTE
HOSTILE = "![x](http://example.invalid/a.png)<img src=x onerror=alert(1)>"


def watch_dialogs(tab: Visitor) -> list[str]:
    """Every dialog that a script of the page would open."""
    seen: list[str] = []

    def note(dialog: Any) -> None:
        seen.append(dialog.message)
        dialog.dismiss()

    tab.page.on("dialog", note)
    return seen


def test_a_file_of_200_megabytes_is_one_sentence_and_never_reaches_memory(chromium: Any, tmp_path: Path) -> None:
    vast, log = tmp_path / "vast.json", tmp_path / "log.txt"
    with vast.open("wb") as stream:
        stream.truncate(200 * 1000 * 1000)
    with server_process(log=log) as (address, pid), visit(chromium, address) as tab:
        tab.open("/?batch=uploaded", "Health")
        before = resident_bytes(pid, "VmHWM")
        tab.page.get_by_text("Files", exact=True).first.click()
        for key in ("manifest_file", "batch_file"):
            if key == "batch_file":
                tab.change("Input, seeds and band")
            place = tab.page.locator(f".st-key-{key}")
            place.locator("input[type=file]").set_input_files(vast)
            place.get_by_text(re.compile("must be 1.* or smaller")).wait_for()
        tab.settle()
        assert resident_bytes(pid, "VmHWM") - before < JUMP
        assert tab.outside == []
    assert_clean_log(log)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"[" * LARGEST, "nests deeper"),
        (b'{"inputs": [[1]], "inputs": [[2]]}', "twice in one object"),
        (b'{"inputs": [[NaN]], "targets": [[1]]}', "the literal NaN"),
        (json.dumps({HOSTILE: 1}).encode(), HOSTILE[:20]),
        (b'{"=HYPERLINK(1)": 1}', "'=HYPERLINK(1)'"),
    ],
    ids=["deep", "twice", "nan", "markup", "formula"],
)
def test_a_batch_that_hurts_is_one_sentence(visitor: Visit, data: bytes, words: str) -> None:
    tab = visitor()
    dialogs = watch_dialogs(tab)
    tab.open("/?batch=uploaded", "Health")
    tab.change("Input, seeds and band")
    tab.page.locator(".st-key-batch_file input[type=file]").set_input_files(
        {"name": f"{HOSTILE.replace('/', '')}.json", "mimeType": "application/json", "buffer": data}
    )
    tab.page.get_by_role("dialog").get_by_role("button", name="Done").click()
    tab.page.locator("[data-testid=stMain] [data-testid=stAlert]", has_text=words).wait_for()
    tab.settle()
    assert tab.page.locator("[data-testid=stAlert]").count() == 1
    assert tab.page.locator("[data-testid=stMain] img, [data-testid=stSidebar] img").count() == 0
    assert dialogs == []


def test_markup_that_is_typed_stays_text(visitor: Visit) -> None:
    tab = visitor()
    dialogs = watch_dialogs(tab)
    tab.open("/bands", "Bands")
    box = tab.page.locator(".st-key-ratios input")
    box.fill(f"1, {HOSTILE}")
    box.press("Enter")
    tab.page.locator("[data-testid=stAlert]", has_text="is not a number").wait_for()
    tab.settle()
    assert tab.page.locator("[data-testid=stMain] img").count() == 0
    assert dialogs == []
