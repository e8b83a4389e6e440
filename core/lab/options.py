"""Options of an experiment: frozen, checked when created, the same for pages, the command line and Python.

An experiment declares a subclass of `Options` whose fields are made by `whole`, `number`, `choice` and the other
functions here. The declaration holds limits, label and help, from which a widget and a command-line option are made.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, Self, dataclass_transform

from ..errors import LabError, shown
from ..numerals import SPACES, checked_seed, finite_number, whole_number

Kind = Literal["whole", "number", "choice", "flag", "seed", "text", "numbers", "rows", "wholes"]
MAX_ROWS = 64
# Squares, their sums and their reciprocals must stay inside binary64, also after a factor.
LARGEST, SMALLEST = 1e100, 1e-100

Vector = tuple[float, ...]
MAX_TEXT = 4096
FLAGS = {"true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True, kw_only=True)
class Option:
    """The values that one field takes: its kind, inclusive limits or choices, a line of help, and how a page shows it.

    `label` is the text above its widget. `widget`, if given, replaces the default of its kind, and `step` is that of a
    number. `when` names another option and the values of it for which this one has an effect; without that other option
    it always has. `more` puts the widget into the expander below the others.
    """

    kind: Kind
    label: str
    help: str
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    most: int = 1
    optional: bool = False
    widget: Literal["slider", "choice"] | None = None
    step: float | None = None
    when: tuple[str, tuple[str, ...]] | None = None
    more: bool = False

    def checked(self, name: str, value: object) -> Any:
        """Return `value`, or the value written in its text. Raises `LabError` with the rule."""
        if value is None and self.optional:
            return None
        if isinstance(value, str) and len(value) > MAX_TEXT:
            raise LabError(f"{name} has {len(value):,} characters; give at most {MAX_TEXT:,}.")
        return _CHECKS[self.kind](self, name, value)

    def within(self, name: str, value: float, word: str) -> float:
        """Return `value`. Raises `LabError` if it is outside the limits."""
        if not self.low <= value <= self.high:
            raise LabError(f"{name} is {shown(value)}; it must be a {word} from {self.low:g} to {self.high:g}.")
        return value


def whole(default: int | None, low: int, high: int, label: str, text: str, **shown: Any) -> Any:
    """Declare an integer from `low` to `high`; a default of None makes it optional."""
    return _declared(default, kind="whole", label=label, help=text, low=low, high=high, **shown)


def number(default: float, low: float, high: float, label: str, text: str, **shown: Any) -> Any:
    """Declare a finite number from `low` to `high`."""
    return _declared(default, kind="number", label=label, help=text, low=low, high=high, **shown)


def choice(default: str, choices: tuple[str, ...], label: str, text: str, **shown: Any) -> Any:
    """Declare one of `choices`."""
    return _declared(default, kind="choice", label=label, help=text, choices=choices, **shown)


def flag(default: bool, label: str, text: str) -> Any:
    """Declare True or False."""
    return _declared(default, kind="flag", label=label, help=text)


def seed(default: int = 0, text: str = "Any unsigned 64-bit seed.", **shown: Any) -> Any:
    """Declare an unsigned 64-bit seed."""
    return _declared(default, kind="seed", label="Seed", help=text, **shown)


def words(default: str, label: str, text: str, **shown: Any) -> Any:
    """Declare free text of at most `MAX_TEXT` characters."""
    return _declared(default, kind="text", label=label, help=text, **shown)


def numbers(default: tuple[float, ...] | None, low: int, high: int, label: str, text: str, **shown: Any) -> Any:
    """Declare a vector of `low` to `high` finite numbers, separated by commas in text.

    A default of None makes it optional.
    """
    return _declared(default, kind="numbers", label=label, help=text, low=low, high=high, **shown)


def rows(default: tuple[tuple[float, ...], ...], low: int, high: int, label: str, text: str, **shown: Any) -> Any:
    """Declare equally long vectors of `low` to `high` finite numbers, separated by semicolons in text."""
    return _declared(default, kind="rows", label=label, help=text, low=low, high=high, **shown)


def wholes(default: tuple[int, ...], low: int, high: int, most: int, label: str, text: str) -> Any:
    """Declare up to `most` increasing integers from `low` to `high`, separated by commas in text."""
    return _declared(default, kind="wholes", label=label, help=text, low=low, high=high, most=most)


def _declared(default: object, **facts: Any) -> Any:
    return field(default=default, metadata={"option": Option(optional=default is None, **facts)})


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Options:
    """Base class of all experiments' options; a subclass is a frozen dataclass. Creating an object checks its values.

    Raises `LabError`.
    """

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        for name, option in self.declared().items():
            object.__setattr__(self, name, option.checked(name, getattr(self, name)))
        self.check()

    def check(self) -> None:
        """Raise `LabError` if the fields do not fit each other; the base class checks nothing."""

    @classmethod
    def declared(cls) -> dict[str, Option]:
        """Return the options by name, in the order of declaration."""
        return {entry.name: entry.metadata["option"] for entry in dataclasses.fields(cls)}

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the default of every option."""
        return {entry.name: entry.default for entry in dataclasses.fields(cls)}

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> Self:
        """Return options from a mapping of values or their text.

        Raises `LabError`, with the known names, for an unknown one.
        """
        known = cls.declared()
        for name in given:
            if name not in known:
                raise LabError(f"The option {shown(name)} is unknown here; the options are {', '.join(known)}.")
        return cls(**given)

    def document(self) -> dict[str, Any]:
        """Return every option for JSON; seeds are text, since they may exceed 2^53."""
        values = {name: getattr(self, name) for name in self.declared()}
        seeds = {name: str(values[name]) for name, option in self.declared().items() if option.kind == "seed"}
        return {name: _plain(value) for name, value in values.items()} | seeds


