"""Find a recipe of the same topology that brings a decoder into the band, on the same base draw.

Recipes are tried in their listed order. Recipes of one topology differ only in stored weights, so the one found can be
applied without a change to the model's forward.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..decoder.base_draw import BaseDraw
from ..errors import DepthscopeError
from ..recipes.catalogue import recipe
from ..recipes.recipe import Recipe
from .arms import observe_arms
from .diagnosis import QUANTITIES, diagnose_arm
from .document import arm_document
from .estimate import check_run
from .request import ObserveRequest
from .suggestion import candidates


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One recipe on the base draw: its largest ratios and whether all lie within the band, or why it cannot run."""

    recipe: str
    title: str
    within: bool
    largest_activation_ratio: float | None = None
    largest_adjoint_ratio: float | None = None
    refusal: str | None = None


@dataclass(frozen=True, kw_only=True)
class Mending:
    """The recipes tried: `before` is the request's recipe, `trials` the others in order, up to the first that fits."""

    before: Trial
    trials: tuple[Trial, ...]

    @property
    def found(self) -> Trial | None:
        """The first recipe that brings every ratio into the band; None if there is none."""
        return next((trial for trial in self.trials if trial.within), None)

    @property
    def sentence(self) -> str:
        """The outcome in one sentence."""
        before, found = self.before, self.found
        if before.within:
            return "Every ratio lies within the band already; nothing needs mending."
        if found is None:
            return (
                "No recipe of the same topology brings every ratio into the band at this size and seed; change the "
                "depth, the sizes or the topology."
            )
        return (
            f"{found.title} ({found.recipe}) is the first recipe of the same topology, in their listed order, that "
            f"brings every ratio into the band: largest activation ratio {_shown(before.largest_activation_ratio)} "
            f"before and {_shown(found.largest_activation_ratio)} after, largest adjoint ratio "
            f"{_shown(before.largest_adjoint_ratio)} before and {_shown(found.largest_adjoint_ratio)} after."
        )


def mend(request: ObserveRequest) -> Mending:
    """Observe the request's recipe, then the candidates one by one until one fits. Raises the errors of `check_run`."""
    check_run(request)
    draw = BaseDraw(request.config, [request.seed], request.distribution)
    trials: list[Trial] = []
    for candidate in candidates(request.recipe):
        trials.append(_trial(draw, candidate, request))
        if trials[-1].within:
            break
    return Mending(before=_trial(draw, recipe(request.recipe), request), trials=tuple(trials))


def applied(request: ObserveRequest, mending: Mending) -> ObserveRequest:
    """Return the request with the recipe that was found; unchanged if none was found."""
    return request if mending.found is None else replace(request, recipe=mending.found.recipe)


def _trial(draw: BaseDraw, candidate: Recipe, request: ObserveRequest) -> Trial:
    try:
        candidate.graph(request.config)
        arms = observe_arms(
            draw, [candidate], request.batch, dtype=request.dtype, device=request.device, contributions=False
        )
        arm = arm_document(arms[0].observation, arms[0].member(0), request.band)
    except DepthscopeError as error:
        return Trial(recipe=candidate.name, title=candidate.title, within=False, refusal=str(error))
    largest = diagnose_arm(arm, candidate.name, (request.band.lower, request.band.upper)).largest
    activation, adjoint = (largest[quantity][0] for quantity in QUANTITIES)
    return Trial(
        recipe=candidate.name,
        title=candidate.title,
        within=arm["within_band"],
        largest_activation_ratio=activation,
        largest_adjoint_ratio=adjoint,
    )


def _shown(ratio: float | None) -> str:
    return "not finite" if ratio is None else f"{ratio:.6g}"
