"""The sentences on a reduced twin, a narrower decoder run in place of a wide one: the sizes, and what it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
