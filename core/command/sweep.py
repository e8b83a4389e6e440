"""The verb `sweep`: run decoders over a grid of depths, seeds and recipes; a stopped sweep can be continued."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cli import DONE, GATE_FAILED
from ..decoder.config import DTYPE_NAMES, Budget
from ..errors import BatchError, StorageError, SweepError
from ..files import check_kind, check_outputs
from ..health.band import parse_band
from ..strict_json import read_json
from ..sweep.ranges import DEFAULT_LIMIT, DEPTHS, parse_names
from . import options as opt

# Help waits for no array library, so what needs one is imported inside the functions.
if TYPE_CHECKING:
    from ..decoder.batch import Batch
    from ..sweep.grid import SweepGrid
    from ..sweep.output import OutputFolder

BATCHES = ("inputs", "text", "batch_files", "lengths")
# Multiples of it, modulo 1, lie far apart, so that processes with neighbouring ids begin at different chunks.
GOLDEN_RATIO = 0.6180339887498949
MOST_WORKERS = 1024


def _list(name: str, default: int | None, text: str, *aliases: str) -> Callable[[opt.Command], opt.Command]:
    shown: dict[str, Any] = {} if default is None else {"default": str(default), "show_default": True}
    names = (f"--{name}", *aliases, name.replace("-", "_"))
    return click.option(*names, cls=opt.Aliased, type=str, metavar="N[,N...]", help=text, **shown)


@click.command(name="sweep")
@click.option("--blocks", default=",".join(map(str, DEPTHS)), show_default=True, metavar="L,...", help="Depths.")
@click.option(
    "--seeds",
    "--seed",
    "seeds",
    cls=opt.Aliased,
    default="0:32",
    show_default=True,
    metavar="A:B,...",
    help="Seeds; a range leaves B out.",
)
@click.option("--recipe", default="depth-scaled", show_default=True, metavar="A,B,...", help="Names of `recipes`.")
@_list("width", opt.CHAPTER.width, "Features d of the stream; size lists of several entries go side by side.")
@_list("heads", opt.CHAPTER.heads, "Query heads.")
@_list("kv-heads", None, "Key/value heads; as many as query heads unless given.")
@_list("head-dim", None, "Features a head; width / heads unless given.")
@_list("ff-width", opt.CHAPTER.ff_width, "Feed-forward features.")
@_list("vocabulary", opt.CHAPTER.vocabulary, "Vocabulary entries.")
@_list("positions", None, "Position capacity; max(4, longest row) unless given.", "--context")
@opt.constant_options
@opt.family_options
@opt.base_options
@click.option("--dtype", default="float64", show_default=True, metavar="A,...", help=f"Of {', '.join(DTYPE_NAMES)}.")
@click.option("--device", type=opt.DEVICE, default="cpu", show_default=True, help="Where it runs.")
@opt.ids_options
@click.option(
    "--batch", "batch_files", type=opt.PATH, multiple=True, metavar="FILE.json", help="A batch; give it again for more."
)
@click.option("--lengths", type=str, metavar="T,...", help="Batches of uniform random tokens of these row lengths.")
@click.option("--rows", default="1", show_default=True, metavar="B,...", help="Numbers of rows, beside --lengths.")
@click.option("--token-seed", default="0", show_default=True, help="Seed of the random tokens.")
@click.option("--band", default="0.01,100", show_default=True, help="Inclusive limits of every ratio.")
@click.option(
    "--store", type=opt.PATH, metavar="PATH", help="Store of finished cells; DEPTHSCOPE_STORE, else one per user."
)
@click.option(
    "--store-limit",
    type=opt.whole_within(1, 2**62),
    default=DEFAULT_LIMIT,
    show_default=True,
    help="Bytes of the store.",
)
@click.option(
    "--workers",
    type=opt.whole_within(1, MOST_WORKERS),
    help="Processes; as many as cores where that saves time unless given.",
)
@click.option("--scheduler", type=str, metavar="ADDRESS", help="Run on the workers of a Dask scheduler.")
@click.option(
    "--out", required=True, type=opt.PATH, metavar="DIR", help="Folder for sweep.csv, summary.csv, manifest.json."
)
@click.option("--parquet", is_flag=True, help="Write sweep.parquet too.")
@click.option("--gate", is_flag=True, help="Exit 1 where a recipe's cell leaves the band or is refused.")
@opt.budget_options
@opt.quiet_option
@opt.json_option
@click.pass_context
def command(context: click.Context, /, **options: Any) -> int:
    """Run a grid of depths, seeds and recipes, each recipe beside its unscaled control of the same base weights."""
    from ..sweep.output import OutputFolder
    from ..sweep.process import Stopped, stoppable
    from ..sweep.store import default_store

    grid = grid_from(context, options)
    folder, place = OutputFolder(options["out"]), Path(options["store"] or default_store(os.environ))
    if options["scheduler"] is not None:
        from ..sweep.distributed import check_address

        check_address(options["scheduler"])
    try:
        with stoppable(), ExitStack() as held:
            manifest = folder.finished(grid, parquet=options["parquet"])
            if manifest is None:
                manifest = _completed(held, grid, folder, place, options)
            return _told(grid, folder, {"out": str(folder.path), **manifest}, options)
    except Stopped as stop:
        # A terminal that hung up takes no more words.
        with suppress(OSError):
            _say(f"Stopped by {stop.signal.name}; finished cells are kept in {place}; run the same command to go on.")
        context.exit(128 + stop.signal)


def _completed(
    held: ExitStack, grid: SweepGrid, folder: OutputFolder, place: Path, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Compute the missing cells and write the folder, which stays claimed while `held` is open.

    Returns the document.
    """
    from ..decoder.threads import cores
    from ..sweep.pool import compute_missing
    from ..sweep.run import SweepRun
    from ..sweep.store import Store

    scheduler, client = options["scheduler"], None
    if scheduler is None and grid.device != "cpu":
        from ..health.arms import checked_device

        checked_device(grid.device)
    _check_places(place, folder.path)
    # A scheduler that does not answer leaves nothing behind, not even a store; one that has everything is not asked.
    if scheduler is not None and not os.path.exists(place):
        client = _connected(held, scheduler)
    held.enter_context(folder.claimed())
    store = held.enter_context(Store.open(place, options["store_limit"], _say))
    held.enter_context(_kept(place))
    run = SweepRun(grid, store, start=os.getpid() * GOLDEN_RATIO % 1)
    if store.damaged:
        _say(f"Damaged cells of the store {place}, computed anew: {store.damaged:,}.")
    if scheduler is not None and client is None and run.pending:
        client = _connected(held, scheduler)
    folder.begin(grid)
    if scheduler is None and run.pending and (options["workers"] or 0) > cores():
        _say(
            f"--workers is {options['workers']} where this process has cores for {cores()}, so workers wait for one "
            "another."
        )
    compute_missing(run, client, options["workers"], opt.progress_stream(options["quiet"]))
    manifest = folder.write(run, parquet=options["parquet"])
    store.trim(run.keys())
    return manifest


