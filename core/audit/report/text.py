"""Text that the report formats allow: no character that XML forbids, no lone surrogate, relative locations."""

from __future__ import annotations

import os
import re
from pathlib import PurePath
from urllib.parse import quote

# Everything outside XML 1.0's Char production.
_ILLEGAL = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
REPLACEMENT = "�"


def legal(text: object) -> str:
    """Return the text with every character that XML 1.0 forbids replaced by U+FFFD."""
    return _ILLEGAL.sub(REPLACEMENT, str(text))


def relative_uri(source: object, folder: str | None = None) -> str:
    """Return a model's source as a relative URI: its path relative to `folder`, or the file of a callable's module.

    `folder` defaults to the current one. A path outside it is reduced to its last component.
    """
    text = legal(source)
    module, _, name = text.partition(":")
    if name and re.fullmatch(r"[\w.]+", module):
        return quote(module.replace(".", "/") + ".py")
    path = text
    if os.path.isabs(text):
        try:
            path = os.path.relpath(text, folder or os.getcwd())
        except ValueError:
            path = os.path.basename(text)
    parts = [part for part in PurePath(path).parts if part not in (".", os.sep)]
    if ".." in parts or not parts:
        parts = [os.path.basename(text.rstrip("/\\")) or "model"]
    return "/".join(quote(part, safe="") for part in parts)
