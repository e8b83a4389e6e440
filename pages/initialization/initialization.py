"""The page Initialization: one Xavier matrix beside its target variance, and what the depth factor does to it."""

from __future__ import annotations

import streamlit as st

from core.decoder.config import DecoderConfig
from core.decoder.xavier import xavier_scale
from core.figures.studies import histogram_figure, propagation_figure
from core.lab.initializer import expected_propagation, init_document
from core.numerals import checked_seed
from core.plan.worked_values import DEPTHS, worked_values
from core.tables.studies import (
    histogram_table,
    ideal_table,
    initializer_table,
    moment_table,
    propagation_table,
    symmetry_table,
    vector_table,
)
from pages.common import cached, panels
from pages.common.outputs import Sheet
from pages.common.widgets import draw_beside
from pages.initialization.controls import DEPTH, FAN_IN, FAN_OUT, LAYERS, RECIPE, SEED


@cached.kept(entries=16)
def measured(fan_in: int, fan_out: int, seed: str, layers: int) -> cached.Document:
    """Return the `init` document of a matrix, with the expected variance over `layers` layers; it is cached.

    Raises `DepthscopeError` if the sizes or the seed are not valid.
    """
    document = init_document(fan_in, fan_out, checked_seed(seed))
    return {**document, "expected_propagation": expected_propagation(xavier_scale(fan_in, fan_out), layers)}


st.title("Initialization")
st.markdown(
    "A Xavier-uniform matrix draws its weights from a law whose variance depends on its two fans. Here one matrix is "
    "drawn and measured, beside the same weights doubled and beside zeros."
)
panels.formula(
    r"\operatorname{Var}(w)=\frac{2}{\text{fan}_{in}+\text{fan}_{out}},\qquad "
    r"{|w|\le\sqrt{\frac{6}{\text{fan}_{in}+\text{fan}_{out}}}}"
)

sheet = Sheet("initialization", "Initialization")
draw_beside((FAN_IN, FAN_OUT, SEED))
document = measured(FAN_IN.value, FAN_OUT.value, SEED.value.strip(), LAYERS.value)

left, right = st.columns(2, gap="large")
with left:
    st.subheader("Three populations in common bins")
    histogram, moments = histogram_table(document), moment_table(document)
    sheet.figure("histogram", histogram_figure.chart(histogram))
    sheet.table(
        "histogram", histogram, alt="Counts and percent of every bin and population.",
        formats={"from": "%.4g", "to": "%.4g", "percent": "%.4f"},
    )  # fmt: skip
    st.markdown("The variance is measured on the drawn weights; the target is the law's.")
    sheet.table("moments", moments, alt="Mean and variance of every population beside the target.")
with right:
    st.subheader("Expected propagation")
    st.markdown(
        "A layer that sums independent zero-mean features multiplies the variance by fan in times the weights' "
        "variance. This is an expectation under independence, not a measurement."
    )
    LAYERS.draw()
    propagation = propagation_table(document)
    sheet.figure("propagation", propagation_figure.chart(propagation))
    sheet.table(
        "propagation", propagation, alt="Expected variance after every layer.", formats={"expected_variance": "%.6g"}
    )

left, right = st.columns(2, gap="large")
with left:
    st.subheader("The depth factor")
    panels.formula(r"\alpha=L^{-1/2},\qquad W_{\text{stored}}=\alpha\,W_{\text{base}}")
    depth = DEPTH.draw()
    worked = worked_values(sorted({*DEPTHS, depth}), fans=(FAN_IN.value, FAN_OUT.value))
    st.markdown(
        "For a selected matrix of these fans: half-bound and variance of the law, the derivative of y = 2 w with "
        "respect to the stored and to the base weight, and the variance of 2L independent increments of variance 1."
    )
    sheet.table("ideal", ideal_table(worked), alt="Law and derivatives at every depth.", formats={"variance": "%.9g"})
    st.markdown("A worked vector: a selected matrix is scaled once, its unselected twin keeps its base values.")
    sheet.table("worked-vector", vector_table(worked), alt="The vector at every depth beside its twin.")
with right:
    st.subheader("Why zeros stay alike")
    st.markdown(
        "With one hidden layer of zero weights and equal output weights, every hidden column gets the same gradient: "
        "equal updates keep the columns equal, though the gradient itself is not zero."
    )
    sheet.table("zero-symmetry", symmetry_table(document), alt="Hidden weights and their gradients.")
    st.subheader("Which tensor gets which initializer")
    name = RECIPE.draw()
    tensors = initializer_table(DecoderConfig(blocks=depth), name)
    st.markdown("The narrow decoder at the depth chosen above; the factor is that of block 0.")
    sheet.table("initializers", tensors, alt="Initializer, std and factor of every tensor.")
sheet.exports(record={key: document[key] for key in ("seed", "initial_rng_state", "final_rng_state")})
