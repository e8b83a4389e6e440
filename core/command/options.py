"""Options that several commands share, and how a command prints its document."""

from __future__ import annotations

import io
import json
import math
import os
import sys
import textwrap
from collections.abc import Callable, Iterable
from copy import copy
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from ..decoder.config import DEVICES, DRIVERS, DTYPE_NAMES, MLPS, NORMS, Budget, DecoderConfig
from ..errors import BatchError, ConfigError, shown
from ..numerals import SPACES, checked_seed, finite_number, whole_number
from ..strict_json import read_json

# Help waits for no array library, so whatever needs one is imported inside the function that uses it.
if TYPE_CHECKING:
    from ..decoder.base_draw import Distribution
    from ..decoder.batch import Batch

Command = TypeVar("Command", bound=Callable[..., Any])
MAX_BATCH_BYTES = 2**24
LINE_WIDTH = 120
CHAPTER = DecoderConfig()
# Fields of a decoder that an option names alike; a verb without the option leaves the default.
DIRECT = (
    "blocks", "width", "heads", "kv_heads", "head_dim", "ff_width", "vocabulary", "rope_base", "rms_epsilon", "norm",
    "mlp", "bias",
)  # fmt: skip


class Numeral(click.ParamType[Any]):
    """A click type for a number in ASCII digits, with optional inclusive limits; errors are one sentence."""

    def __init__(
        self, name: str, read: Callable[[str], float | None], rule: str, limits: tuple[int, int] | None = None
    ) -> None:
        self.name, self._read, self._rule, self._limits = name, read, rule, limits

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return `value` as a number. Raises `ConfigError` if it is not a number or is outside the limits."""
        text = str(value).strip(SPACES)
        number = value if isinstance(value, int | float) else self._read(text)
        if number is None:
            raise ConfigError(f"{_label(param)} is {shown(text)}; it must be {self._rule}.")
        if self._limits is not None and not self._limits[0] <= number <= self._limits[1]:
            low, high = self._limits
            raise ConfigError(f"{_label(param)} is {number}; it must lie between {low:,} and {high:,}.")
        return number


class PathText(click.ParamType[str]):
    """A click type for a path that must not be empty, since an empty path would mean the working folder."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the path as typed. Raises `ConfigError` if it is empty."""
        if not str(value).strip():
            raise ConfigError(f"{_label(param)} is empty; give a path.")
        return str(value)


def _label(param: click.Parameter | None) -> str:
    return param.opts[0] if param else "The value"


def _byte_count(text: str) -> int | None:
    """Return a size in words, such as 2G, 1.5GiB or 500M, in bytes; None if it is none. Units are powers of 1024."""
    words = text.casefold().removesuffix("b").removesuffix("i")
    power = "kmgt".find(words[-1:]) + 1 if words else 0
    number = finite_number(words[:-1].rstrip(SPACES) if power else words)
    size = math.inf if number is None else number * 1024**power
    return int(size) if 1 <= size < math.inf else None


class Aliased(click.Option):
    """A click option with several names, of which the help shows only the first."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the entry of the help, with the first name only."""
        shown_alone = copy(self)
        shown_alone.opts = self.opts[:1]
        return click.Option.get_help_record(shown_alone, ctx)


BYTES = Numeral("bytes", _byte_count, "a number of bytes, such as 500M or 2G")
WHOLE = Numeral("integer", whole_number, "a whole number")
NUMBER = Numeral("number", finite_number, "a finite number, such as 0.02 or 1e-5")
PATH = PathText()
DTYPE = click.Choice(DTYPE_NAMES)
DEVICE = click.Choice(DEVICES)


def whole_within(low: int, high: int) -> Numeral:
    """Return the click type of an integer from `low` to `high`."""
    return Numeral("integer", whole_number, "a whole number", (low, high))


