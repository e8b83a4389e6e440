"""What a child process of the audit does: build a model from a description, audit it, and return the document.

A task is JSON: `kind` (`config`, `folder` or `family`) with `settings`, `folder` or `family`, `blocks` and `width`, and
`seed`, `dtype`, `shrink`, `max_parameters`, `batch`, `source`, and optionally `rule` and `sigma`. It was screened
before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from core.audit.config_file import paths_in, read_config, screen_config
from core.audit.confine import confine
from core.audit.family import family_settings
from core.audit.hub import allowed, built_config, built_model, families, library, model_class_of
from core.audit.initialization.judge import judged_document
from core.audit.initialization.rebuild import rebuilder_of
from core.audit.initialization.request import AUTO
from core.audit.inputs import random_batch
from core.audit.loading import loaded_model
from core.audit.result import ModelFacts
from core.audit.run import audit
from core.audit.shrink import small_settings
from core.audit.weight_files import screen_folder
from core.decoder.batch import Batch
from core.decoder.config import Budget
from core.errors import ModelFileError, shown

SMALL = 2**20
TYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}
Task = Mapping[str, Any]


@dataclass(frozen=True)
class Target:
    """A model to audit, what is known of it, and its batch."""

    model: nn.Module
    facts: ModelFacts
    batch: Batch
    missing: tuple[str, ...] = ()


def run_task(
    task: Task, *, memory: int, seconds: int, stage: Callable[[str], None] = lambda name: None
) -> dict[str, Any]:
    """Build, audit and describe; the limits hold from the moment the library is loaded.

    `stage` is told the keys of `core.audit.request.STAGES` behind the first as their work begins.
    """
    library()
    confine(memory, seconds)
    stage("build")
    target = build_target(task)
    stage("stream")
    result = audit(target.model, target.batch, facts=target.facts)
    stage("conformance")
    source = replace(rebuilder_of(target.model), missing=target.missing)
    return judged_document(result, rule=task.get("rule", AUTO), sigma=task.get("sigma"), source=source)


def build_target(task: Task) -> Target:
    """The model of a task, in evaluation of nothing but its settings and weights."""
    budget = Budget(max_parameters=task["max_parameters"])
    others: list[str] = []
    if task["kind"] == "family":
        family, settings = task["family"], family_settings(task["family"], task["blocks"], task["width"])
    else:
        given = task["settings"] if task["kind"] == "config" else read_config(f"{task['folder']}/config.json")
        family = screen_config(given, budget, shrink=task["shrink"])
        if family not in families():
            raise ModelFileError(
                f"The model_type {shown(family)} is not among the {len(families())} causal language models of the "
                "installed transformers."
            )
        settings, others = _declared(family, given, shrink=task["shrink"])
    model_class = model_class_of(family)
    config = built_config(model_class.config_class, settings)
    notes = [f"Not read, for the configuration does not declare it: {name}." for name in others]
    missing: list[str] = []
    trained: bool | None = False
    if task["kind"] == "folder" and not task["shrink"]:
        files = screen_folder(task["folder"], budget)
        model, findings, missing, trained = loaded_model(model_class, config, files, budget.max_parameters)
        notes += findings
    else:
        model = built_model(model_class, config, seed=task["seed"], max_parameters=budget.max_parameters)
    model.to(TYPES[task["dtype"]])
    size = sum(parameter.numel() for parameter in model.parameters())
    torch.set_num_threads(1 if size < SMALL else torch.get_num_threads())
    facts = ModelFacts(
        class_name=type(model).__name__,
        family=family,
        source=task["source"],
        trained=trained,
        shrunk=task["shrink"],
        notes=tuple(notes),
    )
    return Target(model, facts, _batch(task, config), tuple(missing))


def _declared(family: str, given: Mapping[str, Any], *, shrink: bool) -> tuple[dict[str, Any], list[str]]:
    """The settings that the family's configuration declares; raises `ModelFileError` for a path among them."""
    config_class = model_class_of(family).config_class
    given = _own_part(config_class, given)
    settings, others = allowed(config_class, given)
    paths = paths_in(settings)
    if paths:
        raise ModelFileError(
            f"{paths[0]} in config.json names a file or a repository, which is never opened; remove it."
        )
    if shrink:
        current = built_config(config_class, settings).to_dict()
        settings |= allowed(config_class, small_settings(current))[0]
    return settings, others


def _own_part(config_class: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A language model inside a larger one is configured by the part of that name."""
    name = getattr(config_class, "base_config_key", "")
    part = given.get(name) if name else None
    return part if isinstance(part, Mapping) else given


def _batch(task: Task, config: Any) -> Batch:
    if task.get("batch") is not None:
        return Batch.from_document(task["batch"])
    text = config.get_text_config(decoder=True)
    vocabulary = int(getattr(text, "vocab_size", 0) or getattr(config, "vocab_size", 0) or 2)
    return random_batch(vocabulary, 0, avoid=special_ids(config.to_dict()))


def special_ids(settings: Mapping[str, Any]) -> frozenset[int]:
    """Ids that a configuration gives a meaning of their own: padding, images, ends."""
    found: set[int] = set()
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found |= special_ids(value)
        elif str(key).endswith(("_token_id", "_token_index", "_token_ids")):
            found |= {entry for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, int)}
    return frozenset(found)
