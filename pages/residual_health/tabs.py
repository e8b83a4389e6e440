"""What each tab of the page Residual health shows; only the open one is drawn and computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import pandas as pd
import streamlit as st

from core.errors import DepthscopeError
from core.figures.block import Observed
from core.figures.sites import RATIO_TITLES, site_figure
from core.health.columns import INITIALIZED, SAME_BASE_CONTROL
from core.health.request import ObserveRequest
from core.recipes.catalogue import CONTROL
from core.tables.observe import (
    arm_table,
    arm_view,
    contribution_table,
    contribution_view,
    site_table,
    site_view,
    token_table,
    token_view,
    trial_table,
)
from core.tables.observe_words import outsized_sentence, reduction_sentence, setting_sentence
from core.tables.pins import overlay_table, quotient_table
from core.tables.references import reference_table, reference_view
from core.tables.writers import writer_view
from pages.common import cached, jobs, panels, settings
from pages.common.decoder_controls import BLOCKS
from pages.common.outputs import Sheet
from pages.common.site_figures import draw_block, draw_contributions, draw_ratios, draw_tokens
from pages.common.tower import tower
from pages.common.widgets import assign, beside, draw_row
from pages.residual_health import controls


@dataclass(frozen=True)
class Shown:
    """What the page was asked for and found, and the sheet it is shown on."""

    request: ObserveRequest
    document: Mapping[str, Any]
    sheet: Sheet

    @cached_property
    def sites(self) -> pd.DataFrame:
        """The site table of both arms."""
        return site_table(self.document)

    @cached_property
    def contributions(self) -> pd.DataFrame:
        """What every branch of the arm that blocks are drawn of adds."""
        table = contribution_table(self.document)
        return table[table["arm"] == self.arm]

    @property
    def arm(self) -> str:
        """The arm that blocks are drawn of."""
        return SAME_BASE_CONTROL if controls.ARMS.value == controls.CONTROL_ONLY else INITIALIZED

    @property
    def site(self) -> int | None:
        """The chosen site, if the arm has it."""
        wanted = str(controls.SITE.value).strip()
        known = wanted.isascii() and wanted.isdigit() and len(wanted) < 6
        return (
            int(wanted) if known and int(wanted) in set(self.sites.loc[self.sites["arm"] == self.arm, "site"]) else None
        )

    @property
    def log(self) -> bool:
        """Whether figures have a logarithmic axis."""
        return bool(controls.SCALE.value == controls.LOGARITHMIC)


def chosen_arms(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the arms that the reader wants to see."""
    wanted = {controls.RECIPE_ONLY: "initialized", controls.CONTROL_ONLY: "control"}.get(controls.ARMS.value)
    return table if wanted is None else table[table["arm"] == wanted]


def ratios(shown: Shown) -> None:
    """Both ratios beside the band, the arms and every site."""
    draw_row(controls.ARMS, controls.SCALE, controls.SITE, key="figure-options")
    table = chosen_arms(shown.sites)
    left, right = st.columns([2, 3], gap="medium")
    with left:
        tower(
            shown.sheet, table, shown.request.band, site=shown.site, select=_choose, follow=BLOCKS.name,
            preview=partial(_at_depth, shown.request),
        )  # fmt: skip
    with right:
        draw_ratios(shown.sheet, table, shown.request.band, log=shown.log, stacked=True)
    if shown.site is not None:
        _opened(shown, shown.site)
    st.subheader("Sites")
    shown.sheet.table(
        "sites", shown.sites, view=site_view(shown.sites), alt="Ratios and band of every site, both arms."
    )
    st.subheader("Arms")
    arms = arm_table(shown.document)
    shown.sheet.table("arms", arms, view=arm_view(arms), alt="Loss, normalizers and largest ratios, one row per arm.")
    st.caption(panels.escaped(f"{setting_sentence(shown.document)} {reduction_sentence(shown.document)}"))


def _choose(site: int | None) -> None:
    assign({controls.SITE.name: "" if site is None else str(site)})


