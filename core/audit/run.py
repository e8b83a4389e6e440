"""Audit a model object: find its residual stream, prove it, and observe its residual health."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from ..decoder.tape import Tape
from ..errors import (
    AuditError,
    DepthscopeError,
    InternalError,
    ObservationError,
    first_line,
    internal_sentence,
    no_memory,
    raised_by_core,
    shown,
)
from ..health.observation import Observation
from .report.result import AuditResult, ModelFacts, observed
from .report.streams import not_judged
from .sandbox.guard import undisturbed
from .trace.discovery import Discovery, discover
from .trace.inputs import model_inputs
from .trace.proof import Identity, prove
from .trace.recorder import DEFAULT_BYTES
from .trace.tape import tape_of


def audit(
    model: nn.Module,
    batch: object = None,
    *,
    seed: int = 0,
    max_bytes: int = DEFAULT_BYTES,
    facts: ModelFacts | None = None,
) -> AuditResult:
    """Find the residual stream of `model`, prove it, and measure it on `batch`.

    `batch` is token ids `[rows, positions]` (a tensor, an array or nested lists), a `Batch` or its JSON form, a mapping
    of keyword arguments or a sequence of positional ones; None draws a small one from `seed`. `max_bytes` limits the
    memory of recorded activations. The model runs in evaluation mode, several times, as `observe_module` says, and is
    left as it was. Raises `AuditError`, `BatchError` or `BudgetError`. A stream that cannot be proved raises nothing:
    the result's `identity` holds the verdict and the reason.
    """
    model = _whole_module(model)
    facts = facts or ModelFacts(class_name=type(model).__name__)
    with _refusing(facts.class_name), undisturbed(model) as guard:
        inputs = model_inputs(model, batch, seed)
        discovery = discover(guard, inputs, max_bytes=max_bytes)
        identity = prove(discovery)
        tape = readable_tape(discovery)
        observation, refusal = observed(discovery, tape)
        if identity.verdict != "proved":
            identity = _explained(identity, discovery)
        facts = replace(facts, notes=(*facts.notes, *guard.notes, *_told(discovery)))
    if observation is not None:
        observation = replace(observation, notes=tuple(guard.notes))
    return AuditResult(facts, discovery, identity, tape, observation, refusal)


def observe_module(model: nn.Module, batch: object = None, *, seed: int = 0) -> Observation:
    """Return the residual health of a model inside a training script, as an observation with one arm (E = 1).

    `batch` is what `audit` takes. The model runs in evaluation mode (no dropout, BatchNorm by its running statistics),
    several times, under the autocast that is active around the call. Afterwards its modes, weights, gradients, buffers,
    hooks, attributes and generators, the batch and the process's random generators are as they were; the observation's
    `notes` name what may not be restored, and the autocast.

    Hooks on modules may change what a model computes, so they run as a part of it: forward hooks once in every run,
    backward hooks once in the reverse pass and once for each kind of branch. What hooks or the forward write to objects
    that the model does not reference (a list of the script, a class, a file) is not undone.

    Raises `AuditError` with the place where the stream is not wholly proved, `BatchError` where the batch does not fit,
    and `ObservationError` where the model has no finite ratios.
    """
    result = audit(model, batch, seed=seed)
    if result.tape is None or result.identity.verdict != "proved":
        raise AuditError(f"The residual stream of {result.facts.class_name} is not proved: {result.identity.reason}")
    if result.observation is None:
        raise AuditError(str(result.health_refusal))
    refusal = result.observation.refusal(0)
    if refusal is not None:
        cause = _nonfinite(result.discovery)
        raise ObservationError(cause) if cause else refusal
    return result.observation


def readable_tape(discovery: Discovery) -> Tape | None:
    """Return the tape of a discovered chain; None unless every state was read and all have one shape."""
    whole = bool(discovery.states) and len(discovery.states) == len(discovery.sites) + 1
    same_width = len({state.shape for state in discovery.states}) == 1
    return tape_of(discovery) if whole and same_width else None


def _told(discovery: Discovery) -> list[str]:
    """Return the sentence that names what is not judged; empty where everything is."""
    names = not_judged(discovery) if discovery.sites else []
    if not names:
        return []
    return [f"Not judged, for they are no part of the stream of {discovery.name}: {', '.join(names)}."]


def _whole_module(model: object) -> nn.Module:
    """Return the module, taken out of `torch.compile`'s wrapper if it is in one.

    Raises `AuditError` for anything but a module, and where a parameter or buffer has no shape or no values yet.
    """
    if not isinstance(model, nn.Module):
        raise AuditError(f"The model is {shown(type(model).__name__)}; it must be a torch.nn.Module.")
    if type(model).__name__ == "OptimizedModule":
        inner = model._modules.get("_orig_mod")
        model = model if inner is None else inner
    parameters: dict[str, torch.Tensor] = dict(model.named_parameters())
    if not parameters:
        raise AuditError(
            f"{type(model).__name__} has no parameters, so it has no writers to tell; where it was frozen or exported, "
            "observe the module that it was made of."
        )
    for name, tensor in (parameters | dict(model.named_buffers())).items():
        what = f"The {'parameter' if name in parameters else 'buffer'} {shown(name)}"
        if is_lazy(tensor):
            raise AuditError(f"{what} has no shape yet; run the model once, then audit it.")
        if tensor.is_meta:
            raise AuditError(
                f"{what} is on the meta device, which holds no values; move the model to a real device by `to_empty`, "
                "then draw or load its weights."
            )
        if name in parameters and tensor.is_inference():
            raise AuditError(
                f"{what} was made under torch.inference_mode, so no gradient can pass it; build or load the model "
                "outside of it, or hand in `copy.deepcopy(model)`, made outside."
            )
    return model


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    """Turn any other exception that is raised inside into one of this project, with the original as its cause.

    `DepthscopeError` and out-of-memory errors pass unchanged.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, DepthscopeError) or no_memory(error):
            raise
        if raised_by_core(error):
            raise InternalError(internal_sentence(error, "please report it with the model")) from error
        raise AuditError(f"{name} cannot be observed: {first_line(error)}.") from error


def _explained(identity: Identity, discovery: Discovery) -> Identity:
    """Return the verdict with a more precise reason, where a single parameter causes it; unchanged otherwise."""
    for name, parameter in discovery.names.parameters.items():
        if id(parameter) not in discovery.guard.names:
            cause = f"The forward makes the parameter {shown(name)} anew; make it once, before the model is observed."
            return replace(identity, reason=cause)
    return replace(identity, reason=_nonfinite(discovery) or identity.reason)


def _nonfinite(discovery: Discovery) -> str | None:
    """Return a sentence that names the first parameter with infinite or NaN values.

    None where no such parameter exists, or where the states, the adjoints and the loss are all finite.
    """
    found = [discovery.loss, *discovery.states, *(a for a in discovery.adjoints if a is not None)]
    if all(bool(torch.isfinite(tensor).all()) for tensor in found):
        return None
    for name, parameter in discovery.names.parameters.items():
        if parameter.is_floating_point() and not bool(torch.isfinite(parameter).all()):
            return f"The parameter {shown(name)} holds infinite or NaN values; draw or load it anew."
    return None
