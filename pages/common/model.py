"""The current model, which all pages show; it is kept in the session, the URL and the manifest of exports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import streamlit as st

from core.decoder.config import DecoderConfig
from core.decoder.fixtures import FIXTURES
from core.decoder.parameters import layout
from core.errors import ConfigError, DepthscopeError
from core.health.request import ObserveRequest
from core.plan.observed_config import ObservedModel, observed_preset
from core.plan.presets import PRESETS
from core.plan.request import PlanRequest
from pages.common import given, twins, uploads
from pages.common import model_controls as controls
from pages.common.widgets import assign, declined, defaults_of, linked, reset, values_of

CHAPTER, WELL_KNOWN, FILE, OWN = "chapter decoder", "well-known model", "config.json", "sizes by hand"
# Session entry: the page whose link was read last.
READ = "link was read on"
# Session entry: a model was taken and the page has not been drawn for it yet.
TAKEN = "model was taken"
# Parameter names of earlier links, and the present names.
FORMER = {
    "compare_seeds": "seeds",
    **{f"{page}_{control.name}": control.name for page in ("plan", "sweep") for control in controls.SIZES},
    **{f"plan_{name}": name for name in ("blocks", "norm", "mlp", "position_encoding", "tied", "bias")},
    **{f"audit_{name}": name for name in ("blocks", "width", "seed")},
}
FORMER_CHOICE = "model"


@dataclass(frozen=True, kw_only=True)
class Known:
    """A model that can be chosen by name.

    It has a title, a source, the control values that describe it, and its parameter plan. `family` is its model type in
    transformers, if any.
    """

    title: str
    source: str
    values: Mapping[str, Any]
    plan: PlanRequest
    family: str | None = None


@dataclass(frozen=True)
class Model:
    """The current model: its name and source for display, the request to observe it, its number of seeds, its plan."""

    name: str
    source: str
    request: ObserveRequest
    seeds: int
    plan: PlanRequest

    @property
    def config(self) -> DecoderConfig:
        """The sizes and the graph of the model."""
        return self.request.config

    @cached_property
    def parameters(self) -> int:
        """The number of stored parameters, with those that only the plan has."""
        extra = sum(spec.coordinates for spec in self.plan.extra)
        return layout(self.config).parameters + self.config.blocks * extra

    @cached_property
    def answered(self) -> ObserveRequest:
        """The request that the pages observe: the model's, or that of its reduced twin if the model is too large.

        The twin is a narrower decoder with the same ratios. Raises `BudgetError` if no twin is small enough.
        """
        return twins.answered(self.request, self.seeds)

    @property
    def is_reduced(self) -> bool:
        """True if `answered` is the request of a reduced twin."""
        return self.answered.config.true_sizes is not None

    @property
    def seed_values(self) -> tuple[int, ...]:
        """The seeds over which the verdict is counted, consecutive 64-bit integers; 0 follows the largest."""
        return tuple((self.request.seed + index) % 2**64 for index in range(self.seeds))


def _chapter(title: str, config: DecoderConfig, **more: Any) -> Known:
    values = {**controls.values_for(config, ObserveRequest().distribution), **more}
    return Known(title=title, source=CHAPTER, values=values, plan=PlanRequest(config=config))


def _published(name: str) -> Known:
    return Known(
        title=PRESETS[name].title, source=WELL_KNOWN, values=observed_values(observed_preset(name)),
        plan=PRESETS[name].request, family=PRESETS[name].family,
    )  # fmt: skip


def observed_values(found: ObservedModel) -> dict[str, Any]:
    """Return control values by name for a model that was found in a config, with random rows as its input.

    Sizes, base draw and recipe are as in the code that initializes this model family.
    """
    values = controls.values_for(found.config, found.distribution)
    return {**values, "batch": controls.RANDOM, "recipe": found.recipe}


KNOWN: Mapping[str, Known] = {
    **{name: _chapter(f"Chapter decoder {name}", config) for name, config in FIXTURES.items()},
    "deep": _chapter("Chapter decoder, 64 blocks", DecoderConfig(blocks=64)),
    "broken": _chapter("Broken: 32 blocks, unscaled", DecoderConfig(blocks=32), recipe="unscaled"),
    **{name: _published(name) for name in PRESETS},
}


def current() -> Model:
    """Return the `Model` that the controls describe now. Raises `DepthscopeError` if they describe none."""
    values = values_of(controls.MODEL)
    if values["family"] is not None:
        raise ConfigError(
            f"The model is a {values['family']}, whose graph this app's own decoder does not have, so this page has no "
            "numbers of it; Health and Audit build it by its own code."
        )
    request = controls.request_of(values)
    name, source, plan = _named(values, request.config)
    return Model(name, source, request, values["seeds"], plan)


def known() -> Known | None:
    """Return the `Known` model whose sizes and depth the controls have now; None if there is none."""
    values = values_of(controls.MODEL)
    return next((one for one in KNOWN.values() if _is(one, values) and one.values["blocks"] == values["blocks"]), None)


def _is(known: Known, values: Mapping[str, Any]) -> bool:
    sizes = [control.name for control in controls.ARCHITECTURE]
    # A chapter decoder that is known for its recipe does not keep its name with another recipe.
    fixed = [*sizes, "recipe"] if known.source == CHAPTER and "recipe" in known.values else sizes
    full = {**defaults_of(controls.ARCHITECTURE), **known.values}
    return all(full[name] == values[name] for name in fixed)


def _named(values: Mapping[str, Any], config: DecoderConfig) -> tuple[str, str, PlanRequest]:
    """Return the name, source and plan for control values: those of a known model if all its sizes are equal."""
    for known in KNOWN.values():
        if _is(known, values):
            if known.values["blocks"] == values["blocks"]:
                return known.title, known.source, known.plan
            if known.source == WELL_KNOWN:
                return f"{known.title} at another depth", known.source, _deeper(known.plan, config)
    if values["file"]:
        own = given.given()
        plan = None if own is None else own.plan
        return "Your config.json", FILE, PlanRequest(config=config) if plan is None else _deeper(plan, config)
    full = defaults_of(controls.ARCHITECTURE)
    narrow = all(values[name] == full[name] for name in full)
    return ("Chapter decoder", CHAPTER, PlanRequest(config=config)) if narrow else (
        "Your decoder", OWN, PlanRequest(config=config)
    )  # fmt: skip


def _deeper(plan: PlanRequest, config: DecoderConfig) -> PlanRequest:
    return PlanRequest(config=config, extra=plan.extra, assumed=plan.assumed)


def take(values: Mapping[str, Any]) -> None:
    """Callback: make `values` the current model; every control that is not in `values` gets its default."""
    reset(controls.MODEL)
    assign(values)
    uploads.keep_only(str(values.get("file", "")))
    st.session_state[TAKEN] = True


def take_family(family: str) -> None:
    """Set the current model to a small one of `family`, a model type of the transformers library such as `gemma2`."""
    take({**controls.FAMILY_SIZES, "family": family})


def take_known(name: str) -> None:
    """Callback: make the known model of this name the current one."""
    take(KNOWN[name].values)


def query_of(name: str) -> dict[str, str | list[str]]:
    """Return the query parameters of a link to the known model `name`, as a dict."""
    defaults = defaults_of(controls.MODEL)
    return {key: linked(value) for key, value in KNOWN[name].values.items() if value != defaults[key]}


def arrive(page: str) -> list[str]:
    """Set the current model from the link when a page is opened.

    Returns one sentence per value that its control does not accept. If the link sets any control of the model, the
    remaining ones get their defaults. On later runs of the page the link is not read, because the URL then follows the
    controls.
    """
    if st.session_state.get(READ) == page:
        return []
    st.session_state[READ] = page
    chosen, asked = _asked()
    if not asked and chosen is None:
        return []
    carried = [control for control in controls.MODEL if control.linked]
    reset(carried)
    assign({} if chosen is None else chosen)
    sentences = []
    for control in carried:
        if control.name in asked:
            try:
                assign({control.name: control.parsed(asked[control.name])})
            except DepthscopeError:
                sentences.append(declined(control, asked[control.name]))
    return sentences


def _asked() -> tuple[Mapping[str, Any] | None, dict[str, str]]:
    """Return the control values of the known model in the link, None if it names none, and texts by control name."""
    asked = {control.name: st.query_params.get_all(control.name) for control in controls.MODEL if control.linked}
    for former, name in FORMER.items():
        if former in st.query_params:
            asked[name] = asked[name] or st.query_params.get_all(former)
            del st.query_params[former]
    texts = {name: found[-1] for name, found in asked.items() if found}
    chosen = st.query_params.get(FORMER_CHOICE)
    if chosen is not None and chosen in KNOWN:
        del st.query_params[FORMER_CHOICE]
        return KNOWN[chosen].values, texts
    return (controls.FAMILY_SIZES if texts.get("family") in controls.FAMILIES else None), texts


def keep_in_link() -> None:
    """Write the model into the URL: every control that is not at its default."""
    changed = {}
    for control in controls.MODEL:
        wanted = linked(control.value) if control.linked and control.value != control.default else None
        if wanted is None:
            st.query_params.pop(control.name, None)
        elif st.query_params.get(control.name) != wanted:
            changed[control.name] = wanted
    if changed:
        st.query_params.update(changed)
