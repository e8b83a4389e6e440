"""The verb `lab`: the experiments of the signal, norm and path labs, one subcommand per experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .. import __version__
from ..errors import LabError
from ..lab.experiments import EXPERIMENTS, SCHEMA, experiment, listing
from ..lab.options import Option, typed
from . import options as opt
from .exports import EXPORT_KEYS, check_exports, export_parameters, write_exports
from .progress import progress

if TYPE_CHECKING:
    import pandas as pd

    from ..lab.experiment import Experiment, Result

# Rows of a table that a terminal is shown; --json and --csv have them all.
SHOWN_ROWS = 40


class LabGroup(click.Group):
    """A click group with one subcommand per experiment, which is imported only when its subcommand is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the experiments in the order of their pages."""
        return list(EXPERIMENTS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Return the click command of an experiment.

        Raises `LabError`, with the nearest known names, if it is unknown.
        """
        return _command(experiment(cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and titles of all experiments into the help, without importing them."""
        with formatter.section("Experiments"):
            formatter.write_dl([(row["name"], row["title"]) for row in listing()])


@click.group(cls=LabGroup, name="lab", invoke_without_command=True)
@click.option("--list", "as_list", is_flag=True, help="List every experiment.")
@opt.json_option
@click.pass_context
def command(context: click.Context, /, as_list: bool, as_json: bool) -> None:
    """Run an experiment of the labs, or list them all."""
    # An experiment prints JSON wherever --json stands.
    context.obj = as_json
    if as_list and context.invoked_subcommand is not None:
        raise LabError(
            f"--list lists every experiment and runs none; leave {context.invoked_subcommand} or --list out."
        )
    if as_list:
        document = {"schema": SCHEMA, "version": __version__, "experiments": listing()}
        opt.emit(document, as_json, _listed)
        context.exit()
    if context.invoked_subcommand is None:
        raise LabError("Name an experiment, or list them all with --list.")


def _command(entry: Experiment[Any]) -> click.Command:
    """Return the subcommand of one experiment; its options take text, which the experiment checks."""
    parameters: list[click.Parameter] = [
        _parameter(name, option, entry.options_type.defaults()[name])
        for name, option in entry.options_type.declared().items()
    ]
    parameters += [
        click.Option(["--preset"], metavar="NAME", help=f"Start from {' | '.join(entry.presets)}."),
        *export_parameters(),
        click.Option(["--json", "as_json"], is_flag=True, help="One JSON document on standard output."),
    ]

    @click.pass_obj
    def callback(json_before: bool, /, preset: str | None, as_json: bool, **given: Any) -> None:
        places = {name: given.pop(name) for name in EXPORT_KEYS}
        options = entry.options({name: value for name, value in given.items() if value is not None}, preset)
        check_exports(places)
        if entry.needs_torch(options):
            opt.use_threads(0)
        with progress() as told:
            result = entry.run(options, told)
        printed = as_json or json_before
        document = entry.document(options, result) if printed else None
        opt.emit(
            document,
            printed,
            lambda _: readable(entry, result),
            exports=lambda: write_exports(
                entry.title, lambda: result.tables, lambda: entry.figures(options, result), places, result.notes
            ),
        )

    return click.Command(entry.name, params=parameters, callback=callback, help=f"{entry.title}.")


def _parameter(name: str, option: Option, default: object) -> click.Option:
    flag = "--" + name.replace("_", "-")
    if option.kind == "flag":
        return click.Option([f"{flag}/--no-{flag[2:]}", name], default=None, help=option.help)
    kind = click.Choice(option.choices) if option.choices else click.STRING
    return click.Option([flag, name], type=kind, help=f"{option.help} [default: {typed(default)}]")


def readable(entry: Experiment[Any], result: Result) -> str:
    """Return the result as text for a terminal: the summary, the assumptions and the first rows of each table."""
    lines = [entry.title, ""]
    width = max(map(len, result.summary))
    lines += [f"{name:<{width}}  {_cell(value)}" for name, value in result.summary.items()]
    lines += ["", *result.notes] if result.notes else []
    for name, table in result.tables.items():
        lines += ["", f"{name} ({len(table)} rows)", _table(table)]
    return "\n".join(lines)


def _table(table: pd.DataFrame) -> str:
    head = table.head(SHOWN_ROWS)
    text: str = head.to_string(index=False, float_format=lambda value: f"{value:.6g}")
    return text if len(head) == len(table) else f"{text}\n... {len(table) - len(head)} more rows; --json has them all"


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _listed(document: dict[str, Any]) -> str:
    rows = document["experiments"]
    return "\n".join(f"{row['name']:<20}{row['page']:<16}{row['title']}" for row in rows)