def _at_depth(request: ObserveRequest, blocks: int) -> pd.DataFrame | None:
    """The site table at another depth; None where that cannot be had at once."""
    other = replace(request, config=replace(request.config, blocks=blocks))
    with suppress(DepthscopeError):
        other.check()
        return None if jobs.is_long(other) else chosen_arms(site_table(cached.observation(other)))
    return None


def _opened(shown: Shown, site: int) -> None:
    """The block that adds at the chosen site, with its numbers; the input's is the first."""
    table = shown.contributions
    added = table.loc[table["site"] == site, "block"]
    number = int(added.iloc[0]) if len(added) else 0
    st.subheader(f"Block {number}")
    st.button("Close the block", key="close-block", icon=":material/close:", on_click=_choose, args=(None,))
    _drawn_block(shown, "chosen-block", number)


def _drawn_block(shown: Shown, file: str, number: int) -> None:
    """One block of the arm that is shown as it is wired and observed, beside its writers."""
    config, name = shown.request.config, CONTROL if shown.arm == SAME_BASE_CONTROL else shown.request.recipe
    title = f"Block {number} of {config.blocks}, {name}"
    observed = Observed(shown.sites[shown.sites["arm"] == shown.arm], shown.contributions)
    picture, words = st.columns(2)
    with picture:
        writers = draw_block(shown.sheet, file, config, name, number, shown.request.distribution, title, observed)
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
    """Absolute RMS of states and adjoints, with what they depend on."""
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
    """What every branch adds, beside the stream it is added to."""
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
    """RMS relative to a chosen site, beside the ratio of the definition."""
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
    """One block as it is wired, with its sites, writers and factors."""
    _drawn_block(shown, "block", min(int(controls.BLOCK.draw()), shown.request.config.blocks - 1))


def mend_it(shown: Shown) -> None:
    """The first recipe of the same topology that brings every ratio into the band."""
    if jobs.is_long(shown.request):
        panels.notice("Recipes are tried one after another on small decoders only; choose smaller sizes to try them.")
        return
    mending = cached.mending(shown.request)
    found = None if mending.before.within else mending.found
    panels.outcome(mending.sentence, good=mending.before.within or found is not None)
    if found is not None:
        values = {"recipe": found.recipe}
        st.button(f"Apply {found.recipe}", key="apply-recipe", type="primary", on_click=assign, args=(values,))
    shown.sheet.table("mending", trial_table(mending), alt="Recipes of the same topology with their largest ratios.")


def pinned(shown: Shown) -> None:
    """Up to four pinned settings over each other and this one, with their differences."""
    kept = settings.pins()
    if not kept:
        st.info(
            "Nothing is pinned yet. Set a decoder and press Pin in the sidebar; up to four stay here.",
            icon=":material/push_pin:",
        )
        return
    tables = {"now": shown.sites}
    for index, one in enumerate(kept):
        with st.container(horizontal=True, gap="small", vertical_alignment="center", key=f"pinned-{index}"):
            st.button(f"Unpin {one.name}", key=f"unpin-{index}", on_click=settings.unpin, args=(index,))
        with panels.refusals():
            request = settings.request_of(one)
            found = jobs.kept(request) if jobs.is_long(request) else cached.observation(request)
            if found is None:
                panels.notice(f"{one.name} is a long run without a result yet; set it and press Run it first.")
            else:
                tables[one.name] = site_table(found)
    overlay = overlay_table(tables)
    draw_ratios(shown.sheet, overlay, shown.request.band, log=shown.log, prefix="pinned-")
    differences = quotient_table(overlay)
    shown.sheet.table(
        "differences", differences, alt="Ratios of every pinned setting, site by site, and their quotients."
    )
    shown.sheet.table("pinned-sites", overlay, alt="Every site of every pinned setting.")


def _figure_options() -> None:
    draw_row(controls.ARMS, controls.SCALE, key="figure-options")


TABS: Mapping[str, Callable[[Shown], None]] = {
    "Ratios": ratios,
    "Absolute RMS": absolute,
    "Contributions": contributions,
    "Reference site": reference_site,
    "The block": block,
    "Mend it": mend_it,
    "Pins": pinned,
}
