"""`compare`: the first value in which two documents differ."""

from __future__ import annotations

from typing import Any

import click

from core import __version__
from core.cli import DONE, GATE_FAILED
from core.command import options as opt
from core.errors import ConfigError
from core.strict_json import read_json
from core.views.comparison import compare_documents

SCHEMA = "depthscope.compare/1"
MAX_DOCUMENT_BYTES = 2**26


@click.command(name="compare")
@click.argument("first", metavar="A.json")
@click.argument("second", metavar="B.json")
@click.option("--tolerance", type=float, default=0.0, show_default=True, help="Relative gap that counts as none.")
@opt.json_option
def command(first: str, second: str, tolerance: float, as_json: bool) -> int:
    """Compare two documents value by value, in their own order; exit 1 if any differs."""
    if not 0 <= tolerance < float("inf"):
        raise ConfigError(f"The tolerance {tolerance:g} is not a finite number of at least 0.")
    documents = [read_json(path, max_bytes=MAX_DOCUMENT_BYTES) for path in (first, second)]
    found = compare_documents(documents[0], documents[1], tolerance)
    result = {"schema": SCHEMA, "version": __version__, **found}
    opt.emit(result, as_json, readable)
    return DONE if result["equal"] else GATE_FAILED


def readable(result: dict[str, Any]) -> str:
    """One sentence for a terminal."""
    if result["equal"]:
        return "The documents are equal."
    difference = result["first_difference"]
    relative = "" if difference["relative"] is None else f" (relative difference {difference['relative']:.3g})"
    place = difference["path"] or "the top"
    return f"First difference at {place}: {difference['a']!r} against {difference['b']!r}{relative}."
