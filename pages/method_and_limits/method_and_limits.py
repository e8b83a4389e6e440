"""The page Method and limits: definitions, formulas with units, what the numbers establish, glossary and practice."""

from __future__ import annotations

import streamlit as st

from core.tables.guide import DEFINITIONS, ESTABLISHES, PRACTICE, glossary_table
from pages.common import navigation, panels
from pages.common.outputs import Sheet
from pages.common.widgets import control_table
from pages.method_and_limits.controls import TEXT

st.title("Method and limits")

sheet = Sheet("method_and_limits", "Method and limits")
definitions, establishes, practice, names = st.tabs(
    ["Definitions", "What the numbers establish, and what not", "Practice", "Names in links"]
)
with definitions:
    for column, part in zip(st.columns(2, gap="large"), (DEFINITIONS[:4], DEFINITIONS[4:]), strict=True):
        for definition in part:
            column.subheader(definition.title)
            column.markdown(definition.text)
            with column:
                panels.formula(definition.formula)
with establishes:
    st.markdown("\n".join(f"- {sentence}" for sentence in ESTABLISHES))
with practice:
    for number, question in enumerate(PRACTICE, start=1):
        entry = navigation.ENTRIES[question.page]
        st.markdown(f"{number}. {question.text}")
        st.page_link(
            entry.script, label=f"Set {entry.title} for question {number}", icon=entry.symbol,
            query_params=dict(question.query),
        )  # fmt: skip
with names:
    st.markdown("A link carries every control that is not at its default, under these names.")
    links = control_table({entry.title: entry.all_controls for entry in navigation.ENTRIES.values()})
    sheet.table(
        "links", links, alt="Every control's name, meaning, default and what it takes.", height=420, folded=False
    )
st.subheader("Glossary")
TEXT.draw()
found = glossary_table(TEXT.value)
if found.empty:
    st.info("No word of the glossary is left; type less.", icon=":material/search:")
sheet.table("glossary", glossary_table(), view=found, alt="Words and their meaning.", height=420, folded=False)
sheet.exports()
