"""Builds a model without memory for its matrices: what its code writes to them is recorded, and done later.

The user's or the library's own code runs as it is, on tensors of the meta device. Every matrix then has a program: the
list of writes that give it its values. If all writes are elementwise, any tile can be drawn alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from ...errors import AuditError, shown
from ..sandbox.guard import storage_of
from ..trace.recorder import tensors_of
from .programs import (
    OVERWRITES,
    SILENT,
    TILE,
    Memory,
    Past,
    Place,
    Program,
    Step,
    covers,
    real,
)

META = torch.device("meta")
# Memory is made without values by these, and with values by the next: the write that gives them.
EMPTY = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"})
FILLED: Mapping[str, tuple[Any, tuple[float, ...]]] = {
    "zeros": (torch.ops.aten.zero_.default, ()),
    "ones": (torch.ops.aten.fill_.Scalar, (1.0,)),
    "rand": (torch.ops.aten.uniform_.default, (0.0, 1.0)),
    "randn": (torch.ops.aten.normal_.default, (0.0, 1.0)),
}
FILLED = {**FILLED, **{f"new_{name}": FILLED[name] for name in ("zeros", "ones")}}
FILLED = {**FILLED, **{f"{name}_like": FILLED[name] for name in ("zeros", "ones", "rand", "randn")}}


class Deferral(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, tensors of two axes or more are made on the meta device, and what is written to them is noted.

    `on_meta` tells that the code itself asked for the meta device somewhere. What reads a deferred value where it must
    be known (a number, a memory that exists) gets it, drawn at that moment.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.on_meta = False
        self._seed, self._counter = seed, 0
        self._memories: dict[int, Memory] = {}

    def program(self, tensor: torch.Tensor) -> Program | None:
        """Return the `Program` of a deferred tensor's memory as it is now; None for a tensor that is not deferred."""
        memory = self._memory(tensor)
        return None if memory is None else Program(memory, tuple(memory.steps), self._seed)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operation, on the meta device where it makes or reads deferred tensors, and note what it writes."""
        keywords, name = kwargs or {}, func.overloadpacket.__name__
        asked = keywords.get("device")
        self.on_meta |= asked is not None and torch.device(asked) == META
        given = list(tensors_of(args, keywords))
        if not any(tensor.is_meta for tensor in given):
            if name in EMPTY or name in FILLED:
                return self._made(func, name, args, keywords)
            return self._noted(func, args, keywords)
        targets = _written(func, args, keywords)
        made_real = [t for t in targets if not t.is_meta]
        if made_real or not any(isinstance(r.type, torch.TensorType | torch.ListType) for r in func._schema.returns):
            return func(*tree_map(self._real, args), **tree_map(self._real, keywords))
        return self._noted(func, args, keywords)

    @contextmanager
    def noting_functions(self) -> Iterator[None]:
        """A context in which calls of the functions `SILENT` are recorded, wherever a module has imported one."""
        places = [
            (names, name, own)
            for name in SILENT
            for own in [getattr(torch.nn.init, name)]
            for module in list(sys.modules.values())
            for names in ((vars(module), vars(module).get("TORCH_INIT_FUNCTIONS")) if module else ())
            if isinstance(names, dict) and names.get(name) is own
        ]
        try:
            for names, name, own in places:
                names[name] = partial(self._silent, own)
            yield
        finally:
            for names, name, own in places:
                names[name] = own

    def _silent(self, own: Any, tensor: torch.Tensor, *args: Any, **keywords: Any) -> torch.Tensor:
        memory = self._memory(tensor)
        if memory is None:
            return own(tensor, *args, **keywords)  # type: ignore[no-any-return]
        keywords.pop("generator", None)
        self._write(memory, Step(own, args, keywords, _place(tensor), self._reserved(tensor)))
        return tensor

    def _made(self, func: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Return new memory, on the meta device where it is a matrix of numbers."""
        there = func(*args, **{**keywords, "device": META})
        asked = keywords.get("device")
        if (there.dim() < 2 or not there.is_floating_point()) and not (asked and torch.device(asked) == META):
            return func(*args, **keywords)
        memory = self._register(there)
        if name in FILLED:
            write, values = FILLED[name]
            self._write(memory, Step(write, values, {}, _place(there), self._draws(write, there)))
        return there

    def _noted(self, func: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Run an operation on the meta device and note what it writes, or what it makes."""
        targets = [t for t in _written(func, args, keywords) if t.is_meta]
        held = tree_map(self._past, (args, keywords))
        made = func(*args, **keywords)
        for target in targets[:1]:
            memory = self._memory(target)
            if memory is None or target is not args[0] or len(targets) > 1:
                raise _unknown(func)
            self._write(memory, Step(func, held[0][1:], held[1], _place(target), self._draws(func, target)))
        for number, tensor in enumerate(made if isinstance(made, tuple | list) else [made]):
            if isinstance(tensor, torch.Tensor) and tensor.is_meta and self._memory(tensor) is None:
                memory = self._register(tensor)
                away = {**held[1], **({"device": torch.device("cpu")} if "device" in held[1] else {})}
                draws = self._draws(func, tensor)
                memory.steps.append(Step(func, held[0], away, _place(tensor), draws, first=True, output=number))
        return made

    def _register(self, tensor: torch.Tensor) -> Memory:
        size = tensor.untyped_storage().nbytes() // tensor.element_size()
        memory = Memory(size, tensor.shape[-1] if tensor.dim() else 1, tensor.dtype, tensor)
        key = storage_of(tensor)
        assert key is not None
        self._memories[key] = memory
        return memory

    def _memory(self, tensor: torch.Tensor) -> Memory | None:
        key = storage_of(tensor) if tensor.is_meta else None
        return None if key is None else self._memories.get(key)

    def _write(self, memory: Memory, step: Step) -> None:
        if step.name in OVERWRITES and covers(step.place, memory.size):
            memory.steps.clear()
        memory.steps.append(step)

    def _draws(self, func: Any, tensor: torch.Tensor) -> int | None:
        """Reserve seeds for an operation that draws, one for each tile and one more; None for any other."""
        return self._reserved(tensor) if torch.Tag.nondeterministic_seeded in func.tags else None

    def _reserved(self, tensor: torch.Tensor) -> int:
        found = self._counter
        self._counter += 2 + tensor.numel() // (TILE // 2)
        self._counter += tensor.numel() // max(1, tensor.shape[-1]) if tensor.dim() and tensor.shape[-1] > TILE else 0
        return found

    def _past(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        program = self.program(value)
        return value if program is None else Past(program, _place(value))

    def _real(self, value: Any) -> Any:
        return real(self._past(value))


def settled(model: nn.Module, deferral: Deferral) -> dict[str, Program]:
    """Give buffers and vectors their values; return the `Program` of every other parameter by name.

    Tied parameters stay one object. Raises `AuditError` for a parameter whose values no recorded write gives.
    """
    vectors: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, buffer in list(module._buffers.items()):
            if buffer is not None and buffer.is_meta:
                module._buffers[name] = _drawn(deferral, buffer, name)
        for name, parameter in list(module._parameters.items()):
            if parameter is not None and parameter.is_meta and parameter.dim() < 2:
                kept = vectors.get(id(parameter)) or nn.Parameter(_drawn(deferral, parameter, name))
                vectors[id(parameter)] = module._parameters[name] = kept
    programs: dict[str, Program] = {}
    for name, parameter in model.named_parameters():
        if parameter.is_meta:
            program = deferral.program(parameter)
            if program is None or not covers(_place(parameter), program.size) or not parameter.is_contiguous():
                raise AuditError(f"What the parameter {shown(name)} holds is not written by its model's own code.")
            programs[name] = program
    return programs


def _drawn(deferral: Deferral, tensor: torch.Tensor, name: str) -> torch.Tensor:
    program = deferral.program(tensor)
    if program is None:
        raise AuditError(f"What the tensor {shown(name)} holds is not written by its model's own code.")
    return program.value().as_strided(*_place(tensor))


def _place(tensor: torch.Tensor) -> Place:
    return tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset())


def _written(func: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> list[torch.Tensor]:
    """Return the tensors that an operation writes to."""
    found = []
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[place] if place < len(args) else keywords.get(argument.name)
            found += list(value) if isinstance(value, tuple | list) else [value]
    return [value for value in found if isinstance(value, torch.Tensor)]


def _unknown(func: Any) -> AuditError:
    return AuditError(
        f"The model's code initializes a matrix by {func.overloadpacket.__name__}, which cannot be done one block at a "
        "time"
    )


Build = Callable[[], nn.Module]


def deferred(build: Build, seed: int) -> tuple[nn.Module, dict[str, Program]]:
    """Call `build` without memory for matrices; return (its model on the meta device, the `Program` of each matrix).

    A model of transformers that was made on the meta device, where the library initializes nothing, is initialized by
    its own `initialize_weights`. Vectors are drawn from torch's generator; `seed` is that of the matrices.
    """
    torch.manual_seed(seed)
    with Deferral(seed) as deferral, deferral.noting_functions():
        model = build()
        initialize = getattr(model, "initialize_weights", None)
        if deferral.on_meta and initialize is not None:
            for module in model.modules():
                module.__dict__.pop("_is_hf_initialized", None)
            initialize()
    return model, settled(model, deferral)
