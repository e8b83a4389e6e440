"""The recipe and the control over several seeds: computed before the page is drawn if that is cheap, else after it.

An arm is one recipe on the random base weights of all these seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from core.decoder.parameters import layout
from core.decoder.progress import Told, silent
from core.errors import DepthscopeError
from core.health.request import ObserveRequest
from pages.common import allowance, cached, panels, twins

if TYPE_CHECKING:
    from core.health.seeds import SeedArm
    from core.health.suggestion import Suggestion

Key = tuple[ObserveRequest, tuple[int, ...], tuple[str, ...]]
# Session entries: results by key, and the sentence why the last count was refused.
KEPT, REFUSED = "arms over seeds", "seeds refused"
KEPT_COUNTS = 24
# Parameters times seeds up to which the count is part of the page's own run: some hundredths of a second.
INLINE_WORK = 2**18
# The same for a suggestion, which tries a dozen recipes: never in the page's own run, which a slider waits for.
INLINE_SUGGESTION = 0
# Number of seeds for the further sizes of the twin.
FEW_SEEDS = 8
TICK_SECONDS = 0.05


class Moved(NamedTuple):
    """Two ratios in one setting, as medians over a few seeds: the last activation's and the input gradient's."""

    setting: str
    activation: float
    adjoint: float


def key_of(request: ObserveRequest, seeds: Sequence[int], recipes: Sequence[str]) -> Key:
    """Return the key under which the arms of these seeds are stored; the seed and recipe of `request` do not matter."""
    return replace(request, seed=0, recipe=recipes[0]), tuple(seeds), tuple(recipes)


def counted(request: ObserveRequest, seeds: Sequence[int], recipes: Sequence[str]) -> list[SeedArm] | None:
    """Return one arm (recipe over the seeds) per recipe if they are stored or cheap, else None: then call `count`."""
    key = key_of(request, seeds, recipes)
    if key not in _kept() and layout(request.config).parameters * len(seeds) <= INLINE_WORK:
        _keep(key, _observed(request, seeds, recipes))
    found: list[SeedArm] | None = _kept().get(key)
    return found


def refusal() -> str | None:
    """Return the sentence that says why the last computation was refused, once; None if it was not."""
    found: tuple[Hashable, str] | None = st.session_state.pop(REFUSED, None)
    return None if found is None else found[1]


def count(request: ObserveRequest, seeds: Sequence[int], recipes: Sequence[str], words: str) -> None:
    """Compute the arms (recipes over the seeds) after the page is drawn, with a progress bar; then the page runs again.

    `words` is the text of the bar.
    """
    _after(key_of(request, seeds, recipes), words, lambda told: _observed(request, seeds, recipes, told))


def suggested(request: ObserveRequest, arm: SeedArm) -> Suggestion | None:
    """Return the stored suggestion of a change for an arm (recipe over seeds), or None: then call `seek`."""
    key = _suggestion_key(request, arm)
    if key not in _kept() and layout(request.config).parameters * len(arm.seeds) <= INLINE_SUGGESTION:
        _keep(key, _sought(request, arm))
    found: Suggestion | None = _kept().get(key)
    return found


def seek(request: ObserveRequest, arm: SeedArm, words: str) -> None:
    """Search for a change that would improve the verdict after the page is drawn; then the page runs again.

    `words` is the text of the progress bar.
    """
    _after(_suggestion_key(request, arm), words, lambda told: _sought(request, arm, told))


def moves(request: ObserveRequest) -> list[Moved] | None:
    """Return the ratios of a reduced twin at its width, at half its width and with rows half as long.

    They are None if they are not stored: then call `move`. A reduced twin is a narrower decoder that stands for a wide
    one.
    """
    found: list[Moved] | None = _kept().get((key_of(request, (), (request.recipe,)), "moves"))
    return found


def move(request: ObserveRequest, arm: SeedArm, words: str) -> None:
    """Compute how much a twin's ratios change with its sizes after the page is drawn; then the page runs again.

    `words` is the text of the progress bar.
    """
    _after((key_of(request, (), (request.recipe,)), "moves"), words, lambda _: _moved(request, arm))


def _moved(request: ObserveRequest, arm: SeedArm) -> list[Moved]:
    few = arm.seeds[:FEW_SEEDS]
    others = {"half the width": twins.narrowed(request, request.config.width // 2)}
    if (tokens := request.batch.longest) > 1:
        others["rows half as long"] = twins.with_rows(request, tokens // 2)
    found = [Moved("as shown", *_largest(arm, len(few)))]
    for words, other in others.items():
        if other is not None:
            found.append(Moved(words, *_largest(_observed(other, few, (request.recipe,))[0], len(few))))
    return found


def _largest(arm: SeedArm, seeds: int) -> tuple[float, float]:
    """Return the medians over the first `seeds` seeds of the last activation ratio and the input's gradient ratio."""
    import numpy as np

    return (
        float(np.nanmedian(arm.activation_ratio[:seeds, -1])),
        float(np.nanmedian(arm.adjoint_ratio[:seeds, 0])),
    )


def _sought(request: ObserveRequest, arm: SeedArm, told: Told = silent) -> Suggestion:
    from core.health.suggestion import suggest

    with allowance.charged():
        return suggest(request, arm.seeds, before=arm, told=told)


def _suggestion_key(request: ObserveRequest, arm: SeedArm) -> Hashable:
    return (key_of(request, arm.seeds, (arm.recipe.name,)), "suggestion")


def _after(key: Hashable, words: str, work: Callable[[Told], Any]) -> None:
    """Do the work and store its result in a fragment, after this run has drawn the page; then the page runs again."""
    ticks: list[bool] = []

    @st.fragment(run_every=TICK_SECONDS)
    def tick() -> None:
        bar = st.progress(0.0, text=words)
        # The first call is the page's own run; the next one is the timer's.
        if not ticks:
            ticks.append(True)
            return

        def told(_: str, done: int, of: int) -> None:
            bar.progress(done / of, text=f"{words} {done} of {of}.")

        try:
            _keep(key, work(told))
        except DepthscopeError as error:
            st.session_state[REFUSED] = (key, panels.told(error))
        st.rerun()

    tick()


def _observed(
    request: ObserveRequest, seeds: Sequence[int], recipes: Sequence[str], told: Told = silent
) -> list[SeedArm]:
    cached.start_engine()
    from core.health.seeds import observe_seeds

    with allowance.charged():
        return observe_seeds(request, seeds, recipes, told=told)


def _kept() -> dict[Hashable, Any]:
    found: dict[Hashable, Any] = st.session_state.get(KEPT, {})
    return found


def _keep(key: Hashable, found: Any) -> None:
    st.session_state[KEPT] = {**dict(list(_kept().items())[-(KEPT_COUNTS - 1) :]), key: found}
