"""`observe`: both arms of one decoder, beside the band."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import click

from core.cli import DONE, GATE_FAILED
from core.command import options as opt
from core.command.progress import progress
from core.decoder.config import Budget
from core.decoder.number_text import exact_text
from core.decoder.parameters import layout
from core.decoder.recipes import recipe
from core.decoder.record import read_record
from core.errors import ConfigError
from core.health.band import parse_band
from core.health.diagnosis import comparison, diagnose, diagnose_control
from core.health.estimate import check_memory, estimate
from core.health.request import ObserveRequest, checked_names

SIZE_NAMES = (
    "blocks", "width", "heads", "kv_heads", "head_dim", "ff_width", "vocabulary", "positions", "seed", "recipe",
    "dtype", "norm", "mlp", "learned_positions", "untied", "bias", "base_std", "truncate", "save",
)  # fmt: skip

# Beyond this a combination's parts are not measured beside the observation itself.
SECONDS_FOR_WARNINGS = 5.0


@click.command(name="observe")
@click.option("--blocks", type=opt.WHOLE, default=opt.CHAPTER.blocks, show_default=True, help="Complete blocks L.")
@opt.size_options
@click.option("--positions", type=opt.WHOLE, help="Position capacity; max(4, longest row) unless given.")
@click.option("--seed", type=str, default="4701", show_default=True, help="Any unsigned 64-bit seed.")
@click.option("--recipe", type=str, default="depth-scaled", show_default=True, help="A name of `recipes`.")
@opt.family_options
@opt.base_options
@click.option("--dtype", type=str, default="float64", show_default=True, help="float64, float32 or bfloat16.")
@click.option("--device", type=str, default="cpu", show_default=True, help="cpu or cuda.")
@opt.batch_options
@click.option("--band", type=str, default="0.01,100", show_default=True, help="Inclusive limits of every ratio.")
@click.option("--gate", is_flag=True, help="Exit 1 where the recipe's arm leaves the band.")
@click.option("--save", type=opt.PATH, metavar="DIR", help="Write the record and both arms' weights.")
@click.option("--restore", type=opt.PATH, metavar="DIR", help="Observe stored weights exactly, without draws.")
@click.option("--csv", "csv_folder", type=opt.PATH, metavar="DIR", help="Write the page's tables.")
@click.option("--html", "html_file", type=opt.PATH, metavar="FILE", help="Write the page's report.")
@opt.budget_options
@opt.json_option
@click.pass_context
def command(context: click.Context, /, **options: Any) -> int:
    """Build a recipe's arm and its unscaled control from one base draw and observe every residual site."""
    batch = opt.read_batch(options["inputs"], options["targets"], options["text"], options["batch_file"])
    band = parse_band(options["band"])
    budget = Budget(max_parameters=options["max_parameters"], max_positions=options["max_positions"])
    if options["restore"] is not None:
        document = _restored(context, options, batch, band, budget)
    else:
        request = ObserveRequest(
            config=opt.decoder_config(options, batch.longest),
            seed=opt.seed(options["seed"]),
            recipe=options["recipe"],
            dtype=options["dtype"],
            device=options["device"],
            batch=batch,
            band=band,
            budget=budget,
            distribution=opt.distribution(options),
        )
        document = _observed(request, options["save"])
    _export(document, options["csv_folder"], options["html_file"])
    opt.emit(document, options["as_json"], readable)
    if not options["gate"] or document["initialized"]["within_band"]:
        return DONE
    opt.tell_failure(diagnose(document).verdict)
    return GATE_FAILED


def _observed(request: ObserveRequest, save: str | None) -> dict[str, Any]:
    request.check()
    check_memory(request)
    opt.use_threads(layout(request.config).parameters)
    from core.decoder.storage import save_run
    from core.health.report import built_run, observe_document

    with progress() as told:
        document = observe_document(request, told=told)
    _warn_of_combination(request)
    if save is not None:
        run = built_run(request)
        save_run(save, run.initialized, run.control, run.dtype)
    return document


def _warn_of_combination(request: ObserveRequest) -> None:
    """Say on standard error what `recipes` says of a combination, where measuring its parts takes seconds only."""
    parts = recipe(request.recipe).parts
    if not parts:
        return
    # Every part's law is taken off once, and its own arm may be observed too.
    if len(parts) * estimate(request).seconds > SECONDS_FOR_WARNINGS:
        click.echo(
            f"The parts of {request.recipe} are not measured against each other beside a run this long; "
            f"`recipes --recipe {request.recipe}` does it at smaller sizes.",
            err=True,
        )
        return
    from core.recipes.combinations import combination_report

    for warning in combination_report(request).warnings:
        click.echo(f"warning: {warning.sentence}", err=True)


def _restored(context: click.Context, options: dict[str, Any], batch: Any, band: Any, budget: Budget) -> dict[str, Any]:
    beside = opt.given(context, SIZE_NAMES)
    if beside:
        raise ConfigError(f"--restore brings its own sizes and weights; leave {beside[0]} out.")
    checked_names("float64", options["device"])
    record, _ = read_record(options["restore"], budget)
    batch.check(record.config)
    opt.use_threads(layout(record.config).parameters)
    from core.decoder.storage import load_run
    from core.health.report import restored_document

    with progress() as told:
        return restored_document(load_run(options["restore"], budget), batch, band, options["device"], told=told)


def _export(document: dict[str, Any], csv_folder: str | None, html_file: str | None) -> None:
    if csv_folder is None and html_file is None:
        return
    from core.views.export import write_tables
    from core.views.report import write_report
    from core.views.tables import observe_tables

    if csv_folder is not None:
        write_tables(csv_folder, observe_tables(document))
    if html_file is not None:
        write_report(html_file, document)


def readable(document: dict[str, Any]) -> str:
    """The document for a terminal: the verdict on each arm, then both side by side as a table, six decimals."""
    config, arms = document["config"], (document["initialized"], document["same_base_unscaled_control"])
    limits = f"[{', '.join(map(exact_text, document['band']))}]"
    factor = "" if document["factor"] is None else f", factor {document['factor']:.6f}"
    lines = [
        *opt.wrapped([*diagnose(document).verdict, *diagnose_control(document).verdict, comparison(document)]),
        "",
        f"{config['blocks']} blocks, width {config['width']}, seed {document['seed']}, {document['dtype']}, "
        f"recipe {document['recipe']}{factor}, {document['parameters']:,} parameters",
    ]
    for name, arm in zip((document["recipe"], "unscaled control"), arms, strict=True):
        inside = "every ratio within the band" if arm["within_band"] else "a ratio leaves the band"
        lines.append(
            f"{name}: mean loss {arm['loss_nats']:.6f} nats over {arm['valid_positions']} valid targets, "
            f"A0 {arm['input_activation_rms']:.6f}, G_last {arm['terminal_adjoint_rms']:.6f}; {inside} {limits}"
        )
    lines += ["", f"{'site':>4}  {'label':<28}{'A ratio':>14}{'G ratio':>14}   |{'control A':>14}{'control G':>14}"]
    for scaled, control in zip_longest(*(arm["sites"] for arm in arms)):
        named = scaled or control
        lines.append(f"{named['site']:>4}  {named['label']:<28}{_pair(scaled)}   |{_pair(control)}")
    return "\n".join(lines)


def _pair(site: dict[str, Any] | None) -> str:
    if site is None:
        return " " * 28
    marks = {"below": "-", "within": " ", "above": "+"}
    cells = [f"{site[f'{kind}_ratio']:>13.6f}{marks[site[f'{kind}_band']]}" for kind in ("activation", "adjoint")]
    return "".join(cells)
