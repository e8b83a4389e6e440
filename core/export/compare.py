"""Compare two documents: the requested settings first, then residual sites and findings, then everything else.

Lists of labelled items (sites, branches, findings, matrices) are matched by label, so an item that one document lacks
is reported as absent and does not shift the others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

# Stands for a value that one document does not have; no JSON value equals it.
ABSENT = object()
ABSENT_TEXT = "(absent)"
# What says how a document came to be. Two versions of this project may agree on every number, and a restored run is
# the run that was saved.
NOT_RESULTS = frozenset({"version", "versions", "engine", "construction", "policy_id", "driver", "date", "out"})
TIMES = frozenset({"seconds"})
# What a document was asked for, in the order in which a difference explains the others.
SETTINGS = (
    "schema", "config", "grid", "options", "model", "rule", "seed", "seeds", "recipe", "dtype", "base_initializer_id",
    "device", "batch", "band",
)  # fmt: skip
MEASURED = ("sites", "findings")
# The keys that label an item of a list; the first of these that is present and unique in all items aligns the list.
IDENTITIES = (
    ("label",), ("id",), ("name",), ("family",), ("pattern",), ("block", "branch"), ("block",), ("kind", "parameters"),
    ("recipe", "seed", "lr"), ("step", "role", "block"), ("step", "block"), ("step", "site"),
    ("label", "direction", "format"), ("site", "format"), ("quantity", "arm", "recipe", "kind"),
)  # fmt: skip


@dataclass(frozen=True)
class _Difference:
    path: str
    names: tuple[str, ...]
    site: str | None
    a: Any
    b: Any
    relative: float | None

    @property
    def rank(self) -> int:
        """The sort key: settings in their order, then sites and findings, then the rest."""
        for name in self.names:
            if name in SETTINGS:
                return SETTINGS.index(name)
        return len(SETTINGS) + (not any(name in self.names for name in MEASURED))

    def document(self) -> dict[str, Any]:
        shown = {side: ABSENT_TEXT if value is ABSENT else value for side, value in (("a", self.a), ("b", self.b))}
        return {"path": self.path, **shown, "relative": self.relative}


def compare_documents(first: Any, second: Any, tolerance: float = 0.0, ignore: Collection[str] = ()) -> dict[str, Any]:
    """Return the differences of two JSON documents as a dict.

    - `equal`: True if there are none; `differences` and `differing_sites` count them.
    - `first_difference`: the first setting that differs, else the first site or finding, else the first of all.
    - `largest`: the numeric difference of largest relative size.
    - `causes`: the settings that differ.

    A difference is `{"path", "a", "b", "relative"}`. Two numbers are equal if |a - b| <= tolerance * max(|a|, |b|), two
    cosines if |a - b| <= tolerance; other values must be identical. Version, times and how a document was made are not
    compared, nor are the entries of `ignore`: a key, or a dotted path with or without labels in brackets.
    """
    walk = _Walk(tolerance, frozenset(ignore))
    # Sorting is stable: within a rank the first document's own order stays.
    found = sorted(walk.differences(first, second, "", (), None), key=lambda difference: difference.rank)
    numeric = [difference for difference in found if difference.relative is not None]
    largest = max(numeric, key=lambda difference: difference.relative or 0.0, default=None)
    return {
        "equal": not found,
        "first_difference": found[0].document() if found else None,
        "differences": len(found),
        "differing_sites": len({difference.site for difference in found if difference.site is not None}),
        "largest": None if largest is None else largest.document(),
        "causes": [difference.document() for difference in found if difference.rank < len(SETTINGS)],
    }


@dataclass(frozen=True)
class _Walk:
    tolerance: float
    ignore: frozenset[str]

    def differences(self, a: Any, b: Any, path: str, names: tuple[str, ...], site: str | None) -> Iterator[_Difference]:
        if isinstance(a, dict) and isinstance(b, dict):
            yield from self._members(a, b, path, names, site)
        elif isinstance(a, list) and isinstance(b, list):
            yield from self._items(a, b, path, names, site)
        elif _is_number(a) and _is_number(b):
            relative = _relative(a, b, 1 if names[-1:] == ("cosine",) else None)
            if relative is not None and (self.tolerance == 0 or not relative <= self.tolerance):
                # An infinity has no relative distance from a number.
                yield _Difference(path, names, site, a, b, relative if math.isfinite(relative) else None)
        elif type(a) is not type(b) or a != b:
            yield _Difference(path, names, site, a, b, None)

    def _members(
        self, a: dict[str, Any], b: dict[str, Any], path: str, names: tuple[str, ...], site: str | None
    ) -> Iterator[_Difference]:
        is_document = not path or "schema" in a
        for key in [*a, *(key for key in b if key not in a)]:
            inner, inner_names = f"{path}.{key}" if path else key, (*names, key)
            if key in TIMES or (is_document and key in NOT_RESULTS):
                continue
            if not self.ignore & {key, inner, ".".join(inner_names)}:
                yield from self.differences(a.get(key, ABSENT), b.get(key, ABSENT), inner, inner_names, site)

    def _items(
        self, a: list[Any], b: list[Any], path: str, names: tuple[str, ...], site: str | None
    ) -> Iterator[_Difference]:
        labels = _labels(a, b)
        if labels is None:
            labels = [[str(index) for index in range(len(items))] for items in (a, b)]
        elif (moved := _moved(*labels)) is not None:
            yield _Difference(f"{path}[order]", names, site, *moved, None)
        left, right = (dict(zip(own, items, strict=True)) for own, items in zip(labels, (a, b), strict=True))
        for label in [*left, *(label for label in right if label not in left)]:
            inner = f"{path}[{label}]"
            inner_site = inner if names[-1:] == ("sites",) else site
            yield from self.differences(left.get(label, ABSENT), right.get(label, ABSENT), inner, names, inner_site)


def _labels(a: Sequence[Any], b: Sequence[Any]) -> list[list[str]] | None:
    """Return the labels of the items of two lists, unique within each; None if items are matched by position."""
    if all(isinstance(item, str) for item in (*a, *b)):
        return _unique(list(a), list(b))
    if not all(isinstance(item, dict) for item in (*a, *b)):
        return None
    for keys in IDENTITIES:
        if all(item.get(key) is not None for item in (*a, *b) for key in keys):
            found = _unique(*([".".join(_word(item[key]) for key in keys) for item in items] for items in (a, b)))
            if found is not None:
                return found
    return None


def _unique(a: list[str], b: list[str]) -> list[list[str]] | None:
    return [a, b] if len(set(a)) == len(a) and len(set(b)) == len(b) else None


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _moved(a: Sequence[str], b: Sequence[str]) -> tuple[str, str] | None:
    """Return the first two labels that are at the same place in the two orders of the common labels and differ.

    None if both lists have the same order.
    """
    kept = set(a) & set(b)
    pairs = zip((label for label in a if label in kept), (label for label in b if label in kept), strict=True)
    return next((pair for pair in pairs if pair[0] != pair[1]), None)


def _relative(a: float, b: float, scale: float | None) -> float | None:
    """Return |a - b| divided by the larger size, or by `scale`, rounded once; None if the numbers are equal."""
    if a == b or (a != a and b != b):
        return None
    if not all(isinstance(value, int) or math.isfinite(value) for value in (a, b)):
        return math.inf
    first, second = Fraction(a), Fraction(b)
    gap = abs(first - second) / (max(abs(first), abs(second)) if scale is None else Fraction(scale))
    return float(gap)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
