"""What the tests of pages look at."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from typing import Any

from streamlit.testing.v1 import AppTest

from pages.common import true_runs

OPTION = re.compile(r"(?<![\w-])--[a-z]")


def sentences(app: AppTest, kind: str = "error") -> list[str]:
    """The sentences in boxes of one kind, markdown's backslashes taken out."""
    return [str(element.value).replace("\\", "") for element in getattr(app, kind)]


def figures(app: AppTest) -> list[dict[str, Any]]:
    """Every figure as the browser gets it."""
    drawn = [json.loads(element.proto.json) for element in app.get("bidi_component")]
    return [json.loads(one["figure"]) for one in drawn if "figure" in one]


def downloads(app: AppTest) -> Counter[str]:
    """How many download buttons of each label there are, in menus too."""
    return Counter(str(element.proto.label) for element in app.get("download_button"))


def finished(app: AppTest) -> AppTest:
    """Run the page until its run at true size has ended."""
    deadline = time.monotonic() + 300
    while true_runs.SLOT.entry in app.session_state and app.session_state[true_runs.SLOT.entry] is not None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        app.run()
    return app


def assert_no_trace(app: AppTest) -> None:
    """Nothing unexpected happened, and no text but shown code names an option of the command line."""
    assert not app.exception
    kinds = ("error", "warning", "info", "success", "markdown", "caption")
    shown = [sentence for kind in kinds for sentence in sentences(app, kind)]
    assert not [sentence for sentence in shown if "unexpected fault" in sentence or OPTION.search(sentence)]


def change(app: AppTest, way: str) -> AppTest:
    """Open the dialog of the model bar at one of its ways in."""
    app.session_state["way-in"] = way
    return app.button(key="change-model").click().run()
