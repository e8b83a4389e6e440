"""Cached calls of the core: `kept` stores the results for the last frozen requests, documents and tables only."""

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
    """Return every field of a request, the batch as a digest: Streamlit hashes only a sample of a large array."""
    values = [getattr(request, field.name) for field in dataclasses.fields(request)]
    return [value.digest() if isinstance(value, Batch) else value for value in values]


BY_REQUEST: Any = {ObserveRequest: identity, ComparisonRequest: identity}


def kept(words: str | bool = False, entries: int = ENTRIES) -> Callable[[F], F]:
    """Return a decorator that caches the last `entries` results of a function of frozen requests.

    `words` is the text shown during the computation.
    """
    remember: Any = st.cache_data(max_entries=entries, show_spinner=words, hash_funcs=BY_REQUEST)
    return remember  # type: ignore[no-any-return]


@kept()
def observation(request: ObserveRequest) -> Document:
    """Return the observe document of a request, computed once."""
    from core.health.report import observe_document

    with allowance.charged():
        return observe_document(request)


def start_engine() -> None:
    """Import the tensor engine if needed, with a spinner and blank axes on the page meanwhile.

    The axes make the browser load the plotting library during the import, which takes as long.
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
