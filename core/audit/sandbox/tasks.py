"""The work of a child process of the audit: build a model from a task, audit it, and return the document.

A task is JSON that was screened before: `kind` (`config`, `folder`, `family` or `callable`), `settings`, `folder` or
`family` with `blocks` and `width`, and `seed`, `dtype`, `shrink`, `max_parameters`, `batch`, `source`, and optionally
`rule`, `sigma` and, for `core.audit.true_size`, `driver` and `whole_memory`. The `source` of a callable is its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from ...decoder.batch import Batch
from ...decoder.config import Budget
from ...decoder.twin import LEAST_VOCABULARY
from ...errors import AuditError, BudgetError, cropped
from ..initialization.judge import judged_document
from ..initialization.rebuild import Rebuilder, rebuilder_of
from ..initialization.request import AUTO
from ..intake.config_file import paths_in, read_config, screen_config
from ..intake.examples import example_inputs
from ..intake.family import family_settings
from ..intake.fault import Trial
from ..intake.hub import allowed, bare_model, built_config, built_model, library, loaded_model, model_class_of
from ..intake.shrink import small_settings
from ..intake.target import called, depth_argument
from ..intake.weight_files import CONFIG, screen_folder
from ..report.result import AuditResult, ModelFacts
from ..request import SEEDS, checked_family, families
from ..run import audit
from ..trace.inputs import model_inputs, random_batch
from .confine import confine
from .health_twin import with_reduced_health

SMALL = 2**20
# The blocks of a callable's model whose depth has no default.
OWN_DEPTH = 4
# Models up to here are run to find the setting with which they fail, for at most this many seconds or this share of
# the time that the audit has.
LARGEST_PROBE, MOST_PROBING, PROBING_SHARE = 2**23, 20.0, 0.25
TYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}
NO_TRIAL = Trial()
Task = Mapping[str, Any]


@dataclass(frozen=True)
class Target:
    """A model to audit, the facts about it, its batch, how to build it again, and the trial that finds faulty settings.

    `true` is the model class with the settings of the true sizes where the model was made narrow, else None.
    """

    model: nn.Module
    facts: ModelFacts
    batch: Any
    source: Rebuilder
    trial: Trial = NO_TRIAL
    true: tuple[Any, Mapping[str, Any]] | None = None


def run_task(
    task: Task, *, memory: int | None, seconds: int, stage: Callable[[str], None] = lambda name: None
) -> dict[str, Any]:
    """Build the model of a task, audit it, and return the document. The limits hold once the library is loaded.

    `memory` is in bytes. `stage(name)` is called as each stage of `core.audit.request.STAGES` after the first begins.
    The user's own code is not confined: it may read files and use a device, as in any script.
    """
    if task["kind"] != "callable":
        assert memory is not None
        library()
        confine(memory, seconds)
    stage("build")
    target = own_target(task) if task["kind"] == "callable" else build_target(task, PROBING_SHARE * seconds)
    stage("stream")
    with target.trial.blaming():
        result = run_audit(target, task)
    stage("conformance")
    return judged_document(
        result,
        rule=task.get("rule", AUTO),
        sigma=task.get("sigma"),
        source=target.source,
        seeds=task.get("seeds", SEEDS),
    )


def run_audit(target: Target, task: Task) -> AuditResult:
    """Find, prove and measure the stream of a target.

    Residual health is that of a reduced twin if the model is narrow.
    """
    result = audit(target.model, target.batch, facts=target.facts)
    if target.true is None:
        return result
    model_class, settings = target.true
    batch = target.batch
    if task.get("context") is not None:
        batch = batch_of(task, built_config(model_class.config_class, settings), narrow=False)
    return with_reduced_health(result, model_class, settings, batch, task["seed"])


def own_target(task: Task) -> Target:
    """Call the user's callable and return its model as a target, with the batch and how to build the model again."""
    name = task["source"]
    torch.manual_seed(task["seed"])
    depth, preset = depth_argument(name)
    model, example = called(name, **({} if depth is None or preset else {depth: OWN_DEPTH}))
    batch = Batch.from_document(task["batch"]) if task["batch"] is not None else example
    own = rebuilder_of(model)

    def build(blocks: int | None) -> nn.Module:
        if blocks is not None and depth is None and own.build is not None:
            return own.build(blocks)
        if blocks is None and not preset:
            blocks = OWN_DEPTH
        again: nn.Module = called(name, **({} if depth is None or blocks is None else {depth: blocks}))[0]
        return again

    use_threads(model)
    source = replace(own, build=build, deep=own.deep or depth is not None)
    return Target(model, ModelFacts(class_name=type(model).__name__, source=name), batch, source)


def build_target(task: Task, seconds: float = MOST_PROBING) -> Target:
    """Build the model of a task and return it as a target.

    Where the library rejects a setting or fails with it, up to `seconds` seconds are spent to find which, and the error
    names it.
    """
    family, settings, others = described(task, shrink=task["shrink"])
    model_class = model_class_of(family)
    own = {} if task["kind"] == "family" else settings
    trial = Trial(own, (partial(_builds, model_class), partial(_runs, model_class, task)), min(seconds, MOST_PROBING))
    notes = [f"Not read, for the configuration does not declare it: {cropped(name)}." for name in others]
    with trial.blaming():
        config = built_config(model_class.config_class, settings)
        model, findings, missing, trained = _model(task, model_class, config)
        model.to(TYPES[task["dtype"]])
        batch = _inputs(task, config, model)
    _refuse_empty(model, trial)
    use_threads(model)
    facts = ModelFacts(
        class_name=type(model).__name__,
        family=family,
        source=task["source"],
        trained=trained,
        shrunk=task["shrink"],
        notes=(*notes, *findings),
    )
    true = (model_class, described(task, shrink=False)[1]) if task["shrink"] and task["kind"] != "family" else None
    return Target(model, facts, batch, replace(rebuilder_of(model), missing=tuple(missing)), trial, true)


