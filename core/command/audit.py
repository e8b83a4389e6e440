"""The verb `audit`: find the residual stream of a user's model, prove it, and judge how the model is initialized."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

from ..audit.initialization.request import AUTO
from ..audit.intake.target import callable_task, names_callable, screened_task
from ..audit.report.gate import Gate, readable_conformance, refused_rows
from ..audit.report.golden import read_golden
from ..audit.report.outputs import Outcome, judge_outputs, write_outputs
from ..audit.report.repair_forms import LOOP
from ..audit.sandbox.confine import BLOCK_SECONDS, DEFAULT_SECONDS
from ..cli import DONE, GATE_FAILED
from ..decoder.config import DRIVERS, Budget
from ..decoder.progress import Told
from ..errors import BatchError, ConfigError
from ..files import check_outputs
from ..health.band import DEFAULT_BAND
from ..health.diagnosis import diagnose_arm
from ..strict_json import JsonValue, read_json
from . import options as opt
from .audit_ci import with_snippet
from .exports import EXPORT_KEYS, export_options, export_places, write_exports
from .progress import progress

if TYPE_CHECKING:
    from ..audit.request import AuditRequest

REPORTS = ("junit", "sarif", "golden")
# Findings that a failed gate repeats on standard error.
SHOWN_FINDINGS = 5


class GateCommand(click.Command):
    """A click command that reads `--gate` without a value as `--gate error`, whatever follows it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments after writing a `--gate` without a value as `--gate=error`."""
        pairs = zip_longest(args, args[1:])
        args = ["--gate=error" if a == "--gate" and after not in ("error", "warning") else a for a, after in pairs]
        return super().parse_args(ctx, args)


@click.command(name="audit", cls=GateCommand)
@click.argument("model", type=opt.PATH)
@click.option("--shrink", is_flag=True, help="Keep the depth, make the widths small; health is a twin's.")
@click.option("--seed", type=str, default="0", show_default=True, help="Seed of the initialization.")
@click.option("--dtype", type=opt.DTYPE, default="float32", show_default=True, help="Floating type.")
@click.option("--batch", "batch_file", type=opt.PATH, metavar="FILE.json", help="Rows with targets and validity.")
@click.option(
    "--max-parameters", type=opt.WHOLE, default=Budget().max_parameters, show_default=True, help="Built whole."
)
@click.option(
    "--driver",
    type=click.Choice(DRIVERS),
    default="auto",
    show_default=True,
    help="The whole model, or one block at a time; `auto` takes blocks where a config's model is too large.",
)
@click.option(
    "--max-memory",
    type=opt.BYTES,
    metavar="BYTES",
    help="What the audit may use, such as 2G; for the whole model half of what is free unless given.",
)
@click.option(
    "--max-seconds",
    type=opt.WHOLE,
    show_default=f"{DEFAULT_SECONDS}; {BLOCK_SECONDS} where blocks may be drawn",
    help="Time of the audit.",
)
@click.option("--rule", type=str, default=AUTO, show_default=True, help="The recipe that the model declares.")
@click.option("--sigma", type=opt.NUMBER, help="Base standard deviation; the configuration's unless given.")
@click.option(
    "--gate",
    type=click.Choice(["error", "warning"]),
    flag_value="error",
    is_flag=False,
    help="Exit 1 on an error; with `warning`, on warnings too.",
)
@click.option("--allow-unproved", is_flag=True, help="Let the gate pass where the stream is not proved.")
@click.option("--junit", type=opt.PATH, metavar="FILE", help="Write the findings as a JUnit report.")
@click.option("--sarif", type=opt.PATH, metavar="FILE", help="Write the findings as a SARIF 2.1.0 log.")
@click.option("--golden", type=opt.PATH, metavar="FILE", help="Write FILE, or show what changed against it.")
@export_options
@opt.json_option
def command(**options: Any) -> int:
    """Find the residual stream of MODEL, prove it, judge its initialization, and show its health.

    MODEL is a Hugging Face config.json, a folder with config.json and safetensors, or package.module:callable.
    """
    from ..audit.request import AuditRequest

    request = AuditRequest(
        rule=options["rule"], sigma=options["sigma"], seed=opt.seed(options["seed"]), dtype=options["dtype"],
        max_parameters=options["max_parameters"], max_memory=options["max_memory"], driver=_driver(options),
        max_seconds=_seconds(options),
    )  # fmt: skip
    request.check()
    _check_outputs(options)
    batch = _batch(options["batch_file"])
    audit = _audit_callable if names_callable(options["model"]) else _audit_path
    with progress() as told:
        document = with_snippet(audit(options, request, batch, told))
    allowed = options["allow_unproved"]
    outcome = judge_outputs(document, gate=options["gate"], golden=options["golden"], allow_unproved=allowed)
    if options["golden"] is not None:
        document["golden"] = {"file": options["golden"], "changes": outcome.changes}
    opt.emit(
        document,
        options["as_json"],
        lambda found: "\n".join([*outcome.lines(), readable(found)]),
        exports=lambda: _export(document, options),
    )
    if not outcome.fails:
        return DONE
    opt.tell_failure(_why(document, options["gate"], outcome, allow_unproved=allowed))
    return GATE_FAILED


def _seconds(options: dict[str, Any]) -> int:
    """Return the time limit in seconds: the option's, else the default of the driver."""
    if options["max_seconds"] is not None:
        return int(options["max_seconds"])
    return DEFAULT_SECONDS if _driver(options) == "graph" else BLOCK_SECONDS


