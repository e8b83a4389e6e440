"""The settings of nanoGPT as pasted text: Python assignments, which are parsed and never executed.

Accepted are lines such as `n_layer = 12`, `n_layer: int = 12` and `n_layer: 12`, also inside a class, keyword arguments
such as `GPTConfig(n_layer=12)` or `n_layer=12, n_head=12`, dicts, JSON, and options as on nanoGPT's command line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..errors import ConfigError, StorageError, shown
from ..strict_json import JsonValue, parse_json
from .model_config import NANOGPT_SIZES

KEYS = (*NANOGPT_SIZES, "block_size", "vocab_size", "bias")
PASTED = "the pasted settings"
MAX_CHARACTERS = 2**16
EXAMPLE = "paste lines such as n_layer = 12, n_head = 12, n_embd = 768 and block_size = 1024."


def settings_from_text(text: str) -> dict[str, JsonValue]:
    """Return a dict of the keys of nanoGPT's model that `text` sets, each with its last value.

    `request_from_document` reads the result. Other settings, such as those of the optimizer, are ignored. Raises
    `ConfigError` if the text is longer than 64 KiB, is not Python, has none of the model's sizes, or gives a key a
    value that is not a literal.
    """
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(f"The pasted settings have {len(text):,} characters; paste at most {MAX_CHARACTERS:,}.")
    try:
        found = parse_json(text.encode("utf-8", "replace"))
    except StorageError:
        found = dict(_assigned(text))
    settings = {key: found[key] for key in KEYS if key in found} if isinstance(found, dict) else {}
    if not any(key in settings for key in NANOGPT_SIZES):
        raise ConfigError(f"The pasted settings name none of {', '.join(NANOGPT_SIZES)}; {EXAMPLE}")
    return settings


def _assigned(text: str) -> Iterator[tuple[str, JsonValue]]:
    bare = "\n".join(re.sub(r"^\s*--(?=\w)", "", line) for line in text.splitlines())
    try:
        # Indentation says nothing here, and a pasted part of a class or call begins with some.
        tree = ast.parse("\n".join(line.strip().rstrip(",") for line in bare.splitlines()))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = _whole(text)
    for node in ast.walk(tree):
        for name, value in _pairs(node):
            if name in KEYS:
                yield name, _literal(name, value)


def _whole(text: str) -> ast.Module:
    try:
        # Settings that commas separate are the arguments of a call.
        return ast.parse(f"dict({text.strip()})")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    try:
        return ast.parse(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        place = f" at line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise ConfigError(f"The pasted settings cannot be read as Python assignments{place}; {EXAMPLE}") from error


def _pairs(node: ast.AST) -> Iterator[tuple[object, ast.expr]]:
    """Yield the names and values that one node of the syntax tree assigns."""
    if isinstance(node, ast.Assign):
        yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        # `n_layer: 12` is an annotation without a value to Python, and a setting to its reader.
        yield node.target.id, node.value or node.annotation
    elif isinstance(node, ast.keyword):
        yield node.arg, node.value
    elif isinstance(node, ast.Dict):
        yield from (
            (key.value, value)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant)
        )


def _literal(name: str, value: ast.expr) -> JsonValue:
    """Return the plain value of an expression; nothing is evaluated, not even a product."""
    try:
        found = ast.literal_eval(value)
        if found is None or isinstance(found, bool | int | float):
            return found
        written = shown(found)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        written = "an expression"
    raise ConfigError(f"{name} in {PASTED} is {written}; write a plain number, true or false.")
