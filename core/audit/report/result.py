"""The result of an audit, and the JSON document made from it, whose keys scripts rely on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from ... import __version__
from ...decoder.tape import Tape
from ...errors import DepthscopeError
from ...health.band import DEFAULT_BAND, Band
from ...health.document import arm_document
from ...health.observation import Observation, measure
from ...health.rms import valid_rms
from ...numerals import finite
from ..initialization.weight_stats import distribution, standard_deviation
from ..trace.discovery import Discovery, Site
from ..trace.measured import Coefficient, MeasuredAddition
from ..trace.proof import Identity
from .streams import not_judged, stream_rows

SCHEMA = "depthscope.audit/1"
Document = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """Facts about a model that its forward does not show. `trained` is None where it is not known.

    `driver` is how it was run: `graph` as a whole, `block` with one block's matrices at a time.
    """

    class_name: str
    family: str | None = None
    source: str = "object"
    trained: bool | None = None
    shrunk: bool = False
    driver: str = "graph"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReducedHealth:
    """A reduced twin (a narrower model with the ratios of the full one): its discovery and its part of a document.

    `build(seed)` returns the twin drawn from another seed.
    """

    discovery: Discovery
    document: Mapping[str, Any]
    build: Callable[[int], nn.Module]


@dataclass(frozen=True)
class AuditResult:
    """A discovered, proved and measured model.

    `tape` is None where no chain could be read; `observation` is None where it could not be measured, and
    `health_refusal` says why. `reduced` is the reduced twin that health was measured on, for a model that was made
    narrow and so has other ratios than at its true width; else None.
    """

    facts: ModelFacts
    discovery: Discovery
    identity: Identity
    tape: Tape | None
    observation: Observation | None
    health_refusal: str | None
    reduced: ReducedHealth | None = None

    @property
    def measured(self) -> Discovery:
        """The discovery that health is measured on: the reduced twin's if there is one, else the model's."""
        return self.discovery if self.reduced is None else self.reduced.discovery

    def document(
        self,
        band: Band = DEFAULT_BAND,
        *,
        matrices: tuple[list[Document], list[Document]] | None = None,
        conformance: Document | None = None,
        twin: Mapping[str, Any] = MappingProxyType({"twin": None}),
    ) -> Document:
        """Return the audit document.

        The arguments are the judged parts: (writers, readers), conformance, the corrected twin. None leaves the
        conformance out, and writers and readers are then rows without a judgement.
        """
        health, refusal = None, self.health_refusal
        if self.observation is not None:
            try:
                health = arm_document(self.observation, 0, band)
                health["loss_reduction"] = self.measured.reduction
            except DepthscopeError as error:
                refusal = str(error)
        measured = self.measured
        writers, readers = matrices or (
            _matrix_rows(self.discovery, "writers"),
            _matrix_rows(self.discovery, "readers"),
        )
        return {
            "schema": SCHEMA,
            "version": __version__,
            "driver": self.facts.driver,
            "model": self._model(),
            "identity": _identity(self.identity),
            "streams": stream_rows(self.discovery),
            "not_judged": not_judged(self.discovery),
            "additions": [_addition(measured, place, site) for place, site in enumerate(measured.sites)],
            "writers": writers,
            "readers": readers,
            "conformance": conformance,
            "health": health,
            "health_refusal": refusal,
            **({} if self.reduced is None else {"reduced_twin": dict(self.reduced.document)}),
            **twin,
        }

    def _model(self) -> Document:
        parameters = self.discovery.names.parameters
        return {
            "class": self.facts.class_name,
            "family": self.facts.family,
            "source": self.facts.source,
            "blocks": len({site.block for site in self.discovery.sites}),
            "parameters": sum(parameter.numel() for parameter in parameters.values()),
            "trained": self.facts.trained,
            "shrunk": self.facts.shrunk,
            "tied": {name: list(others) for name, others in self.discovery.names.aliases.items()},
            "topology": topology(self.discovery),
            "notes": list(self.facts.notes),
        }


def observed(discovery: Discovery, tape: Tape | None) -> tuple[Observation | None, str | None]:
    """Return the observation of a tape and None, or None and the sentence that says why there is none."""
    if tape is None:
        return None, "The residual stream could not be read, so it has no health."
    try:
        return measure(tape, tokens=True), None
    except DepthscopeError as error:
        return None, str(error)


class Stream(Enum):
    """The kinds of a stream, by where its norms are."""

    PRE_NORM = "pre-norm stream"
    NORM_OUT = "pre-norm stream with norms on branch outputs"
    SOME_NORMS = "norms on the stream at some additions: not pre-norm"
    POST_NORM = "norm on the stream (post-norm, or the residual taken after the norm): not pre-norm"


def stream_of(discovery: Discovery) -> Stream | None:
    """Return the kind of the stream; None where no addition was measured."""
    measured = [site.measured for site in discovery.sites if site.measured is not None]
    if not measured:
        return None
    if all(addition.norm_after for addition in measured[:-1]) and len(measured) > 1:
        return Stream.POST_NORM
    if any(addition.norm_after for addition in measured):
        return Stream.SOME_NORMS
    if any(branch.branch.norm_out for addition in measured for branch in addition.branches):
        return Stream.NORM_OUT
    return Stream.PRE_NORM


def topology(discovery: Discovery) -> str | None:
    """Return the kind of the stream as a phrase; None where no addition was measured."""
    stream = stream_of(discovery)
    return None if stream is None else stream.value


def _matrix_rows(discovery: Discovery, which: str) -> list[Document]:
    """Return one row per writer or reader (`which`), in forward order, each parameter once."""
    rows: dict[str, Document] = {}
    for site in discovery.sites:
        for branch in site.branches:
            for use in getattr(branch, which):
                for name in discovery.names.of(use.parameters):
                    parameter = discovery.names.parameters[name]
                    rows.setdefault(
                        name,
                        {
                            "name": name,
                            "block": site.block,
                            "fan_in": use.fan_in,
                            "fan_out": use.fan_out,
                            "distribution": distribution(parameter),
                            "std": standard_deviation(parameter),
                            "declared_std": None,
                            "ratio": None,
                        },
                    )
    return list(rows.values())


def _identity(identity: Identity) -> Document:
    worst = identity.worst_relative_error
    return {
        "verdict": identity.verdict,
        "worst_relative_error": finite(worst),
        "interventions": len(identity.interventions),
        "reason": identity.reason,
        "trials": [
            {
                "label": trial.label,
                "earlier_states_equal": trial.earlier_states_equal,
                "difference": finite(trial.difference),
                "passed": trial.passed,
            }
            for trial in identity.interventions
        ],
    }


def _addition(discovery: Discovery, place: int, site: Site) -> Document:
    names = discovery.names
    row: Document = {
        "index": place,
        "block": site.block,
        "label": site.label,
        "writers": names.of(p for use in site.writers for p in use.parameters),
        "readers": names.of(p for branch in site.branches for use in branch.readers for p in use.parameters),
    }
    measured = site.measured
    row |= dict.fromkeys(
        ("coefficient", "norm_after", "state_rms", "contribution_rms", "contribution_to_stream", "shortcut")
    )
    row["branches"] = []
    if measured is not None:
        row |= _measured(discovery, site, measured)
    return row


def _measured(discovery: Discovery, site: Site, measured: MeasuredAddition) -> Document:
    rms = [_rms(discovery, tensor) for tensor in (measured.next_state, measured.stream)]
    total = sum((branch.contribution for branch in measured.branches), torch.zeros_like(measured.stream))
    gained = _rms(discovery, total)
    first = measured.branches[0].coefficient if measured.branches else Coefficient(1.0)
    return {
        "coefficient": first.value,
        "norm_after": measured.norm_after,
        "state_rms": rms[0],
        "contribution_rms": gained,
        "contribution_to_stream": gained / rms[1] if gained is not None and rms[1] else None,
        "shortcut": _coefficient(measured.shortcut),
        "relative_error": finite(measured.error),
        "branches": [
            {
                "branch": kind,
                "coefficient": _coefficient(branch.coefficient),
                "norm_out": branch.branch.norm_out,
                "writers": discovery.names.of(p for use in branch.branch.writers for p in use.parameters),
                "readers": discovery.names.of(p for use in branch.branch.readers for p in use.parameters),
                "raw_rms": _rms(discovery, branch.raw),
                "contribution_rms": _rms(discovery, branch.contribution.expand(measured.stream.shape)),
            }
            for kind, branch in zip(site.kinds, measured.branches, strict=True)
        ],
    }


def _coefficient(coefficient: Coefficient | None) -> Document | None:
    if coefficient is None:
        return None
    return {
        "value": coefficient.value,
        "spread": coefficient.spread,
        "lowest": coefficient.lowest,
        "highest": coefficient.highest,
    }


def _rms(discovery: Discovery, tensor: torch.Tensor) -> float | None:
    return finite(float(valid_rms(tensor.detach().unsqueeze(0), discovery.valid)[0]))
