"""Warnings about combinations of recipes, from what their decoders do when they are run, not from a list of names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..decoder.parameters import WRITERS
from ..health.request import ObserveRequest
from ..recipes.catalogue import recipe
from ..recipes.recipe import Recipe
from .effects import Effect, MeasuredCombination

# Below this largest relative change a law is reported as having no effect.
NO_EFFECT = 1e-3


@dataclass(frozen=True, kw_only=True)
class CombinationWarning:
    """One warning: `code` is its kind, `sentence` its text, `value` the number behind it, None if there is none."""

    code: str
    sentence: str
    value: float | None = None


@dataclass(frozen=True, kw_only=True)
class CombinationReport:
    """The effects and warnings of one recipe or combination.

    `effects` has one `Effect` per part of the combination that changes weights.
    """

    recipe: str
    effects: tuple[Effect, ...] = ()
    warnings: tuple[CombinationWarning, ...] = ()


def combination_report(request: ObserveRequest) -> CombinationReport:
    """Run a combination with and without each of its parts and report what they change.

    The decoder, seed and batch are those of `request`. If the recipe cannot run on any decoder-only model, the only
    warning is the reason. A recipe that is not a combination has no effects and no warnings. Raises the errors of
    `request.check`.
    """
    chosen = recipe(request.recipe)
    if chosen.refusal is not None:
        elsewhere = CombinationWarning(code="other-architecture", sentence=f"{chosen.name}: {chosen.refusal}")
        return CombinationReport(recipe=chosen.name, warnings=(elsewhere,))
    request.check()
    measured = MeasuredCombination(request)
    if not measured.parts:
        return CombinationReport(recipe=chosen.name)
    found = [
        *_without_effect(measured),
        *_damped_twice(measured),
        *_foreign_law(measured),
        *_void(measured),
        *_two_counts(measured),
        *_scaled_twice(measured),
    ]
    effects = tuple(measured.effect(part, tuple(part.laws)) for part in measured.laws)
    return CombinationReport(recipe=chosen.name, effects=effects, warnings=tuple(found))


def _without_effect(measured: MeasuredCombination) -> Iterator[CombinationWarning]:
    """Yield warnings for writer laws without effect: a norm on the branch output, a closed gate, or writers of zero."""
    for part in measured.added:
        hidden = [role for role in measured.hidden_writers if role in part.laws]
        effect = measured.effect(part, hidden or [role for role in WRITERS if role in part.laws])
        scaled = f"{part.name} scales the {' and '.join(effect.roles)} writers"
        if effect.largest_change < NO_EFFECT:
            why = "a norm on the branch output divides their scale out" if hidden else "the branches add nothing yet"
            yield CombinationWarning(
                code="no-effect",
                sentence=f"no effect: {scaled}, but {why}; {effect.place}.",
                value=effect.largest_change,
            )
        elif hidden and 0.0 not in measured.writer_coefficients(part):
            yield CombinationWarning(
                code="epsilon",
                sentence=(
                    f"{scaled} behind a norm on the branch output, which hides scale but for its epsilon; here "
                    f"{effect.place}."
                ),
                value=effect.largest_change,
            )


def _damped_twice(measured: MeasuredCombination) -> Iterator[CombinationWarning]:
    """Yield warnings for a branch with a factor below 1 in the forward and another one in its writers."""
    topology, blocks = measured.chosen.topology, measured.request.config.blocks
    laws = [law for law in (topology.norm_in_factor, topology.branch) if law is not None]
    damped = any(0 < law(block, blocks) < 1 for law in laws for block in range(blocks))
    added = [part for part in measured.added if any(0 < c < 1 for c in measured.writer_coefficients(part))]
    if not damped or not added or measured.hidden_writers:
        return
    owner = measured.parts[0]
    sizes = {one.name: measured.last_branch_size(one) for one in (measured.chosen, owner, *added)}
    alone = ", ".join(f"{sizes[one.name]:.3g} with {one.name} alone" for one in (owner, *added))
    yield CombinationWarning(
        code="damped-twice",
        sentence=(
            f"damped twice: {owner.name} damps each branch and {_names(added)} damps its writers again; the last "
            f"block's branches add {sizes[measured.chosen.name]:.3g} of the input's RMS, {alone}."
        ),
        value=sizes[measured.chosen.name] / sizes[owner.name] if sizes[owner.name] > 0 else None,
    )


def _foreign_law(measured: MeasuredCombination) -> Iterator[CombinationWarning]:
    """Yield warnings for a law on writers whose scale belongs already to the shortcut coefficient of a norm."""
    owner, addition = measured.parts[0], measured.graph.blocks[0][0]
    if owner.topology.shortcut is None or addition.norm_after is None or measured.hidden_writers:
        return
    for part in measured.added:
        own, total = (measured.writer_coefficients(one)[-1] for one in (owner, measured.chosen))
        effect = measured.effect(part, tuple(part.laws))
        yield CombinationWarning(
            code="foreign-law",
            sentence=(
                f"{owner.name} sets shortcuts and branches together; with {part.name} the last writer is multiplied by "
                f"{total:.6g} instead of {own:.6g}; {effect.place}."
            ),
            value=effect.largest_change,
        )


def _void(measured: MeasuredCombination) -> Iterator[CombinationWarning]:
    """Yield warnings for a writer law that is multiplied by zero."""
    zero = [part for part in measured.laws if set(measured.writer_coefficients(part)) == {0.0}]
    others = [part for part in measured.added if part not in zero]
    if zero and others:
        yield CombinationWarning(
            code="zero-writer",
            sentence=f"{zero[0].name} sets every writer to 0, so what {_names(others)} does to writers is void.",
            value=0.0,
        )


def _two_counts(measured: MeasuredCombination) -> Iterator[CombinationWarning]:
    """Yield warnings for a law that counts blocks together with one that counts additions."""
    counts = {part.name: part.counts for part in measured.parts if part.counts is not None}
    if len(set(counts.values())) > 1:
        words = ", ".join(f"{name} counts {what}" for name, what in counts.items())
        yield CombinationWarning(
            code="two-depth-counts",
            sentence=f"2L against L in one model: {words}; the depths that they mean differ by a factor of 2.",
            value=2.0,
        )


def _scaled_twice(measured: MeasuredCombination) -> Iterator[CombinationWarning]:
    """Yield warnings for two laws on the same writers."""
    scaling = [part for part in measured.added if 0.0 not in measured.writer_coefficients(part)]
    if len(scaling) > 1:
        total = measured.writer_coefficients(measured.chosen)[-1]
        yield CombinationWarning(
            code="scaled-twice",
            sentence=f"{_names(scaling)} both scale the writers; the last one is multiplied by {total:.6g} in all.",
            value=total,
        )


def _names(parts: list[Recipe]) -> str:
    return " and ".join(part.name for part in parts)
