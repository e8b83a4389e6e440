"""Arms over seeds for a page: counted beside its first curves where they are cheap, else after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from core.decoder.parameters import layout
from core.decoder.progress import Told, silent
from core.errors import DepthscopeError
from core.health.request import ObserveRequest
from pages.common import allowance, cached, panels

if TYPE_CHECKING:
    from core.health.seeds import SeedArm

Key = tuple[ObserveRequest, tuple[int, ...], tuple[str, ...]]
# Session entries: arms by what was asked, and the sentence why the last count was refused.
KEPT, REFUSED = "arms over seeds", "seeds refused"
KEPT_COUNTS = 24
# Parameters times seeds up to which the count is part of the page's own run: some hundredths of a second.
INLINE_WORK = 2**18
TICK_SECONDS = 0.05


def key_of(request: ObserveRequest, seeds: Sequence[int], recipes: Sequence[str]) -> Key:
    """What a count is known by; the seed of the curves does not decide it."""
    return replace(request, seed=0, recipe=recipes[0]), tuple(seeds), tuple(recipes)


def counted(request: ObserveRequest, seeds: Sequence[int], recipes: Sequence[str]) -> list[SeedArm] | None:
    """The arms over seeds where they are known or cheap; None where `count` is to be drawn for them."""
    key = key_of(request, seeds, recipes)
    if key not in _kept() and layout(request.config).parameters * len(seeds) <= INLINE_WORK:
        _keep(key, _observed(request, seeds, recipes))
    return _kept().get(key)


def refusal(request: ObserveRequest, seeds: Sequence[int], recipes: Sequence[str]) -> str | None:
    """Why the count of these arms was refused, once."""
    key, sentence = st.session_state.pop(REFUSED, (None, None))
    return sentence if key == key_of(request, seeds, recipes) else None


def count(request: ObserveRequest, seeds: Sequence[int], recipes: Sequence[str], words: str) -> None:
    """Count what is missing in a fragment after this run, with its progress, and have the page drawn again."""
    ticks: list[bool] = []

    @st.fragment(run_every=TICK_SECONDS)
    def tick() -> None:
        bar = st.progress(0.0, text=words)
        # The first call is the page's own run; the next one is the timer's, when the first curves stand.
        if not ticks:
            ticks.append(True)
            return

        def told(_: str, done: int, of: int) -> None:
            bar.progress(done / of, text=f"{words} {done} of {of}.")

        key = key_of(request, seeds, recipes)
        try:
            _keep(key, _observed(request, seeds, recipes, told))
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


def _kept() -> dict[Key, list[SeedArm]]:
    found: dict[Key, list[SeedArm]] = st.session_state.get(KEPT, {})
    return found


def _keep(key: Key, arms: list[SeedArm]) -> None:
    st.session_state[KEPT] = {**dict(list(_kept().items())[-(KEPT_COUNTS - 1) :]), key: arms}
