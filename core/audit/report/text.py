"""Text as the report formats take it: no character that XML forbids, no lone surrogate, relative locations."""

from __future__ import annotations

import os
import re
from pathlib import PurePath
from urllib.parse import quote

# Everything outside XML 1.0's Char production.
_ILLEGAL = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
REPLACEMENT = "�"


def legal(text: object) -> str:
    """The text with every character that XML 1.0 does not allow replaced by U+FFFD."""
    return _ILLEGAL.sub(REPLACEMENT, str(text))


def relative_uri(source: object, folder: str | None = None) -> str:
    """A source as a relative URI reference: a path beside `folder` (the current one), or a callable's module.

    Never absolute: what lies outside the folder is named by its last part.
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
