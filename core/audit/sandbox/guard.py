"""Leaves a model as it was: weights, buffers, flags, attributes, random generators and the settings of the process."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from ...decoder.tape import recording
from ...errors import AuditError, DepthscopeError, first_line, no_memory
from .keeping import Kept

# Functional in name, these write to the running statistics that they are given, their fourth and fifth argument.
NORMS_THAT_WRITE = frozenset({"native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"})
# Autograd detaches what it saves or not as hooks are set, so these calls are left out of every count.
UNCOUNTED = torch.ops.aten.detach.default


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[Guard]:
    """A context that gives a `Guard` to run the model with, in evaluation mode and with gradients for all parameters.

    On exit, modes, gradients and `requires_grad` are restored. Forwards run under the autocast that is active outside;
    everything else runs without it. Compiled modules run as the Python that they were compiled from, and scripted ones
    unfused, because a fused graph hides its additions.
    """
    parameters = list(model.parameters())
    device = parameters[0].device.type if parameters else "cpu"
    casts = torch.amp.is_autocast_available(device)
    autocast = None
    if casts and torch.is_autocast_enabled(device):
        autocast = device, torch.get_autocast_dtype(device)
    with ExitStack() as after:
        # Each runs even if another fails.
        for parameter in parameters:
            after.callback(setattr, parameter, "grad", parameter.grad)
            after.callback(parameter.requires_grad_, parameter.requires_grad)
        for module in model.modules():
            after.callback(setattr, module, "training", module.training)
        model.eval()
        for parameter in parameters:
            if parameter.is_floating_point():
                parameter.requires_grad_(True)
        after.enter_context(recording(device if casts else "cpu"))
        after.enter_context(torch.jit.optimized_execution(False))  # type: ignore[attr-defined]
        if "torch._dynamo" in sys.modules:
            after.enter_context(torch.compiler.set_stance("force_eager"))
        yield Guard(model, autocast)


@contextmanager
def process_kept() -> Iterator[None]:
    """A context that restores the global random generators, the number of threads and the default dtype on exit.

    Only what changed is set, so that a body that draws nothing never touches generators that other threads may use.
    """
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    state, python = torch.get_rng_state(), random.getstate()
    legacy: Any = np.random.get_state()  # noqa: NPY002 - kept, not drawn from
    try:
        yield
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if torch.get_default_dtype() != dtype:
            torch.set_default_dtype(dtype)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
        if not torch.equal(torch.get_rng_state(), state):
            torch.set_rng_state(state)
        if random.getstate() != python:
            random.setstate(python)
        now: Any = np.random.get_state()  # noqa: NPY002
        if any(not np.array_equal(a, b) for a, b in zip(now, legacy, strict=True)):
            np.random.set_state(legacy)  # noqa: NPY002


class Guard:
    """Runs a model so that every run starts from the same state and leaves that state unchanged.

    `autocast` is the (device, dtype) of the autocast that forwards run under, None without one. `names` maps the `id()`
    of a parameter to its name.
    """

    def __init__(self, model: nn.Module, autocast: tuple[str, torch.dtype] | None = None) -> None:
        self.model = model
        self.autocast = autocast
        self.names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._kept = Kept([model])
        self._buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]

    @property
    def notes(self) -> list[str]:
        """Sentences on the run, a list: the autocast that was active, and what may not be restored."""
        notes = []
        if self.autocast is not None:
            dtype = str(self.autocast[1]).removeprefix("torch.")
            notes.append(
                f"The model ran under torch.autocast to {dtype}, as it was called; its stream is proved to the "
                f"tolerance of {dtype}, and statistics are in float64."
            )
        if not self._kept.complete:
            notes.append(
                "The model holds more than is kept beside its weights and buffers; what a forward changed in "
                "the rest of it (long lists, large arrays) was not put back."
            )
        return notes

    @contextmanager
    def run(self, mode: Watch, inputs: object = None) -> Iterator[None]:
        """A context in which `mode` may watch one forward on `inputs`.

        On exit, whatever the forward wrote to is restored.
        """
        kept = [self._kept, Kept([inputs])]
        tensors = {id(tensor): tensor for tensor in (*self.model.parameters(), *(t for k in kept for t in k.tensors))}
        found = [(tensor, tensor.detach(), tensor.grad_fn is None) for tensor in tensors.values()]
        mode.protect(tensors.values())
        mode.protect(tensor.grad for tensor in self.model.parameters() if tensor.grad is not None)
        # Weights cast in an earlier run would be read without a cast in this one; and silenced ones later, by the user.
        torch.clear_autocast_cache()
        with ExitStack() as after:
            # The last one begun ends first.
            after.enter_context(process_kept())
            after.callback(self._restore_buffers)
            after.callback(_restore_tensors, found, mode)
            for one in kept:
                after.callback(one.restore)
            after.callback(torch.clear_autocast_cache)
            yield

    def call(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Run one forward and return its output.

        Raises `AuditError`, with the first line of the model's own error, if the forward fails.
        """
        autocast: AbstractContextManager[Any] = nullcontext()
        if self.autocast is not None:
            autocast = torch.autocast(self.autocast[0], dtype=self.autocast[1])
        try:
            with autocast:
                return self.model(*arguments, **keywords)
        except Exception as error:
            if isinstance(error, DepthscopeError) or no_memory(error):
                raise
            if "Inference tensors" in str(error) and (name := self._made_in_inference_mode()):
                raise AuditError(
                    f"The model's forward fails: {name} was made under torch.inference_mode, so no gradient can pass "
                    "it; make it again outside, or put its clone there."
                ) from error
            raise AuditError(f"The model's forward fails: {first_line(error)}.") from error

    def _made_in_inference_mode(self) -> str | None:
        """Return the name of the first tensor of a module that was made under `torch.inference_mode`.

        None where there is none.
        """
        for place, module in self.model.named_modules():
            for name, value in (vars(module) | module._buffers).items():
                if isinstance(value, torch.Tensor) and value.is_inference():
                    return f"{place}.{name}".lstrip(".")
        return None

    def _restore_buffers(self) -> None:
        with torch.no_grad():
            for buffer, kept in self._buffers:
                if not same_values(buffer, kept):
                    buffer.copy_(kept)


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that copies protected tensors before the forward first writes to them.

    A subclass overrides `see`, which receives every operation and returns the arguments to run it with.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.overwritten: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._protected: dict[int, list[torch.Tensor]] = {}
        self._written: dict[Any, list[tuple[int, str]]] = {}

    def protect(self, tensors: Iterable[torch.Tensor]) -> None:
        """Add tensors to those that are copied before they are written to."""
        for tensor in tensors:
            storage = storage_of(tensor)
            if storage is not None:
                self._protected.setdefault(storage, []).append(tensor)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Pass one operation to `see`, copy protected tensors that it writes to, and run it."""
        keywords = kwargs or {}
        if func is not UNCOUNTED:
            args, keywords = self.see(func, args, keywords)
            for target in self._written_by(func, args, keywords):
                self.before_write(target)
        return func(*args, **keywords)

    def see(self, func: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that an operation is to run with: those given, unless a subclass changes them."""
        return args, keywords

    def _written_by(self, func: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> list[torch.Tensor]:
        """Return the tensors that an operation writes to."""
        if func not in self._written:
            norm = func.overloadpacket.__name__ in NORMS_THAT_WRITE
            self._written[func] = [
                (place, argument.name)
                for place, argument in enumerate(func._schema.arguments)
                if (argument.alias_info is not None and argument.alias_info.is_write) or (norm and place in (3, 4))
            ]
        found: list[Any] = []
        for place, name in self._written[func]:
            value = args[place] if place < len(args) else keywords.get(name)
            found += value if isinstance(value, list | tuple) else [value]
        return [one for one in found if isinstance(one, torch.Tensor)]

    def before_write(self, target: torch.Tensor) -> None:
        """Copy the protected tensors that share memory with `target`, unless that was done before."""
        storage = storage_of(target)
        for tensor in self._protected.pop(storage, ()) if storage is not None else ():
            self.overwritten.append((tensor, tensor.detach().clone()))


def storage_of(tensor: torch.Tensor) -> int | None:
    """Return a number that identifies a tensor's memory; None for a tensor without a storage, such as a sparse one."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def _restore_tensors(found: Sequence[tuple[torch.Tensor, torch.Tensor, bool]], mode: Watch) -> None:
    """Restore the memory and values of tensors, and detach those that an in-place write gave an autograd graph."""
    with torch.no_grad():
        for tensor, alias, plain in found:
            if plain and tensor.grad_fn is not None and not tensor._is_view():
                tensor.detach_()
            if storage_of(tensor) is not None and tensor.data_ptr() != alias.data_ptr():
                tensor.data = alias
        for written, copy in mode.overwritten:
            written.data.copy_(copy)


def same_values(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return True if two tensors have the same shape, layout, type and values; NaN equals NaN."""
    if (first.shape, first.layout, first.dtype) != (second.shape, second.layout, second.dtype):
        return False
    if first.is_sparse:
        first, second = first.coalesce().to_dense(), second.coalesce().to_dense()
    return bool(((first == second) | ((first != first) & (second != second))).all())
