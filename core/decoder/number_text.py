"""Numbers as text that reads back as the same number, for names and sentences that must not confuse two of them."""

from __future__ import annotations


def exact_text(value: float) -> str:
    """Six significant digits where they are exact, else the shortest text that reads back as `value`."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))
