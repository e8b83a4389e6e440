"""Observes a tape: the RMS of activations and adjoints at every site (state of the residual stream), for every member.

A member is one model of the batched run. A_s is the RMS, over valid positions and features, of the state at site s. G_s
is the RMS of the adjoint: the derivative of the member's mean loss with respect to that state. The ratios are A_s / A_0
and G_s / G_last. No constant is added to a denominator to make a ratio finite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count

import numpy as np
import numpy.typing as npt
import torch

from ..decoder.progress import Told, silent
from ..decoder.splitmix64 import FloatArray
from ..decoder.tape import Tape
from ..errors import ObservationError
from .sites import site_ratios
from .statistics import ContributionStatistics, contribution_statistics, gain_array, site_statistics


@dataclass(frozen=True)
class Observation:
    """The statistics of E members (models) at S sites (states of the residual stream); no state is kept.

    `activation_rms` and `adjoint_rms` are `[E, S]`, `loss_nats` is `[E]`, `width` is the number of features.
    `activation_tokens` and `adjoint_tokens` are `[E, S, len(TOKEN_STATISTICS)]`, or None if they were not requested.
    `parameter_gradients` are by full name. `notes` are sentences on how a user's model was run.
    """

    labels: list[str]
    activation_rms: FloatArray
    adjoint_rms: FloatArray
    loss_nats: FloatArray
    valid_positions: int
    width: int
    contributions: list[ContributionStatistics] = field(default_factory=list)
    owns_final_gain: bool = False
    final_gain: FloatArray | None = None
    parameter_gradients: dict[str, torch.Tensor] = field(default_factory=dict)
    activation_tokens: FloatArray | None = None
    adjoint_tokens: FloatArray | None = None
    notes: tuple[str, ...] = ()

    @property
    def members(self) -> int:
        """The number of members E."""
        return len(self.loss_nats)

    @cached_property
    def ratios(self) -> tuple[FloatArray, FloatArray]:
        """The pair (`activation_ratio`, `adjoint_ratio`), `[E, S]` each for E members (models) at S sites; no unit."""
        return site_ratios(self.activation_rms, self.adjoint_rms)

    @property
    def activation_ratio(self) -> FloatArray:
        """Activation RMS at each of S sites over that at the input, `[E, S]` for E members (models); no unit.

        A site is a state of the residual stream.
        """
        return self.ratios[0]

    @property
    def adjoint_ratio(self) -> FloatArray:
        """Adjoint RMS at each of S sites over that at the last site, `[E, S]` for E members (models); no unit.

        A site is a state of the residual stream; its adjoint is the gradient of the loss with respect to it.
        """
        return self.ratios[1]

    @cached_property
    def sound(self) -> npt.NDArray[np.bool_]:
        """True for each of the E members (models) whose loss and ratios are all finite: boolean `[E]`.

        `refusal` gives the reason for the others.
        """
        numbers = (self.activation_rms, self.adjoint_rms, *self.ratios)
        finite = np.logical_and.reduce([np.isfinite(values).all(axis=1) for values in numbers])
        usable = (self.activation_rms[:, 0] > 0) & (self.adjoint_rms[:, -1] > 0)
        return np.asarray(finite & usable & np.isfinite(self.loss_nats))

    def refusal(self, member: int) -> ObservationError | None:
        """Return an `ObservationError` with the first reason why a member's ratios are not usable; None if they are.

        The error is returned, not raised.
        """
        return next(self._refusals(member), None)

    def _refusals(self, member: int) -> Iterator[ObservationError]:
        rms = {"activation": self.activation_rms[member], "adjoint": self.adjoint_rms[member]}
        for what, values in rms.items():
            for site in np.flatnonzero(~np.isfinite(values)).tolist():
                yield ObservationError(
                    f"The {what} at site {site} ({self.labels[site]}) is not finite; lower the scale of the weights "
                    "before it or use a wider floating type."
                )
        if not np.isfinite(self.loss_nats[member]):
            yield ObservationError("The mean loss is not finite; lower the scale of the weights.")
        for name, values, site in (
            ("input activation", rms["activation"], 0),
            ("terminal adjoint", rms["adjoint"], -1),
        ):
            if values[site] <= 0:
                yield ObservationError(
                    f"The {name} RMS at site {site % len(self.labels)} ({self.labels[site]}) is 0 and cannot be a "
                    "normalizer; an all-zero embedding or readout has no ratios."
                )
        for what, ratios in zip(rms, self.ratios, strict=True):
            for site in np.flatnonzero(~np.isfinite(ratios[member])).tolist():
                yield ObservationError(
                    f"The {what} ratio at site {site} ({self.labels[site]}) overflows; its normalizer is too close to "
                    "zero."
                )


def measure(tape: Tape, *, parameter_gradients: bool = False, tokens: bool = False, told: Told = silent) -> Observation:
    """Return the statistics of every member of a tape, from one reverse pass.

    Members without finite ratios are included. `tokens` adds the quantiles of single tokens' RMS, `parameter_gradients`
    the gradients of `Tape.parameters`. `told(what, done, total)` is the progress callback, called for every site that
    the reverse pass reaches. Raises `ObservationError` if shapes do not match, if the loss does not depend on a state
    (the message names the site), or if the forward ran without gradients. The reverse pass frees the graph, so a tape
    can be measured only once.
    """
    _check_geometry(tape)
    leaves = list(tape.parameters.values()) if parameter_gradients else []
    with _telling(tape.states, told):
        gradients = torch.autograd.grad(tape.loss.sum(), [*tape.states, *leaves], allow_unused=True)
    adjoints = checked_adjoints(gradients[: len(tape.states)], tape.labels)
    found = gradients[len(tape.states) :]
    activation_rms, activation_tokens = site_statistics(tape.states, tape.valid, tokens)
    adjoint_rms, adjoint_tokens = site_statistics(adjoints, tape.valid, tokens)
    return Observation(
        labels=list(tape.labels),
        activation_rms=activation_rms,
        adjoint_rms=adjoint_rms,
        loss_nats=tape.loss.detach().to("cpu", torch.float64).numpy(),
        valid_positions=int(tape.valid.sum()),
        width=int(tape.states[0].shape[-1]),
        contributions=contribution_statistics(tape.contributions, tape.valid),
        owns_final_gain=tape.owns_final_gain,
        final_gain=gain_array(tape.final_gain),
        parameter_gradients={
            name: grad for name, grad in zip(tape.parameters, found, strict=False) if grad is not None
        },
        activation_tokens=activation_tokens,
        adjoint_tokens=adjoint_tokens,
    )


def checked_adjoints(found: Sequence[torch.Tensor | None], labels: Sequence[str], first: int = 0) -> list[torch.Tensor]:
    """Return the adjoints of consecutive sites as a list; `first` is the index of the first site.

    Raises `ObservationError`, with the label of the site, if one is None.
    """
    adjoints = []
    for site, adjoint in enumerate(found, first):
        if adjoint is None:
            raise ObservationError(f"The loss does not depend on site {site} ({labels[site]}), so it has no adjoint.")
        adjoints.append(adjoint)
    return adjoints


@contextmanager
def _telling(states: Sequence[torch.Tensor], told: Told) -> Iterator[None]:
    """Call `told` for each state when its adjoint is found. The hooks change no number and are removed at the end."""
    if told is silent:
        yield
        return
    reached = count(1)

    def tell(_: torch.Tensor) -> None:
        told("sites in reverse", next(reached), len(states))

    hooks = [state.register_hook(tell) for state in states]  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _check_geometry(tape: Tape) -> None:
    """Raise `ObservationError` if labels, states, mask and loss of a tape do not match or have no gradients."""
    if len(tape.labels) != len(tape.states) or not tape.states:
        raise ObservationError(
            f"There are {len(tape.labels)} site labels for {len(tape.states)} states; give one per state."
        )
    wanted = tape.states[0].shape
    if len(wanted) != 4 or tuple(wanted[1:3]) != tape.valid.shape or tuple(tape.loss.shape) != (wanted[0],):
        raise ObservationError(
            f"The input state {list(wanted)} is to be [members, rows, positions, width], with a validity mask "
            f"[rows, positions], not {list(tape.valid.shape)}, and one loss per member, not {list(tape.loss.shape)}."
        )
    for site, state in enumerate(tape.states):
        if state.shape != wanted:
            raise ObservationError(
                f"The state at site {site} ({tape.labels[site]}) has shape {list(state.shape)}, not {list(wanted)} as "
                "at the input."
            )
        if not state.requires_grad:
            raise ObservationError(
                f"Site {site} ({tape.labels[site]}) was recorded without gradients, so it has no adjoint."
            )
    for part in tape.contributions:
        if not part.raw.shape == part.contribution.shape == part.stream.shape == wanted:
            raise ObservationError(
                f"The {part.branch} contribution at site {part.site} does not have the states' shape {list(wanted)}."
            )
    if not tape.loss.requires_grad:
        raise ObservationError(
            f"The loss depends on no site, not even site 0 ({tape.labels[0]}); run it with gradients."
        )


def observe(tape: Tape, *, parameter_gradients: bool = False) -> Observation:
    """Return the `Observation` of a tape, as `measure` does, if every member (model) has usable ratios.

    Raises `ObservationError` for the first member whose RMS or ratios are not all finite.
    """
    observation = measure(tape, parameter_gradients=parameter_gradients)
    for member in np.flatnonzero(~observation.sound).tolist():
        refusal = observation.refusal(member)
        assert refusal is not None
        raise refusal
    return observation
