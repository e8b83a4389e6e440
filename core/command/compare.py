"""The verb `compare`: the differences of two documents, the most important first."""

from __future__ import annotations

from typing import Any

import click

from .. import __version__
from ..cli import DONE, GATE_FAILED
from ..errors import ConfigError
from ..export.compare import ABSENT_TEXT, compare_documents
from ..strict_json import read_json
from . import options as opt

SCHEMA = "depthscope.compare/1"
MAX_DOCUMENT_BYTES = 2**26
# Settings that differ and are told in a sentence; --json has them all.
SHOWN_CAUSES = 4
SHOWN_CHARACTERS = 60


@click.command(name="compare")
@click.argument("first", metavar="A.json")
@click.argument("second", metavar="B.json")
@click.option("--tolerance", type=opt.NUMBER, default=0.0, show_default=True, help="Relative gap that counts as none.")
@click.option(
    "--ignore",
    type=opt.PATH,
    multiple=True,
    metavar="PATH",
    help="A key or dotted path to leave out; give it again for more.",
)
@opt.json_option
def command(first: str, second: str, tolerance: float, ignore: tuple[str, ...], as_json: bool) -> int:
    """Compare two documents: settings first, then sites and findings by their label; exit 1 if any value differs.

    How a document was made (its version, its construction, times) is not compared.
    """
    if tolerance < 0:
        raise ConfigError(f"The tolerance {tolerance:g} is not a finite number of at least 0.")
    documents = [read_json(path, max_bytes=MAX_DOCUMENT_BYTES) for path in (first, second)]
    found = compare_documents(documents[0], documents[1], tolerance, ignore)
    result = {"schema": SCHEMA, "version": __version__, **found}
    opt.emit(result, as_json, readable)
    return DONE if result["equal"] else GATE_FAILED


def readable(result: dict[str, Any]) -> str:
    """Return text for a terminal: the first difference, other settings that differ, counts, the largest difference."""
    if result["equal"]:
        return "The documents are equal."
    lines = [f"First difference at {_sentence(result['first_difference'])}."]
    more = result["causes"][1 : 1 + SHOWN_CAUSES]
    lines += [f"Also {_sentence(cause)}." for cause in more]
    left = len(result["causes"]) - 1 - len(more)
    lines += [f"Also {left} more settings; --json has them all."] if left > 0 else []
    count, sites = result["differences"], result["differing_sites"]
    if count > 1:
        lines.append(f"{count:,} values differ" + (f", at {sites:,} sites." if sites else "."))
    if count > 1 and result["largest"] is not None:
        lines.append(f"Largest relative difference at {_sentence(result['largest'])}.")
    return "\n".join(lines)


def _sentence(difference: dict[str, Any]) -> str:
    relative = "" if difference["relative"] is None else f" (relative difference {difference['relative']:.3g})"
    values = " against ".join(_shown(difference[side]) for side in ("a", "b"))
    return f"{difference['path'] or 'the top'}: {values}{relative}"


def _shown(value: Any) -> str:
    """Format a value for one line; an absent value and a whole object are only named as such."""
    if value == ABSENT_TEXT:
        return "absent"
    if isinstance(value, dict | list):
        return "present"
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."
