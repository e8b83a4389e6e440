"""`audit`: the residual stream of a model of the user's own, found, proved and measured."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from itertools import zip_longest
from typing import Any

import click

from core.audit.confine import DEFAULT_MEMORY, DEFAULT_SECONDS
from core.audit.gate import readable_conformance
from core.audit.gate_outputs import write_outputs
from core.audit.initialization.request import AUTO
from core.audit.request import AuditRequest
from core.audit.target import called, names_callable, screened_task
from core.cli import DONE, GATE_FAILED
from core.command import options as opt
from core.decoder.batch import Batch
from core.decoder.config import Budget
from core.errors import BatchError
from core.strict_json import JsonValue, read_json


class GateCommand(click.Command):
    """Reads a bare `--gate` as `--gate error`, whatever stands behind it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Write the default out before click takes the next word for it."""
        pairs = zip_longest(args, args[1:])
        args = ["--gate=error" if a == "--gate" and after not in ("error", "warning") else a for a, after in pairs]
        return super().parse_args(ctx, args)


@click.command(name="audit", cls=GateCommand)
@click.argument("model", type=opt.PATH)
@click.option("--shrink", is_flag=True, help="Keep the depth and make the widths small.")
@click.option("--seed", type=str, default="0", show_default=True, help="Seed of the initialization.")
@click.option("--dtype", type=str, default="float32", show_default=True, help="float32, float64 or bfloat16.")
@click.option("--batch", "batch_file", type=opt.PATH, metavar="FILE.json", help="Rows with targets and validity.")
@click.option("--max-parameters", type=opt.WHOLE, default=Budget().max_parameters, show_default=True)
@click.option("--max-memory", type=opt.WHOLE, default=DEFAULT_MEMORY, show_default=True, help="Bytes of the build.")
@click.option("--max-seconds", type=opt.WHOLE, default=DEFAULT_SECONDS, show_default=True, help="Time of the build.")
@click.option("--rule", type=str, default=AUTO, show_default=True, help="The recipe that the model declares.")
@click.option("--sigma", type=float, help="Base standard deviation; the configuration's unless given.")
@click.option(
    "--gate",
    type=click.Choice(["error", "warning"]),
    flag_value="error",
    is_flag=False,
    help="Exit 1 on an error; with `warning`, on warnings too.",
)
@click.option("--junit", type=opt.PATH, metavar="FILE", help="Write the findings as a JUnit report.")
@click.option("--sarif", type=opt.PATH, metavar="FILE", help="Write the findings as a SARIF 2.1.0 log.")
@click.option("--golden", type=opt.PATH, metavar="FILE", help="Write FILE, or show what changed against it.")
@click.option("--csv", "csv_folder", type=opt.PATH, metavar="DIR", help="Write the page's tables.")
@click.option("--html", "html_file", type=opt.PATH, metavar="FILE", help="Write the page's report.")
@opt.json_option
def command(**options: Any) -> int:
    """Find the residual stream of MODEL, prove it, judge its initialization, and show its health.

    MODEL is a Hugging Face config.json, a folder with config.json and safetensors, or package.module:callable.
    """
    request = AuditRequest(
        rule=options["rule"], sigma=options["sigma"], seed=opt.seed(options["seed"]), dtype=options["dtype"],
        max_parameters=options["max_parameters"],
    )  # fmt: skip
    request.check()
    batch = _batch(options["batch_file"])
    audit = _audit_callable if names_callable(options["model"]) else _audit_path
    # Standard output is the document's; what a model's own code prints goes to standard error.
    with redirect_stdout(sys.stderr):
        document = audit(options, request, batch)
    outcome = write_outputs(
        document,
        gate=options["gate"],
        junit=options["junit"],
        sarif=options["sarif"],
        golden=options["golden"],
    )
    _export(document, options["csv_folder"], options["html_file"])
    if options["golden"] is not None:
        document["golden"] = {"file": options["golden"], "changes": outcome.changes}
    opt.emit(document, options["as_json"], lambda found: "\n".join([readable(found), *outcome.lines()]))
    return GATE_FAILED if outcome.fails else DONE


def _export(document: dict[str, Any], csv_folder: str | None, html_file: str | None) -> None:
    """Write what the page would, where it is asked for."""
    if csv_folder is None and html_file is None:
        return
    # Pandas and Plotly are kept out of the module, so that inputs are refused before they are imported.
    from core.views.audit_report import audit_contents
    from core.views.bundle import report_text
    from core.views.export import write_tables, write_text

    contents = audit_contents(document)
    if csv_folder is not None:
        write_tables(csv_folder, contents.tables)
    if html_file is not None:
        write_text(html_file, report_text(contents))


def _batch(path: str | None) -> JsonValue:
    if path is None:
        return None
    document = read_json(path, max_bytes=opt.MAX_BATCH_BYTES)
    Batch.from_document(document)
    return document


def _audit_path(options: dict[str, Any], request: AuditRequest, batch: JsonValue) -> dict[str, Any]:
    with screened_task(options["model"], request.budget, shrink=options["shrink"]) as model:
        from core.audit.isolation import run_isolated

        task = request.task(model, batch)
        return run_isolated(task, memory=options["max_memory"], seconds=options["max_seconds"])


def _audit_callable(options: dict[str, Any], request: AuditRequest, batch: JsonValue) -> dict[str, Any]:
    """The user's own code runs in this process, as in any script of theirs."""
    if options["shrink"]:
        raise BatchError("--shrink changes a config; a callable decides its own sizes, so leave it out.")
    import torch
    from torch.nn.parameter import is_lazy

    from core.audit.initialization.judge import judged_document
    from core.audit.initialization.rebuild import Rebuilder, rebuilder_of
    from core.audit.result import ModelFacts
    from core.audit.run import audit

    torch.manual_seed(request.seed)
    model, example = called(options["model"])
    opt.use_threads(sum(parameter.numel() for parameter in model.parameters() if not is_lazy(parameter)))
    given = Batch.from_document(batch) if batch is not None else example
    facts = ModelFacts(class_name=type(model).__name__, source=options["model"])
    own = rebuilder_of(model)

    def build(blocks: int | None) -> Any:
        return called(options["model"])[0] if blocks is None or own.build is None else own.build(blocks)

    source = Rebuilder(build=build, deep=own.deep, settings=own.settings)
    result = audit(model, given, facts=facts)
    return judged_document(result, rule=request.rule, sigma=request.sigma, source=source)