def _driver(options: dict[str, Any]) -> str:
    """Return the driver: with small widths, and where the user's own code decides the sizes, `auto` is the whole model.

    Raises `ConfigError` for small widths drawn block by block.
    """
    if options["shrink"] and options["driver"] == "block":
        raise ConfigError(
            "--shrink makes a model that fits, and --driver block is for one that does not; leave one out."
        )
    whole = options["shrink"] or names_callable(options["model"])
    return "graph" if options["driver"] == "auto" and whole else str(options["driver"])


def _why(document: dict[str, Any], gate: Gate, outcome: Outcome, *, allow_unproved: bool) -> list[str]:
    """Return why the gate fails, the worst finding first, then the differences from the golden file."""
    refused = refused_rows(document, gate, allow_unproved=allow_unproved)
    lines = [f"{found['severity']} {found['kind']}: {found['sentence']}" for found in refused[:SHOWN_FINDINGS]]
    if len(refused) > SHOWN_FINDINGS:
        lines.append(f"{len(refused) - SHOWN_FINDINGS} more findings; the document has them all.")
    return lines + (outcome.lines() if outcome.changes else [])


def _check_outputs(options: dict[str, Any]) -> None:
    """Raise `StorageError` if an output cannot be written, before the model is built."""
    check_outputs(
        {**export_places(options, "FILE"), **{f"--{name}": options[name] for name in REPORTS}},
        export_places(options, "DIR"),
        {"MODEL": options["model"], "--batch": options["batch_file"]},
    )
    if options["golden"] is not None:
        read_golden(options["golden"])
    if options["csv_folder"] is not None:
        from ..export.csv import check_tables
        from ..tables.audit import AUDIT_COLUMNS

        check_tables(options["csv_folder"], AUDIT_COLUMNS, "--csv")


def _export(document: dict[str, Any], options: dict[str, Any]) -> None:
    """Write the tables, figures and gate reports that the options request."""
    _export_page(document, options)
    reports = {name: options[name] for name in REPORTS}
    write_outputs(document, gate=options["gate"], allow_unproved=options["allow_unproved"], **reports)


def _export_page(document: dict[str, Any], options: dict[str, Any]) -> None:
    if all(options[key] is None for key in EXPORT_KEYS):
        return
    # Pandas and Plotly are kept out of the module, so that inputs are refused before they are imported.
    from ..export.audit import audit_contents, audit_report

    contents = audit_contents(document)
    write_exports("", lambda: contents.tables, lambda: contents.figures, options, report=lambda: audit_report(document))


def _batch(path: str | None) -> JsonValue:
    if path is None:
        return None
    from ..decoder.batch import Batch

    document = read_json(path, max_bytes=opt.MAX_BATCH_BYTES)
    Batch.from_document(document)
    return document


