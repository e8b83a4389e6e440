"""The tabs of the page Health; only the open tab is drawn and computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from core.errors import DepthscopeError
from core.figures.block import Observed
from core.figures.recipes import profile_figure
from core.figures.sites import RATIO_TITLES, site_figure
from core.health.columns import SAME_BASE_CONTROL
from core.health.request import ObserveRequest
from core.recipes.catalogue import CONTROL
from core.tables.frame import for_people
from core.tables.observe import (
    arm_table,
    arm_view,
    contribution_table,
    contribution_view,
    site_table,
    site_view,
    token_table,
    token_view,
)
from core.tables.observe_words import outsized_sentence, reduction_sentence, setting_sentence
from core.tables.pins import overlay_table, quotient_table
from core.tables.references import reference_table, reference_view
from core.tables.seeds import (
    CANDIDATE,
    VERDICT,
    before_and_after,
    candidate_table,
    ribbon_table,
    verdict_table,
)
from core.tables.writers import writer_view
from pages.common import cached, jobs, model_controls, panels, runs, settings, twins
from pages.common.site_figures import draw_block, draw_contributions, draw_ratios, draw_tokens
from pages.common.tower import tower
from pages.common.widgets import assign, beside, draw_row
from pages.residual_health import controls
from pages.residual_health.shown import Shown, chosen_arms

if TYPE_CHECKING:
    pass


def ratios(shown: Shown) -> None:
    """Draw the ratios of activations and gradients at every site, with the band, for the chosen arms."""
    draw_row(controls.ARMS, controls.SCALE, controls.SITE, key="figure-options")
    table = chosen_arms(shown.compared)
    spread = ribbon_table(shown.seeds) if shown.seeds else None
    left, right = st.columns([2, 3], gap="medium")
    profile = table if spread is None else spread[spread["recipe"].isin(table["recipe"])]
    with left:
        tower(
            shown.sheet,
            profile,
            shown.request.band,
            site=shown.site,
            select=_choose,
            follow=model_controls.BLOCKS.name,
            preview=partial(_at_depth, shown.observed),
        )
    with right:
        draw_ratios(shown.sheet, table, shown.request.band, log=shown.log, spread=spread, stacked=True)
    if shown.site is not None:
        _opened(shown, shown.site)
    if shown.seeds:
        verdicts = verdict_table(shown.seeds)
        shown.sheet.table("verdicts", verdicts, view=for_people(verdicts, VERDICT), alt="The verdict's numbers by arm.")
    shown.sheet.table(
        "sites", shown.sites, view=site_view(shown.sites), alt="Ratios and band of every site, both arms."
    )
    arms = arm_table(shown.document)
    shown.sheet.table("arms", arms, view=arm_view(arms), alt="Loss, normalizers and largest ratios, one row per arm.")
    st.caption(panels.escaped(setting_sentence(shown.document)))


def _choose(site: int | None) -> None:
    assign({controls.SITE.name: "" if site is None else str(site)})


def _at_depth(request: ObserveRequest, blocks: int) -> pd.DataFrame | None:
    """Return the site table at another depth; None if it cannot be computed at once."""
    other = replace(request, config=replace(request.config, blocks=blocks))
    with suppress(DepthscopeError):
        other.check()
        return None if jobs.is_long(other) else chosen_arms(site_table(cached.observation(other)))
    return None


def _opened(shown: Shown, site: int) -> None:
    """Draw the block that adds at the chosen site, with its numbers; for the input site, the first block."""
    table = shown.contributions
    added = table.loc[table["site"] == site, "block"]
    number = int(added.iloc[0]) if len(added) else 0
    st.subheader(f"Block {number}")
    st.button("Close the block", key="close-block", icon=":material/close:", on_click=_choose, args=(None,))
    _drawn_block(shown, "chosen-block", number)


def _drawn_block(shown: Shown, file: str, number: int) -> None:
    """Draw one block of the arm `arm` with its wiring, observed values and writers."""
    config, name = shown.observed.config, CONTROL if shown.arm == SAME_BASE_CONTROL else shown.request.recipe
    title = f"Block {number} of {config.blocks}, {name}"
    observed = Observed(shown.sites[shown.sites["arm"] == shown.arm], shown.contributions)
    picture, words = st.columns(2)
    with picture:
        writers = draw_block(shown.sheet, file, config, name, number, shown.observed.distribution, title, observed)
    with words:
        st.markdown(
            "The thick line is the residual stream, read from top to bottom. Each branch reads it, and its writer, the "
            "matrix that ends the branch, puts the contribution back at the sum. A factor acts once, on the stored "
            "weights. A is a state's ratio to the input, G its adjoint's to the last site."
        )
        shown.sheet.table(
            f"{file}-writers" if file != "block" else "writers", writers, view=writer_view(writers),
            alt="The matrices of this block that write into the stream.",
        )  # fmt: skip


def absolute(shown: Shown) -> None:
    """Draw the RMS of states and of their gradients, not as ratios, with a sentence on what it depends on."""
    panels.notice(reduction_sentence(shown.document))
    tokens = token_table(shown.document)
    if (outsized := outsized_sentence(tokens)) is not None:
        panels.outcome(outsized, good=False)
    st.markdown(
        "A site's RMS is over all its valid tokens, so one outsized token can make it; the dotted median and the strip "
        "are of every token's own RMS."
    )
    _figure_options()
    draw_tokens(shown.sheet, chosen_arms(tokens), log=shown.log)
    view = token_view(tokens)
    shown.sheet.table("tokens", tokens, view=view, alt="Absolute RMS of every site and of its tokens, both arms.")


def contributions(shown: Shown) -> None:
    """Draw what every branch adds, and the stream to which it is added."""
    st.markdown(
        "A contribution is what the stream gains at an addition; the stream is the shortcut term it is added to. The "
        "raw output is the branch's own, before its coefficient and output norm."
    )
    _figure_options()
    table = chosen_arms(contribution_table(shown.document))
    draw_contributions(shown.sheet, table, log=shown.log)
    view = contribution_view(table)
    shown.sheet.table("contributions", table, view=view, alt="RMS, ratio and cosine of every contribution.")
    st.caption(
        "A cosine is pooled over all valid features; it is empty where a zero branch or stream leaves it undefined."
    )


def reference_site(shown: Shown) -> None:
    """Draw the RMS relative to a chosen site (state of the stream), with a table that has the usual ratio too."""
    st.markdown(
        "The ratio of the definition divides by the input's RMS. A tiny embedding makes every later site large beside "
        "it, and one of unit scale hides growth; another reference tells which it is. No band judges these."
    )
    reference = controls.REFERENCE.draw()
    _figure_options()
    everything = reference_table(shown.document, reference)
    table = chosen_arms(everything)
    for quantity in beside(RATIO_TITLES):
        name, title = f"{quantity}_to_reference", f"{quantity.capitalize()} RMS relative to the {reference}"
        chart = site_figure.chart(table, name, title=title, y_title=f"ratio to the {reference}", log=shown.log)
        shown.sheet.figure(name.replace("_", "-"), chart)
    view = reference_view(everything, shown.sites)
    shown.sheet.table("references", everything, view=view, alt="RMS relative to the reference, beside the ratio.")


def block(shown: Shown) -> None:
    """Draw the block chosen on the page as a diagram, with the measured ratios, its writers and their factors."""
    _drawn_block(shown, "block", min(int(controls.BLOCK.draw()), shown.request.config.blocks - 1))


def mend_it(shown: Shown) -> None:
    """Draw the ratios before and after the best change, and a table of every change that was tried."""
    if shown.arms is not None and shown.arms[0].verdict.state == "inside":
        panels.outcome("The verdict is inside the band; nothing needs to change.", good=True)
        return
    if (found := shown.suggestion) is None:
        st.caption("What would change the verdict is sought once the seeds are counted.")
        return
    table = before_and_after(found)
    for quantity in beside(RATIO_TITLES):
        chart = profile_figure.chart(
            table, shown.request.band, quantity, spread=True, order=tuple(table["recipe"].unique())
        )
        shown.sheet.figure(f"mended-{quantity}-ratio", chart)
    tried = candidate_table(found)
    shown.sheet.table(
        "tried", tried, view=for_people(tried, CANDIDATE), alt="What was tried over the same seeds, the best first."
    )


def kept_runs(shown: Shown) -> None:
    """Draw the runs that the visitor has kept (up to four) and the present setting in one figure, compared."""
    if not settings.pins():
        st.info("No run is kept yet. Press Keep in the bar above; up to four stay here.", icon=":material/push_pin:")
        return
    runs.draw_list()
    tables = {}
    for one in runs.drawn():
        with panels.refusals():
            request = twins.answered(settings.request_of(one), shown.model.seeds)
            tables[one.name] = site_table(cached.observation(request))
    if settings.saved(model_controls.MODEL).setting not in [one.setting for one in runs.drawn()]:
        tables["now"] = site_table(cached.observation(shown.request))
    overlay = overlay_table(tables)
    draw_ratios(shown.sheet, overlay, shown.request.band, log=shown.log, prefix="runs-")
    differences = quotient_table(overlay)
    shown.sheet.table("differences", differences, alt="Ratios of every run, site by site, and their quotients.")
    shown.sheet.table("run-sites", overlay, alt="Every site of every run.")


def _figure_options() -> None:
    draw_row(controls.ARMS, controls.SCALE, key="figure-options")


TABS: Mapping[str, Callable[[Shown], None]] = {
    "Ratios": ratios,
    "Absolute RMS": absolute,
    "Contributions": contributions,
    "Reference site": reference_site,
    "The block": block,
    "Mend it": mend_it,
    "Runs": kept_runs,
}