def readable(document: dict[str, Any]) -> str:
    """The document as tables for a terminal."""
    model, identity = document["model"], document["identity"]
    error = identity["worst_relative_error"]
    measured = "" if error is None else f", worst relative error {error:.2g}"
    lines = [
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
    lines.append(f"{'addition':<34}{'coefficient':>12}{'state RMS':>14}{'gain / stream':>15}  writers")
    lines += [_row(addition) for addition in document["additions"]]
    return "\n".join([*lines, *_health(document), *readable_conformance(document)])


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
    health = document["health"]
    if health is None:
        return [f"No health: {document['health_refusal']}"]
    lines = [f"{'site':>4}  {'label':<34}{'A ratio':>14}{'G ratio':>14}"]
    lines += [
        f"{site['site']:>4}  {site['label']:<34}{site['activation_ratio']:>14.6f}{site['adjoint_ratio']:>14.6f}"
        for site in health["sites"]
    ]
    verdict = "every ratio within the band" if health["within_band"] else "a ratio leaves the band"
    lines.append(
        f"mean loss {health['loss_nats']:.6f} nats ({health['loss_reduction']}, {health['valid_positions']}), "
        f"A0 {health['input_activation_rms']:.6g}, G_last {health['terminal_adjoint_rms']:.6g}; {verdict}"
    )
    return lines
