"""Cached calls of the core. Keys are frozen dataclasses; caches are bounded and hold documents, never arrays.

Torch is imported at the first observation, where it is not there yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.decoder.base_draw import Distribution
from core.decoder.config import DecoderConfig
from core.export.html import MODEBAR
from core.figures.chart import blank_figure
from core.health.band import Band
from core.health.request import ObserveRequest
from pages.common import allowance, engine, panels
from pages.common.chart import chart

if TYPE_CHECKING:
    from core.health.mend import Mending

Document = dict[str, Any]
ENTRIES = 64


@dataclass(frozen=True, kw_only=True)
class ObservationKey:
    """What decides an observation, comparable by value; a batch stands by its digest."""

    config: DecoderConfig
    seed: str
    recipe: str
    dtype: str
    device: str
    band: Band
    batch: str
    distribution: Distribution

    @classmethod
    def of(cls, request: ObserveRequest) -> ObservationKey:
        """The key of a request."""
        return cls(
            config=request.config,
            seed=str(request.seed),
            recipe=request.recipe,
            dtype=request.dtype,
            device=request.device,
            band=request.band,
            batch=request.batch.digest(),
            distribution=request.distribution,
        )


def observation(request: ObserveRequest) -> Document:
    """The observe document of a request, computed once; raises the request's refusal before torch is imported."""
    request.check()
    start_engine()
    return _observation(ObservationKey.of(request), request)


def mending(request: ObserveRequest) -> Mending:
    """What brings the request's decoder into the band, tried once; raises the request's refusal."""
    request.check()
    start_engine()
    with st.spinner("Trying the recipes of the same topology…"):
        return _mending(ObservationKey.of(request), request)


@st.cache_data(max_entries=16, show_spinner=False)
def initialization(fan_in: int, fan_out: int, seed: str, layers: int) -> Document:
    """The init document of a matrix, with the expected propagation over `layers`; raises its refusal."""
    from core.decoder.xavier import xavier_scale
    from core.lab.initializer import expected_propagation, init_document
    from core.numerals import checked_seed

    document = init_document(fan_in, fan_out, checked_seed(seed))
    return {**document, "expected_propagation": expected_propagation(xavier_scale(fan_in, fan_out), layers)}


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


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _observation(key: ObservationKey, _request: ObserveRequest) -> Document:
    del key
    from core.health.report import observe_document

    with allowance.charged():
        return observe_document(_request)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _mending(key: ObservationKey, _request: ObserveRequest) -> Mending:
    del key
    from core.health.mend import mend

    with allowance.charged():
        return mend(_request)