def _check_places(store: Path, out: Path) -> None:
    check_kind(store, "--store")
    check_outputs({}, {"--out": out})
    if Path(os.path.realpath(store)).is_relative_to(os.path.realpath(out)):
        raise StorageError(
            f"The store {store} lies in --out, which holds the files of one sweep alone; give another place."
        )


def _connected(held: ExitStack, scheduler: str) -> Any:
    from ..sweep.distributed import connected

    return held.enter_context(connected(scheduler))


def _told(grid: SweepGrid, folder: OutputFolder, document: dict[str, Any], options: Mapping[str, Any]) -> int:
    """Print the result to standard output and problems to standard error; returns the exit status."""
    from ..sweep.report import judge, readable, refused_recipes

    verdict = judge(folder, grid.band) if options["gate"] else None
    if verdict is not None:
        document["gate"] = verdict.document()
    opt.emit(document, options["as_json"], lambda document: readable(folder, document))
    if refused := refused_recipes(folder):
        _say(f"Refused in every cell, for the reason that sweep.csv gives: {', '.join(refused)}.")
    if verdict is None or verdict.passes:
        return DONE
    _say(str(verdict))
    return GATE_FAILED


def _say(sentence: str) -> None:
    click.echo(sentence, err=True)


@contextlib.contextmanager
def _kept(store: Path) -> Iterator[None]:
    """On an interrupt inside the block, print which cells are kept and where."""
    try:
        yield
    except KeyboardInterrupt as stop:
        sentence = f"Interrupted; finished cells are kept in {store}, and the same command goes on from there."
        raise KeyboardInterrupt(sentence) from stop


def grid_from(context: click.Context, options: dict[str, Any]) -> SweepGrid:
    """Return the grid that the options describe. All errors are raised before torch is imported."""
    from ..sweep.request import CHAPTER, RANDOM, SIZES, SweepRequest

    if sum(bool(options[name]) for name in BATCHES) > 1:
        raise BatchError("--inputs, --text, --batch and --lengths exclude each other; give one of them.")
    drawn, band = options["lengths"] is not None, parse_band(options["band"])
    if not drawn and (beside := opt.given(context, ("rows", "token_seed"))):
        raise BatchError(f"{beside[0]} shapes random tokens; give --lengths too.")
    if blank := next((name for name in SIZES if options[name] is not None and not options[name].strip()), None):
        raise SweepError(f"{_option(blank)} is empty; give a whole number or several joined by commas.")
    lists = ("blocks", "seeds", "dtype", "rows", "lengths", *SIZES)
    request = SweepRequest(
        **{name: options[name] for name in lists if options[name] is not None},
        recipes=parse_names("--recipe", options["recipe"]),
        input=RANDOM if drawn else CHAPTER,
        token_seed=opt.seed(options["token_seed"]),
        band_lower=band.lower,
        band_upper=band.upper,
    )
    return request.grid(
        label=_option,
        like=opt.decoder_config({**options, **{name: getattr(opt.CHAPTER, name) for name in ("blocks", *SIZES)}}, 1),
        batches=() if drawn else _batches(options),
        device=options["device"],
        distribution=opt.distribution(options),
        budget=Budget(max_parameters=options["max_parameters"], max_positions=options["max_positions"]),
    )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _batches(options: Mapping[str, Any]) -> list[Batch]:
    from ..decoder.batch import Batch

    if not options["batch_files"]:
        return [opt.read_batch(options["inputs"], options["targets"], options["text"], None)]
    return [Batch.from_document(read_json(f, max_bytes=opt.MAX_BATCH_BYTES)) for f in options["batch_files"]]
