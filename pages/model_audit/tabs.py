"""The tabs of the page Audit a model; only the open tab is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import streamlit as st

from core.audit.initialization.findings import VERDICTS
from core.audit.report.gate import findings_of
from core.figures.audit import writer_profile_figure
from core.lab.view import plural
from core.tables import audit_words as words
from core.tables.audit import SUFFIXES, addition_view, arm_view, audit_tables, intervention_view, matrix_view
from core.tables.observe import site_view, token_view
from core.tables.observe_words import outsized_sentence
from pages.common import panels
from pages.common.outputs import Sheet
from pages.common.site_figures import draw_contributions, draw_ratios, draw_tokens

SIGNS = {"error": panels.FAULT, "warning": panels.CAREFUL, "info": panels.NOTE}
# Number of names up to which the list is open, and up to which it is shown without scrolling.
FEW_NAMES, SHOWN_NAMES = 4, 12


@dataclass(frozen=True)
class Shown:
    """The audit document, and the sheet (figures and tables with exports) on which it is shown."""

    document: Mapping[str, Any]
    sheet: Sheet

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """All tables of the document as data frames, by name."""
        return audit_tables(self.document)


def findings(shown: Shown) -> None:
    """Draw all findings, the worst first, and the scale of the matrices that end a branch over the blocks."""
    document = shown.document
    left, right = st.columns([1, 1.15], gap="large")
    with left:
        if not findings_of(document):
            st.info(panels.escaped(words.conformance_title(document)), icon=panels.NOTE)
        for finding in findings_of(document):
            _finding(finding)
        shown.sheet.files("findings", shown.tables["findings"])
    with right:
        _profile(shown)


def matrices(shown: Shown) -> None:
    """Draw the matrices that end a branch (writers) and begin one (readers), with measured and declared scale."""
    st.markdown(
        "A writer ends a branch; a reader is the first matrix behind the norm. `ratio` is std over the declared std, "
        "and `sampling ±` how far a matrix of that size may lie from 1 by chance."
    )
    table = shown.tables["matrices"]
    for side in ("writer", "reader"):
        rows = table[table["side"] == side]
        st.subheader(f"{side.capitalize()}s")
        shown.sheet.table(
            f"{side}s", rows, view=matrix_view(rows), height=min(420, 38 + 35 * max(1, len(rows))),
            alt=f"Every {side} of the stream with its fans, distribution and scale.",
        )  # fmt: skip
    if len(shown.tables["depths"]):
        st.subheader("At each depth")
        shown.sheet.table("depths", shown.tables["depths"], alt="Pooled ratio of each group of writers at each depth.")


def additions(shown: Shown) -> None:
    """Draw the additions to the residual stream in order, and the interventions that prove them."""
    st.markdown(
        "Each row is an addition to the stream in forward order: what it gains is the contribution, after coefficient "
        "and output norm, and not what a module returns."
    )
    table = shown.tables["additions"]
    shown.sheet.table("additions", table, view=addition_view(table), alt="Every addition with its writers and readers.")
    st.subheader("Interventions")
    st.markdown("The writers of an addition were set to zero and the model run again.")
    trials = shown.tables["interventions"]
    view = intervention_view(trials)
    shown.sheet.table(
        "interventions", trials, view=view, formats={"difference": "%.2g"}, alt="What each intervention changed."
    )


def health(shown: Shown) -> None:
    """Draw the ratios of activations and gradients with the band, for the model as it is and corrected."""
    if not _observed(shown):
        return
    document, sites = shown.document, shown.tables["sites"]
    kind = "good" if document["health"]["within_band"] else "careful"
    sentence = " ".join([*words.health_sentences(document), words.twin_sentence(document)])
    _box(kind, words.health_title(document), sentence)
    draw_ratios(shown.sheet, sites)
    shown.sheet.table(
        "sites", sites, view=site_view(sites, SUFFIXES), alt="Ratios and band of every site, model and twin."
    )
    _arms(shown)


def absolute(shown: Shown) -> None:
    """Draw the RMS of states and of their gradients, and a sentence on what these values depend on."""
    if not _observed(shown):
        return
    panels.notice(words.reduction_sentence(shown.document))
    tokens = shown.tables["tokens"]
    if (outsized := outsized_sentence(tokens)) is not None:
        panels.outcome(outsized, good=False)
    draw_tokens(shown.sheet, tokens)
    view = token_view(tokens)
    formats = {name: "%.6g" for name in view.columns if name.startswith(("A ", "G "))}
    shown.sheet.table(
        "tokens", tokens, view=view, formats=formats, alt="Absolute RMS of every site and its tokens, model and twin."
    )


def contributions(shown: Shown) -> None:
    """Draw what every branch adds, relative to the residual stream."""
    if not _observed(shown):
        return
    table = shown.tables["contributions"]
    draw_contributions(shown.sheet, table)
    view = table.drop(columns=["blocks", "block"])
    shown.sheet.table("contributions", table, view=view, alt="RMS, ratio and cosine of every contribution.")


def _box(kind: str, title: str, sentence: str) -> None:
    panels.box(kind, sentence, title)


def _finding(finding: Mapping[str, Any]) -> None:
    with st.container(border=True):
        number = words.measured_words(finding)
        st.markdown(
            f"{SIGNS[finding['severity']]} **{panels.escaped(VERDICTS[finding['kind']])}**"
            + (f" · {panels.escaped(number)}" if number else "")
        )
        st.markdown(panels.escaped(finding["sentence"]))
        names = finding["parameters"]
        if names:
            with st.expander(plural(len(names), "parameter"), expanded=len(names) <= FEW_NAMES):
                # Code is shown as it is, so a name can neither be markup nor a link, and can be copied.
                st.code("\n".join(names), language=None, height=300 if len(names) > SHOWN_NAMES else "content")


def _profile(shown: Shown) -> None:
    profile = shown.tables["profile"]
    if not len(profile):
        panels.notice("No writer's scale was judged, so there is no profile over the blocks.")
        return
    rule = shown.document["conformance"]["rule"]
    shown.sheet.figure("profile", writer_profile_figure.chart(profile, rule))
    if rule is None:
        st.markdown(
            "No rule is declared: these are factors over the base standard deviation, and none of them a fault."
        )
    shapes = dict(zip(profile["group"], profile["shape"], strict=True))
    st.markdown("\n".join(f"- {panels.escaped(group)}: **{panels.escaped(shape)}**" for group, shape in shapes.items()))
    shown.sheet.files("profile", profile)


def _observed(shown: Shown) -> bool:
    """Return whether the model was observed; if not, draw the reason."""
    if shown.document["health"] is None:
        panels.notice(f"No health: {shown.document['health_refusal']}")
    return shown.document["health"] is not None


def _arms(shown: Shown) -> None:
    st.subheader("Loss and normalizers")
    arms = shown.tables["arms"]
    formats = {"input RMS A₀": "%.6g", "last adjoint RMS": "%.6g"}
    shown.sheet.table(
        "arms", arms, view=arm_view(arms), formats=formats, alt="Loss, reduction, normalizers and largest ratios."
    )
    st.caption(panels.escaped(words.reduction_sentence(shown.document)))


TABS: Mapping[str, Callable[[Shown], None]] = {
    "Findings": findings,
    "Writers and readers": matrices,
    "Additions": additions,
    "Health": health,
    "Absolute RMS": absolute,
    "Contributions": contributions,
}
