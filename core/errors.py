"""Every error that the core raises on purpose: one base class, and one named subclass per cause.

A message is one sentence with the value, the rule, and what to do. If the command line, pages and Python have different
names for what to do, it is a `Remedy`, which the command line and pages replace by their own words.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType

LONGEST_WORD, LONGEST_SENTENCE = 120, 1200


def shown(value: object, limit: int = 60) -> str:
    """Format an external value for a sentence: one line, cropped, without integers of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a whole number of {value.bit_length()} bits"
    if isinstance(value, list | tuple | dict):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def cropped(text: object, limit: int = 100) -> str:
    """Format an external path or name for a sentence: one line, with the middle of a long one left out."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    if len(line) <= limit:
        return line
    kept = (limit - 3) // 2
    return f"{line[:kept]}...{line[-kept:]}"


def readable(sentence: str) -> str:
    """Return a sentence with a final period, in which long external words, such as paths, are cropped to a line."""
    sentence = re.sub(rf"\S{{{LONGEST_WORD + 1},}}", lambda word: cropped(word[0], LONGEST_WORD), sentence)
    return sentence if len(sentence) <= LONGEST_SENTENCE else cropped(sentence, LONGEST_SENTENCE)


def first_line(error: BaseException, limit: int = 160) -> str:
    """Format an exception for a sentence: its type and its first line, even if its own `str` fails."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:
        lines = []
    return cropped(f"{type(error).__name__}: {lines[0] if lines else ''}", limit).rstrip(".: ")


def internal_sentence(error: BaseException, remedy: str) -> str:
    """Return one sentence that reports a bug, without a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {os.path.basename(frames[-1].filename)}, line {frames[-1].lineno}" if frames else ""
    return f"An internal error, {type(error).__name__}{place}, stopped this run; {remedy}."


def raised_by_core(error: BaseException) -> bool:
    """Return whether the exception was raised by this project, and not by the model's code or a library."""
    frames = list(traceback.walk_tb(error.__traceback__))
    return bool(frames) and str(frames[-1][0].f_globals.get("__name__")).split(".")[0] == __name__.split(".")[0]


def no_memory(error: BaseException) -> bool:
    """Return whether an exception means that memory ran out.

    Torch raises a plain RuntimeError for a failed allocation.
    """
    return isinstance(error, MemoryError) or "allocate memory" in str(error) or "not enough memory" in str(error)


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the sentence for an unknown name, with the nearest known ones; a remedy that lists all follows it."""
    from difflib import get_close_matches  # for a refusal alone

    nearest = " or ".join(get_close_matches(name[:60].casefold(), list(known)))
    return f"The {kind} {shown(name)} is unknown" + (f"; did you mean {nearest}?" if nearest else "")


class Remedy(StrEnum):
    """A way to resolve an error whose name differs between interfaces; the value is its name in Python.

    Members are strings, so they pass through JSON and pickling unchanged.
    """

    PARAMETERS = "raise the budget of parameters"
    POSITIONS = "raise the budget of positions"
    SMALL_WIDTHS = "ask for small widths"
    SECONDS = "allow more time"
    OUTPUT = "give another folder"
    SWEEP_OUTPUT = "give an empty folder or the folder of an earlier sweep"
    STORE = "give the path of the store"
    SAVED = "give the folder that a run was saved to"
    RESTORED = "restore a folder that a run was saved to"
    CPU = "choose the device cpu"
    NO_SCHEDULER = "run without a scheduler"
    FAMILIES = "see the list of families"
    RECIPES = "all are listed by the catalogue"
    EXPERIMENTS = "all are listed by the registry"
    SIZES = "give the sizes themselves"
    AUDIT = "audit the model itself"
    BY_BLOCK = "observe it block by block"
    MEMORY = "allow more memory"
    CHECKPOINT = "keep this run in another folder"


class DepthscopeError(ValueError):
    """Base class of all errors of this project; the text can be shown to a user as it is.

    `sentence` says what is wrong and by which rule. `ways` say what to do, each a `Remedy` or plain text; without any,
    the sentence itself says what to do.
    """

    def __init__(self, sentence: str = "", *ways: str) -> None:
        self.sentence, self.ways = readable(sentence), ways
        super().__init__(self.sentence, *ways)

    def __str__(self) -> str:
        return self.told()

    def told(self, words: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return the whole message; `words` maps remedies to their text, and a remedy with empty text is left out.

        The ways are joined by semicolons; where the sentence has ended already, they follow as a new sentence.
        """
        *others, last = [way for name in self.ways if (way := words.get(name, name))] or [""]
        ways = f"{', '.join(others)}, or {last}" if others else last
        ended = not self.ways or self.sentence.endswith((".", "?"))
        if not ways:
            return self.sentence if ended else f"{self.sentence}."
        return f"{self.sentence} {ways[0].upper()}{ways[1:]}." if ended else f"{self.sentence}; {ways}."


class ConfigError(DepthscopeError):
    """A decoder size, seed, band, dtype or option that is not valid."""


class BudgetError(DepthscopeError):
    """A decoder larger than the caller allows; raised before any array exists."""


class BatchError(DepthscopeError):
    """Input rows, targets, valid positions or segments that do not form a batch."""


class RecipeError(DepthscopeError):
    """A recipe that is unknown, or that does not apply to this decoder."""


class InitializationError(DepthscopeError):
    """A parameter or a named collection that is not valid.

    `fault` names the rule, such as "zero fan_in"; `facts` hold the details, such as the index of a byte.
    """

    def __init__(self, sentence: str, fault: str = "", **facts: int | str) -> None:
        super().__init__(sentence)
        self.fault, self.facts = fault, facts


class ConstructionError(DepthscopeError):
    """Parameters that are not a fresh draw or not those of the decoder, or an initialization that was already used."""


class StorageError(DepthscopeError):
    """A file or folder that cannot be read, written or trusted."""


class ObservationError(DepthscopeError):
    """States, adjoints or valid positions that cannot be observed, or that contain a value that is not finite."""


class LabError(DepthscopeError):
    """An experiment that is unknown, or options that it cannot run with."""


class UndefinedNorm(LabError):
    """A row whose norm divides zero by zero."""


class AuditError(DepthscopeError):
    """A user's model, or its files, that cannot be read, built, called or differentiated."""


class InternalError(AuditError):
    """A bug of the audit itself, not of the model."""


class SweepError(DepthscopeError):
    """A grid that is not valid, a process that may not compute it, or a scheduler that is lost."""
