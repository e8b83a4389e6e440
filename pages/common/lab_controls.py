"""The controls of the lab pages, made from the options of the experiments.

A control is named `{folder}_{experiment}_{option}`, or `{folder}_{option}` if the experiments of a page share it.
`{folder}_experiment` chooses the experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from core.lab import experiments
from core.lab.experiment import Experiment
from core.lab.options import Option, Options, typed
from pages.common.widgets import Control, Kind

# Streamlit's whole numbers end here; the command line takes any 64-bit seed.
LARGEST_SEED = 2**53 - 1
SLIDER_REACH = 256
SEGMENTS = 4
TEXT_KINDS = ("numbers", "rows", "wholes", "text")


@dataclass(frozen=True, kw_only=True)
class Bench:
    """An experiment on its page, with one control per option that the page shows."""

    experiment: Experiment[Any]
    controls: Mapping[str, Control]

    def counts(self, name: str) -> bool:
        """Return True if the option has an effect now.

        If it depends on another option, that option must have an effect and a fitting value.
        """
        when = self.experiment.declared[name].when
        if when is None or when[0] not in self.controls:
            return True
        master, values = when
        return self.counts(master) and self.controls[master].value in values

    def given(self) -> dict[str, object]:
        """Return the values of the options that have an effect now, by name; options with empty text are left out."""
        found = {name: control.value for name, control in self.controls.items() if self.counts(name)}
        return {name: value for name, value in found.items() if value != ""}

    def options(self) -> Options:
        """Return the options that the controls describe. Raises `LabError` if they are not valid."""
        checked: Options = self.experiment.options(self.given())
        return checked

    def setting(self, given: Mapping[str, object], *, everything: bool = False) -> dict[str, Any]:
        """Return the values of the controls for the options `given`, as a dict from control name to value.

        Other options of the experiment get their defaults; options shared by the page only if `everything` is True.
        """
        options = self.experiment.options(given)
        found = {}
        for name, control in self.controls.items():
            if name in given:
                value = getattr(options, name)
                found[control.name] = typed(value) if control.kind == "text" else value
            elif everything or name not in self.experiment.shared:
                found[control.name] = control.default
        return found


@dataclass(frozen=True, kw_only=True)
class LabPage:
    """A page of experiments: name, title, the control that chooses one, and each experiment with its controls."""

    name: str
    title: str
    selector: Control
    benches: tuple[Bench, ...]

    @property
    def controls(self) -> tuple[Control, ...]:
        """All controls of the page, each once, the one that chooses the experiment first."""
        found = {control.name: control for bench in self.benches for control in bench.controls.values()}
        return (self.selector, *found.values())

    @property
    def chosen(self) -> Bench:
        """The experiment that is chosen now, with its controls."""
        return next(bench for bench in self.benches if bench.experiment.label == self.selector.value)

    def bench(self, name: str) -> Bench:
        """Return the experiment of that name, with its controls."""
        return next(bench for bench in self.benches if bench.experiment.name == name)

    def setting(self, name: str, given: Mapping[str, object]) -> dict[str, Any]:
        """Return the values of the controls that show an experiment with the options `given`.

        All other options get their defaults.
        """
        bench = self.bench(name)
        return {self.selector.name: bench.experiment.label, **bench.setting(given, everything=True)}


def _page(page: experiments.Page) -> LabPage:
    benches = tuple(_bench(page.folder, experiments.experiment(name)) for name in page.experiments)
    labels = tuple(bench.experiment.label for bench in benches)
    name = f"{page.folder}_experiment"
    selector = Control(name=name, label="Experiment", kind="segments", default=labels[0], options=labels)
    return LabPage(name=page.name, title=page.title, selector=selector, benches=benches)


def _bench(prefix: str, experiment: Experiment[Any]) -> Bench:
    own = f"{prefix}_{experiment.name.removeprefix(f'{prefix}-').replace('-', '_')}"
    defaults = experiment.options_type.defaults()
    controls = {
        name: _control(f"{prefix if name in experiment.shared else own}_{name}", option, defaults[name])
        for name, option in experiment.declared.items()
    }
    return Bench(experiment=experiment, controls=controls)


def _control(name: str, option: Option, default: Any) -> Control:
    kind = option.widget or _kind(option)
    common: dict[str, Any] = {"name": name, "label": option.label, "kind": kind, "help": option.help}
    if kind == "text":
        placeholder = option.help if option.optional else None
        return Control(**common, default=typed(default), linked=option.kind != "text", placeholder=placeholder)
    if kind in ("choice", "segments", "toggle"):
        return Control(**common, default=default, options=option.choices)
    whole = option.kind in ("whole", "seed")
    number: Callable[[float], Any] = int if whole else float
    lower, upper = (0, LARGEST_SEED) if option.kind == "seed" else (option.low, option.high)
    step = number(option.step) if option.step is not None else (1 if whole else None)
    form = None if whole or kind == "slider" else "%.6g"
    limits = {"lower": number(lower), "upper": number(upper), "step": step, "format": form}
    return Control(**common, default=number(default), **limits)


def _kind(option: Option) -> Kind:
    if option.kind in TEXT_KINDS or option.optional:
        return "text"
    if option.kind == "choice":
        return "segments" if len(option.choices) <= SEGMENTS else "choice"
    if option.kind == "flag":
        return "toggle"
    if option.kind == "whole" and option.high - option.low <= SLIDER_REACH:
        return "slider"
    return "number" if option.kind == "number" else "whole"


PAGES: Mapping[str, LabPage] = {page.name: _page(page) for page in experiments.PAGES}
