"""The page Method and limits: definitions, formulas with units, what the numbers establish, glossary and practice."""

from __future__ import annotations

import streamlit as st

from core.tables.guide import DEFINITIONS, ESTABLISHES, GLOSSARY, PRACTICE, glossary_table
from pages.common import navigation, panels
from pages.common.outputs import Sheet
from pages.common.widgets import control_table

st.title("Method and limits")

sheet = Sheet("method_and_limits", "Method and limits")
for definition in DEFINITIONS:
    st.subheader(definition.title)
    st.markdown(definition.text)
    if definition.formula:
        panels.formula(definition.formula)
st.subheader("What the numbers establish, and what not")
st.markdown("\n".join(f"- {sentence}" for sentence in ESTABLISHES))
st.subheader("Practice")
for number, question in enumerate(PRACTICE, start=1):
    entry = navigation.ENTRIES[question.page]
    st.markdown(f"{number}. {question.text}")
    st.page_link(
        entry.script, label=f"Set {entry.title} for question {number}", icon=entry.symbol,
        query_params=dict(question.query),
    )  # fmt: skip
st.subheader("Glossary")
sheet.table("glossary", glossary_table(GLOSSARY), alt="Words and their meaning.", height=420, folded=False)
st.subheader("Names in links")
st.markdown("A link carries every control that is not at its default, under these names.")
links = control_table({entry.title: entry.all_controls for entry in navigation.ENTRIES.values()})
sheet.table("links", links, alt="Every control's name, meaning, default and what it takes.", height=420, folded=False)
sheet.exports()
