"""Builds a model again: from another seed, at another depth, or in memory filled with NaN.

NaN that remain after the last show which parameters no initializer writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from ..intake.shrink import DEPTH_KEYS, small_settings
from ..sandbox.guard import process_kept

# Larger models are not built a second time beside the first.
LARGEST_REBUILD = 2**26
EMPTY = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})
Build = Callable[[int | None], nn.Module]


@dataclass(frozen=True, kw_only=True)
class Rebuilder:
    """How to build a model again.

    `build(None)` returns a new model; `build(blocks)` one of that depth, if `deep` is True. `build` is None if the
    model cannot be built again. `settings` is the configuration. `missing` has the names of parameters that the stored
    files lack. `trained` is None if it is not known.
    """

    build: Build | None = None
    deep: bool = False
    settings: Mapping[str, Any] | None = None
    missing: tuple[str, ...] = ()
    trained: bool | None = None


def rebuilder_of(model: nn.Module) -> Rebuilder:
    """Return the `Rebuilder` of a model; its `build` is None unless the model has a transformers configuration."""
    config, maker = getattr(model, "config", None), getattr(type(model), "_from_config", None)
    if config is None or not hasattr(config, "to_dict"):
        return Rebuilder()
    settings = config.to_dict()
    if maker is None:
        return Rebuilder(settings=settings)

    def build(blocks: int | None) -> nn.Module:
        current = config.to_dict()
        if blocks is not None:
            current |= deepened(current, blocks)
        current.pop("model_type", None)
        again = type(config)(**current)
        again._attn_implementation = "eager"
        made: nn.Module = maker(again, attn_implementation="eager", dtype=torch.float32)
        return made

    return Rebuilder(build=build, deep=True, settings=settings)


def deepened(settings: Mapping[str, Any], blocks: int) -> dict[str, Any]:
    """Return only the settings to change so that the model has `blocks` blocks, with lists of one entry per block."""
    depth = next((settings[key] for key in DEPTH_KEYS if isinstance(settings.get(key), int)), None)
    changed: dict[str, Any] = {}
    for key, value in small_settings(settings, blocks).items():
        old = settings[key]
        if key in DEPTH_KEYS or (isinstance(old, list) and isinstance(value, list) and len(old) == depth):
            changed[key] = value
        elif isinstance(old, Mapping) and any(isinstance(old.get(inner), int) for inner in DEPTH_KEYS):
            changed[key] = {**old, **deepened(old, blocks)}
    return changed


def rebuilt(
    source: Rebuilder, model: nn.Module, *, blocks: int | None = None, seed: int = 0, sentinel: bool = False
) -> nn.Module | None:
    """Return a new build of the model, drawn from `seed`, with `blocks` blocks if given; None if it cannot be built.

    With `sentinel`, memory that the build allocates without values is filled with NaN. Torch's generator is restored.
    """
    size = sum(parameter.numel() for parameter in model.parameters())
    if source.build is None or size > LARGEST_REBUILD or (blocks is not None and not source.deep):
        return None
    with process_kept():
        torch.manual_seed(seed)
        try:
            with _Sentinel() if sentinel else nullcontext():  # type: ignore[no-untyped-call]
                return source.build(blocks)
        except Exception:
            # The user's builder, or a depth that the library refuses; the audit goes on with what it has.
            return None


class _Sentinel(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that fills tensors allocated without values with NaN."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in EMPTY and made.is_floating_point() and made.device.type != "meta":
            made.fill_(float("nan"))
        return made
