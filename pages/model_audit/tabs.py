"""What the page Audit a model shows of a document; only the open tab is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pandas as pd
import streamlit as st

from core.audit.gate import findings_of
from core.views import audit_words as words
from core.views.audit_figures import writer_profile_figure
from core.views.audit_report import FILES, gate_file
from core.views.audit_tables import (
    SUFFIXES,
    addition_view,
    arm_view,
    audit_tables,
    matrix_view,
    undrawn_ratios,
)
from core.views.figures import (
    CONTRIBUTION_TITLES,
    RATIO_TITLES,
    RMS_TITLES,
    alternative_text,
    contribution_figure,
    ratio_figure,
    undrawn,
)
from core.views.lines import described
from core.views.report import outsized_sentence
from core.views.tables import site_view, token_view
from core.views.token_figures import token_figure
from pages.common import panels
from pages.common.sheet import Sheet
from pages.model_audit.form import page_words

SIGNS = {"error": panels.FAULT, "warning": panels.CAREFUL, "info": panels.NOTE}
# Names up to which the list is open, and up to which it is shown without scrolling.
FEW_NAMES, SHOWN_NAMES = 4, 12


@dataclass(frozen=True)
class Shown:
    """The document and the sheet it is shown on."""

    document: Mapping[str, Any]
    sheet: Sheet

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table of the document."""
        return audit_tables(self.document)


def verdicts(document: Mapping[str, Any]) -> None:
    """What was audited, in numbers; whether its stream is proved, how its initialization is judged, its health."""
    model, identity = document["model"], document["identity"]
    st.subheader(panels.escaped(model["class"]))
    st.caption(panels.escaped(words.weights_sentence(document)))
    error = identity["worst_relative_error"]
    with st.container(horizontal=True, gap="large", key="audit-numbers"):
        for label, value in {
            "Parameters": f"{model['parameters']:,}",
            "Blocks": str(model["blocks"]),
            "Additions": str(len(document["additions"])),
            "Worst relative error": "none measured" if error is None else f"{error:.1e}",
            "Findings": words.count_words(document),
        }.items():
            st.metric(label, value, width="content")
    left, right = st.columns(2)
    with left:
        box, icon = {
            "proved": (st.success, panels.GOOD),
            "partial": (st.warning, panels.CAREFUL),
            "failed": (st.error, panels.FAULT),
        }[identity["verdict"]]
        _box(box, icon, words.IDENTITY_TITLES[identity["verdict"]], words.identity_sentence(document))
    with right:
        title, sentence = words.conformance_title(document), words.base_sentence(document)
        if model["trained"]:
            _box(st.info, ":material/school:", "Trained weights", words.TRAINED)
        else:
            box, icon = {
                "error": (st.error, panels.FAULT),
                "warning": (st.warning, panels.CAREFUL),
                "info": (st.success, panels.GOOD),
            }[words.conformance_severity(document)]
            if document["conformance"]["verdict"] == "no-rule-declared":
                box, icon = st.info, panels.NOTE
            _box(box, icon, title, sentence)
    for note in (*model["notes"], *document["conformance"]["notes"]):
        st.caption(f"{panels.NOTE} {panels.escaped(note)}")


def findings(shown: Shown) -> None:
    """Every finding, worst first, beside the writers' scale over the blocks."""
    document = shown.document
    left, right = st.columns([1, 1.15], gap="large")
    with left:
        for finding in findings_of(document):
            _finding(finding)
        shown.sheet.files("findings", shown.tables["findings"])
    with right:
        _profile(shown)


def matrices(shown: Shown) -> None:
    """Every matrix that writes to the stream and every one that reads it, with its scale beside the declared one."""
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
    """The chain of additions, and the interventions that prove it."""
    st.markdown(
        "Each row is an addition to the stream in forward order: what it gains is the contribution, after coefficient "
        "and output norm, and not what a module returns."
    )
    table = shown.tables["additions"]
    shown.sheet.table("additions", table, view=addition_view(table), alt="Every addition with its writers and readers.")
    st.subheader("Interventions")
    st.markdown("The writers of an addition were set to zero and the model run again.")
    trials = shown.tables["interventions"]
    view = trials.rename(columns=lambda name: name.replace("_", " "))
    shown.sheet.table(
        "interventions", trials, view=view, formats={"difference": "%.2g"}, alt="What each intervention changed."
    )


