"""A page of experiments: one experiment at a time, with its text, formulas, controls, figures and tables."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import streamlit as st

from core.lab import experiments
from core.lab.experiment import Experiment, Result
from core.lab.options import Options
from core.lab.view import formats, readable, summary_table, summary_view
from pages.common import allowance, cached, panels, tours
from pages.common.lab_controls import Bench, LabPage
from pages.common.outputs import Sheet
from pages.common.widgets import assign
from pages.signal_lab import unit_player


def show(page: LabPage, about: str) -> None:
    """Draw the whole page, with `about` below the title; only the chosen experiment is computed."""
    st.title(page.title)
    st.markdown(about)
    tours.offer()
    page.selector.draw(label_visibility="collapsed")
    bench = page.chosen
    experiment, sheet = bench.experiment, Sheet(page.name, page.title)
    st.subheader(experiment.title)
    st.markdown(experiment.text)
    for formula in experiment.formulas:
        panels.formula(formula)
    draw_presets(bench)
    beside, wide = st.columns([1, 2.6], gap="medium")
    with beside:
        draw_controls(bench)
        player = unit_player.draw(bench) if experiment.name == unit_player.EXPERIMENT else None
    with panels.refusals():
        with wide, panels.refusals():
            options = bench.options()
            result = run(bench, options)
            seen = result if player is None else player(result)
            draw_result(sheet, experiment, options, seen, told=seen is result)
        if sheet.pictures:
            draw_tables(sheet, experiment, options, seen)
            said = [experiment.subject(options), experiment.reading(result.summary), *result.notes]
            record = {"experiment": experiment.name, "options": options.document()}
            sheet.exports(paragraphs=[_unmarked(experiment.text), *said], record=record)


def draw_presets(bench: Bench) -> None:
    """Draw one button per preset, which sets the preset's options and resets the other options of the experiment."""
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center", key="lab-presets"):
        for index, (title, given) in enumerate(bench.experiment.presets.items()):
            st.button(title, key=f"lab-preset-{index}", on_click=assign, args=(bench.setting(given),))


def draw_controls(bench: Bench) -> None:
    """Draw the controls of all options that have an effect now, the rarely used ones in an expander."""
    declared = bench.experiment.declared
    for name, option in declared.items():
        # One after another: a control has the value of the link only once drawn, and later controls depend on it.
        if not option.more and bench.counts(name):
            bench.controls[name].draw()
    folded = [name for name, option in declared.items() if option.more and bench.counts(name)]
    if folded:
        with st.expander("More"):
            for name in folded:
                bench.controls[name].draw()


def run(bench: Bench, options: Options) -> Result:
    """Return the result of the experiment for these options; it is cached."""
    if bench.experiment.needs_torch(options):
        cached.start_engine()
    with st.spinner("Running the experiment…", show_time=True):
        return _result(bench.experiment.name, options)


@cached.kept()
def _result(name: str, options: Options) -> Result:
    with allowance.charged():
        return experiments.experiment(name).run(options)


def draw_result(sheet: Sheet, experiment: Experiment[Any], options: Options, result: Result, *, told: bool) -> None:
    """Draw all figures of a result; if `told` is True, first a sentence that states the result."""
    if told:
        st.info(panels.escaped(experiment.reading(result.summary)), icon=":material/straighten:")
    for file, picture in experiment.pictures(result, experiment.subject(options)).items():
        sheet.figure(file, picture)


def draw_tables(sheet: Sheet, experiment: Experiment[Any], options: Options, result: Result) -> None:
    """Draw published numbers beside the computed ones, all tables, the summary and the assumptions of a result."""
    name = experiment.name
    published = experiment.published_table(options, result)
    if published is not None:
        alt = "The published figures beside what is computed here."
        _table(sheet, f"{name}-as-printed", alt, published, readable(published))
    for key, shown in experiment.tables.items():
        table = result.tables[key]
        _table(sheet, f"{name}-{key.replace('_', '-')}", shown.alt, table, shown.of(table))
    _table(sheet, f"{name}-summary", "Every number of the experiment.", summary_table(result), summary_view(result))
    for note in result.notes:
        st.caption(panels.escaped(_unmarked(note)))


def _table(sheet: Sheet, name: str, alt: str, table: pd.DataFrame, view: pd.DataFrame) -> None:
    sheet.table(name, table, view=view, alt=alt, formats=formats(view))


def _unmarked(text: str) -> str:
    return re.sub(r"[*`]", "", text)
