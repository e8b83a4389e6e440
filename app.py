"""Depthscope in a browser: `streamlit run app.py`."""

import streamlit as st

from pages.common import controls, links, navigation, panels

asked = links.asked()
page, entry = navigation.menu(navigation.available())
st.set_page_config(page_title=f"{entry.title} · Depthscope", page_icon="🩺", layout="wide")
if entry.decoder:
    controls.decoder_sidebar()
    for sentence in links.notices(asked, controls.DECODER):
        panels.notice(sentence)
with panels.refusals():
    page.run()
