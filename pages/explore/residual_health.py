"""Residual health: both arms of one decoder, site by site, beside the band."""

from __future__ import annotations

import streamlit as st

from core.health.diagnosis import comparison, diagnose
from core.views.figures import RATIO_TITLES, alternative_text, ratio_figure, undrawn
from core.views.tables import arm_table, arm_view, site_table, site_view
from pages.common import cached, controls, panels

st.title("Residual health")
st.markdown(
    "How large the residual stream and the loss sensitivity are at every residual site of a fresh decoder, beside the "
    "same base draw without depth scaling."
)

with panels.refusals():
    request = controls.request()
    document = cached.observation(request)
    sites = site_table(document)
    sheet = panels.Sheet("residual-health")
    panels.verdict(diagnose(document), comparison(document))
    arms = arm_table(document)
    sheet.table("arms", arms, view=arm_view(arms), alt="Loss, normalizers and largest ratios, one row an arm.")
    for column, quantity in zip(st.columns(2), RATIO_TITLES, strict=True):
        with column:
            figure = ratio_figure(sites, request.band, quantity, theme=panels.theme())
            alt = alternative_text(sites, f"{quantity}_ratio", f"{quantity} ratio".capitalize())
            sheet.figure(f"{quantity}-ratio", figure, alt=alt, undrawn=undrawn(sites, f"{quantity}_ratio"))
    st.subheader("Sites")
    sheet.table("sites", sites, view=site_view(sites), alt="Ratios and band of every residual site, both arms.")