def _audit_path(options: dict[str, Any], request: AuditRequest, batch: JsonValue, told: Told) -> dict[str, Any]:
    with screened_task(options["model"], request.budget, shrink=options["shrink"]) as model:
        from ..audit.request import checked_family
        from ..audit.sandbox.isolation import run_isolated

        checked_family(model["family"])
        task = request.task(model, batch)
        return run_isolated(task, memory=request.memory, seconds=request.max_seconds, told=told)


def _audit_callable(options: dict[str, Any], request: AuditRequest, batch: JsonValue, told: Told) -> dict[str, Any]:
    """Audit a model that the user's own code builds, in a separate process that can be stopped."""
    if options["shrink"]:
        raise BatchError("--shrink changes a config; a callable decides its own sizes, so leave it out.")
    from ..audit.sandbox.isolation import run_isolated

    task = request.task(callable_task(options["model"]), batch)
    return run_isolated(task, memory=request.max_memory, seconds=request.max_seconds, told=told)


def readable(document: dict[str, Any]) -> str:
    """Return the document as text for a terminal: result and repair, proof, findings, health, additions and sites."""
    model, identity = document["model"], document["identity"]
    error = identity["worst_relative_error"]
    measured = "" if error is None else f", worst relative error {error:.2g}"
    lines = [
        *opt.wrapped(document["headline"]["sentences"]),
        *_repairs(document),
        "",
        f"{model['class']}: {model['parameters']:,} parameters, {model['blocks']} blocks, "
        f"{len(document['additions'])} additions; {model['topology'] or 'no residual stream'}",
        f"identity {identity['verdict']}{measured}, {identity['interventions']} interventions"
        + (f": {identity['reason']}" if identity["reason"] else ""),
    ]
    if model["shrunk"]:
        lines.append("The widths were made small; the depth is the config's own.")
    if model["trained"]:
        lines.append("The weights are trained; nothing is said of their initialization.")
    lines += model["notes"]
    lines += [*readable_conformance(document), *_health(document), ""]
    lines.append(f"{'addition':<34}{'coefficient':>12}{'state RMS':>14}{'gain / stream':>15}  writers")
    lines += [_row(addition) for addition in document["additions"]]
    return "\n".join([*lines, *_sites(document)])


def _repairs(document: dict[str, Any]) -> list[str]:
    """Return the repairs as loops in Python; the document has their other forms."""
    loops = [repair for repair in document["repairs"] if repair["form"] == LOOP]
    return [line for repair in loops for line in ("", *repair["code"].splitlines())]


def _row(addition: dict[str, Any]) -> str:
    cells = "".join(
        f"{'' if value is None else format(value, '.6g'):>{width}}"
        for value, width in (
            (addition["coefficient"], 12),
            (addition["state_rms"], 14),
            (addition["contribution_to_stream"], 15),
        )
    )
    return f"{addition['label']:<34}{cells}  {', '.join(addition['writers'])}"


def _health(document: dict[str, Any]) -> list[str]:
    """Return the sentences on the health, or why it was not measured."""
    health = document["health"]
    if health is None:
        return [f"No health: {document['health_refusal']}"]
    return [
        *opt.wrapped(
            diagnose_arm(health, document["model"]["class"], (DEFAULT_BAND.lower, DEFAULT_BAND.upper)).verdict
        ),
        f"mean loss {health['loss_nats']:.6f} nats ({health['loss_reduction']}, {health['valid_positions']}), "
        f"A0 {health['input_activation_rms']:.6g}, G_last {health['terminal_adjoint_rms']:.6g}",
    ]


def _sites(document: dict[str, Any]) -> list[str]:
    if document["health"] is None:
        return []
    return ["", f"{'site':>4}  {'label':<34}{'A ratio':>14}{'G ratio':>14}"] + [
        f"{site['site']:>4}  {site['label']:<34}{site['activation_ratio']:>14.6f}{site['adjoint_ratio']:>14.6f}"
        for site in document["health"]["sites"]
    ]
