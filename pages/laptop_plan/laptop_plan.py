"""The page Plan: parameters and memory of the current model, by exact arithmetic; nothing is allocated."""

from __future__ import annotations

import streamlit as st

from core.figures.bars import role_figure
from core.plan.arithmetic import plan_document
from core.tables.studies import byte_table, role_table
from pages.common import model, navigation, panels
from pages.common.outputs import Sheet

st.title("Plan")
st.markdown(
    "Exact parameters and bytes of the model above, tensor by tensor. No array of it is allocated, whatever its size."
)

sheet = Sheet("laptop_plan", "Plan")
plan = plan_document(model.current().plan)
st.metric("Parameters", f"{int(plan['parameters']):,}")
st.markdown("Outside the blocks + blocks × (one block) + tail = total:")
panels.formula(plan["formula"].replace("×", r"\times "))
st.caption(
    f"Depth factor 1/sqrt({plan['config']['blocks']}) = {plan['factor']:.9f}; {plan['residual_states']} residual "
    f"states of {plan['context']} positions and {plan['config']['width']} features; not executed."
)
if plan["assumed"]:
    assumed = ", ".join(f"{name} = {value}" for name, value in plan["assumed"].items())
    panels.notice(f"Left out of the file and taken at the family's own default: {assumed}.")
roles, sizes = role_table(plan), byte_table(plan)
sheet.figure("roles", role_figure.chart(roles))
sheet.table(
    "roles", roles, alt="Tensors, shapes and coordinates by name.", formats={"coordinates": "%,d", "share": "%.4f"}
)
st.subheader("Bytes")
sheet.table("bytes", sizes, alt="Bytes by floating type.", formats=dict.fromkeys(sizes.columns[1:], "%,d"))
st.caption(
    ". ".join(f"{part.replace('_', ' ').capitalize()}: {words}" for part, words in plan["bytes_meaning"].items()) + "."
)
health = navigation.ENTRIES["residual_health"]
st.page_link(health.script, label="Is its depth safe? Open it on Health", icon=health.symbol)
sheet.exports(record={"config": plan["config"], "tied": plan["tied"]})
