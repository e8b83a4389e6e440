"""An audit leaves a model, its process and another thread's draws as they were."""

from __future__ import annotations

import copy
import random
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from core.audit import audit
from core.errors import AuditError, BudgetError
from tests.audit import zoo

IDS = torch.randint(0, zoo.VOCABULARY, (2, 13), generator=torch.Generator().manual_seed(5))


def snapshot(model: nn.Module) -> dict[str, Any]:
    return {
        "values": {name: tensor.clone() for name, tensor in model.state_dict().items()},
        "gradients": {name: p.grad if p.grad is None else p.grad.clone() for name, p in model.named_parameters()},
        "identities": {name: (id(p), p.data_ptr()) for name, p in model.named_parameters()},
        "flags": {name: p.requires_grad for name, p in model.named_parameters()},
        "training": [module.training for module in model.modules()],
        "hooks": [
            (len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks), len(m._buffers))
            for m in model.modules()
        ],
        "plain": [
            {key: value for key, value in vars(m).items() if isinstance(value, int | float | str)}
            for m in model.modules()
        ],
        "generators": (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()),  # noqa: NPY002
        "gradients_enabled": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
        "dtype": torch.get_default_dtype(),
    }


def same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return isinstance(second, torch.Tensor) and torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(same(a, b) for a, b in zip(first, second, strict=True))
    return bool(first == second)


def prepared(name: str) -> nn.Module:
    torch.manual_seed(0)
    model = getattr(zoo, name)().train()
    model.first[0].eval()
    for parameter in list(model.parameters())[::2]:
        parameter.requires_grad_(False)
    for parameter in list(model.parameters())[1::2]:
        parameter.grad = torch.ones_like(parameter)
    return model


def test_model_and_process_are_left_as_found() -> None:
    for name in ("Decoder", "InPlace", "Mutating", "Dropout", "Scripted"):
        model = prepared(name)
        before = snapshot(model)
        with torch.no_grad():
            result = audit(model, IDS)
        after = snapshot(model)
        assert result.identity.verdict == "proved", (name, result.identity.reason)
        for key in before:
            assert same(before[key], after[key]), (name, key)


