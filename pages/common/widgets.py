"""One control as data, and how it is drawn: its name is its key, its URL parameter and its name in a manifest.

Every page declares its controls as `Control` values and draws them with `draw`; presets, reset, links and manifests
then work on them without further code. A widget shows the value that a callback sets for its name with `assign`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import pandas as pd
import streamlit as st
from streamlit.errors import StreamlitAPIException

from core.compare.request import MAX_RECIPES
from core.errors import ConfigError, shown
from core.recipes.catalogue import recipe
from core.recipes.recipe import JOINT
from pages.common import panels

T = TypeVar("T")
LOOSE = "loose controls"  # Session entry: names of controls that are not bound to the URL.
Kind = Literal["slider", "whole", "number", "text", "choice", "among", "segments", "toggle", "recipe", "recipes"]
NUMBERS = ("slider", "whole", "number")
# What the other kinds take. A `recipe` may be typed as a combination; `among` offers what the page shows now.
RULES = {
    "text": "text",
    "toggle": "true or false",
    "among": "one of the entries that the page offers",
    "recipe": f"a recipe, or several joined by {JOINT}",
    "recipes": f"a list of at most {MAX_RECIPES} recipes",
}


@dataclass(frozen=True, kw_only=True)
class Control:
    """A description of a widget. `lower` and `upper` are inclusive limits; `linked` states whether the URL contains it.

    If `bound`, the widget writes the URL itself; the current model's controls do not, as every page's URL contains
    them. `takes` describes the accepted values if the kind does not. `place` is the entry of an `among` choice at the
    start.
    """

    name: str
    label: str
    kind: Kind
    default: Any
    lower: float | None = None
    upper: float | None = None
    step: float | None = None
    options: tuple[str, ...] = ()
    format: str | None = None
    help: str | None = None
    placeholder: str | None = None
    width: int | None = None
    linked: bool = True
    bound: bool = True
    takes: str | None = None
    place: int = 0

    def draw(self, among: Sequence[str] = (), label_visibility: Literal["visible", "collapsed"] = "visible") -> Any:
        """Draw the widget, bound to the URL and kept when the page changes; return its value."""
        loose = self._is_loose()
        common: dict[str, Any] = {
            "key": self.name,
            "help": self.help,
            "persist_state": "session",
            "bind": "query-params" if self.linked and self.bound and not loose else None,
            "label_visibility": label_visibility,
        }
        if self.width is not None:
            common["width"] = self.width
        if self.kind == "among" and st.session_state.get(self.name) not in (None, *among):
            del st.session_state[self.name]
        elif self.linked and self.bound and self.kind not in ("among", "recipes"):
            self._enter_link()
        value = self._widget(common, among)
        if loose:
            self._write_link(value)
        return value

    def _widget(self, common: Mapping[str, Any], among: Sequence[str]) -> Any:
        if self.kind == "slider":
            return st.slider(self.label, self.lower, self.upper, self.default, self.step, **common)
        if self.kind in NUMBERS:
            return st.number_input(
                self.label, self.lower, self.upper, self.default, self.step, format=self.format, **common
            )
        if self.kind == "text":
            return st.text_input(self.label, self.default, placeholder=self.placeholder, **common)
        if self.kind == "segments":
            fixed: dict[str, Any] = {"default": self.default, "required": True, "wrap": True}
            return st.segmented_control(self.label, self.options, **fixed, **common)
        if self.kind == "toggle":
            return st.toggle(self.label, self.default, **common)
        if self.kind == "among":
            return str(st.selectbox(self.label, among, min(self.place, len(among) - 1), **common))
        typed: dict[str, Any] = {"accept_new_options": self.kind in ("recipe", "recipes"), **common}
        typed["placeholder"] = self.placeholder
        if self.kind == "recipes":
            limits: dict[str, Any] = {"max_selections": MAX_RECIPES, "select_all": False, "wrap": True}
            return tuple(st.multiselect(self.label, self.options, list(self.default), **typed, **limits))
        first = None if self.default is None else self.options.index(self.default)
        return st.selectbox(self.label, self.options, first, **typed)

    def _is_loose(self) -> bool:
        """Return whether the URL asked for an infinite or undefined number in this session; Streamlit fails on it."""
        loose: set[str] = st.session_state.setdefault(LOOSE, set())
        if (
            self.linked
            and self.bound
            and self.kind in NUMBERS
            and not all(map(_finite, st.query_params.get_all(self.name)))
        ):
            with suppress(StreamlitAPIException):
                del st.query_params[self.name]
                loose.add(self.name)
        return self.name in loose

    def _write_link(self, value: Any) -> None:
        if value != self.default:
            st.query_params[self.name] = linked(value)
        elif self.name in st.query_params:
            del st.query_params[self.name]

    def _enter_link(self) -> None:
        """Write a value that was assigned before the widget's first run into the URL; later Streamlit does it."""
        value = st.session_state.get(self.name)
        if value is not None and value != self.default and self.name not in st.query_params:
            with suppress(StreamlitAPIException):  # The widget is known to the URL already and keeps it itself.
                st.query_params[self.name] = linked(value)

    @property
    def value(self) -> Any:
        """The present value; the default if the widget has not been drawn."""
        value = st.session_state.get(self.name)
        value = self.default if value is None else value
        return tuple(value) if self.kind == "recipes" else value

    def parsed(self, text: str) -> Any:
        """Return the value in the text of a link. Raises the errors of `checked`."""
        value: Any = text
        if self.kind == "toggle":
            value = {"true": True, "false": False}.get(text, text)
        elif self.kind in NUMBERS:
            with suppress(ValueError):
                value = type(self.default)(text)
        return self.checked(value)

    def checked(self, value: object) -> Any:
        """Return `value` if this control accepts it. Raises `ConfigError` or `RecipeError`."""
        if self.kind == "recipe":
            return recipe(str(value)).name
        if not self._is_taken(value):
            outside = self._is_number(value) and self.lower is not None and self.upper is not None
            rule = f"lie between {self.lower:g} and {self.upper:g}" if outside else f"be {self.rule}"
            raise ConfigError(f"{self.name} is {shown(value)}; it must {rule}.")
        if self.kind == "recipes":
            return [recipe(str(name)).name for name in value]  # type: ignore[attr-defined]
        return float(value) if isinstance(self.default, float) else value  # type: ignore[arg-type]

    def _is_taken(self, value: Any) -> bool:
        if self.kind == "recipes":
            return isinstance(value, list | tuple) and len(value) <= MAX_RECIPES
        if self.kind in ("choice", "segments"):
            return value in (self.default, *self.options)
        if self.kind not in NUMBERS:
            return isinstance(value, bool if self.kind == "toggle" else str)
        lower = -sys.float_info.max if self.lower is None else self.lower
        upper = sys.float_info.max if self.upper is None else self.upper
        return self._is_number(value) and lower <= value <= upper

    def _is_number(self, value: object) -> bool:
        number = isinstance(value, int if isinstance(self.default, int) else int | float)
        return self.kind in NUMBERS and number and not isinstance(value, bool)

    @property
    def rule(self) -> str:
        """The values that the control accepts, as text."""
        if self.takes is not None or self.kind in RULES:
            return self.takes or RULES[self.kind]
        if self.options:
            return f"one of {', '.join(self.options)}"
        number = "a whole number" if isinstance(self.default, int) else "a number"
        if self.lower is not None and self.upper is not None:
            return f"{number} from {self.lower:g} to {self.upper:g}"
        limits = {"at least": self.lower, "at most": self.upper}
        (limit, *_) = [f"of {word} {limit:g}" for word, limit in limits.items() if limit is not None] or [
            "that is finite"
        ]
        return f"{number} {limit}"


