"""Cached results of the core: `kept` stores the results for the last requests of a function."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import streamlit as st

from core.compare.request import ComparisonRequest
from core.decoder.batch import Batch
from core.export.html import MODEBAR
from core.figures.chart import blank_figure
from core.health.request import ObserveRequest
from pages.common import allowance, engine, panels
from pages.common.chart import chart

Document = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])
ENTRIES = 64


def identity(request: ObserveRequest | ComparisonRequest) -> list[Any]:
    """Return all fields of a request as a list for Streamlit's hash, with the batch as its digest.

    Streamlit itself hashes only a sample of a large array.
    """
    values = [getattr(request, field.name) for field in dataclasses.fields(request)]
    return [value.digest() if isinstance(value, Batch) else value for value in values]


BY_REQUEST: Any = {ObserveRequest: identity, ComparisonRequest: identity}


def kept(words: str | bool = False, entries: int = ENTRIES) -> Callable[[F], F]:
    """Return a decorator that caches the last `entries` results of a function, shared by all sessions.

    `words` is the text shown during the computation.
    """
    remember: Any = st.cache_data(max_entries=entries, show_spinner=words, hash_funcs=BY_REQUEST)
    return remember  # type: ignore[no-any-return]


@kept()
def observation(request: ObserveRequest) -> Document:
    """Return the `observe` document of a request; it is cached."""
    from core.health.report import observe_document

    with allowance.charged():
        return observe_document(request)


def start_engine() -> None:
    """Import torch and the core's engine if this has not been done, with a spinner meanwhile.

    It also draws empty axes, so that the browser loads the plotting library at the same time.
    """
    # Also where nothing is to be waited for: what stands below would be built anew as it moved up after the first run.
    place = st.empty()
    if engine.ready():
        return
    with st.spinner("Loading the tensor engine, once after the start…"):
        with place:
            chart(
                blank_figure(theme=panels.theme()),
                key="figure-waiting",
                config=MODEBAR,
                alt="Axes without points: the tensor engine is being loaded.",
            )
        engine.load()
    place.empty()
