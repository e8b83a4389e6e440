"""The page Health for a model that the transformers library builds: verdict, tower and curves, from its audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from core.export.audit import audit_contents, audit_record
from core.health.columns import AUDITED
from core.health.verdict_words import verdict_sentences
from core.tables import audit_words as words
from core.tables.audit import SUFFIXES
from core.tables.frame import for_people
from core.tables.observe import site_view
from core.tables.seeds import VERDICT, ribbon_table, verdict_table
from pages.common import audits, cached, jobs, model_controls, navigation, panels, subject
from pages.common.outputs import Sheet
from pages.common.site_figures import draw_ratios
from pages.common.tower import tower
from pages.common.widgets import draw_tabs
from pages.model_audit import answer, tabs
from pages.residual_health.headline import BOXES, THRESHOLDS

if TYPE_CHECKING:
    from core.health.seeds import SeedArm

# Session entry: the audit that was started last, so that one which was refused is not started again by itself.
STARTED = "audit of Health started"
OWN_CODE = "Its initialization and its forward are the family's own code in the transformers library."


@dataclass(frozen=True)
class Built(tabs.Shown):
    """The audit document of the current model, and its ratios over the seeds."""

    @cached_property
    def arms(self) -> list[SeedArm]:
        """The model over its seeds as a `SeedArm`, then the model with the repairs applied, if there are any."""
        from core.audit.seed_arms import seed_arms
        from core.health.band import Band

        low, high = (control.value for control in model_controls.MORE[2:])
        return seed_arms(self.document, Band(low, high))


def show() -> None:
    """Draw the verdict, what would change it, and the open tab; while the model is being built, the progress."""
    audits.collect()
    wanted = subject.wanted()
    document = jobs.kept(wanted)
    if document is None and jobs.AUDITS.running() is None and st.session_state.get(STARTED) != wanted:
        st.session_state[STARTED] = wanted
        audits.start(wanted)
    if document is None:
        st.caption(OWN_CODE)
        audits.state(wanted, document)
        if jobs.AUDITS.running() is None:
            st.button("Build it", key="build-it", type="primary", on_click=audits.start, args=(wanted,))
        return
    cached.start_engine()
    shown = Built(document, Sheet("residual_health", "Health"))
    _verdict(shown)
    draw_tabs(TABS, shown, key="built_view")
    shown.sheet.exports(contents=lambda: audit_contents(document), record=audit_record(document))


def _verdict(shown: Built) -> None:
    document = shown.document
    if not shown.arms:
        panels.refusal(f"This model has no verdict: {document['health_refusal']}")
    else:
        verdict = shown.arms[0].verdict
        first, *others = verdict_sentences(verdict)
        panels.box(BOXES[verdict.state], " ".join(others), title=first)
        st.caption(THRESHOLDS)
    told = [OWN_CODE, words.reduced_sentence(document), _fewer(shown)]
    st.caption(panels.escaped(" ".join(one for one in told if one)))
    _suggestion(shown)


def _fewer(shown: Built) -> str:
    """Return why fewer seeds are counted than the bar asks for; empty if they are not."""
    asked, counted = model_controls.SEEDS.value, len(shown.arms[0].seeds) if shown.arms else 0
    return f"Of the {asked} seeds {counted} are counted, for each takes seconds." if 0 < counted < asked else ""


def _suggestion(shown: Built) -> None:
    """Draw what would change the verdict: the audit's repair as code, else its sentences on what to do."""
    headline = shown.document["headline"]
    # Where nothing is off, the first sentence is the verdict once more.
    told = headline["sentences"][0 if headline["off"] else 1 :]
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="suggestion"):
        st.markdown(panels.escaped(" ".join(told)), width="stretch")
        audit = navigation.ENTRIES["model_audit"]
        st.page_link(audit.script, label="What the audit finds", icon=audit.symbol)
    if shown.document["repairs"]:
        with st.expander("The repair as code", icon=":material/healing:"):
            answer.repairs(shown.document["repairs"])


def ratios(shown: Built) -> None:
    """Draw the ratios at every site as a tower and as curves with the band, for the model as it is and repaired."""
    if not shown.arms:
        return
    spread = _by_arm(ribbon_table(shown.arms))
    sites, band = shown.tables["sites"], shown.arms[0].band
    left, right = st.columns([2, 3], gap="medium")
    with left:
        tower(shown.sheet, spread[spread["arm"] == AUDITED], band)
    with right:
        draw_ratios(shown.sheet, sites, band, spread=spread, stacked=True)
    verdicts = verdict_table(shown.arms)
    view = _by_arm(for_people(verdicts, VERDICT))
    shown.sheet.table("verdicts", verdicts, view=view, alt="The verdict's numbers, of the model and repaired.")
    shown.sheet.table(
        "sites", sites, view=site_view(sites, SUFFIXES), alt="Ratios and band of every site, model and repaired twin."
    )


def _by_arm(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of arms over seeds under the name that the audit's tables have for an arm."""
    return table.rename(columns={"recipe": "arm"})


TABS: Mapping[str, Callable[[Any], None]] = {
    "Ratios": ratios,
    "Absolute RMS": tabs.absolute,
    "Contributions": tabs.contributions,
}
