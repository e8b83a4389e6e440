"""Leave a model as it was found: weights, buffers, flags, plain attributes and random generators."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from core.decoder.tape import recording

PLAIN = (bool, int, float, str, type(None))
Generators = tuple[torch.Tensor, Any, Any]


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[Guard]:
    """Inside: evaluation mode, gradients enabled, every floating parameter differentiable. After: as before."""
    training = [(module, module.training) for module in model.modules()]
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        model.eval()
        for parameter, _ in flags:
            if parameter.is_floating_point():
                parameter.requires_grad_(True)
        with recording(), _uncompiled():
            yield Guard(model)
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)
        for module, flag in training:
            module.training = flag


@contextmanager
def generators_kept() -> Iterator[None]:
    """Whatever is drawn inside, the global generators go on afterwards as if it had not been."""
    kept = _generators()
    try:
        yield
    finally:
        _restore_generators(kept)


class Guard:
    """Runs a model so that every run starts from the same state and leaves none behind."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._aliases = [(parameter, parameter.detach()) for parameter in model.parameters()]
        self._buffers = [
            (module, name, buffer, None if buffer is None else buffer.detach().clone())
            for module in model.modules()
            for name, buffer in module._buffers.items()
        ]
        self._attributes = [(module, _plain(module)) for module in model.modules()]
        self._generators = _generators()

    @contextmanager
    def run(self, mode: Watch) -> Iterator[None]:
        """Protect what `mode` will watch; at the end, put back whatever the forward wrote."""
        # Weights that an autocast of the model's own cast in an earlier run would be read without a cast in this one.
        torch.clear_autocast_cache()
        mode.protect(parameter for parameter, _ in self._aliases)
        try:
            yield
        finally:
            self._restore(mode)

    def _restore(self, mode: Watch) -> None:
        with torch.no_grad():
            for parameter, alias in self._aliases:
                if parameter.data_ptr() != alias.data_ptr():
                    parameter.data = alias
            for written, copy in mode.overwritten:
                written.data.copy_(copy)
            for module, name, buffer, kept in self._buffers:
                if module._buffers.get(name) is not buffer:
                    module._buffers[name] = buffer
                if buffer is not None and kept is not None and not _same(buffer, kept):
                    buffer.copy_(kept)
        for module, plain in self._attributes:
            now = _plain(module)
            if now != plain:
                for name in now.keys() - plain.keys():
                    del module.__dict__[name]
                module.__dict__.update(plain)
        _restore_generators(self._generators)


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that copies a parameter before the forward's first write to it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.overwritten: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._protected: dict[int, list[torch.Tensor]] = {}
        self._mutable: dict[Any, bool] = {}

    def protect(self, parameters: Iterator[torch.Tensor]) -> None:
        """Name the parameters to look after."""
        for parameter in parameters:
            self._protected.setdefault(parameter.untyped_storage()._cdata, []).append(parameter)

    def writes(self, func: Any) -> bool:
        """Whether an operation writes to one of its arguments."""
        if func not in self._mutable:
            self._mutable[func] = func._schema.is_mutable
        return self._mutable[func]

    def before_write(self, target: torch.Tensor) -> None:
        """Copy what `target` shares memory with, if it is a parameter that was not copied before."""
        for parameter in self._protected.pop(target.untyped_storage()._cdata, ()):
            self.overwritten.append((parameter, parameter.detach().clone()))


def _plain(module: nn.Module) -> dict[str, Any]:
    return {name: value for name, value in module.__dict__.items() if type(value) in PLAIN}


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.shape == second.shape and bool(((first == second) | ((first != first) & (second != second))).all())


def _generators() -> Generators:
    return torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002 - it is kept, not drawn from


def _restore_generators(generators: Generators) -> None:
    # Only what moved is put back, so that a forward without draws never touches what other threads may be drawing from.
    state, python, legacy = generators
    if not torch.equal(torch.get_rng_state(), state):
        torch.set_rng_state(state)
    if random.getstate() != python:
        random.setstate(python)
    now: Any = np.random.get_state()  # noqa: NPY002
    if any(not np.array_equal(a, b) for a, b in zip(now, legacy, strict=True)):
        np.random.set_state(legacy)  # noqa: NPY002


@contextmanager
def _uncompiled() -> Iterator[None]:
    """Compiled parts run as the Python they were made of, for a compiled graph hides its additions."""
    if "torch._dynamo" not in sys.modules:
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield
