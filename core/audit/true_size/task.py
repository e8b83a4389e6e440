"""Audits a model that is too large for memory, in a child process: the small model, the true one, and the document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from ...decoder.batch import Batch
from ...decoder.config import Budget
from ...errors import AuditError, DepthscopeError, Remedy
from ..initialization.judge import document_of
from ..initialization.rebuild import Rebuilder, rebuilder_of
from ..initialization.request import AUTO
from ..intake.hub import allowed, bare_model, built_config, check_size, library, model_class_of
from ..intake.shrink import small_settings
from ..intake.target import called
from ..report.result import AuditResult, ModelFacts, observed
from ..request import MOST_PARAMETERS
from ..run import audit, readable_tape
from ..sandbox.confine import confine
from ..sandbox.tasks import TYPES, batch_of, build_target, described, run_task
from ..trace.discovery import Discovery
from ..trace.proof import IDENTITY_TOLERANCE, Identity
from .deferred import deferred
from .discovery import discovery_at_true_size
from .drawing import Drawing
from .judging import judged_at_true_size
from .programs import Program

# Ids that every small vocabulary has.
SMALL_IDS = 16
# The bytes of statistics that a matrix takes for each of its values while it is read whole.
READ_BYTES = 24
NOTES = (
    "The model was drawn block by block and never held whole; its stream was found and proved in a small model of the "
    "same class and depth, whose names are the same.",
    "There is one generator per tensor, so that the reverse pass draws what the forward drew: the draws have the "
    "law of the library's, which takes all from one generator, and are not the same stream.",
)
Task = Mapping[str, Any]


@dataclass(frozen=True)
class LargeModel:
    """A model without memory for its matrices, their programs (recorded writes), and a small model of the same class.

    `source` builds the small model again and holds the large one's settings. `deep` is True if it can do so at other
    depths as the large model's code does.
    """

    model: nn.Module
    programs: Mapping[str, Program]
    batch: Any
    small: nn.Module
    small_batch: Any
    facts: ModelFacts
    source: Rebuilder
    deep: bool


def run_by_driver(
    task: Task, *, memory: int | None, seconds: int, stage: Callable[[str], None] = lambda name: None
) -> dict[str, Any]:
    """Audit the model of a task as its `driver` says, as a whole or block by block.

    Return the audit document as a dict. The arguments are those of `core.audit.sandbox.tasks.run_task`.
    """
    driver = task.get("driver", "graph")
    if driver == "block" and task["kind"] == "folder":
        raise AuditError(
            "A folder's weights are read whole and not drawn block by block; give its config.json alone, whose model "
            "is drawn, or allow the memory for the whole."
        )
    if driver != "graph" and task["kind"] == "config":
        assert memory is not None
        library()
        confine(memory, seconds)
        if driver == "auto" and fits(task):
            driver = "graph"
    if driver != "block" and (driver != "auto" or task["kind"] != "config"):
        return run_task(task, memory=memory, seconds=seconds, stage=stage)
    stage("build")
    large = _called(task) if task["kind"] == "callable" else _configured(task)
    stage("stream")
    with _drawing(large, task) as drawing:
        result, small = audit_at_true_size(large, drawing)
        stage("conformance")
        judgement = judged_at_true_size(
            result, small, drawing, large.source, rule=task.get("rule", AUTO), sigma=task.get("sigma"), deep=large.deep
        )
        return document_of(result, judgement, large.source)


def fits(task: Task) -> bool:
    """Return True if the model of a configuration may be built whole, by its parameters and by memory.

    True also if it cannot be built, so that building it gives the reason.
    """
    try:
        family, settings, _ = described({**task, "max_parameters": MOST_PARAMETERS}, shrink=False)
        model_class = model_class_of(family)
        sizes = [
            p.numel() for p in bare_model(model_class, built_config(model_class.config_class, settings)).parameters()
        ]
    except DepthscopeError:
        return True
    needed = sum(sizes) * TYPES[task["dtype"]].itemsize + READ_BYTES * max(sizes, default=0)
    return bool(sum(sizes) <= task["max_parameters"] and needed <= task["whole_memory"])


def audit_at_true_size(large: LargeModel, drawing: Drawing) -> tuple[AuditResult, AuditResult]:
    """Return the `AuditResult` of a model at its true size, and that of the small model that proved its stream."""
    small = audit(large.small, large.small_batch, facts=large.facts)
    discovery = discovery_at_true_size(small.discovery, large.model, drawing, large.batch)
    for name, shape in drawing.shapes.items():
        if name not in drawing.readings:
            # The forward does not use it; it is judged all the same.
            drawing.fill({name: torch.empty(shape, dtype=drawing.dtype)})
    tape = readable_tape(discovery)
    observation, refusal = observed(discovery, tape)
    if observation is not None:
        observation = replace(observation, notes=tuple(discovery.guard.notes))
    identity = _identity(discovery, small.identity)
    return AuditResult(large.facts, discovery, identity, tape, observation, refusal), small


def _identity(discovery: Discovery, proved: Identity) -> Identity:
    """Return the small model's proof with the arithmetic of the additions at the true size."""
    errors = {site.label: site.measured.error for site in discovery.sites if site.measured is not None}
    worst = max(errors.values(), default=None)
    tolerance = max((IDENTITY_TOLERANCE.get(state.dtype, 1e-5) for state in discovery.states[:1]), default=1e-5)
    found = replace(proved, worst_relative_error=worst)
    wrong = next((label for label, error in errors.items() if not error <= tolerance), None)
    if wrong is not None:
        reason = f"At {wrong} shortcut and contributions differ from the next state by {errors[wrong]:.2g}."
        return replace(found, verdict="failed", reason=reason)
    if discovery.problems and proved.verdict == "proved":
        return replace(found, verdict="partial", reason=f"At the true size, {discovery.problems[0]}.")
    return found


def _drawing(large: LargeModel, task: Task) -> Drawing:
    shapes = {name: tuple(p.shape) for name, p in large.model.named_parameters() if name in large.programs}
    large.model.to(TYPES[task["dtype"]])
    return Drawing(large.programs, shapes, dtype=TYPES[task["dtype"]], threads=torch.get_num_threads())


def _configured(task: Task) -> LargeModel:
    """Return the model of a configuration's true sizes, and its small one."""
    unbounded = {**task, "max_parameters": MOST_PARAMETERS}
    family, settings, _ = described(unbounded, shrink=False)
    model_class = model_class_of(family)
    config = built_config(model_class.config_class, settings)
    check_size(
        model_class, config, Budget(max_parameters=task.get("most_by_block", MOST_PARAMETERS), remedy=Remedy.SECONDS)
    )
    batch = batch_of(task, config, narrow=False)
    target = build_target({**unbounded, "shrink": True, "batch": _small(task.get("batch"), batch)})
    model, programs = deferred(
        lambda: model_class._from_config(config, attn_implementation="eager", dtype=torch.float32), task["seed"]
    )
    facts = replace(target.facts, shrunk=False, driver="block", notes=(*target.facts.notes, *NOTES))
    source = replace(target.source, settings=config.to_dict())
    return LargeModel(model, programs, batch, target.model, target.batch, facts, source, True)


def _called(task: Task) -> LargeModel:
    """Return the model of the user's own callable, and a small one of its class and configuration.

    Raises `AuditError` where it has no configuration of transformers.
    """
    name, examples = task["source"], []

    def build() -> nn.Module:
        model, example = called(name)
        examples.append(example)
        return model  # type: ignore[no-any-return]

    model, programs = deferred(build, task["seed"])
    config, maker = getattr(model, "config", None), getattr(type(model), "_from_config", None)
    if config is None or maker is None:
        raise AuditError(
            f"{type(model).__name__} has no configuration of transformers to build a small model from, in which its "
            "stream would be proved; audit it with the driver graph."
        )
    settings = config.to_dict()
    torch.manual_seed(task["seed"])
    changed = allowed(type(config), {**settings, **small_settings(settings)})[0]
    small: nn.Module = maker(
        built_config(type(config), changed), attn_implementation=config._attn_implementation, dtype=torch.float32
    ).to(TYPES[task["dtype"]])
    facts = ModelFacts(
        class_name=type(model).__name__,
        family=config.model_type,
        source=name,
        trained=False,
        driver="block",
        notes=NOTES,
    )
    given = task.get("batch")
    batch = batch_of(task, config, narrow=False)
    small_batch: Any = Batch.from_document(_small(given, batch))
    if given is None and examples[0] is not None:
        batch = examples[0]
        small_batch = tree_map(lambda v: v % SMALL_IDS if _whole(v) else v, batch)
    source = replace(rebuilder_of(small), settings=settings)
    return LargeModel(model, programs, batch, small, small_batch, facts, source, False)


def _whole(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_floating_point() and value.dtype != torch.bool


def _small(given: Any, batch: Batch) -> dict[str, Any]:
    """Return the JSON form of a batch with every id in a small vocabulary; `given` is its own form, if it has one."""
    document = given or {"inputs": batch.inputs.tolist(), "targets": batch.targets.tolist()}
    ids = {key: [[value % SMALL_IDS for value in row] for row in document[key]] for key in ("inputs", "targets")}
    return {**document, **ids}
