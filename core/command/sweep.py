"""`sweep`: a grid of depths, seeds and recipes, stored as it goes and resumed where it stopped."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from core.command import options as opt
from core.decoder.config import DTYPE_NAMES, Budget, DecoderConfig
from core.errors import BatchError, GridError, StoreError
from core.files import check_kind, check_outputs
from core.health.band import parse_band
from core.strict_json import read_json
from core.sweep.ranges import DEFAULT_LIMIT, DEPTHS, parse_names, parse_seeds, parse_sizes

# Help waits for no array library, so what needs one is imported inside the functions.
if TYPE_CHECKING:
    from core.decoder.batch import Batch
    from core.sweep.grid import SweepGrid
    from core.sweep.output import OutputFolder
    from core.sweep.run import SweepRun

SIZES = ("width", "heads", "kv_heads", "head_dim", "ff_width", "vocabulary", "positions")
BATCHES = ("inputs", "text", "batch_files", "lengths")
# A second process costs an import of torch, which is worth it from here on.
SECONDS_FOR_WORKERS = 6.0
SLICE_SECONDS = 0.5
# Multiples of it, modulo 1, lie far apart, so that processes with neighbouring ids begin at different chunks.
GOLDEN_RATIO = 0.6180339887498949


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
@click.option("--inputs", type=str, help="Token ids; commas between ids, semicolons between rows.")
@click.option("--targets", type=str, help="Target ids, in the shape of --inputs.")
@click.option("--text", type=str, help="A row of UTF-8 bytes plus 10, led by 0, ending in target 1.")
@click.option(
    "--batch", "batch_files", type=opt.PATH, multiple=True, metavar="FILE.json", help="A batch; give it again for more."
)
@click.option("--lengths", type=str, metavar="T,...", help="Batches of uniform random tokens of these row lengths.")
@click.option("--rows", default="1", show_default=True, metavar="B,...", help="Numbers of rows, beside --lengths.")
@click.option("--token-seed", default="0", show_default=True, help="Seed of the random tokens.")
@click.option("--band", default="0.01,100", show_default=True, help="Inclusive limits of every ratio.")
@click.option(
    "--store", type=opt.PATH, metavar="PATH", help="Store of finished cells; DEPTHSCOPE_STORE, else one a user."
)
@click.option("--store-limit", type=opt.WHOLE, default=DEFAULT_LIMIT, show_default=True, help="Bytes of the store.")
@click.option("--workers", type=opt.WHOLE, help="Processes; as many as cores where that saves time unless given.")
@click.option("--scheduler", type=str, metavar="ADDRESS", help="Run on the workers of a Dask scheduler.")
@click.option(
    "--out", required=True, type=opt.PATH, metavar="DIR", help="Folder for sweep.csv, summary.csv, manifest.json."
)
@click.option("--parquet", is_flag=True, help="Write sweep.parquet too.")
@opt.budget_options
@opt.quiet_option
@opt.json_option
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Observe a grid of depths, seeds and recipes, each recipe beside the unscaled control of the same base draw."""
    from core.sweep.output import OutputFolder
    from core.sweep.run import SweepRun
    from core.sweep.store import Store

    grid, parquet, workers = grid_from(context, options), options["parquet"], options["workers"]
    if workers is not None and workers < 1:
        raise GridError(f"--workers is {workers}; a sweep needs at least one process.")
    folder = OutputFolder(options["out"])
    manifest = folder.finished(grid, parquet=parquet)
    if manifest is None:
        if options["scheduler"] is None and grid.device != "cpu":
            from core.health.arms import checked_device

            checked_device(grid.device)
        path = Path(options["store"] or default_store(os.environ))
        check_kind(path, "--store")
        check_outputs({}, {"--out": options["out"]})
        with Store.open(path, options["store_limit"]) as store, _kept(path):
            run = SweepRun(grid, store, start=os.getpid() * GOLDEN_RATIO % 1)
            folder.begin(grid)
            _finish(run, options["scheduler"], workers, opt.progress_stream(options["quiet"]))
            manifest = folder.write(run, parquet=parquet)
            store.trim(run.keys())
    opt.emit({"out": str(folder.path), **manifest}, options["as_json"], lambda document: readable(folder, document))


@contextlib.contextmanager
def _kept(store: Path) -> Iterator[None]:
    """An interrupt that says what is kept, and where."""
    try:
        yield
    except KeyboardInterrupt as stop:
        sentence = f"Interrupted; finished cells are kept in {store}, and the same command goes on from there."
        raise KeyboardInterrupt(sentence) from stop


def default_store(environment: Mapping[str, str]) -> Path:
    """The user's own store: where DEPTHSCOPE_STORE says, else where the platform keeps what can be computed again.

    The pages use it too, so that what either has computed is there for the other.
    """
    cache = environment.get("XDG_CACHE_HOME") or environment.get("LOCALAPPDATA") or "~/.cache"
    place = environment.get("DEPTHSCOPE_STORE") or os.path.join(cache, "depthscope", "cells.sqlite")
    try:
        return Path(place).expanduser()
    except RuntimeError as error:
        raise StoreError("This user has no home folder for the store; give its path as --store.") from error