def combined(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that adds several click options, which the help shows in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


size_options = combined(
    click.option("--width", type=WHOLE, default=CHAPTER.width, show_default=True, help="Features d of the stream."),
    click.option("--heads", type=WHOLE, default=CHAPTER.heads, show_default=True, help="Query heads."),
    click.option("--kv-heads", type=WHOLE, help="Key/value heads; as many as query heads unless given."),
    click.option("--head-dim", type=WHOLE, help="Features a head; width / heads unless given."),
    click.option("--ff-width", type=WHOLE, default=CHAPTER.ff_width, show_default=True, help="Feed-forward features."),
    click.option("--vocabulary", type=WHOLE, default=CHAPTER.vocabulary, show_default=True, help="Vocabulary entries."),
)
family_options = combined(
    click.option("--norm", type=click.Choice(NORMS), default="rmsnorm", show_default=True, help="Every norm."),
    click.option(
        "--mlp", type=click.Choice(MLPS), default="swiglu", show_default=True, help="Every feed-forward part."
    ),
    click.option("--learned-positions", is_flag=True, help="Learned positions instead of rotary ones."),
    click.option("--untied", is_flag=True, help="A separate head instead of the embedding's transpose."),
    click.option("--bias", is_flag=True, help="A zero bias on every block matrix."),
)
base_options = combined(
    click.option("--base-std", type=NUMBER, help="Normal base draw of this std instead of Xavier uniform."),
    click.option("--embedding-std", type=NUMBER, help="Normal draw of this std for token and position embeddings."),
    click.option("--truncate", type=NUMBER, help="Truncate the normal base draw at this many sigma."),
)
constant_options = combined(
    click.option(
        "--rope-base", type=NUMBER, default=CHAPTER.rope_base, show_default=True, help="Base of rotary angles."
    ),
    click.option(
        "--rms-epsilon", type=NUMBER, default=CHAPTER.rms_epsilon, show_default=True, help="Inside every norm's root."
    ),
)
positions_option = click.option(
    "--positions", "--context", "positions", cls=Aliased, type=WHOLE,
    help="Position capacity; max(4, longest row) unless given.",
)  # fmt: skip
ids_options = combined(
    click.option("--inputs", type=str, help="Token ids; commas between ids, semicolons between rows."),
    click.option("--targets", type=str, help="Target ids, in the shape of --inputs."),
    click.option("--text", type=str, help="A row of UTF-8 bytes plus 10, led by 0, ending in target 1."),
)
batch_options = combined(
    ids_options,
    click.option("--batch", "batch_file", type=PATH, metavar="FILE.json", help="Rows with validity and segments."),
)
driver_options = combined(
    click.option(
        "--driver",
        type=click.Choice(DRIVERS),
        default="auto",
        show_default=True,
        help="The whole graph at once, or one block at a time; `auto` takes blocks where memory asks for them.",
    ),
    click.option(
        "--max-memory",
        type=BYTES,
        metavar="BYTES",
        help="What a run may use, such as 2G; for the whole graph half of what is free unless given.",
    ),
    click.option(
        "--checkpoint", type=PATH, metavar="DIR", help="Keep every finished block; the same command goes on from there."
    ),
)
budget_options = combined(
    click.option("--max-parameters", type=WHOLE, default=Budget().max_parameters, show_default=True, help="Budget."),
    click.option("--max-positions", type=WHOLE, default=Budget().max_positions, show_default=True, help="Budget."),
)
quiet_option = click.option("--quiet", is_flag=True, help="Tell no progress on standard error.")
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")


def read_batch(inputs: str | None, targets: str | None, text: str | None, batch_file: str | None) -> Batch:
    """Return the batch that the options describe, by default the example's row of four tokens.

    Raises `BatchError` if the options contradict each other, or the error of the text or file that is wrong.
    """
    from ..decoder.batch import Batch, chapter_batch, parse_rows

    if sum(given is not None for given in (inputs, text, batch_file)) > 1:
        raise BatchError("--inputs, --text and --batch exclude each other; give one of them.")
    if (inputs is None) != (targets is None):
        raise BatchError("--inputs and --targets belong together; give both or neither.")
    if inputs is not None and targets is not None:
        return Batch.from_rows(parse_rows("--inputs", inputs), parse_rows("--targets", targets))
    if text is not None:
        return Batch.from_text(text)
    if batch_file is not None:
        return Batch.from_document(read_json(batch_file, max_bytes=MAX_BATCH_BYTES))
    return chapter_batch()


def decoder_config(options: dict[str, Any], longest_row: int) -> DecoderConfig:
    """Return the decoder that the options describe; `positions` defaults to at least the longest row."""
    positions = options["positions"]
    return DecoderConfig(
        **{name: options[name] for name in DIRECT if name in options},
        positions=max(CHAPTER.positions, longest_row) if positions is None else positions,
        position_encoding="learned" if options["learned_positions"] else "rope",
        tied=not options["untied"],
    )


def distribution(options: dict[str, Any]) -> Distribution:
    """Return the distribution of the base weights that the options describe."""
    from ..decoder.base_draw import Distribution

    return Distribution(options["base_std"], options["truncate"], options["embedding_std"])


def given(context: click.Context, names: tuple[str, ...]) -> list[str]:
    """Return the flags of those options in `names` that were typed on the command line."""
    source = click.core.ParameterSource.COMMANDLINE
    first = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    return [first[name] for name in names if context.get_parameter_source(name) == source]


def seed(text: str) -> int:
    """Return the seed in a text as an integer from 0 to 2^64 - 1. Raises `ConfigError`."""
    return checked_seed(text)


def use_threads(coordinates: int, by_block: bool = False) -> None:
    """Set torch's threads for this process: one for small tensors, where waking a second costs more than it saves.

    Block by block it is one too: tiles are drawn and multiplied on all cores, and the bits of a run that is resumed do
    not depend on their number. MKL is asked, before its first product, for products that do not depend on where a
    matrix lies in memory; a setting in the environment is kept.
    """
    if by_block:
        os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
    import torch  # kept out of the module, so that inputs are refused before torch is imported

    torch.set_num_threads(1 if by_block or coordinates < 2**20 else os.cpu_count() or 1)


def progress_stream(quiet: bool) -> TextIO:
    """Return the stream for progress messages: standard error, or a stream that discards them if `quiet`."""
    return io.StringIO() if quiet else sys.stderr


def emit(
    document: Any, as_json: bool, readable: Callable[[Any], str], exports: Callable[[], object] = lambda: None
) -> None:
    """Print a document as one JSON value or as readable text, then call `exports`.

    In this order a failing export does not lose the result, and a closed pipe does not prevent the export.
    """
    try:
        click.echo(json.dumps(document, allow_nan=False) if as_json else readable(document))
    finally:
        exports()


def tell_failure(sentences: Iterable[str]) -> None:
    """Print to standard error that the gate fails and why, one line per sentence."""
    click.echo("\n".join(["The gate fails.", *sentences]), err=True)


def wrapped(sentences: Iterable[str]) -> list[str]:
    """Return sentences as a list of lines for a terminal: 120 characters wide, continuation lines indented."""
    return [line for one in sentences for line in textwrap.wrap(one, LINE_WIDTH, subsequent_indent="  ")]
