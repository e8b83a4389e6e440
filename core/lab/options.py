"""Options of an experiment: frozen, checked when created, the same for pages, the command line and Python.

An experiment declares a subclass of `Options`. Its fields are made by `whole`, `number`, `choice` and the other
functions here, with limits, a label and a help text, from which a page makes a widget and the command line an option.
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
    """The values that one field of `Options` may have (kind, inclusive limits or choices), its help, and its widget.

    `label` is the text above the widget. `widget` replaces the default widget of the kind, and `step` is the step of a
    number. `most` is the largest count of integers in a list. `when` is the name of another option and those of its
    values for which this option has an effect; if the experiment lacks that other option, this one always has an
    effect. `more` moves the widget into an expander below the others.
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
        """Return `value`, or the value that its text describes, if it is valid; `name` is the option's name.

        Raises `LabError` with the broken rule, or `ConfigError` for a seed.
        """
        if value is None and self.optional:
            return None
        if isinstance(value, str) and len(value) > MAX_TEXT:
            raise LabError(f"{name} has {len(value):,} characters; give at most {MAX_TEXT:,}.")
        return _CHECKS[self.kind](self, name, value)

    def within(self, name: str, value: float, word: str) -> float:
        """Return `value`.

        Raises `LabError` if it is outside the limits; `word` is its kind in the message, such as "number".
        """
        if not self.low <= value <= self.high:
            raise LabError(f"{name} is {shown(value)}; it must be a {word} from {self.low:g} to {self.high:g}.")
        return value


def whole(default: int | None, low: int, high: int, label: str, text: str, **shown: Any) -> Any:
    """Return the field of an integer option from `low` to `high`; with the default None it may be left out.

    `shown` sets further fields of `Option`, here and in the functions below.
    """
    return _declared(default, kind="whole", label=label, help=text, low=low, high=high, **shown)


def number(default: float, low: float, high: float, label: str, text: str, **shown: Any) -> Any:
    """Return the field of an option that is a finite number from `low` to `high`."""
    return _declared(default, kind="number", label=label, help=text, low=low, high=high, **shown)


def choice(default: str, choices: tuple[str, ...], label: str, text: str, **shown: Any) -> Any:
    """Return the field of an option that is one of the strings `choices`."""
    return _declared(default, kind="choice", label=label, help=text, choices=choices, **shown)


def flag(default: bool, label: str, text: str) -> Any:
    """Return the field of an option that is True or False."""
    return _declared(default, kind="flag", label=label, help=text)


def seed(default: int = 0, text: str = "Any unsigned 64-bit seed.", **shown: Any) -> Any:
    """Return the field of an option that is an integer from 0 to 2^64 - 1."""
    return _declared(default, kind="seed", label="Seed", help=text, **shown)


def words(default: str, label: str, text: str, **shown: Any) -> Any:
    """Return the field of an option that is free text of at most `MAX_TEXT` characters."""
    return _declared(default, kind="text", label=label, help=text, **shown)


def numbers(default: tuple[float, ...] | None, low: int, high: int, label: str, text: str, **shown: Any) -> Any:
    """Return the field of an option of `low` to `high` finite numbers, in text with commas; default None: optional."""
    return _declared(default, kind="numbers", label=label, help=text, low=low, high=high, **shown)


def rows(default: tuple[tuple[float, ...], ...], low: int, high: int, label: str, text: str, **shown: Any) -> Any:
    """Return the field of an option of equally long vectors, each of `low` to `high` numbers; text has `,` and `;`."""
    return _declared(default, kind="rows", label=label, help=text, low=low, high=high, **shown)


def wholes(default: tuple[int, ...], low: int, high: int, most: int, label: str, text: str) -> Any:
    """Return the field of an option that is up to `most` increasing integers from `low` to `high`; text has commas."""
    return _declared(default, kind="wholes", label=label, help=text, low=low, high=high, most=most)


def _declared(default: object, **facts: Any) -> Any:
    return field(default=default, metadata={"option": Option(optional=default is None, **facts)})


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Options:
    """Base class of the options of an experiment; a subclass becomes a frozen dataclass.

    Creating an object checks its values. Raises `LabError`, or `ConfigError` for a seed that is not valid.
    """

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        for name, option in self.declared().items():
            object.__setattr__(self, name, option.checked(name, getattr(self, name)))
        self.check()

    def check(self) -> None:
        """Raise `LabError` if the values do not fit each other; the base class checks nothing."""

    @classmethod
    def declared(cls) -> dict[str, Option]:
        """Return the `Option` of every field by name, in the order of declaration."""
        return {entry.name: entry.metadata["option"] for entry in dataclasses.fields(cls)}

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the default value of every option by name."""
        return {entry.name: entry.default for entry in dataclasses.fields(cls)}

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> Self:
        """Return options from a mapping of names to values, or to their text.

        Raises `LabError` for an unknown name, and for a value that is not valid.
        """
        known = cls.declared()
        for name in given:
            if name not in known:
                raise LabError(f"The option {shown(name)} is unknown here; the options are {', '.join(known)}.")
        return cls(**given)

    def document(self) -> dict[str, Any]:
        """Return all options as a dict for JSON; seeds are text, since JSON readers may round integers above 2^53."""
        values = {name: getattr(self, name) for name in self.declared()}
        seeds = {name: str(values[name]) for name, option in self.declared().items() if option.kind == "seed"}
        return {name: _plain(value) for name, value in values.items()} | seeds


def consecutive(first: int, count: int) -> list[int]:
    """Return a list of `count` seeds that count up from `first`; after 2^64 - 1 comes 0."""
    return [(first + index) % 2**64 for index in range(count)]


def typed(value: object) -> str:
    """Return the value of an option as the text that a user would type; empty for None.

    Commas separate numbers, semicolons rows.
    """
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
    """Return `value`, a sequence or text with commas, as `low` to `high` finite floats in a tuple.

    Raises `LabError`.
    """
    cells: object = [cell.strip(SPACES) for cell in value.split(",")] if isinstance(value, str) else value
    if not isinstance(cells, Sequence) or isinstance(cells, str | bytes):
        raise LabError(f"{name} is {shown(value)}; give numbers separated by commas.")
    found = tuple(_finite(name, cell) for cell in cells)
    if not low <= len(found) <= high:
        raise LabError(f"{name} has {len(found)} numbers; give {low} to {high}.")
    return found


def checked_rows(name: str, value: object, low: int, high: int) -> tuple[Vector, ...]:
    """Return a tuple of vectors of equal length, each of `low` to `high` floats; text separates them by semicolons.

    Raises `LabError`, also for more than `MAX_ROWS` vectors.
    """
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
