"""A run of `observe` that is kept in a folder block by block, so that it can be resumed (`--checkpoint`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..errors import ConfigError
from . import options as opt
from .progress import duration

if TYPE_CHECKING:
    from ..decoder.progress import Told
    from ..health.estimate import Estimate
    from ..health.request import ObserveRequest


# A run by the blocks that is estimated to take longer says so before it begins.
SECONDS_FOR_NOTICE = 60.0


def tell_cost(cost: Estimate, checkpointed: bool) -> None:
    """Say on standard error what a long block-by-block run will take, and that it can be kept."""
    if cost.request.driver != "block" or cost.seconds < SECONDS_FOR_NOTICE:
        return
    kept = "" if checkpointed else "; --checkpoint DIR keeps what is finished"
    click.echo(
        f"Block by block, by estimate: {duration(cost.seconds)} of one core, {cost.total_bytes / 2**30:.1f} GiB{kept}.",
        err=True,
    )


def check_kept(context: click.Context, options: dict[str, Any]) -> None:
    """Raise `ConfigError` for options that a checkpointed run cannot have; else set its driver to `block`.

    Does nothing without a checkpoint.
    """
    if options["checkpoint"] is None:
        return
    if beside := opt.given(context, ("seeds", "restore")):
        raise ConfigError(f"--checkpoint keeps the run of one fresh seed; leave {beside[0]} out.")
    if options["driver"] == "graph":
        raise ConfigError("--checkpoint keeps a run block by block; leave --driver graph out.")
    options["driver"] = "block"


def kept(request: ObserveRequest, folder: str, told: Told) -> dict[str, Any]:
    """Run or resume a checkpointed run in `folder` and return its `observe` document, a dict for JSON.

    An interrupt says what is kept.
    """
    from ..health.kept_run import kept_document

    try:
        return kept_document(request, folder, say=lambda sentence: click.echo(sentence, err=True), told=told)
    except KeyboardInterrupt as stop:
        sentence = f"Interrupted; finished blocks are kept in {folder}, and the same command goes on from there."
        raise KeyboardInterrupt(sentence) from stop
