"""The verb `observe`: run one decoder with a recipe and without, and compare its ratios with the band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ..cli import DONE, GATE_FAILED
from ..decoder.config import Budget
from ..decoder.parameters import layout
from ..decoder.twin import twin_for_rows
from ..errors import ConfigError
from ..files import check_outputs
from ..health.band import parse_band
from . import options as opt
from .exports import export_options, export_places, write_exports
from .kept import check_kept, kept, tell_cost
from .observe_text import readable
from .progress import progress
from .seeds import GATES, check_gate, checked_seeds, gate_failure

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from ..health.estimate import Estimate
    from ..health.request import ObserveRequest
    from ..plan.observed_config import ObservedModel

SIZE_NAMES = (
    "blocks", "width", "heads", "kv_heads", "head_dim", "ff_width", "vocabulary", "positions", "norm", "mlp",
    "learned_positions", "untied", "bias", "rope_base", "rms_epsilon", "base_std", "embedding_std", "truncate",
)  # fmt: skip

# Beyond this a combination's parts are not measured beside the observation itself.
SECONDS_FOR_WARNINGS = 5.0


@click.command(name="observe")
@click.option("--blocks", type=opt.WHOLE, default=opt.CHAPTER.blocks, show_default=True, help="Complete blocks L.")
@opt.size_options
@opt.positions_option
@opt.constant_options
@click.option("--seed", type=str, default="4701", show_default=True, help="Any unsigned 64-bit seed.")
@click.option("--seeds", type=str, metavar="A:B", help="A verdict over seeds, in place of --seed; B is left out.")
@click.option("--growth", is_flag=True, help="With --seeds: how the ratios grow over half, once and twice the blocks.")
@click.option("--suggest", is_flag=True, help="With --seeds: which change does best on the same seeds.")
@click.option(
    "--recipe",
    type=str,
    default="depth-scaled",
    show_default=True,
    help="A name of `recipes`; a --config's own unless given.",
)
@opt.family_options
@opt.base_options
@click.option("--config", "config_file", type=opt.PATH, metavar="config.json", help="A model's sizes and spreads.")
@click.option("--twin", type=opt.WHOLE, metavar="WIDTH", help="Observe a narrower twin with the same ratios.")
@click.option("--dtype", type=opt.DTYPE, default="float64", show_default=True, help="Floating type.")
@click.option("--device", type=opt.DEVICE, default="cpu", show_default=True, help="Where it runs.")
@opt.batch_options
@click.option("--band", type=str, default="0.01,100", show_default=True, help="Inclusive limits of every ratio.")
@click.option(
    "--gate",
    type=click.Choice(GATES),
    flag_value="inside",
    is_flag=False,
    help="Exit 1 where the recipe's arm leaves the band; with --seeds, unless its verdict is inside, `close` at least, "
    "or inside from the first block on (`depth`).",
)
@click.option("--save", type=opt.PATH, metavar="DIR", help="Write the record and both arms' weights.")
@click.option("--restore", type=opt.PATH, metavar="DIR", help="Observe stored weights exactly, without draws.")
@opt.driver_options
@export_options
@opt.budget_options
@opt.json_option
@click.pass_context
def command(context: click.Context, /, **options: Any) -> int:
    """Run a decoder with a depth recipe and without it, from the same base weights, and measure every residual site."""
    from ..health.request import ObserveRequest

    batch = opt.read_batch(options["inputs"], options["targets"], options["text"], options["batch_file"])
    band, seeds = parse_band(options["band"]), checked_seeds(context, options)
    budget = Budget(max_parameters=options["max_parameters"], max_positions=options["max_positions"])
    _check_outputs(options)
    check_kept(context, options)
    request: ObserveRequest | None = None
    if options["restore"] is not None:
        document = _restored(context, options, batch, band, budget)
    else:
        model = _model(context, options, batch.longest)
        request = ObserveRequest(
            config=model.config if options["twin"] is None else twin_for_rows(model.config, options["twin"], batch),
            seed=opt.seed(options["seed"]),
            recipe=model.recipe,
            dtype=options["dtype"],
            device=options["device"],
            batch=batch,
            band=band,
            budget=budget,
            distribution=model.distribution,
            driver=options["driver"],
            max_memory=options["max_memory"],
        )
        if options["save"] is not None:
            # Saving holds every parameter at once, however the run is observed.
            budget.check(request.config, layout(request.config).parameters)
        check_gate(options["gate"], model.config.blocks)
        document = _observed(request, seeds, options)
        if model.family is not None:
            document["model"] = model.document()
    opt.emit(document, options["as_json"], readable, exports=lambda: _export(document, options, request))
    failure = _gate_failure(document, options["gate"]) if options["gate"] else ()
    if not failure:
        return DONE
    opt.tell_failure(failure)
    return GATE_FAILED


def _gate_failure(document: dict[str, Any], gate: str) -> Sequence[str]:
    """Return why the gate fails, in sentences; empty if it passes."""
    from ..health.diagnosis import diagnose

    if "verdicts" in document:
        return gate_failure(document, gate)
    return () if document["initialized"]["within_band"] else diagnose(document).verdict


def _model(context: click.Context, options: dict[str, Any], longest: int) -> ObservedModel:
    """Return sizes, base draw and recipe from the options or from a config.json.

    An explicit `--recipe` or `--embedding-std` takes precedence over the config's.
    """
    from ..plan.observed_config import ObservedModel, read_observed_config

    if options["config_file"] is None:
        return ObservedModel(
            config=opt.decoder_config(options, longest),
            distribution=opt.distribution(options),
            recipe=options["recipe"],
        )
    beside = opt.given(context, tuple(name for name in SIZE_NAMES if name != "embedding_std"))
    if beside:
        raise ConfigError(f"--config brings its own sizes and spreads; leave {beside[0]} out.")
    model = read_observed_config(options["config_file"], longest)
    if options["embedding_std"] is not None:
        distribution = replace(model.distribution, embedding_std=options["embedding_std"])
        model = replace(model, distribution=distribution)
    return replace(model, recipe=options["recipe"]) if opt.given(context, ("recipe",)) else model


def _check_outputs(options: dict[str, Any]) -> None:
    """Raise `StorageError` if an output cannot be written, before anything is drawn."""
    check_outputs(
        export_places(options, "FILE"),
        {"--save": options["save"], "--checkpoint": options["checkpoint"], **export_places(options, "DIR")},
        {"--batch": options["batch_file"]},
    )
    if options["save"] is not None:
        from ..construction.record import check_run_folder

        check_run_folder(options["save"])
    if options["csv_folder"] is not None:
        from ..export.csv import check_tables
        from ..tables.observe import OBSERVE_COLUMNS

        check_tables(options["csv_folder"], OBSERVE_COLUMNS, "--csv")


def _observed(request: ObserveRequest, seeds: Sequence[int] | None, options: dict[str, Any]) -> dict[str, Any]:
    from ..health.estimate import check_run

    cost = check_run(request)
    tell_cost(cost, options["checkpoint"] is not None)
    by_block = cost.request.driver == "block"
    opt.use_threads(layout(request.config).parameters, by_block)
    from ..health.report import observe_document
    from ..health.seeds_report import seeds_document

    with progress(timed=by_block) as told:
        if options["checkpoint"] is not None:
            document = kept(request, options["checkpoint"], told)
        elif seeds is None:
            document = observe_document(request, told=told)
        else:
            extra = {"growth": options["growth"], "suggestion": options["suggest"]}
            document = seeds_document(request, seeds, **extra, told=told)
    _warn_of_combination(request, cost)
    return document


def _save(request: ObserveRequest, folder: str) -> None:
    """Draw both arms again as finished decoders and save them, because an observation keeps only scalars."""
    from ..construction.storage import save_run
    from ..health.report import built_run

    run = built_run(request)
    save_run(folder, run.initialized, run.control, run.dtype)


def _warn_of_combination(request: ObserveRequest, cost: Estimate) -> None:
    """Print the warnings about a combination of recipes to standard error, if measuring its parts takes seconds."""
    from ..recipes.catalogue import recipe

    parts = recipe(request.recipe).parts
    if not parts:
        return
    # Every part's law is taken off once, and its own arm may be observed too.
    if len(parts) * cost.seconds > SECONDS_FOR_WARNINGS:
        click.echo(
            f"The parts of {request.recipe} are not measured against each other beside a run this long; "
            f"`recipes --recipe {request.recipe}` does it at smaller sizes.",
            err=True,
        )
        return
    from ..compare.combinations import combination_report

    for warning in combination_report(request).warnings:
        click.echo(f"warning: {warning.sentence}", err=True)


def _restored(context: click.Context, options: dict[str, Any], batch: Any, band: Any, budget: Budget) -> dict[str, Any]:
    beside = opt.given(
        context, (*SIZE_NAMES, "config_file", "twin", "seed", "recipe", "dtype", "save", "driver", "max_memory")
    )
    if beside:
        raise ConfigError(f"--restore brings its own sizes and weights; leave {beside[0]} out.")
    from ..construction.record import read_record
    from ..health.request import checked_names

    checked_names("float64", options["device"])
    record = read_record(options["restore"], budget).record
    batch.check(record.config)
    opt.use_threads(layout(record.config).parameters)
    from ..construction.storage import load_run
    from ..health.report import restored_document

    run = load_run(options["restore"], budget)
    for arm in run.changed:
        click.echo(
            f"The weights of the {arm} arm are not those that were saved in {options['restore']}: edited, damaged or "
            "of another run. They are observed as they are.",
            err=True,
        )
    with progress() as told:
        return restored_document(run, batch, band, options["device"], told=told)


def _export(document: dict[str, Any], options: dict[str, Any], request: ObserveRequest | None) -> None:
    """Write the requested outputs; a restored run has no request and is not saved."""
    if options["save"] is not None and request is not None:
        _save(request, options["save"])
    if "verdicts" in document and (options["csv_folder"] is not None or options["html_file"] is not None):
        from ..health.seeds_report import check_arms

        check_arms(document)
    write_exports("", lambda: _tables(document), lambda: _figures(document), options, report=lambda: _report(document))


def _tables(document: dict[str, Any]) -> dict[str, pd.DataFrame]:
    from ..tables.observe import observe_tables

    return observe_tables(document)


def _report(document: dict[str, Any]) -> str:
    from ..export.observe import observe_report

    return observe_report(document)


def _figures(document: dict[str, Any]) -> dict[str, go.Figure]:
    from ..export.observe import observe_contents

    return dict(observe_contents(document).figures)
