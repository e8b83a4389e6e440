"""The view of what theory says of a recipe without a free parameter, beside what was measured."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from core.views.lines import described
from core.views.recipe_tables import depth_theory_view, error_view, overlay_summary
from core.views.theory_figures import error_figure, overlay_figure
from pages.common import panels
from pages.recipes import cached as cached_recipes
from pages.recipes import controls
from pages.recipes.shown import Shown, depth_sweep, draw_options

PERCENT = "percent"


def theory(shown: Shown) -> None:
    """What follows without a free parameter, beside what was measured, with the residual error."""
    st.markdown(
        "Every prediction here is **derived**: it starts from measured numbers of the same member and fits nothing. "
        "The residual error says how far independence, equal variance and no covariance carry."
    )
    if not shown.runnable:
        panels.notice("None of these recipes runs on this decoder, so there is nothing to derive; choose another.")
        return
    draw_options(controls.FOCUS, controls.DEPTHS, among=shown.runnable)
    name = str(controls.FOCUS.value)
    tables = cached_recipes.theory(shown.request, name)
    if len(tables["overlay"]):
        _theory_figures(shown, tables["overlay"], "site")
        view = error_view(tables["errors"])
        shown.sheet.table(
            "theory-errors", tables["errors"], view=view, formats=dict.fromkeys(view.columns[2:4], PERCENT),
            alt="Median and largest relative error of every law.",
        )  # fmt: skip
    else:
        panels.notice(f"{name} normalizes every state after its addition, so no law of the stream's size applies.")
    st.subheader("The loss's sensitivity against depth")
    sweep = depth_sweep(shown)
    overlay = cached_recipes.depth_theory(sweep, name)
    if len(overlay):
        summary = overlay_summary(overlay)
        _theory_figures(shown, summary, "blocks")
        view = depth_theory_view(summary)
        shown.sheet.table(
            "depth-theory", summary, view=view, formats=dict.fromkeys(view.columns[4:], PERCENT),
            alt="Measured and derived terminal adjoint at every depth.",
        )  # fmt: skip
    elif sweep.complete:
        panels.notice(
            f"{name} is no pre-norm stack with a final norm, so the law of the terminal adjoint does not apply."
        )


def _theory_figures(shown: Shown, overlay: pd.DataFrame, x: str) -> None:
    what = "Activation RMS" if x == "site" else "Terminal adjoint RMS"
    laws = ", ".join(str(law) for law in dict.fromkeys(overlay["law"]))
    left, right = st.columns(2)
    with left:
        shown.sheet.figure(
            f"theory-by-{x}",
            partial(overlay_figure, overlay, x),
            alt=f"{described(overlay, x, f'{what}, measured', 'measured')} Derived: {laws}.",
        )
    with right:
        shown.sheet.figure(
            f"error-by-{x}",
            partial(error_figure, overlay, x),
            alt=f"Relative error of every derived law; the table has them. {laws}.",
        )
