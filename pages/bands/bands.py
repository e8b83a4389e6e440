"""The page Bands: which ratios are within the inclusive band, for given arrays and for the visitor's own ratios."""

from __future__ import annotations

import streamlit as st

from core.figures.studies import judged_figure
from core.health.band import Band
from core.lab.synthetic import synthetic_classifiers
from core.tables.studies import classifier_table, judged_table, off_first, parsed_ratios
from pages.bands.controls import LOWER, RATIOS, UPPER, keep_edits
from pages.common import panels
from pages.common.outputs import Sheet
from pages.common.widgets import beside, draw_beside

st.title("Bands")
st.markdown(
    "A ratio is judged on its unrounded value, and both ends of the band belong to it. The arrays below are supplied "
    "to the classifier directly; no decoder was observed for them."
)
panels.formula(r"\text{below}: r<\ell,\qquad \text{within}: \ell\le r\le u,\qquad \text{above}: r>u")

sheet = Sheet("bands", "Bands")
draw_beside((LOWER, UPPER))
band = Band(LOWER.value, UPPER.value)
st.subheader("Supplied arrays")
arrays = classifier_table(synthetic_classifiers(band=band))
for name in beside(dict.fromkeys(arrays["array"])):
    rows, title = arrays[arrays["array"] == name], f"Supplied {name} ratios"
    sheet.figure(f"{name}-array", judged_figure.chart(rows, band, title=title))
sheet.table(
    "arrays", arrays, view=off_first(arrays), alt="Supplied ratios with their verdicts, those outside the band first.",
    formats={"ratio": "%.6g"},
)  # fmt: skip

st.subheader("Your own ratios")
RATIOS.draw()
ratios = parsed_ratios(RATIOS.value)
own = judged_table(ratios, band)
# A new text gets a new editor: the edits of the old one are in the text already.
editor = f"ratio-editor-{RATIOS.value}"
chart, table = st.columns([2, 1])
with table:
    st.data_editor(
        own[["ratio"]], num_rows="dynamic", key=editor, width="stretch", on_change=keep_edits, args=(editor, ratios),
        column_config={"ratio": st.column_config.NumberColumn("ratio", format="%.6g", required=True)},
    )  # fmt: skip
with chart:
    sheet.figure("own", judged_figure.chart(own, band, title="Your ratios"))
sheet.table(
    "own", own, view=off_first(own), alt="Your ratios with their verdicts, those outside the band first.",
    formats={"ratio": "%.6g"},
)  # fmt: skip

st.subheader("What the band establishes, and what not")
st.markdown(
    "- It catches large changes of size along the depth of one fresh decoder: a stream that grows a hundredfold, a "
    "loss that hardly depends on the first blocks.\n"
    "- It says nothing of absolute size: two decoders with equal ratios can differ in every absolute adjoint.\n"
    "- It does not establish convergence, nor what another seed, depth, floating type or batch would show.\n"
    "- Its limits are a choice, the same for every decoder; a value outside is a reason to look, no proof."
)
sheet.exports()
