"""How two recipes differ at the sizes of one decoder: equations, factors, weights and additional state."""

from __future__ import annotations

from itertools import zip_longest

import pandas as pd

from ..decoder.base_draw import XAVIER, Distribution
from ..decoder.config import DecoderConfig
from .card import Card, ForwardLaw, StoredLaw, card

DIFFERENCE_COLUMNS = ("aspect", "item", "first", "second")
KEPT = "base draw kept"
ABSENT = "none"


def difference_table(
    first: str, second: str, config: DecoderConfig | None = None, distribution: Distribution = XAVIER
) -> pd.DataFrame:
    """Return the differences of two recipes, one row each; no rows if they do not differ.

    Columns are `aspect` (graph, coefficient, tensor or state), `item`, `first` and `second`. The values are text: a
    formula with its numbers in the first and the last block. Raises `RecipeError` for an unknown name.
    """
    cards = card(first, config, distribution), card(second, config, distribution)
    rows = [*_graph_rows(*cards), *_coefficient_rows(*cards), *_tensor_rows(*cards), *_state_rows(*cards)]
    changed = [row for row in rows if row[2] != row[3]]
    return pd.DataFrame(changed, columns=list(DIFFERENCE_COLUMNS))


def _graph_rows(first: Card, second: Card) -> list[tuple[str, str, str, str]]:
    pairs = zip_longest(first.equations, second.equations, fillvalue=ABSENT)
    return [("graph", f"line {index}", a, b) for index, (a, b) in enumerate(pairs, 1)]


def _coefficient_rows(first: Card, second: Card) -> list[tuple[str, str, str, str]]:
    a, b = ({law.what: _forward(law) for law in found.forward} for found in (first, second))
    return [("coefficient", what, a.get(what, "1"), b.get(what, "1")) for what in dict.fromkeys([*a, *b])]


def _tensor_rows(first: Card, second: Card) -> list[tuple[str, str, str, str]]:
    a, b = ({law.pattern: _stored(law) for law in found.stored} for found in (first, second))
    return [("tensor", pattern, a.get(pattern, KEPT), b.get(pattern, KEPT)) for pattern in dict.fromkeys([*a, *b])]


def _state_rows(first: Card, second: Card) -> list[tuple[str, str, str, str]]:
    words = ["; ".join(found.state) or ABSENT for found in (first, second)]
    profile = ["measured on a batch" if found.profile else ABSENT for found in (first, second)]
    return [
        ("state", "new state in the source", words[0], words[1]),
        ("state", "profile step", profile[0], profile[1]),
    ]


def _forward(law: ForwardLaw) -> str:
    if law.first is None or law.last is None:
        return law.formula
    return f"{law.formula} = {_range(law.first, law.last)}"


def _stored(law: StoredLaw) -> str:
    return f"{law.formula}: times {_range(law.first, law.last)}"


def _range(first: float, last: float) -> str:
    return f"{first:.6g}" if first == last else f"{first:.6g} to {last:.6g}"
