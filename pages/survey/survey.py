"""The page Survey: what the audit finds in every causal language model of one library, and what it cannot prove."""

from __future__ import annotations

import streamlit as st

from core.audit.survey_table import shipped_survey
from core.figures.audit import depth_ratio_figure
from core.figures.bars import count_figure
from core.tables.survey import (
    FORMATS,
    chosen,
    column_table,
    count_words,
    headline,
    kind_table,
    ordered,
    reason_lines,
    rule_view,
    state_table,
    survey_sentence,
    survey_table,
    survey_view,
    unproved_table,
)
from pages.common import panels
from pages.common.outputs import Sheet
from pages.common.widgets import draw_row
from pages.survey import controls
from pages.survey import rows as survey_rows

st.title("Survey")
st.markdown(
    "Every causal language model of the `transformers` library, built small at two depths with fresh weights, its "
    "residual stream looked for without a list of names, and proved or not."
)

sheet = Sheet("survey", "Survey")
rows, manifest = shipped_survey()
for column, (label, value) in zip(st.columns(5), headline(rows, manifest).items(), strict=True):
    column.metric(label, value)
sentence = survey_sentence(manifest)
st.caption(panels.escaped(sentence))

st.subheader("What is off")
unproved = unproved_table(rows)
left, right = st.columns(2)
with left:
    st.markdown("**Not proved, and why**")
    st.markdown("\n".join(f"- {panels.escaped(line)}" for line in reason_lines(unproved)))
    with st.expander("The same as a table"):
        sheet.table("not-proved", unproved, alt="Families that are not proved, with their reasons.", folded=False)
with right:
    st.markdown("**Initialization: does any depth rule fit the fresh matrices that write to the stream?**")
    sheet.figure("depth-ratios", depth_ratio_figure.chart(survey_table(rows)))
sheet.table("rules", rule_view(rows), alt="Families whose weights follow a rule or break one.", formats=FORMATS)

st.subheader("Every family")
draw_row(controls.TEXT, controls.STATE, controls.KIND, controls.ORDER, key="survey-filter")
shown = ordered(
    chosen(rows, text=controls.TEXT.value, state=controls.STATE.value, kind=controls.KIND.value),
    controls.ORDER.value,
)
if shown:
    survey_rows.picker(shown)
    sheet.table(
        "survey", survey_table(rows), view=survey_view(shown), formats=FORMATS, height=300,
        select=survey_rows.opener(shown), alt=f"{count_words(shown, rows)}, one row per family, as filtered above.",
    )  # fmt: skip
    st.caption(f"{count_words(shown, rows)}. The files hold all of them.")
else:
    st.info("No family is left by this filter; choose all, or type less.", icon=":material/view_list:")
with st.expander("What the columns mean"):
    sheet.table("columns", column_table(), alt="The columns, their names in the file and their meaning.", folded=False)
with st.expander("How many families are in each state, and have each kind of finding"):
    states, kinds = state_table(rows), kind_table(rows)
    left, right = st.columns(2)
    with left:
        sheet.figure("states", count_figure.chart(states, "state"))
    with right:
        sheet.figure("kinds", count_figure.chart(kinds, "kind"))
    sheet.table("states", states, alt="Families per state.", formats={"share": "percent"}, folded=False)
    sheet.table("kinds", kinds, alt="Families per kind of finding.", formats={"share": "percent"}, folded=False)
sheet.exports(record=manifest, paragraphs=[sentence])
