"""Boxes that every page uses, for errors, notices and verdicts, and the theme of the visitor."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import streamlit as st

from core.errors import DepthscopeError, Remedy, shown
from core.figures.style import Theme
from core.health.diagnosis import Diagnosis

# The icon at the start of a box, so that its meaning does not depend on colour alone.
GOOD, CAREFUL, FAULT = ":material/check_circle:", ":material/warning:", ":material/error:"
REFUSED, NOTE = ":material/block:", ":material/info:"
BOXES = {
    "good": (st.success, GOOD),
    "careful": (st.warning, CAREFUL),
    "fault": (st.error, FAULT),
    "refused": (st.error, REFUSED),
    "note": (st.info, NOTE),
}
# The text of each remedy on a page; empty if no control of a page offers it.
REMEDIES: Mapping[str, str] = {
    Remedy.PARAMETERS: "",
    Remedy.POSITIONS: "",
    Remedy.BY_BLOCK: "",
    Remedy.SMALL_WIDTHS: "choose a smaller model",
    Remedy.STORE: "start the server with its path in DEPTHSCOPE_STORE",
    Remedy.FAMILIES: "see the page Survey",
    Remedy.SIZES: "type its sizes under Change",
    Remedy.AUDIT: "",
    Remedy.RECIPES: "all are listed by the page Recipes",
}
LOGGER = logging.getLogger("depthscope.pages")
UNEXPECTED = "This page met an unexpected fault and the server's log has it; change a control or reload the page."


def theme() -> Theme:
    """Return the theme that the browser shows now, "light" or "dark"; light if unknown."""
    return "dark" if st.context.theme.type == "dark" else "light"


@contextmanager
def refusals() -> Iterator[None]:
    """Draw a `DepthscopeError` raised in the block as a sentence, and any other exception as a general sentence.

    No traceback is shown; the server's log has it.
    """
    try:
        yield
    except DepthscopeError as error:
        refusal(told(error))
    except MemoryError:
        refusal("This machine's memory does not hold that decoder; choose a smaller one.")
    except Exception:  # A person must not meet a traceback; the log has it.
        LOGGER.exception("A page failed")
        refusal(UNEXPECTED)


def told(error: DepthscopeError) -> str:
    """Return the message of an error, with what to do in the words of the pages."""
    return error.told(REMEDIES)


def box(kind: str, sentence: str, title: str = "") -> None:
    """Draw a sentence in a box, with a title and the icon of its kind; markup in both texts is shown as typed.

    `kind` is a key of `BOXES`.
    """
    draw, icon = BOXES[kind]
    draw(f"**{escaped(title)}**  \n{escaped(sentence)}" if title else escaped(sentence), icon=icon)


def refusal(sentence: str) -> None:
    """Draw a sentence that says why something was not done."""
    box("refused", sentence)


def notice(sentence: str) -> None:
    """Draw a sentence on something that was done in another way than asked for."""
    box("note", sentence)


def outcome(sentence: str, *, good: bool) -> None:
    """Draw a sentence in a green box if `good` is True, else in a yellow one."""
    box("good" if good else "careful", sentence)


def formula(tex: str) -> None:
    r"""Draw formulas on a line that wraps on a narrow screen, where a display formula would need scrolling.

    Write a comma and `\qquad` between two formulas.
    """
    parts = re.split(r",\\qquad ?", tex)
    st.markdown(",\u2003".join(f"$\\displaystyle {part}$" for part in parts))


def of_file(name: str, error: DepthscopeError) -> str:
    """Return the error of an uploaded file as a sentence that contains the file's name."""
    sentence = told(error)
    return sentence if shown(name) in sentence else f"{shown(name)}: {sentence}"


def escaped(text: str) -> str:
    """Return text in which all markup characters are escaped, so that Streamlit shows it as it is."""
    return "".join("\\" + sign if sign in "\\`*_{}[]()<>#+-.!|~$:&@" else sign for sign in text)


def verdict(diagnosis: Diagnosis, beside: str = "") -> None:
    """Draw a diagnosis in words, with an icon so that it does not depend on colour, followed by `beside`."""
    lines = [f"**{escaped(diagnosis.headline)}**", *map(escaped, diagnosis.sentences), escaped(beside)]
    draw, icon = BOXES["good" if diagnosis.within else "careful"]
    draw(" ".join(line for line in lines if line), icon=icon)