def health(shown: Shown) -> None:
    """Both ratios beside the band, the model beside its repaired twin."""
    if not _observed(shown):
        return
    document, sites = shown.document, shown.tables["sites"]
    good = document["health"]["within_band"]
    sentence = " ".join([*words.health_sentences(document), words.twin_sentence(document)])
    box, icon = (st.success, panels.GOOD) if good else (st.warning, panels.CAREFUL)
    _box(box, icon, words.health_title(document), sentence)
    for column, quantity in zip(st.columns(2), RATIO_TITLES, strict=True):
        with column:
            shown.sheet.figure(
                f"{quantity}-ratio", partial(ratio_figure, sites, quantity=quantity),
                alt=alternative_text(sites, f"{quantity}_ratio", RATIO_TITLES[quantity]),
                undrawn=undrawn(sites, f"{quantity}_ratio"),
            )  # fmt: skip
    shown.sheet.table(
        "sites", sites, view=site_view(sites, SUFFIXES), alt="Ratios and band of every site, model and twin."
    )
    _arms(shown)


def absolute(shown: Shown) -> None:
    """Absolute RMS of states and adjoints, with what they depend on."""
    if not _observed(shown):
        return
    panels.notice(words.reduction_sentence(shown.document))
    tokens = shown.tables["tokens"]
    if (outsized := outsized_sentence(tokens)) is not None:
        st.warning(panels.escaped(outsized), icon=panels.CAREFUL)
    for column, quantity in zip(st.columns(2), RMS_TITLES, strict=True):
        rows = tokens[tokens["quantity"] == quantity]
        with column:
            shown.sheet.figure(
                f"{quantity}-rms", partial(token_figure, tokens, quantity),
                alt=alternative_text(rows, "rms", RMS_TITLES[quantity]), undrawn=undrawn(rows, "rms"),
            )  # fmt: skip
    view = token_view(tokens)
    formats = {name: "%.6g" for name in view.columns if name.startswith(("A ", "G "))}
    shown.sheet.table(
        "tokens", tokens, view=view, formats=formats, alt="Absolute RMS of every site and its tokens, model and twin."
    )


def contributions(shown: Shown) -> None:
    """What every branch adds, beside the stream it is added to."""
    if not _observed(shown):
        return
    table = shown.tables["contributions"]
    for column, name in zip(st.columns(2), ("contribution_to_stream", "contribution_rms"), strict=True):
        with column:
            shown.sheet.figure(
                name.replace("_", "-"), partial(contribution_figure, table, name),
                alt=alternative_text(table, name, CONTRIBUTION_TITLES[name][0]), undrawn=undrawn(table, name),
            )  # fmt: skip
    view = table.drop(columns=["blocks", "block"])
    shown.sheet.table("contributions", table, view=view, alt="RMS, ratio and cosine of every contribution.")


def gate_files(shown: Shown) -> None:
    """The files of the command line's gate."""
    st.subheader("For continuous integration")
    with st.container(horizontal=True, gap="small", key="gate-files"):
        for name, mime in FILES.items():
            shown.sheet.file(name, mime, partial(gate_file, shown.document, name))
    st.caption(
        "What `python -m core audit` writes with `--json`, `--junit` and `--sarif`; its `--gate` fails a pull request."
    )


def _box(box: Callable[..., Any], icon: str, title: str, sentence: str) -> None:
    box(f"**{panels.escaped(title)}**  \n{panels.escaped(page_words(sentence))}", icon=icon)


def _finding(finding: Mapping[str, Any]) -> None:
    with st.container(border=True):
        number = words.measured_words(finding)
        st.markdown(
            f"{SIGNS[finding['severity']]} **{panels.escaped(finding['kind'])}** · {finding['severity']}"
            + (f" · {panels.escaped(number)}" if number else "")
        )
        st.markdown(panels.escaped(page_words(finding["sentence"])))
        names = finding["parameters"]
        if names:
            label = "1 parameter" if len(names) == 1 else f"{len(names)} parameters"
            with st.expander(label, expanded=len(names) <= FEW_NAMES):
                # Code is shown as it is, so a name can neither be markup nor a link, and can be copied.
                st.code("\n".join(names), language=None, height=300 if len(names) > SHOWN_NAMES else "content")


def _profile(shown: Shown) -> None:
    profile = shown.tables["profile"]
    if not len(profile):
        st.info("No writer's scale was judged, so there is no profile over the blocks.", icon=panels.NOTE)
        return
    rule = shown.document["conformance"]["rule"]
    rows = profile.assign(recipe=profile["group"])
    shown.sheet.figure(
        "profile", partial(writer_profile_figure, profile, rule),
        alt=described(rows, "block", "Writers' ratio over the blocks", "ratio"), undrawn=undrawn_ratios(profile),
    )  # fmt: skip
    shapes = dict(zip(profile["group"], profile["shape"], strict=True))
    st.markdown("\n".join(f"- {panels.escaped(group)}: **{panels.escaped(shape)}**" for group, shape in shapes.items()))
    shown.sheet.files("profile", profile)


def _observed(shown: Shown) -> bool:
    """Whether the model has a health; says why where it has none."""
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


VIEWS: Mapping[str, Callable[[Shown], None]] = {
    "Findings": findings,
    "Writers and readers": matrices,
    "Additions": additions,
    "Health": health,
    "Absolute RMS": absolute,
    "Contributions": contributions,
}
