"""The sentences on a reduced twin, a narrower decoder run in place of a wide one: sizes, and how far ratios move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..health.twins import TwinDrift

# Where ratios move by more than this, the twin's answer is an order of magnitude and no figure.
FAR = 1.5


def twin_sentence(twin: Mapping[str, Any]) -> str:
    """Return a sentence with both sizes and what the narrower decoder keeps; `twin` is that entry of a document."""
    true, own, kept = twin["true"], twin["twin"], twin["kept"]
    names = ["depth", "graph"]
    names += ["the grouping of heads"] * kept["grouping"] + ["the head size"] * kept["head_dim"] + ["multipliers"]
    return (
        f"Observed on a reduced twin of width {own['width']:,} ({own['parameters']:,} parameters) in place of width "
        f"{true['width']:,} ({true['parameters']:,}): every matrix keeps std times the root of its fan-in, embeddings "
        f"keep their RMS, and {', '.join(names[:-1])} and {names[-1]} stay."
    )


def drift_sentence(drift: TwinDrift) -> str:
    """Return a sentence on how much the ratios change between widths of the twin and between lengths of rows."""
    widths = sorted({row.width for row in drift.rows})
    lengths = sorted({row.positions for row in drift.rows})
    parts = [
        f"by at most {_factor(moved)} between {what} {values[0]:,} and {values[-1]:,}"
        for what, values, moved in (
            ("widths", widths, drift.by_width),
            ("row lengths", lengths, drift.by_positions),
        )
        if moved is not None and len(values) > 1
    ]
    if not parts:
        return "How far the ratios move with the twin's width and the rows' length was not measured."
    far = max(moved for moved in (drift.by_width, drift.by_positions) if moved is not None) > FAR
    size = "; read them as orders of magnitude" if far else ""
    return f"The ratios move {' and '.join(parts)}{size}."


def _factor(moved: float) -> str:
    return f"{100 * (moved - 1):.0f} %" if moved < 2 else f"a factor of {moved:.1f}"
