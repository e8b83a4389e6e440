"""Whose failure a failure is: the model's, the audit's own, or a want of memory; each with a different sentence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from core.audit import run
from core.audit.intake.fault import Trial
from core.audit.sandbox import worker
from core.audit.true_size import task as task_of_driver
from core.errors import AuditError, InternalError
from core.health import observe_module
from core.numerals import finite_number
from tests.audit import zoo

# As torch reports that an allocation failed.
NO_MEMORY = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: 8 bytes."


class Hungry(zoo.Decoder):
    """Its forward needs more memory than there is."""

    def forward(self, ids: Tensor) -> Any:
        raise RuntimeError(NO_MEMORY)


class HungryHook(zoo.Decoder):
    """Its reverse pass needs more memory than there is."""

    def forward(self, ids: Tensor) -> Any:
        logits = super().forward(ids)
        logits.register_hook(self.starve)
        return logits

    def starve(self, gradient: Tensor) -> None:
        raise RuntimeError(NO_MEMORY)


@pytest.mark.parametrize("kind", [Hungry, HungryHook])
def test_a_want_of_memory_is_called_so(kind: type[zoo.Decoder], monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = kind()
    with pytest.raises(RuntimeError, match="can't allocate memory") as caught:
        observe_module(model)
    assert not isinstance(caught.value, AuditError)

    def audited(task: Any, **_: Any) -> Any:
        with Trial().blaming():
            return run.audit(model)

    monkeypatch.setattr(task_of_driver, "run_task", audited)
    reply = worker.reply_to({"kind": "config", "source": "config.json"}, 2**30, 10, lambda name: None)
    assert reply["sentence"].startswith("The model needs more than the 1,024 MiB it is allowed")


def test_a_fault_of_the_audit_itself_is_no_fault_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another function of this project stands for one with a fault."""
    monkeypatch.setattr(run, "prove", finite_number)
    torch.manual_seed(0)
    with pytest.raises(InternalError, match=r"^An internal error, AttributeError in numerals.py, line \d+, stopped"):
        observe_module(zoo.Decoder())
