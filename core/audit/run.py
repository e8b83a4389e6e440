"""Audit a model object: find its residual stream, prove it, and hand its health to the observer."""

from __future__ import annotations

from torch import nn
from torch.nn.parameter import is_lazy

from core.audit.discovery import discover
from core.audit.guard import undisturbed
from core.audit.inputs import model_inputs
from core.audit.proof import prove
from core.audit.recorder import DEFAULT_BYTES
from core.audit.result import AuditResult, ModelFacts, observed
from core.audit.tape import tape_of
from core.errors import AuditError, shown
from core.health.observation import Observation


def audit(
    model: nn.Module,
    batch: object = None,
    *,
    seed: int = 0,
    max_bytes: int = DEFAULT_BYTES,
    facts: ModelFacts | None = None,
) -> AuditResult:
    """Find the residual stream of `model`, prove it, and measure it on `batch`.

    `batch` is a `Batch`, token ids `[rows, positions]`, a mapping of keyword arguments or a sequence of positional
    ones; None draws a small one from `seed`. The model runs in evaluation mode and is left as found. `max_bytes` bounds
    the activations held. Raises `AuditError`, `BatchError` or `BudgetError`; what cannot be proved is no error but the
    verdict's reason.
    """
    model = _whole_module(getattr(model, "_orig_mod", model))
    facts = facts or ModelFacts(class_name=type(model).__name__)
    with undisturbed(model) as guard:
        inputs = model_inputs(model, batch, seed)
        discovery = discover(guard, inputs, max_bytes=max_bytes)
        identity = prove(discovery)
        readable = bool(discovery.states) and len(discovery.states) == len(discovery.sites) + 1
        same_width = len({state.shape for state in discovery.states}) == 1
        tape = tape_of(discovery) if readable and same_width else None
        observation, refusal = observed(discovery, tape)
    return AuditResult(facts, discovery, identity, tape, observation, refusal)


def _whole_module(model: object) -> nn.Module:
    """The model itself, if it is a module whose parameters all have their shapes."""
    if not isinstance(model, nn.Module):
        raise AuditError(f"The model is {shown(type(model).__name__)}; it must be a torch.nn.Module.")
    for name, parameter in model.named_parameters():
        if is_lazy(parameter):
            raise AuditError(f"The parameter {shown(name)} has no shape yet; run the model once, then audit it.")
    return model


def observe_module(model: nn.Module, batch: object = None, *, seed: int = 0) -> Observation:
    """The residual health of a model in a training script: one observation, with E = 1.

    Raises `AuditError` with the place where the stream is not wholly proved, and the observer's refusals where it has
    no finite ratios.
    """
    result = audit(model, batch, seed=seed)
    if result.tape is None or result.identity.verdict != "proved":
        raise AuditError(f"The residual stream of {result.facts.class_name} is not proved: {result.identity.reason}")
    if result.observation is None:
        raise AuditError(str(result.health_refusal))
    refusal = result.observation.refusal(0)
    if refusal is not None:
        raise refusal
    return result.observation
