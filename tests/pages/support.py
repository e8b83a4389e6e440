"""What the tests of pages look at."""

from __future__ import annotations

import json
from typing import Any

from streamlit.testing.v1 import AppTest


def sentences(app: AppTest, kind: str = "error") -> list[str]:
    """The sentences in boxes of one kind, markdown's backslashes taken out."""
    return [str(element.value).replace("\\", "") for element in getattr(app, kind)]


def figures(app: AppTest) -> list[dict[str, Any]]:
    """Every figure as the browser gets it."""
    return [json.loads(json.loads(element.proto.json)["figure"]) for element in app.get("bidi_component")]


def assert_no_trace(app: AppTest) -> None:
    """Nothing unexpected happened: no exception element and no neutral sentence about one."""
    assert not app.exception
    assert not [sentence for sentence in sentences(app) if "unexpected fault" in sentence]