def grid_from(context: click.Context, options: Mapping[str, Any]) -> SweepGrid:
    """The grid that the options describe; every fault is refused before torch is imported."""
    from core.sweep.grid import SweepGrid

    batches = _batches(context, options)
    return SweepGrid(
        blocks=parse_sizes("--blocks", options["blocks"]),
        seeds=parse_seeds(options["seeds"]),
        recipes=parse_names("--recipe", options["recipe"]),
        sizes=tuple(_sizes(options, max(batch.longest for batch in batches))),
        dtypes=parse_names("--dtype", options["dtype"]),
        batches=tuple(batches),
        device=options["device"],
        distribution=opt.distribution(dict(options)),
        band=parse_band(options["band"]),
        budget=Budget(max_parameters=options["max_parameters"], max_positions=options["max_positions"]),
    )


def _sizes(options: Mapping[str, Any], longest: int) -> Iterator[DecoderConfig]:
    """Size lists side by side; a single entry goes with every entry of the others."""
    lists = {
        name: parse_sizes("--" + name.replace("_", "-"), options[name]) for name in SIZES if options[name] is not None
    }
    count = max(len(values) for values in lists.values())
    for name, values in lists.items():
        if len(values) not in (1, count):
            raise GridError(
                f"--{name.replace('_', '-')} has {len(values)} entries beside a size list of {count}; lists of sizes "
                "go side by side, so give one entry or as many."
            )
    for index in range(count):
        chosen = {name: values[index if len(values) > 1 else 0] for name, values in lists.items()}
        yield opt.decoder_config({**options, **dict.fromkeys(SIZES), **chosen, "blocks": 1}, longest)


def _batches(context: click.Context, options: Mapping[str, Any]) -> list[Batch]:
    from core.decoder.batch import Batch
    from core.sweep.tokens import uniform_batch

    given = [name for name in BATCHES if options[name]]
    if len(given) > 1:
        raise BatchError("--inputs, --text, --batch and --lengths exclude each other; give one of them.")
    if options["lengths"] is None:
        beside = opt.given(context, ("rows", "token_seed"))
        if beside:
            raise BatchError(f"{beside[0]} shapes random tokens; give --lengths too.")
        if not options["batch_files"]:
            return [opt.read_batch(options["inputs"], options["targets"], options["text"], None)]
        return [Batch.from_document(read_json(f, max_bytes=opt.MAX_BATCH_BYTES)) for f in options["batch_files"]]
    # Tokens that every size of the sweep has.
    vocabulary = min(parse_sizes("--vocabulary", options["vocabulary"]))
    seed = opt.seed(options["token_seed"])
    return [
        uniform_batch(rows, length, vocabulary, seed)
        for length in parse_sizes("--lengths", options["lengths"])
        for rows in parse_sizes("--rows", options["rows"])
    ]


def _finish(run: SweepRun, scheduler: str | None, workers: int | None, stream: TextIO) -> None:
    """Compute what is missing, where it was asked for, and tell how far it is."""
    from core.sweep.progress import Progress

    if not run.pending:
        return
    progress = Progress(run, stream)
    for _ in _slices(run, scheduler, workers):
        progress.show()
    progress.show(last=True)


def _slices(run: SweepRun, scheduler: str | None, workers: int | None) -> Iterator[int]:
    if scheduler is not None:
        from core.sweep.distributed import run_on_scheduler

        yield from run_on_scheduler(run, scheduler)
        return
    if workers is None:
        workers = (os.cpu_count() or 1) if run.estimate.seconds > SECONDS_FOR_WORKERS else 1
    if workers > 1:
        from core.sweep.pool import run_in_processes

        yield from run_in_processes(run, workers)
        return
    from core.sweep.process import settle

    settle()
    while run.pending:
        run.step(SLICE_SECONDS)
        yield run.done


def readable(folder: OutputFolder, manifest: Mapping[str, Any]) -> str:
    """What was found, for a terminal: medians and shares by depth, then the exponents."""
    from core.sweep.output import summary_lines

    cells = manifest["cells"]
    lines = [
        f"{cells['total']:,} cells, {cells['observed']:,} observed, {cells['refused']:,} refused",
        *summary_lines(folder),
        f"{'growth with blocks':<30}{'arm':<13}{'recipe':<20}{'kind':<9}{'exponent':>9}   95% interval",
    ]
    for row in manifest["growth"]:
        exponent = "-" if row["exponent"] is None else f"{row['exponent']:.4f}"
        interval = "" if row["lower95"] is None else f"   [{row['lower95']:.4f}, {row['upper95']:.4f}]"
        lines.append(f"{row['quantity']:<30}{row['arm']:<13}{row['recipe']:<20}{row['kind']:<9}{exponent:>9}{interval}")
    return "\n".join([*lines, f"tables in {folder.path}"])