def _finite(text: str) -> bool:
    """Return whether `text` is not an infinite or undefined number; True for text that is no number."""
    with suppress(ValueError):
        return math.isfinite(float(text))
    return True


def linked(value: Any) -> str | list[str]:
    """Return a value as text, or as a list of texts, for the URL."""
    if isinstance(value, tuple):
        return [str(part) for part in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def assign(values: Mapping[str, Any]) -> None:
    """Set controls by name. Call it from a callback, since it must happen before they are drawn."""
    for name, value in values.items():
        st.session_state[name] = value


def reset(controls: Iterable[Control]) -> None:
    """Set controls to their defaults. Call it from a callback."""
    assign(defaults_of(controls))


def defaults_of(controls: Iterable[Control]) -> dict[str, Any]:
    """Return a dict from the names of controls to their defaults."""
    return {control.name: control.default for control in controls}


def values_of(controls: Iterable[Control]) -> dict[str, Any]:
    """Return a dict from the names of controls to their present values."""
    return {control.name: control.value for control in controls}


def asked() -> dict[str, list[str]]:
    """Return the URL's parameters, without each parameter whose control has a value already.

    Call it before any control is drawn. A control reads the link when it is new to the session; later the URL follows
    the control, after a reset one run late.
    """
    return {name: st.query_params.get_all(name) for name in st.query_params if name not in st.session_state}


def declined(control: Control, text: str) -> str:
    """Return the sentence about a value in a link that a control does not accept."""
    told = f"The link asks for {control.name} = {shown(text)}, which is not {control.rule}"
    return f"{told}; {shown(control.value)} is used."


def notices(before: Mapping[str, list[str]], controls: Iterable[Control]) -> list[str]:
    """Return one sentence per value in the link that its control did not accept; Streamlit drops such a value."""
    return [
        declined(control, before[control.name][-1])
        for control in controls
        if before.get(control.name)
        and control.bound
        and control.name not in st.query_params
        and str(control.value) != before[control.name][-1]
    ]


def control_table(pages: Mapping[str, Iterable[Control]]) -> pd.DataFrame:
    """Return one row per control in the URL: its name, label, default, accepted values, and first page."""
    rows: dict[str, dict[str, str]] = {}
    for page, controls in pages.items():
        for one in controls:
            words = {"name": one.name, "label": one.label, "default": str(one.default), "takes": one.rule}
            if one.linked:
                rows.setdefault(one.name, {**words, "first page": page})
    return pd.DataFrame(list(rows.values()))


def beside(items: Iterable[T], widths: Sequence[float] | None = None) -> Iterator[T]:
    """Yield the items one by one; one column per item."""
    items = tuple(items)
    for column, item in zip(st.columns(widths or len(items)), items, strict=True):
        with column:
            yield item


def draw_beside(controls: Iterable[Control], widths: Sequence[float] | None = None) -> None:
    """Draw controls side by side in columns."""
    for control in beside(controls, widths):
        control.draw()


def draw_row(*controls: Control, key: str, among: Sequence[str] = ()) -> list[Any]:
    """Draw controls in one row that wraps and return their values; `among` are entries of changing choices."""
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom", key=key):
        return [control.draw(among) for control in controls]


def draw_tabs(tabs: Mapping[str, Callable[[T], None]], shown: T, *, key: str) -> None:
    """Draw tabs by title; only the open one is drawn, by calling it with `shown`. The URL has it as `key`."""
    places = st.tabs(list(tabs), key=key, on_change="rerun", bind="query-params")
    for place, draw in zip(places, tabs.values(), strict=True):
        if place.open:
            with place, panels.refusals():
                draw(shown)
