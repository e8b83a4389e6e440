"""Texts of a figure for Matplotlib: Plotly's markup is parsed, wrapped to a width, and measured.

A text is a list of lines and a line is a tuple of runs. Lengths are in pixels of 1/96 inch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from html.parser import HTMLParser
from typing import Any, Literal

from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font

FAMILY = "DejaVu Sans"
PIXELS_PER_INCH = 96
POINTS = 72 / PIXELS_PER_INCH
# Stands for a character that the font does not have.
UNKNOWN = "\ufffd"
LEVELS: dict[str, Literal["sub", "sup"]] = {"sub": "sub", "sup": "sup"}
SIGNS = {"sub": "_", "sup": "^"}


@dataclass(frozen=True)
class Run:
    """Consecutive characters of the same look; `size` is in pixels, None for the default."""

    text: str
    bold: bool = False
    level: Literal["", "sub", "sup"] = ""
    size: float | None = None


Line = tuple[Run, ...]


class _Reader(HTMLParser):
    """Parses `<b>`, `<sub>`, `<sup>`, `<br>` and `<span style='font-size:..px'>`."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[list[Run]] = [[]]
        self.open: list[tuple[str, Run]] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "br":
            self.lines.append([])
            return
        size = re.search(r"font-size:\s*([\d.]+)px", dict(attrs).get("style") or "")
        own = self.open[-1][1] if self.open else Run("")
        pixels = float(size.group(1)) if size else own.size
        self.open.append((tag, Run("", own.bold or tag == "b", LEVELS.get(tag, own.level), pixels)))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.lines[-1].append(replace(self.open[-1][1] if self.open else Run(""), text=printable(data)))


def lines_of(markup: object) -> list[Line]:
    """Return the lines of a text with markup; an empty list for an empty text."""
    if not markup:
        return []
    reader = _Reader()
    reader.feed(str(markup))
    reader.close()
    return [tuple(line) for line in reader.lines]


@cache
def _known() -> frozenset[int]:
    return frozenset(FT2Font(findfont(FontProperties(family=[FAMILY]))).get_charmap())


def printable(text: str) -> str:
    """Return the text with spaces for control characters, and U+FFFD for characters that the font does not have."""
    spaced = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", text)
    return "".join(sign if ord(sign) in _known() else UNKNOWN for sign in spaced)


def written(line: Line) -> str:
    """Return the line in Matplotlib's syntax: dollar signs are escaped, and raised or lowered runs become math text."""
    parts = []
    for run in line:
        if run.level:
            inner = re.sub(r"([\\{}_^$#%&~])", r"\\\1", run.text).replace(" ", r"\ ")
            parts.append(rf"${SIGNS[run.level]}{{\mathrm{{{inner}}}}}$")
        else:
            parts.append(run.text.replace("$", r"\$"))
    return "".join(parts)


def is_bold(line: Line) -> bool:
    """Return True if all characters of the line are bold; otherwise it is drawn in normal weight."""
    return bool(line) and all(run.bold for run in line)


def size_of(line: Line, default: float) -> float:
    """Return the font size of the line in pixels, the largest of its runs; `default` for runs without a size."""
    return max((run.size or default for run in line), default=default)


def font(size: float, bold: bool = False) -> FontProperties:
    """Return the font for a size in pixels."""
    return FontProperties(family=[FAMILY], size=size * POINTS, weight="bold" if bold else "normal")


def line_extent(line: Line, size: float) -> tuple[float, float]:
    """Return the width and height of a line in pixels; `size` is the default font size."""
    text = written(line)
    mathematics = any(run.level for run in line)
    plain = text if mathematics else text.replace(r"\$", "$")
    if not plain.strip():
        return 0.0, size
    own = font(size_of(line, size), is_bold(line))
    width, height, _ = _renderer().get_text_width_height_descent(plain, own, mathematics)  # type: ignore[no-untyped-call]
    return float(width), max(float(height), size_of(line, size))


@cache
def _renderer() -> RendererAgg:
    return RendererAgg(1, 1, PIXELS_PER_INCH)  # type: ignore[no-untyped-call]


def extent(lines: Sequence[Line], size: float) -> tuple[float, float]:
    """Return the width and height in pixels of lines below each other; `size` is the default font size."""
    return max((line_extent(line, size)[0] for line in lines), default=0.0), sum(leading(line, size) for line in lines)


def leading(line: Line, size: float) -> float:
    """Return the distance in pixels from a line to the next, which leaves room for lowered runs."""
    return 1.35 * size_of(line, size)


def wrapped(lines: Sequence[Line], width: float, size: float) -> list[Line]:
    """Return the lines wrapped to `width` pixels, at spaces, or inside a word that is too wide itself."""
    return [part for line in lines for part in _broken(line, width, size)]


def _broken(line: Line, width: float, size: float) -> list[Line]:
    if line_extent(line, size)[0] <= width:
        return [line]
    found: list[Line] = [()]
    for word in _words(line):
        longer = (*found[-1], *word)
        if found[-1] and line_extent(_trimmed(longer), size)[0] > width:
            found.append(())
            longer = word
        while line_extent(_trimmed(longer), size)[0] > width and sum(len(run.text) for run in longer) > 1:
            head, longer = _cut(longer, width, size)
            found[-1] = head
            found.append(())
        found[-1] = longer
    return [_trimmed(part) for part in found]


def _words(line: Line) -> list[Line]:
    """Split a line into pieces that end in a space; a raised run stays with the word before it."""
    found: list[Line] = [()]
    for run in line:
        pieces = re.findall(r"\S*\s+|\S+", run.text)
        for piece in pieces:
            found[-1] = (*found[-1], replace(run, text=piece))
            if piece[-1].isspace():
                found.append(())
    return [word for word in found if word]


def _cut(word: Line, width: float, size: float) -> tuple[Line, Line]:
    """Split a word into as many characters as the width holds, at least one, and the rest."""
    letters = [replace(run, text=letter) for run in word for letter in run.text]
    count = 1
    while count < len(letters) - 1 and line_extent(_joined(letters[: count + 1]), size)[0] <= width:
        count += 1
    return _joined(letters[:count]), _joined(letters[count:])


def _joined(letters: Sequence[Run]) -> Line:
    found: list[Run] = []
    for one in letters:
        if found and replace(found[-1], text="") == replace(one, text=""):
            found[-1] = replace(one, text=found[-1].text + one.text)
        else:
            found.append(one)
    return tuple(found)


def _trimmed(line: Line) -> Line:
    return (*line[:-1], replace(line[-1], text=line[-1].text.rstrip())) if line else line
