"""Run a guarded model again: before the recording, so that its caches are filled, and after it, to try things out."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from ...errors import AuditError
from ..sandbox.guard import Guard, Watch
from .inputs import ModelInputs
from .lookups import LOOKUPS, check_lookup
from .recorder import Address, Replay, Stop, tensors_of


def warm(guard: Guard, inputs: ModelInputs) -> bool:
    """Run the model once and forget the result, so that tensors it builds at its first call are there afterwards.

    Returns whether the forward bears hooks on saved tensors, which `torch.func` inside it does not. Raises `AuditError`
    where the forward fails.
    """
    for hooks in (True, False):
        watch = _Lookups(guard, inputs)
        with guard.run(watch, inputs), watch, _plain_hooks() if hooks else contextlib.nullcontext():
            try:
                guard.call(inputs.arguments, inputs.keywords)
            except AuditError as error:
                if not hooks or "saved tensor hooks" not in str(error):
                    raise
                continue
            return hooks
    return False


class _Lookups(Watch):  # type: ignore[no-untyped-call]
    """Checks the ids of every look-up in a parameter before it runs. Raises `BatchError` for one out of range."""

    def __init__(self, guard: Guard, inputs: ModelInputs) -> None:
        super().__init__()
        self._ids, self._names = inputs.first, guard.names

    def see(self, func: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Check one operation and return its arguments unchanged."""
        if func in LOOKUPS:
            tensors = list(tensors_of(args, keywords))
            # Indices of an axis behind the first are no rows of a table.
            rows = args[1] if len(args) > 1 and isinstance(args[1], list | tuple) else tensors[1:2]
            if len(tensors) == 2 and rows[0] is not None:
                check_lookup(tensors[0], tensors[1], LOOKUPS[func], self._ids, self._names)
        return args, keywords


def _plain_hooks() -> saved_tensors_hooks:
    return saved_tensors_hooks(_itself, _itself)


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def replayed(guard: Guard, inputs: ModelInputs, replay: Replay) -> dict[Address, torch.Tensor]:
    """Run the model again and return the tensors that `replay` kept, by address.

    Some are missing where the forward fails with what was changed (a silenced writer, another token).
    """
    with contextlib.suppress(Stop, AuditError), guard.run(replay, inputs), replay:
        guard.call(inputs.arguments, inputs.keywords)
    return replay.found
