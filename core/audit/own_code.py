"""The user's own code as a target of the audit: a callable of theirs builds the model, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from core.audit.initialization.rebuild import Rebuilder, rebuilder_of
from core.audit.result import ModelFacts
from core.audit.target import called
from core.decoder.batch import Batch

Task = Mapping[str, Any]


def own_model(task: Task) -> tuple[nn.Module, Any, ModelFacts, Rebuilder]:
    """The model that the callable of a task returns, its batch, and where it can be built anew."""
    name = task["source"]
    torch.manual_seed(task["seed"])
    model, example = called(name)
    batch = Batch.from_document(task["batch"]) if task["batch"] is not None else example
    own = rebuilder_of(model)

    def build(blocks: int | None) -> nn.Module:
        if blocks is not None and own.build is not None:
            return own.build(blocks)
        again: nn.Module = called(name)[0]
        return again

    facts = ModelFacts(class_name=type(model).__name__, source=name)
    return model, batch, facts, Rebuilder(build=build, deep=own.deep, settings=own.settings)
