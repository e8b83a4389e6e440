"""An audit leaves a model, its process and another thread's draws as they were."""

from __future__ import annotations

import random
import threading
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

    class OnlyOnce(zoo.Mutating):
        runs: ClassVar[list[int]] = []

        def end(self, x: torch.Tensor) -> torch.Tensor:
            self.runs.append(1)
            if len(self.runs) > 1:
                raise ValueError("no second run")
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
    model = OnlyOnce().train()
    before = snapshot(model)
    audit(model, IDS)
    assert len(OnlyOnce.runs) > 1
    assert same(before, snapshot(model))


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
