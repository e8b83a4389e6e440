"""Cached calls of the core: `kept` remembers the answers to frozen requests, bounded, documents and tables alone."""

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
    """Every field of a request, its batch by digest: of large arrays Streamlit would look at a sample alone."""
    values = [getattr(request, field.name) for field in dataclasses.fields(request)]
    return [value.digest() if isinstance(value, Batch) else value for value in values]


BY_REQUEST: Any = {ObserveRequest: identity, ComparisonRequest: identity}


def kept(words: str | bool = False, entries: int = ENTRIES) -> Callable[[F], F]:
    """Remember the last `entries` answers of a function of frozen requests; `words` are shown while it computes."""
    remember: Any = st.cache_data(max_entries=entries, show_spinner=words, hash_funcs=BY_REQUEST)
    return remember  # type: ignore[no-any-return]


@kept()
def observation(request: ObserveRequest) -> Document:
    """The observe document of a request, computed once."""
    from core.health.report import observe_document

    with allowance.charged():
        return observe_document(request)


def start_engine() -> None:
    """Have the tensor engine ready, showing a spinner and blank axes while it is imported.

    At the first figure a browser reads the library that draws it, which takes it as long as the import takes here.
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
