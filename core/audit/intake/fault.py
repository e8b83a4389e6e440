"""Finds the settings of a config.json that make the library or the model fail."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...errors import AuditError, BudgetError, DepthscopeError, no_memory, shown

Settings = Mapping[str, Any]
# Whether a model of these settings passes a step (it is built, it runs); None where that cannot be tried.
Works = Callable[[Settings], bool | None]
SHOWN_KEYS = 3


@dataclass(frozen=True)
class Trial:
    """Settings, and the steps that their model must pass in order, such as being built and being run.

    A step takes settings and returns True or False, or None if it cannot be tried. At most `seconds` seconds are spent
    on a search for the settings at fault.
    """

    settings: Settings = field(default_factory=dict)
    steps: tuple[Works, ...] = ()
    seconds: float = 0.0

    @contextmanager
    def blaming(self) -> Iterator[None]:
        """A context that replaces an error by one that names the settings at fault.

        The error passes unchanged if no setting is at fault.
        """
        try:
            yield
        except Exception as error:
            told = None if isinstance(error, BudgetError) or no_memory(error) else self.blamed(error)
            if told is None:
                raise
            raise (type(error) if isinstance(error, DepthscopeError) else AuditError)(told) from error

    def blamed(self, error: Exception) -> str | None:
        """Return a sentence that names the settings that cause `error`; None where no setting causes it."""
        deadline = time.monotonic() + self.seconds
        for works in self.steps:
            if works(self.settings) is False:
                keys = faulty_keys(self.settings, works, deadline)
                return _sentence(keys, self.settings, error) if keys else None
        return None


def _sentence(keys: list[str], settings: Settings, error: Exception) -> str:
    told = [f"{key} to {shown(_value(settings, key))}" for key in keys[:SHOWN_KEYS]]
    listed = told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"
    more = f", and {len(keys) - SHOWN_KEYS} more keys to values that fail" if len(keys) > SHOWN_KEYS else ""
    change = (
        "correct the value, or remove the key" if len(keys) == 1 else "correct one of the values, or remove its key"
    )
    return f"config.json sets {listed}{more}, with which the model fails ({reason_of(error)}); {change}."


def faulty_keys(settings: Settings, works: Works, deadline: float) -> list[str]:
    """Return the keys of `settings` that make the step `works` fail, nested ones with dots; empty if none are found.

    They are the keys that each cause the failure alone, else a small set that does so together. A setting is at fault
    if the step passes without it (with the configuration's default), or with 1 in its place. The search ends at
    `deadline`, a value of `time.monotonic`.
    """

    def passes(changed: Settings) -> bool:
        return time.monotonic() < deadline and works(changed) is True

    found = (
        [key for key in settings if passes({name: value for name, value in settings.items() if name != key})]
        or [key for key, value in settings.items() if type(value) is int and passes({**settings, key: 1})]
        or _together(settings, works, deadline)
    )
    if len(found) != 1:
        return found
    (key,) = found
    value = settings[key]
    if not isinstance(value, Mapping):
        return found
    inner = faulty_keys(value, lambda kept: works({**settings, key: kept}), deadline)
    return [f"{key}.{name}" for name in inner] or found


def _together(settings: Settings, works: Works, deadline: float) -> list[str]:
    """Return keys that must all be removed for the step to pass; empty where none are found in time."""
    kept, gone = dict(settings), list[str]()
    for key in settings:
        if time.monotonic() > deadline:
            return []
        gone.append(key)
        del kept[key]
        if works(kept) is True:
            break
    else:
        return []
    for key in gone[:-1]:
        again = {**kept, key: settings[key]}
        if time.monotonic() < deadline and works(again) is True:
            kept = again
    return [key for key in gone if key not in kept]


def _value(settings: Settings, key: str) -> Any:
    value: Any = settings
    for part in key.split("."):
        value = value[part]
    return value


def reason_of(error: BaseException) -> str:
    """Return an exception's type and the last line of its message, as one line of at most 200 characters.

    For a `DepthscopeError` with a cause, return the type and message of the cause instead.
    """
    cause = error.__cause__ if isinstance(error, DepthscopeError) and error.__cause__ is not None else error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    text = lines[-1] if lines else ""
    said = text if re.match(r"\w+Error: ", text) else f"{type(cause).__name__}: {text}"
    return said[:200].rstrip(": .")
