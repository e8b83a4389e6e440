"""Where two documents first differ, value by value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

# Stands for a value that one document does not have; no JSON value equals it.
ABSENT = object()
ABSENT_TEXT = "(absent)"
# Two versions of this project may agree on every number, so the version itself is not compared.
IGNORED = ("version",)
MEASURED = ("sites[", "findings[")


def compare_documents(first: Any, second: Any, tolerance: float = 0.0) -> dict[str, Any]:
    """`{"equal", "first_difference": {"path", "a", "b", "relative"} or None}`, walking in the first document's order.

    Numbers agree where |a - b| <= tolerance * max(|a|, |b|); everything else must be equal. The first site or finding
    that differs is reported before any other difference; both are named by their label in the path.
    """
    differences = _differences(first, second, "", tolerance)
    other = None
    for difference in differences:
        if any(part in difference["path"] for part in MEASURED):
            return {"equal": False, "first_difference": difference}
        other = other or difference
    return {"equal": other is None, "first_difference": other}


def _differences(a: Any, b: Any, path: str, tolerance: float) -> Iterator[dict[str, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            if path or key not in IGNORED:
                inner = f"{path}.{key}" if path else key
                yield from _differences(a.get(key, ABSENT), b.get(key, ABSENT), inner, tolerance)
    elif isinstance(a, list) and isinstance(b, list):
        for index in range(max(len(a), len(b))):
            left, right = (items[index] if index < len(items) else ABSENT for items in (a, b))
            yield from _differences(left, right, f"{path}[{_label(left, index)}]", tolerance)
    elif _is_number(a) and _is_number(b):
        scale = max(abs(a), abs(b))
        if a != b and (tolerance == 0 or abs(a - b) > tolerance * scale):
            yield {"path": path, "a": a, "b": b, "relative": _relative(a, b, scale)}
    elif type(a) is not type(b) or a != b:
        shown = (ABSENT_TEXT if value is ABSENT else value for value in (a, b))
        yield {"path": path, **dict(zip("ab", shown, strict=True)), "relative": None}


def _relative(a: float, b: float, scale: float) -> float:
    """|a - b| / scale, where the difference itself may pass the range of a float."""
    gap = abs(a - b)
    return gap / scale if math.isfinite(gap) else abs(a / scale - b / scale)


def _label(item: Any, index: int) -> str:
    if isinstance(item, dict) and isinstance(item.get("label"), str):
        return str(item["label"])
    return str(index)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
