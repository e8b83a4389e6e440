"""The page Tours: all guided tours, each with a button that begins it."""

from __future__ import annotations

import streamlit as st

from core.lab.tours import TOURS
from pages.common import navigation, panels
from pages.common import tours as walks

st.title("Tours")
st.markdown(
    "Each stop sets a page and its controls and says in two sentences what is to be seen. Leave a tour at any time; it "
    "waits where it was left."
)
for name, walk in TOURS.items():
    with st.container(border=True, key=f"walk-{name}"):
        st.subheader(walk.title, anchor=False)
        st.markdown(panels.escaped(walk.steps[0].sentences[0]))
        pages = dict.fromkeys(navigation.ENTRIES[step.page].title for step in walk.steps)
        st.caption(f"{len(walk.steps)} stops on {', '.join(pages)}.")
        st.button(
            "Begin", key=f"tour-{name}", icon=":material/explore:", on_click=walks.go, args=(name, 0),
        )  # fmt: skip