def consecutive(first: int, count: int) -> list[int]:
    """Return `count` seeds from `first` on; after 2^64 - 1 comes 0."""
    return [(first + index) % 2**64 for index in range(count)]


def typed(value: object) -> str:
    """Return a value as text that can be typed: commas between numbers, semicolons between rows, empty for None."""
    if not isinstance(value, tuple):
        return "" if value is None else str(value).removesuffix(".0")
    nested = any(isinstance(item, tuple) for item in value)
    return (";" if nested else ",").join(typed(item) for item in value)


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _whole(option: Option, name: str, value: object) -> int:
    if isinstance(value, str):
        number = whole_number(value)
        value = value if number is None else number
    if isinstance(value, bool) or not isinstance(value, int):
        raise LabError(f"{name} is {shown(value)}; it must be a whole number from {option.low:g} to {option.high:g}.")
    option.within(name, value, "whole number")
    return value


def _wholes(option: Option, name: str, value: object) -> tuple[int, ...]:
    cells: object = value.split(",") if isinstance(value, str) else value
    if not isinstance(cells, Sequence) or isinstance(cells, str | bytes) or not 0 < len(cells) <= option.most:
        raise LabError(f"{name} is {shown(value)}; give 1 to {option.most} whole numbers separated by commas.")
    found = tuple(_whole(option, name, cell) for cell in cells)
    if sorted(set(found)) != list(found):
        raise LabError(f"{name} is {', '.join(map(str, found))}; list each number once, in increasing order.")
    return found


def _number(option: Option, name: str, value: object) -> float:
    (found,) = checked_vector(name, [value] if not isinstance(value, str) else value, 1, 1)
    return option.within(name, found, "number")


def _choice(option: Option, name: str, value: object) -> str:
    if not isinstance(value, str) or value not in option.choices:
        raise LabError(f"{name} is {shown(value)}; choose one of {', '.join(option.choices)}.")
    return value


def _flag(option: Option, name: str, value: object) -> bool:
    found = FLAGS.get(value.strip(SPACES).lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise LabError(f"{name} is {shown(value)}; it must be true or false.")
    return found


def _text(option: Option, name: str, value: object) -> str:
    if not isinstance(value, str):
        raise LabError(f"{name} is {shown(value)}; it must be text.")
    return value


def checked_vector(name: str, value: object, low: int, high: int) -> Vector:
    """Return `value`, or the numbers listed in its text, as `low` to `high` finite floats; raises `LabError`."""
    cells: object = [cell.strip(SPACES) for cell in value.split(",")] if isinstance(value, str) else value
    if not isinstance(cells, Sequence) or isinstance(cells, str | bytes):
        raise LabError(f"{name} is {shown(value)}; give numbers separated by commas.")
    found = tuple(_finite(name, cell) for cell in cells)
    if not low <= len(found) <= high:
        raise LabError(f"{name} has {len(found)} numbers; give {low} to {high}.")
    return found


def checked_rows(name: str, value: object, low: int, high: int) -> tuple[Vector, ...]:
    """Return rows of equal length, each a `checked_vector`; text separates rows by semicolons. Raises `LabError`."""
    parts: object = value.split(";") if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or isinstance(parts, str | bytes) or not parts:
        raise LabError(f"{name} is {shown(value)}; give rows of numbers, separated by semicolons.")
    if len(parts) > MAX_ROWS:
        raise LabError(f"{name} has {len(parts)} rows; give at most {MAX_ROWS}.")
    found = tuple(checked_vector(f"row {index} of {name}", part, low, high) for index, part in enumerate(parts))
    for index, row in enumerate(found):
        if len(row) != len(found[0]):
            raise LabError(
                f"Row {index} of {name} has {len(row)} numbers and row 0 has {len(found[0])}; make all equal."
            )
    return found


def _finite(name: str, cell: object) -> float:
    found = math.nan
    if isinstance(cell, str):
        number = finite_number(cell)
        found = math.nan if number is None else number
    elif isinstance(cell, Real) and not isinstance(cell, bool):
        with contextlib.suppress(OverflowError):
            found = float(cell)
    if found != 0 and not SMALLEST <= abs(found) <= LARGEST:
        raise LabError(f"{name} holds {shown(cell)}; give 0 or numbers of size {SMALLEST:g} to {LARGEST:g}.")
    return found


_CHECKS: Mapping[str, Callable[[Option, str, Any], Any]] = {
    "whole": _whole,
    "number": _number,
    "choice": _choice,
    "flag": _flag,
    "seed": lambda option, name, value: checked_seed(value),
    "text": _text,
    "numbers": lambda option, name, value: checked_vector(name, value, int(option.low), int(option.high)),
    "wholes": _wholes,
    "rows": lambda option, name, value: checked_rows(name, value, int(option.low), int(option.high)),
}
