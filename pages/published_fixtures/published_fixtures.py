"""The page Published fixtures: the four fixed decoders beside the published tables, every value compared."""

from __future__ import annotations

import streamlit as st

from core.decoder.fixtures import FIXTURES
from core.export.manifest import record_of
from core.health.request import ObserveRequest
from core.tables.observe import site_table
from core.tables.published import agreement_sentence, compared_table
from pages.common import cached, model, navigation, panels
from pages.common.outputs import Sheet
from pages.common.site_figures import draw_ratios
from pages.published_fixtures.controls import FIXTURE

st.title("Published fixtures")
st.markdown(
    "Four fixed decoders, seed 4701, the row 0, 99, 100, 101 with targets 99, 100, 101, 1. They are computed here and "
    "now and compared, number by number, with the six decimals that were published."
)

sheet = Sheet("published_fixtures", "Published fixtures")
cached.start_engine()
documents = {name: cached.observation(ObserveRequest(config=config)) for name, config in FIXTURES.items()}
compared = compared_table(documents)
panels.outcome(agreement_sentence(compared), good=bool((compared["agrees"] == "yes").all()))
name = FIXTURE.draw()
sites = site_table(documents[name])
draw_ratios(sheet, sites, prefix=f"{name}-")
st.page_link(
    navigation.ENTRIES["residual_health"].script, label=f"Open {name} in Health",
    icon=":material/monitor_heart:", query_params=model.query_of(name),
)  # fmt: skip
st.subheader("Every published value")
sheet.table(
    "compared", compared, view=compared[compared["fixture"] == name],
    alt=f"Published and computed values of {name}.", formats={"computed": "%.12f"},
)  # fmt: skip
st.caption("The file holds all four fixtures; the table shows the one chosen above.")
sheet.exports(
    record={name: record_of(document) for name, document in documents.items()},
    paragraphs=[agreement_sentence(compared)],
)
