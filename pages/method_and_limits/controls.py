"""The controls of the page Method and limits. The search is typed, so it is in the manifest and not in the link."""

from __future__ import annotations

from pages.common.widgets import Control

TEXT = Control(
    name="glossary_text", label="Find in the glossary", kind="text", default="", linked=False, placeholder="adjoint",
    help="Part of a word or of its meaning.",
)  # fmt: skip

CONTROLS = (TEXT,)
