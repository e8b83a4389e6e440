"""One experiment of the labs and its result: named numbers, tables and sentences, also as a JSON document."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast, get_type_hints

import numpy as np
import pandas as pd

from .. import __version__
from ..decoder.progress import Told, silent
from ..errors import LabError, shown
from ..figures.chart import Chart, Picture
from ..figures.matrix import Matrix
from ..strict_json import json_integer
from .experiments import EXPERIMENTS, SCHEMA
from .options import Option, Options
from .published import Printed
from .view import TableView


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """The result of an experiment.

    `summary` maps names to scalars. `tables` maps names to tables with one row per observation. `notes` are sentences
    that state the assumptions. A number that is undefined or outside its dtype is None in the summary, and NaN or
    infinite in a table.
    """

    summary: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    notes: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        """Return the result as a dict for JSON: `summary`, `tables` (lists of records), `notes` and `undefined`.

        A number that is not finite is null; `undefined` is the count of all nulls.
        """
        tables = {name: _records(table) for name, table in self.tables.items()}
        summary = {name: _plain(value) for name, value in self.summary.items()}
        cells = [cell for records in tables.values() for record in records for cell in record.values()]
        undefined = sum(cell is None for cell in [*cells, *summary.values()])
        return {"summary": summary, "tables": tables, "notes": list(self.notes), "undefined": undefined}


Pictures = Mapping[str, Chart | Matrix]
Summary = Mapping[str, Any]
O = TypeVar("O", bound=Options)  # noqa: E741


@dataclass(frozen=True, kw_only=True)
class Experiment(Generic[O]):
    """An experiment: a function from options to a `Result`, with all that the command line and a page need to show it.

    `label` is the short name on the page. `presets` maps names of settings to the options that differ from the
    defaults. `torch` is True if running it always imports torch. `controls` lists the options in the order of the page,
    by default as declared; those in `shared` have one control for all experiments of the page.

    `text` says what to look for and `formulas` are LaTeX. `subject` returns the line under a figure's title, `reading`
    the summary as a sentence, `draw` the figures by name. `tables` says how each table is shown. `published` lists
    published numbers to compare with.
    """

    title: str
    label: str
    function: Callable[[O], Result]
    presets: Mapping[str, Mapping[str, Any]]
    text: str
    formulas: tuple[str, ...]
    subject: Callable[[O], str]
    reading: Callable[[Summary], str]
    draw: Callable[[Result], Pictures]
    tables: Mapping[str, TableView]
    published: Sequence[Printed] = ()
    controls: Sequence[str] = ()
    shared: Sequence[str] = ()
    torch: bool = False

    @property
    def name(self) -> str:
        """The name on the command line: the name of the experiment's file, with hyphens for underscores."""
        return self.function.__module__.rpartition(".")[2].replace("_", "-")

    @property
    def page(self) -> str:
        """The name of the page that shows the experiment, such as "norm_lab"."""
        return EXPERIMENTS[self.name].name

    @property
    def options_type(self) -> type[O]:
        """The `Options` class that the experiment's function takes."""
        return cast(type[O], get_type_hints(self.function)["options"])

    @property
    def declared(self) -> dict[str, Option]:
        """The options that have a control on the page, by name, in the order of the page."""
        declared = self.options_type.declared()
        return {name: declared[name] for name in self.controls or declared}

    def options(self, given: Mapping[str, object] | None = None, preset: str | None = None) -> O:
        """Return checked options: the defaults, replaced by those of `preset`, then by those in `given`.

        Raises `LabError` for an unknown preset, an unknown option or a value that is not valid.
        """
        if preset is not None and preset not in self.presets:
            raise LabError(
                f"The preset {shown(preset)} of {self.name} is unknown; the presets are {', '.join(self.presets)}."
            )
        chosen = self.presets[preset] if preset is not None else {}
        return self.options_type.parse({**chosen, **(given or {})})

    def needs_torch(self, options: O) -> bool:
        """Return True if running with these options imports torch."""
        return self.torch or getattr(options, "source", None) == "decoder"

    def run(self, options: O | None = None, told: Told = silent) -> Result:
        """Run the experiment with `options`, by default its default options, and return its result.

        An experiment with several random draws calls `told(what, done, total)` after each of them, to report progress.
        Raises `LabError` if `options` belong to another experiment or the experiment cannot run with them.
        """
        options = self.options() if options is None else options
        if type(options) is not self.options_type:
            raise LabError(f"{self.name} takes {self.options_type.__name__}, not {type(options).__name__}.")
        function: Callable[..., Result] = self.function
        counts = "told" in inspect.signature(function).parameters
        return function(options, told=told) if counts else function(options)

    def document(self, options: O | None = None, result: Result | None = None) -> dict[str, Any]:
        """Return the result as a dict for JSON, with the experiment's name, title and page, and the options.

        `result` is the result of `run(options)`; without it the experiment is run.
        """
        options = self.options() if options is None else options
        result = self.run(options) if result is None else result
        return {
            "schema": SCHEMA,
            "version": __version__,
            "experiment": self.name,
            "title": self.title,
            "page": self.page,
            "options": options.document(),
            **result.document(),
        }

    def pictures(self, result: Result, subject: str) -> dict[str, Picture]:
        """Return a dict from file name to chart or matrix; those without a subject get `subject`."""
        return {
            f"{self.name}-{key}": replace(picture, subject=picture.subject or subject)
            for key, picture in self.draw(result).items()
        }

    def figures(self, options: O, result: Result) -> dict[str, Any]:
        """Return a dict from file name to Plotly figure, with all figures of a result."""
        return {name: picture() for name, picture in self.pictures(result, self.subject(options)).items()}

    def published_table(self, options: O, result: Result) -> pd.DataFrame | None:
        """Return the published numbers beside the computed ones, or None if none are published for these options.

        Columns: `quantity`, `published` (as printed), `here`, `accepted` (which values count as equal), `agrees`
        ("yes", "no").
        """
        found = [(figure, float(figure.find(result))) for figure in self.published if figure.belongs(options)]
        rows = [
            (figure.what, figure.printed, value, figure.accepted, "yes" if figure.agrees(value) else "no")
            for figure, value in found
        ]
        return pd.DataFrame(rows, columns=["quantity", "published", "here", "accepted", "agrees"]) if rows else None


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    columns = {str(name): [_plain(value) for value in table[name].tolist()] for name in table.columns}
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, int):
        return json_integer(value)
    found = float(value)
    return found if math.isfinite(found) else None