def test_a_forward_that_fails_leaves_the_model_as_found() -> None:
    class Failing(zoo.Mutating):
        def end(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no end")

    torch.manual_seed(0)
    model = Failing().train()
    before = snapshot(model)
    with pytest.raises(AuditError, match=r"^The model's forward fails: ValueError: no end\.$"):
        audit(model, IDS)
    assert same(before, snapshot(model))


def test_an_audit_that_ends_midway_leaves_the_model_as_found() -> None:
    """The budget passed inside the forward, a reverse pass that fails, and a second run that fails."""

    class OnlyTwice(zoo.Mutating):
        runs: ClassVar[list[int]] = []

        def end(self, x: torch.Tensor) -> torch.Tensor:
            self.runs.append(1)
            if len(self.runs) > 2:
                raise ValueError("no third run")
            return super().end(x)

    model = prepared("Mutating")
    before = snapshot(model)
    with pytest.raises(BudgetError, match="recorded activations"):
        audit(model, IDS, max_bytes=10_000)
    assert same(before, snapshot(model))
    model = prepared("HiddenBranch")
    before = snapshot(model)
    with pytest.raises(AuditError, match="reverse pass"):
        audit(model, IDS)
    assert same(before, snapshot(model))
    torch.manual_seed(0)
    model = OnlyTwice().train()
    before = snapshot(model)
    audit(model, IDS)
    assert len(OnlyTwice.runs) > 2
    assert same(before, snapshot(model))


class Slotted:
    """A cache without a `__dict__`."""

    __slots__ = ("count", "keys", "last")

    def __init__(self) -> None:
        self.keys: list[torch.Tensor] = []
        self.count = 0


@dataclass(frozen=True)
class Frozen:
    steps: int = 0


class Keeper(zoo.Decoder):
    """A forward that leaves something in every kind of attribute, on its parameters, its process and its batch."""

    def extra(self, blocks: int) -> None:
        self.log: list[Any] = []
        self.stats: dict[str, Any] = {"runs": 0, "deep": {"runs": [1]}}
        self.order = OrderedDict(a=1, b=2)
        self.seen: set[int] = set()
        self.recent = deque([1], maxlen=3)
        self.pair = (torch.zeros(2), [1])
        self.cache, self.frozen, self.space = Slotted(), Frozen(), SimpleNamespace(a=1)
        self.count, self.table, self.sums, self.out = 0, np.zeros(3), torch.zeros(3), torch.zeros(2)
        self.past = torch.zeros(*IDS.shape, zoo.WIDTH)
        self.mean, self.variance = torch.zeros(zoo.WIDTH), torch.ones(zoo.WIDTH)
        self.loose = [nn.Linear(2, 2)]
        self.register_buffer("filled", torch.zeros(*IDS.shape, zoo.WIDTH))
        self.register_buffer("sparse", torch.eye(3).to_sparse(), persistent=False)
        self.draws = (torch.Generator().manual_seed(1), np.random.default_rng(2), random.Random(3))

    def containers(self) -> list[Any]:
        """All that the forward writes to, by value."""
        cache = (self.cache.keys, self.cache.count, hasattr(self.cache, "last"))
        tensors = [*self.pair[:1], self.sums, self.out, self.past, self.mean, self.variance, self.filled]
        tensors += [self.loose[0].weight, self.head.weight, self.first[0].out.weight]
        held = [self.log, self.stats, list(self.order.items()), self.seen, list(self.recent), self.pair[1], cache]
        held += [self.frozen.steps, vars(self.space), self.count, self.table.tolist(), sorted(vars(self))]
        modules = [name for name, _ in self.named_modules()], [name for name, _ in self.named_buffers()]
        draws = self.draws[0].get_state(), self.draws[1].bit_generator.state, self.draws[2].getstate()
        plain = [(tensor.tolist(), tensor.grad_fn, tensor.data_ptr()) for tensor in tensors]
        return copy.deepcopy([held, modules, draws, plain, self.sparse.to_dense().tolist()])

    def start(self, ids: torch.Tensor) -> torch.Tensor:
        self.write_plain()
        torch.rand(2, generator=self.draws[0]), self.draws[1].random(), self.draws[2].random()
        torch.add(torch.ones(2), 1, out=self.out)
        self.pair[0].add_(1)
        self.sums += 1
        self.sparse = self.sparse * 2
        nn.functional.batch_norm(torch.rand(4, zoo.WIDTH), self.mean, self.variance, training=True)
        with torch.no_grad():
            self.head.weight.mul_(1.25)
            self.loose[0].weight.add_(1)
        self.first[0].out.weight.data = self.first[0].out.weight.data * 2
        self.add_module("late", nn.ReLU())
        self.norm.register_forward_hook(lambda *a: None)
        self.register_buffer("new", torch.ones(1))
        self.embed.weight.grad = None
        torch.set_num_threads(torch.get_num_threads() + 1)
        x = super().start(ids)
        # A cache written in place takes on the graph of what it keeps.
        self.past[:] = x
        self.filled[:] = x
        ids[:, 0] = 3
        self.train()
        torch.set_default_dtype(torch.float64)
        return x

    def write_plain(self) -> None:
        self.log.append(1)
        self.stats["runs"] += 1
        self.stats["deep"]["runs"].append(2)
        self.stats["new"] = 3
        self.order.move_to_end("a")
        self.seen.add(len(self.log))
        self.recent.append(5)
        self.pair[1].append(3)
        self.cache.keys.append(torch.ones(1))
        self.cache.count += 1
        self.cache.last = 1
        object.__setattr__(self.frozen, "steps", 9)
        self.space.b = 2
        self.count += 1
        self.table += 1
        self.kept = [1]


@pytest.mark.parametrize("failing", [False, True])
def test_whatever_a_forward_writes_is_put_back(failing: bool) -> None:
    torch.manual_seed(0)
    model = Keeper().train()
    model.embed.weight.grad = torch.ones_like(model.embed.weight)
    model.first[0].eval()
    if failing:
        model.norm.register_forward_hook(lambda *a: 1 / 0)
    ids, gradient = IDS.clone(), model.embed.weight.grad
    before, kept = snapshot(model), model.containers()
    if failing:
        with pytest.raises(AuditError, match="ZeroDivisionError"):
            audit(model, ids)
    else:
        assert audit(model, ids).identity.verdict == "proved"
    after, now = snapshot(model), model.containers()
    for key in before:
        assert same(before[key], after[key]), key
    assert same(kept, now)
    assert torch.equal(ids, IDS)
    assert model.embed.weight.grad is gradient


def test_an_interrupted_audit_leaves_the_model_as_found() -> None:
    model = prepared("Mutating")
    before = snapshot(model)

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    handle = model.norm.register_forward_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        audit(model, IDS)
    handle.remove()
    assert same(before, snapshot(model))


def test_what_is_too_much_to_keep_is_said() -> None:
    model = prepared("Decoder")
    assert audit(model, IDS).document()["model"]["notes"] == []
    model.history = list(range(2**20 + 1))
    assert "was not put back" in audit(model, IDS).document()["model"]["notes"][0]


def test_the_users_own_backward_still_works_afterwards() -> None:
    model = prepared("Decoder")
    model.requires_grad_(True)
    loss = model(IDS).square().mean()
    audit(model, IDS)
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_two_threads_get_their_own_numbers() -> None:
    """Two models audited at once give what each gives alone, to the bit."""
    models = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        models.append(zoo.Decoder())
    alone = [audit(model, IDS).document() for model in models]
    found: dict[int, Any] = {}

    def work(place: int) -> None:
        found[place] = [audit(models[place], IDS).document() for _ in range(3)]

    threads = [threading.Thread(target=work, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for place, documents in found.items():
        assert all(document == alone[place] for document in documents)


def test_the_same_audit_twice_is_the_same() -> None:
    model = prepared("Mutating")
    assert audit(model, IDS).document() == audit(model, IDS).document()
