"""A checkpointed run of a verb: what may not stand beside it, and what an interrupt says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..errors import ConfigError
from . import options as opt

if TYPE_CHECKING:
    from ..decoder.progress import Told
    from ..health.request import ObserveRequest


def check_kept(context: click.Context, options: dict[str, Any]) -> None:
    """Raise `ConfigError` for options that a checkpointed run cannot have; its driver is `block`."""
    if options["checkpoint"] is None:
        return
    if beside := opt.given(context, ("seeds", "restore")):
        raise ConfigError(f"--checkpoint keeps the run of one fresh seed; leave {beside[0]} out.")
    if options["driver"] == "graph":
        raise ConfigError("--checkpoint keeps a run block by block; leave --driver graph out.")
    options["driver"] = "block"


def kept(request: ObserveRequest, folder: str, told: Told) -> dict[str, Any]:
    """Run or resume a checkpointed run and return its document; an interrupt says what is kept."""
    from ..health.kept_run import kept_document

    try:
        return kept_document(request, folder, say=lambda sentence: click.echo(sentence, err=True), told=told)
    except KeyboardInterrupt as stop:
        sentence = f"Interrupted; finished blocks are kept in {folder}, and the same command goes on from there."
        raise KeyboardInterrupt(sentence) from stop
