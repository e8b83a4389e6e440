"""An observation that can be interrupted: a block-by-block run whose finished blocks are kept in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..canonical import engine_version
from ..decoder.progress import Told, silent
from ..decoder.splitmix64 import FloatArray
from ..recipes.recipe import Recipe
from .arms import by_block_of
from .checkpoint import Checkpoint
from .document import Document
from .estimate import check_run
from .report import observe_document
from .request import ObserveRequest


def kept_document(
    request: ObserveRequest,
    folder: str | os.PathLike[str],
    *,
    seen: Callable[[Sequence[Recipe], FloatArray, FloatArray], None] | None = None,
    say: Callable[[str], None] = lambda sentence: None,
    told: Told = silent,
) -> Document:
    """Return the document of `observe_document` for a block-by-block run that is kept in `folder` and resumed there.

    Every finished block of the forward and of the reverse is one file. The run may end at any moment, by a signal or
    an exception from one of the callbacks: called again, on as many threads, this function goes on after the last
    finished block and returns a document of equal bytes. A finished run is read back without being computed.

    `seen(recipes, activation, adjoint)` is called after every block that was computed, with the recipes of the pass
    and the RMS of every site, `[E, S]` each, NaN where the pass has not been yet: the partial profile. Members are
    ordered by recipe. `told(what, done, total)` counts the blocks of a pass, both ways; `say(sentence)` is called where
    a damaged last file is computed again. Raises `StorageError` for a folder of another run, a damaged one, or one that
    another process writes to, and the errors of `observe_document`.
    """
    request = replace(request, driver="block")
    by_block = by_block_of(check_run(request))
    assert by_block is not None
    with Checkpoint.opened(folder, identity_of(request), say) as checkpoint:
        by_block = replace(by_block, journal=checkpoint.journal, seen=seen)
        return observe_document(request, by_block=by_block, told=told)


def identity_of(request: ObserveRequest) -> dict[str, Any]:
    """Return every setting that can change a bit of a run's result, by name, as JSON values."""
    return {
        **request.config.document(),
        "recipe": request.recipe,
        "seed": str(request.seed),
        "base draw": request.distribution.name,
        "batch": request.batch.digest(),
        "dtype": request.dtype,
        "device": request.device,
        "engine": engine_version(),
        "threads": torch.get_num_threads(),
    }
