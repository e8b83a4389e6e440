"""No icon or text of the app needs an emoji font: what is drawn are Streamlit's own Material symbols, words and SVG."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.material_icon_names import ALL_MATERIAL_ICONS

from pages.common import navigation

ROOT = navigation.ROOT
SOURCES = [ROOT / "app.py", *(p for folder in ("pages", "core") for p in sorted((ROOT / folder).rglob("*")))]
TEXTS = [path for path in SOURCES if path.suffix in {".py", ".js", ".svg", ".html", ".css", ".json"}]
# Arrows, technical signs, dingbats and their supplements, joiners, variation selectors, and the emoji planes: what
# common text fonts have not or what a browser looks up in an emoji font.
NEEDS_A_FONT = re.compile(
    "[\u2190-\u21ff\u2300-\u27bf\u2900-\u2bff\u3030\u303d\u3297\u3299\u200d\u20e3\ufe0e\ufe0f\U0001f000-\U000fffff]"
)
SHORTCODE = re.compile(r"(?<![\w:]):[a-z][a-z0-9_+-]+:(?![\w:])")
MATERIAL = re.compile(r":material/([^:]*):")


def strings(path: Path) -> Iterator[str]:
    """Every string of a module as it is at run time, escapes resolved."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("sign", ["\u2705", "\u26a0\ufe0f", "\U0001fa7a", "\u2b05", "\u25b6"])
def test_the_rule_finds_what_needs_a_font(sign: str) -> None:
    assert NEEDS_A_FONT.search(f"a {sign} b")


def test_no_source_holds_a_sign_of_an_emoji_font() -> None:
    assert len(TEXTS) > 200
    found = {str(path) for path in TEXTS if NEEDS_A_FONT.search(path.read_text(encoding="utf-8"))}
    modules = [path for path in TEXTS if path.suffix == ".py"]
    # Text from outside may hold any sign; the pattern that repairs it is no text that is shown.
    shown = {path for path in modules if path.name != "gate_text.py"}
    found |= {str(path) for path in shown for text in strings(path) if NEEDS_A_FONT.search(text)}
    assert found == set()


def test_no_page_writes_an_emoji_by_its_short_name() -> None:
    pages = [path for path in TEXTS if path.suffix == ".py" and ROOT / "pages" in path.parents]
    found = {text for path in pages for text in strings(path) if SHORTCODE.search(text)}
    assert found <= {":memory:"}


def test_every_symbol_is_one_that_streamlit_has() -> None:
    named = {name for path in TEXTS for name in MATERIAL.findall(path.read_text(encoding="utf-8")) if "{" not in name}
    named |= {entry.icon for entry in navigation.ENTRIES.values()}
    assert len(named) > 20
    assert named - set(ALL_MATERIAL_ICONS) == set()


def test_every_page_has_a_symbol_of_its_own() -> None:
    icons = [entry.icon for entry in navigation.ENTRIES.values()]
    assert len(set(icons)) == len(icons)
