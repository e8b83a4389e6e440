"""One control as data, and how it is drawn: its name is its key, its URL parameter and its name in a manifest.

Every page declares its controls as `Control` values and draws them with `draw`; presets, reset, links and manifests
then work on them without further code. A value set for a name in a callback (`assign`) is what the widget shows next.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
import streamlit as st
from streamlit.errors import StreamlitAPIException

from core.errors import ConfigError, shown

# Session entry: names of controls that are not bound to the URL.
LOOSE = "loose controls"
Kind = Literal["slider", "whole", "number", "text", "choice", "segments", "toggle"]


@dataclass(frozen=True, kw_only=True)
class Control:
    """A widget's description. `lower` and `upper` are inclusive limits; `linked` says whether the URL carries it."""

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

    def draw(self, *, disabled: bool = False, label_visibility: Literal["visible", "collapsed"] = "visible") -> Any:
        """Draw the widget where Streamlit stands now, bound to the URL and kept over page switches; its value."""
        loose = self.linked and self._is_loose()
        common: dict[str, Any] = {
            "key": self.name,
            "help": self.help,
            "persist_state": "session",
            "bind": "query-params" if self.linked and not loose else None,
            "disabled": disabled,
            "label_visibility": label_visibility,
        }
        if self.width is not None:
            common["width"] = self.width
        if self.linked:
            self._enter_link()
        value = self._widget(common)
        if loose:
            self._write_link(value)
        return value

    def _widget(self, common: Mapping[str, Any]) -> Any:
        if self.kind == "slider":
            return st.slider(self.label, self.lower, self.upper, self.default, self.step, **common)
        if self.kind in ("whole", "number"):
            return st.number_input(
                self.label, self.lower, self.upper, self.default, self.step, format=self.format, **common
            )
        if self.kind == "text":
            return st.text_input(self.label, self.default, placeholder=self.placeholder, **common)
        if self.kind == "choice":
            return st.selectbox(self.label, self.options, self.options.index(self.default), **common)
        if self.kind == "segments":
            return st.segmented_control(self.label, self.options, default=self.default, required=True, **common)
        return st.toggle(self.label, self.default, **common)

    def _is_loose(self) -> bool:
        """Whether the URL asked for an infinite or undefined number, once in this session.

        Streamlit drops what a control cannot take, but fails at these; such a control writes the URL itself.
        """
        loose: set[str] = st.session_state.setdefault(LOOSE, set())
        if self.kind in ("slider", "whole", "number") and not all(map(_finite, st.query_params.get_all(self.name))):
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
        """Put a value that was assigned before the widget's first run into the URL; afterwards Streamlit does."""
        value = st.session_state.get(self.name)
        if value is not None and value != self.default and self.name not in st.query_params:
            with suppress(StreamlitAPIException):  # The widget is known to the URL already and keeps it itself.
                st.query_params[self.name] = linked(value)

    @property
    def value(self) -> Any:
        """The value now, the default where the widget was never drawn."""
        value = st.session_state.get(self.name)
        return self.default if value is None else value

    def checked(self, value: object) -> Any:
        """`value` from a file as this control may take it; raises `ConfigError` otherwise."""
        if self.kind in ("choice", "segments"):
            if value not in self.options:
                raise ConfigError(f"{self.name} is {shown(value)}; it must be one of {', '.join(self.options)}.")
            return value
        if self.kind == "toggle" or self.kind == "text":
            wanted = bool if self.kind == "toggle" else str
            if not isinstance(value, wanted):
                raise ConfigError(
                    f"{self.name} is {shown(value)}; it must be {'true or false' if wanted is bool else 'text'}."
                )
            return value
        whole = isinstance(self.default, int)
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            raise ConfigError(f"{self.name} is {shown(value)}; it must be a {'whole ' if whole else ''}number.")
        lower = -sys.float_info.max if self.lower is None else self.lower
        upper = sys.float_info.max if self.upper is None else self.upper
        if not lower <= value <= upper:
            both = self.lower is not None and self.upper is not None
            rule = f"lie between {self.lower:g} and {self.upper:g}" if both else f"be {self.rule}"
            raise ConfigError(f"{self.name} is {shown(value)}; it must {rule}.")
        return value if whole else float(value)

    @property
    def rule(self) -> str:
        """What the control takes, in words, for a link that asked for something else."""
        if self.options:
            return f"one of {', '.join(self.options)}"
        if self.kind == "toggle":
            return "true or false"
        if self.kind == "text":
            return "text"
        if self.lower is not None and self.upper is not None:
            return f"a number from {self.lower:g} to {self.upper:g}"
        limits = {"at least": self.lower, "at most": self.upper}
        (words, *_) = [f"of {word} {limit:g}" for word, limit in limits.items() if limit is not None] or [
            "that is finite"
        ]
        return f"a number {words}"


def _finite(text: str) -> bool:
    """False for a number that is infinite or undefined; what is no number is for Streamlit to drop."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return True


def linked(value: Any) -> str | list[str]:
    """A value as the URL has it."""
    if isinstance(value, tuple):
        return [str(part) for part in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def assign(values: Mapping[str, Any]) -> None:
    """Set controls by name; only before they are drawn in a run, so from a callback."""
    for name, value in values.items():
        st.session_state[name] = value


def reset(controls: Iterable[Control]) -> None:
    """Set every control to its default; from a callback."""
    assign({control.name: control.default for control in controls})


def values_of(controls: Iterable[Control]) -> dict[str, Any]:
    """The values now, by name."""
    return {control.name: control.value for control in controls}


def control_table(pages: Mapping[str, Iterable[Control]]) -> pd.DataFrame:
    """Every linked control of every page: its name, label, default and what it takes; a shared one stands once."""
    rows: dict[str, dict[str, str]] = {}
    for page, controls in pages.items():
        for control in controls:
            if control.linked and control.name not in rows:
                rows[control.name] = {
                    "name": control.name,
                    "label": control.label,
                    "default": str(control.default),
                    "takes": control.rule,
                    "first page": page,
                }
    return pd.DataFrame(list(rows.values()))