def described(task: Task, *, shrink: bool) -> tuple[str, dict[str, Any], list[str]]:
    """Return the family of a task, the settings that its configuration class declares, and the names of the others.

    With `shrink` the settings are made small.
    """
    if task["kind"] == "family":
        return task["family"], family_settings(task["family"], task["blocks"], task["width"]), []
    if task["kind"] == "config":
        given = task["settings"]
    else:
        given = read_config(f"{task['folder']}/{CONFIG}", f"{task['source']}/{CONFIG}")
    family = screen_config(given, Budget(max_parameters=task["max_parameters"]), shrink=task["shrink"])
    checked_family(family)
    return family, *_declared(family, given, shrink=shrink)


def _model(task: Task, model_class: Any, config: Any) -> tuple[nn.Module, list[str], list[str], bool]:
    """Return the model, sentences on what its files do not fit, the names that they lack, and whether it is trained."""
    most = task["max_parameters"]
    if task["kind"] == "folder" and not task["shrink"]:
        files = screen_folder(task["folder"], Budget(max_parameters=most), task["source"])
        return loaded_model(model_class, config, files, most)
    return built_model(model_class, config, seed=task["seed"], max_parameters=most), [], [], False


def _refuse_empty(model: nn.Module, trial: Trial) -> None:
    """Raise `AuditError` for a parameter without values where a setting causes it.

    Some families have one on purpose.
    """
    name = next(iter(_empty(model)), None)
    told = None if name is None else trial.blamed(AuditError(f"the parameter {cropped(name)} has no values"))
    if told is not None:
        raise AuditError(told)


def _empty(model: nn.Module) -> list[str]:
    return [name for name, parameter in model.named_parameters() if not parameter.numel()]


def use_threads(model: nn.Module) -> None:
    """Use one thread for a small model, because waking a second one costs more than it saves."""
    size = sum(parameter.numel() for parameter in model.parameters() if not is_lazy(parameter))
    torch.set_num_threads(1 if size < SMALL else torch.get_num_threads())


def _builds(model_class: Any, settings: Mapping[str, Any]) -> bool:
    try:
        return not _empty(bare_model(model_class, built_config(model_class.config_class, settings)))
    except Exception:
        return False


def _runs(model_class: Any, task: Task, settings: Mapping[str, Any]) -> bool | None:
    try:
        config = built_config(model_class.config_class, settings)
        model = built_model(model_class, config, seed=task["seed"], max_parameters=LARGEST_PROBE).eval()
        with torch.no_grad():
            inputs = model_inputs(model, _inputs(task, config, model))
            model(*inputs.arguments, **inputs.keywords)
    except BudgetError:
        return None
    except Exception:
        return False
    return True


def _declared(family: str, given: Mapping[str, Any], *, shrink: bool) -> tuple[dict[str, Any], list[str]]:
    """Return the settings that the family's configuration class declares, and the names of the others.

    Raises `AuditError` where a setting is a path.
    """
    config_class = model_class_of(family).config_class
    given = _own_part(config_class, given)
    settings, others = allowed(config_class, given)
    paths = paths_in(settings)
    if paths:
        raise AuditError(
            f"{cropped(paths[0])} in config.json names a file or a repository, which is never opened; remove it."
        )
    if shrink:
        current = built_config(config_class, settings).to_dict()
        settings |= allowed(config_class, small_settings(current))[0]
    return settings, others


def _own_part(config_class: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of the settings that configures the language model, where it is a part of a larger model."""
    name = getattr(config_class, "base_config_key", "")
    part = given.get(name) if name else None
    return part if isinstance(part, Mapping) else given


def _inputs(task: Task, config: Any, model: nn.Module) -> Any:
    """Return the batch of a task, or example inputs where the model is no causal language model and none is given."""
    if task.get("batch") is not None or type(model).__name__ in families().values():
        return batch_of(task, config, narrow=task["shrink"])
    settings = config.to_dict()
    return example_inputs(model, settings, special_ids(settings))


def batch_of(task: Task, config: Any, *, narrow: bool) -> Batch:
    """Return the task's batch, else a random one of the task's rows and context, or a small one if `narrow`."""
    if task.get("batch") is not None:
        return Batch.from_document(task["batch"])
    text = config.get_text_config(decoder=True)
    vocabulary = int(getattr(text, "vocab_size", 0) or getattr(config, "vocab_size", 0) or 2)
    avoid = special_ids(config.to_dict())
    if narrow or task.get("context") is None:
        return random_batch(vocabulary, 0, avoid=avoid)
    # A reduced twin has that many entries, the last of them for the ids with a meaning.
    vocabulary = min(vocabulary, LEAST_VOCABULARY - 8)
    return random_batch(vocabulary, 0, task["rows"] or 1, task["context"], avoid)


def special_ids(settings: Mapping[str, Any]) -> frozenset[int]:
    """Return the token ids that a configuration gives a special meaning: padding, images, ends."""
    found: set[int] = set()
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found |= special_ids(value)
        elif str(key).endswith(("_token_id", "_token_index", "_token_ids")):
            found |= {entry for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, int)}
    return frozenset(found)
