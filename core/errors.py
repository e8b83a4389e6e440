"""All errors that the core raises on purpose: one base class, and one subclass for each kind of cause.

A message is one sentence with the value, the rule, and what to do. The command line, the pages and Python have
different names for some of the things to do (an option, a button, an argument). These are written as a `Remedy`, and
each interface replaces a `Remedy` by its own words.
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
    """Return an external value as one line of text for an error message.

    An integer of more than 128 bits is described by its number of bits, a list or tuple as "a list", a dict as "an
    object". True, False and None become true, false and null. Any other value is its `repr`, cut to `limit` characters.
    """
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a whole number of {value.bit_length()} bits"
    if isinstance(value, list | tuple | dict):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def cropped(text: object, limit: int = 100) -> str:
    """Return an external path or name as one line of text of at most `limit` characters.

    Unprintable characters become spaces. If the text is too long, its middle is replaced by three dots.
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    if len(line) <= limit:
        return line
    kept = (limit - 3) // 2
    return f"{line[:kept]}...{line[-kept:]}"


def readable(sentence: str) -> str:
    """Return the sentence with its long parts shortened.

    Each word of more than 120 characters, such as a path, is cropped to 120; the sentence itself is cropped to 1200.
    """
    sentence = re.sub(rf"\S{{{LONGEST_WORD + 1},}}", lambda word: cropped(word[0], LONGEST_WORD), sentence)
    return sentence if len(sentence) <= LONGEST_SENTENCE else cropped(sentence, LONGEST_SENTENCE)


def first_line(error: BaseException, limit: int = 160) -> str:
    """Return an exception as text for a sentence: its type and its message's first line, cropped to `limit` characters.

    This also works for an exception whose own `str` raises an error.
    """
    try:
        lines = str(error).strip().splitlines()
    except Exception:
        lines = []
    return cropped(f"{type(error).__name__}: {lines[0] if lines else ''}", limit).rstrip(".: ")


def internal_sentence(error: BaseException, remedy: str) -> str:
    """Return one sentence that reports a bug: the exception's type, its file and line, and `remedy`; no traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {os.path.basename(frames[-1].filename)}, line {frames[-1].lineno}" if frames else ""
    return f"An internal error, {type(error).__name__}{place}, stopped this run; {remedy}."


def raised_by_core(error: BaseException) -> bool:
    """Return True if the line that raised the exception is in this project, False if it is in the user's model or a
    library.
    """
    frames = list(traceback.walk_tb(error.__traceback__))
    return bool(frames) and str(frames[-1][0].f_globals.get("__name__")).split(".")[0] == __name__.split(".")[0]


def no_memory(error: BaseException) -> bool:
    """Return True if the exception means that memory ran out: a MemoryError, or any error whose text says so.

    PyTorch raises a plain RuntimeError for a failed allocation.
    """
    return isinstance(error, MemoryError) or "allocate memory" in str(error) or "not enough memory" in str(error)


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the text of an error for an unknown name, with up to three similar names out of `known`.

    `kind` says what is named, such as "recipe". The text has no final period, since the caller appends a `Remedy`.
    """
    from difflib import get_close_matches  # for a refusal alone

    nearest = " or ".join(get_close_matches(name[:60].casefold(), list(known)))
    return f"The {kind} {shown(name)} is unknown" + (f"; did you mean {nearest}?" if nearest else "")


class Remedy(StrEnum):
    """A way to resolve an error that is named differently by the command line, the pages and Python.

    The value of each is its wording in Python. They are strings, so JSON and pickle keep them unchanged.
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
    """Base class of all errors of this project; `str(error)` is the message to show to a user.

    `sentence` says what is wrong and by which rule. `ways` are the things that the user can do, each a `Remedy` or
    plain text. If there are none, the sentence itself says what to do.
    """

    def __init__(self, sentence: str = "", *ways: str) -> None:
        self.sentence, self.ways = readable(sentence), ways
        super().__init__(self.sentence, *ways)

    def __str__(self) -> str:
        return self.told()

    def told(self, words: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return the whole message as text: the sentence and the ways to resolve the error.

        `words` maps each `Remedy` to the wording of one interface; a `Remedy` that it maps to an empty text is left
        out. The ways follow after a semicolon, or as a separate sentence if `sentence` ends in a period or question
        mark.
        """
        *others, last = [way for name in self.ways if (way := words.get(name, name))] or [""]
        ways = f"{', '.join(others)}, or {last}" if others else last
        ended = not self.ways or self.sentence.endswith((".", "?"))
        if not ways:
            return self.sentence if ended else f"{self.sentence}."
        return f"{self.sentence} {ways[0].upper()}{ways[1:]}." if ended else f"{self.sentence}; {ways}."


class ConfigError(DepthscopeError):
    """A decoder size, seed, band, dtype or option is not valid."""


class BudgetError(DepthscopeError):
    """A decoder is larger than the caller allows. Raised before any array is allocated."""


class BatchError(DepthscopeError):
    """Input rows, targets, valid positions or segments do not form a batch."""


class RecipeError(DepthscopeError):
    """A recipe is unknown, or cannot be applied to this decoder."""


class InitializationError(DepthscopeError):
    """A parameter or a named collection is not valid.

    `fault` is a short name of the rule that is broken, such as "zero fan_in". `facts` holds the details by name, such
    as the index of a byte.
    """

    def __init__(self, sentence: str, fault: str = "", **facts: int | str) -> None:
        super().__init__(sentence)
        self.fault, self.facts = fault, facts


class ConstructionError(DepthscopeError):
    """Parameters cannot be used: changed since they were drawn, of another decoder, or an initialization was used
    twice.
    """


class StorageError(DepthscopeError):
    """A file or folder cannot be read, cannot be written, or has content that cannot be trusted."""


class ObservationError(DepthscopeError):
    """Residual states, their gradients or the valid positions cannot be measured, or contain a value that is not
    finite.
    """


class LabError(DepthscopeError):
    """An experiment of the labs is unknown, or cannot run with these options."""


class UndefinedNorm(LabError):
    """A norm would divide zero by zero for a row."""


class AuditError(DepthscopeError):
    """A user's model, or one of its files, cannot be read, built, called or differentiated."""


class InternalError(AuditError):
    """The audit itself has a bug; the model is not at fault."""


class SweepError(DepthscopeError):
    """The grid of a sweep is not valid, this process may not compute it, or the connection to its scheduler is lost."""
