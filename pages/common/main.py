"""What every run of the app draws: menu, sidebar, page, and a sentence per value of a link that is not accepted."""

from pathlib import Path

import streamlit as st

from pages.common import browser, model, model_bar, navigation, panels, runs, settings, sidebar, tours, widgets

# Before the menu: a browser that has no picture for its tab by then asks a foreign host for that of the page's symbol.
st.set_page_config(page_icon=Path(__file__).with_name("icon.svg"), layout="wide")
asked = widgets.asked()
page, entry = navigation.menu()
st.set_page_config(page_title=f"{entry.title} · Depthscope")
if (restored := st.session_state.pop(settings.NEXT_PAGE, None)) is not None and restored.name != entry.name:
    st.switch_page(restored.script, query_params=settings.query_parameters(restored.all_controls))
declined = [*model.arrive(entry.name), *runs.arrive(entry.name)]
sidebar.draw(entry)
with st.sidebar:
    browser.prepare()
# A tour sets controls, so it comes before the bar that draws them.
bar = st.container()
tours.draw(entry)
with bar, panels.refusals():
    model_bar.draw(entry)
model.keep_in_link()
runs.keep_in_link()
if (sentence := st.session_state.pop(settings.REFUSAL, None)) is not None:
    panels.refusal(sentence)
place = st.container()
with panels.refusals():
    page.run()
# A page's own controls are drawn by now, so what the link could not set is known.
with place:
    for sentence in [*declined, *widgets.notices(asked, entry.controls)]:
        panels.notice(sentence)
