"""The options `--csv DIR`, `--html FILE` and `--figures DIR`, which write the tables and figures of a document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..files import check_outputs, write_text
from .options import PATH, combined, emit

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

FIGURES = "Write every figure as PNG, SVG and PDF."
# What every verb with tables can write: a flag, its key in the options, a file or a folder, its line of help.
EXPORTS = (
    ("--csv", "csv_folder", "DIR", "Write every table as CSV."),
    ("--html", "html_file", "FILE", "Write the tables as one page."),
    ("--figures", "figures_folder", "DIR", FIGURES),
)
EXPORT_KEYS = tuple(key for _, key, _, _ in EXPORTS)
export_options = combined(
    *(click.option(flag, key, type=PATH, metavar=place, help=text) for flag, key, place, text in EXPORTS)
)


def export_parameters() -> list[click.Parameter]:
    """Return the options of `EXPORTS` as click parameters, for a command that is not made with decorators."""
    return [click.Option([flag, key], type=PATH, metavar=place, help=text) for flag, key, place, text in EXPORTS]


def export_places(options: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return a dict from option to the path given, for the options that take a file (`FILE`) or a folder (`DIR`)."""
    return {flag: options[key] for flag, key, place, _ in EXPORTS if place == kind}


def check_exports(options: Mapping[str, Any]) -> None:
    """Raise `StorageError` if an output cannot be written, before any work is done."""
    check_outputs(export_places(options, "FILE"), export_places(options, "DIR"))


def emit_with_tables(
    document: dict[str, Any],
    readable: Callable[[Any], str],
    title: str,
    tables: Callable[[], dict[str, pd.DataFrame]],
    figures: Callable[[], dict[str, go.Figure]],
    options: dict[str, Any],
) -> None:
    """Print the document, as JSON or as `readable` text, then write its tables and figures as the options ask.

    Raises `StorageError`.
    """
    emit(document, options["as_json"], readable, exports=lambda: write_exports(title, tables, figures, options))


def write_exports(
    title: str,
    tables: Callable[[], Mapping[str, pd.DataFrame]],
    figures: Callable[[], Mapping[str, go.Figure]],
    options: Mapping[str, Any],
    notes: Sequence[str] = (),
    report: Callable[[], str] | None = None,
) -> None:
    """Write `tables` and `figures` as the options ask; each is a function that is called only if needed.

    The HTML file begins with `notes`, or is the result of `report` if that is given. Raises `StorageError`.
    """
    write_pictures(options["figures_folder"], figures)
    if all(options[key] is None for key in EXPORT_KEYS if key != "figures_folder"):
        return
    # Pandas and Plotly are kept out of the module, so that help and refusals do not wait for them.
    from ..export.csv import write_tables
    from ..export.html import html_report

    found = tables()
    if options["csv_folder"] is not None:
        write_tables(options["csv_folder"], found)
    if options["html_file"] is not None:
        page = html_report(title, found, {}, notes) if report is None else report()
        write_text(options["html_file"], page)


def write_pictures(folder: str | None, figures: Callable[[], Mapping[str, go.Figure]]) -> None:
    """Write `figures` into the folder of the option `--figures`; does nothing for None. Raises `StorageError`."""
    if folder is not None:
        from ..export.pictures import write_figures

        write_figures(folder, figures())


def plan_tables(document: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """Return a dict from file name to table for a `plan` document: parameters per name pattern, bytes per dtype."""
    from ..tables.studies import byte_table, role_table

    return {"roles": role_table(document), "bytes": byte_table(document)}


def init_tables(document: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """Return a dict from file name to table for an `init` document: histogram and moments of the drawn matrix."""
    from ..tables.studies import histogram_table, moment_table

    return {"histogram": histogram_table(document), "moments": moment_table(document)}


def trace_tables(document: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """Return a dict from file name to table for a `trace` document.

    Worked values, the residual sites of every fixed decoder, the classified arrays and the laptop plan.
    """
    from ..tables.observe import site_table
    from ..tables.studies import classifier_table, ideal_table, vector_table

    worked = document["worked_values"]
    sites = {f"sites-{fixture['id']}": site_table(fixture) for fixture in document["fixtures"]}
    return {
        "ideal": ideal_table(worked),
        "worked-vector": vector_table(worked),
        **sites,
        "arrays": classifier_table(document["synthetic_classifiers"]),
        **plan_tables(document["laptop_plan"]),
    }


def recipe_tables(document: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """Return a dict from name to table for a `recipes` document: one row per recipe, and what else was asked for."""
    from ..tables.frame import frame

    columns = ("name", "title", "law", "graph", "evidence", "source", "selected_tensors", "refusal")
    cards = [{**card, "refusal": card["refusal"] or ""} for card in document["recipes"]]
    beside = {name: document[name] for name in ("effects", "warnings", "difference", "drift") if document.get(name)}
    return {
        "recipes": frame([{name: card[name] for name in columns} for card in cards], columns),
        **{name: frame(rows, tuple(rows[0])) for name, rows in beside.items()},
    }
