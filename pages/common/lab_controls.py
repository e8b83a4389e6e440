"""How the options of an experiment become controls: limits, choices, default and help are the option's own.

A control is named `{prefix}_{experiment}_{option}`; an option that several experiments of a page share has one control,
`{prefix}_{option}`. `{prefix}_experiment` chooses the experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.lab.experiment import Experiment
from core.lab.experiments import experiment
from core.lab.options import Option, Options, typed
from pages.common.widgets import NUMBERS, Control, Kind

# Streamlit's whole numbers end here; the command line takes any 64-bit seed.
LARGEST_SEED = 2**53 - 1
SLIDER_REACH = 256
SEGMENTS = 4
TEXT_KINDS = ("numbers", "rows", "wholes", "text")


@dataclass(frozen=True, kw_only=True)
class Field:
    """What a page adds to an option: its label, and where needed another widget, a step, and when it matters.

    `when` names another option of the experiment and the values for which this one is drawn and counts. `more` puts it
    into the fold below the others; `shared` makes it one control for all experiments of the page.
    """

    option: str
    label: str
    kind: Kind | None = None
    step: float | None = None
    when: tuple[str, tuple[Any, ...]] | None = None
    more: bool = False
    shared: bool = False


@dataclass(frozen=True, kw_only=True)
class Bench:
    """An experiment on its page: its short name, its fields, and the control of every field."""

    experiment: Experiment
    label: str
    fields: tuple[Field, ...]
    controls: Mapping[str, Control]

    def counts(self, field: Field) -> bool:
        """Whether a field matters now; what a hidden field depends on must matter too."""
        if field.when is None:
            return True
        name, values = field.when
        master = next(other for other in self.fields if other.option == name)
        return self.counts(master) and self.controls[name].value in values

    def given(self) -> dict[str, object]:
        """The options that count now; an empty text leaves an option at its default."""
        found = {field.option: self.controls[field.option].value for field in self.fields if self.counts(field)}
        return {name: value for name, value in found.items() if value != ""}

    def options(self) -> Options:
        """The checked options that the controls describe; raises `LabError`."""
        return self.experiment.options(self.given())

    def setting(self, given: Mapping[str, object], *, everything: bool = False) -> dict[str, Any]:
        """Control values for options: those given, and the page's own (or `everything`) at their defaults."""
        options = self.experiment.options(given)
        found = {}
        for field in self.fields:
            control = self.controls[field.option]
            if field.option in given:
                value = getattr(options, field.option)
                found[control.name] = typed(value) if control.kind == "text" else value
            elif everything or not field.shared:
                found[control.name] = control.default
        return found


@dataclass(frozen=True, kw_only=True)
class LabPage:
    """A page of experiments: its name, the control that chooses one, and a bench each."""

    name: str
    title: str
    selector: Control
    benches: tuple[Bench, ...]

    @property
    def controls(self) -> tuple[Control, ...]:
        """Every control of the page once, the selector first."""
        found = {control.name: control for bench in self.benches for control in bench.controls.values()}
        return (self.selector, *found.values())

    @property
    def chosen(self) -> Bench:
        """The bench of the experiment chosen now."""
        return next(bench for bench in self.benches if bench.label == self.selector.value)

    def bench(self, name: str) -> Bench:
        """The bench of an experiment by the experiment's name."""
        return next(bench for bench in self.benches if bench.experiment.name == name)

    def setting(self, name: str, given: Mapping[str, object]) -> dict[str, Any]:
        """Control values that show an experiment at its defaults but for the options given."""
        bench = self.bench(name)
        return {self.selector.name: bench.label, **bench.setting(given, everything=True)}


def lab_page(name: str, title: str, prefix: str, benches: Mapping[str, tuple[str, Sequence[Field]]]) -> LabPage:
    """The page of `benches`: by experiment its short name and fields."""
    built = tuple(_bench(prefix, name, label, tuple(fields)) for name, (label, fields) in benches.items())
    labels = tuple(bench.label for bench in built)
    selector = Control(
        name=f"{prefix}_experiment", label="Experiment", kind="segments", default=labels[0], options=labels
    )
    return LabPage(name=name, title=title, selector=selector, benches=built)


def _bench(prefix: str, name: str, label: str, fields: tuple[Field, ...]) -> Bench:
    entry = experiment(name)
    declared, defaults = entry.options_type.declared(), entry.options_type.defaults()
    own = f"{prefix}_{name.removeprefix(f'{prefix}-').replace('-', '_')}"
    controls = {
        field.option: _control(
            f"{prefix if field.shared else own}_{field.option}", field, declared[field.option], defaults[field.option]
        )
        for field in fields
    }
    return Bench(experiment=entry, label=label, fields=fields, controls=controls)


def _control(name: str, field: Field, option: Option, default: Any) -> Control:
    kind = field.kind or _kind(option)
    found: dict[str, Any] = {"name": name, "label": field.label, "kind": kind, "help": option.help, "default": default}
    if kind == "text":
        placeholder = option.help if option.optional else None
        found |= {"default": typed(default), "linked": option.kind != "text", "placeholder": placeholder}
    elif kind in NUMBERS:
        whole = option.kind in ("whole", "seed")
        number: Callable[[float], Any] = int if whole else float
        lower, upper = (0, LARGEST_SEED) if option.kind == "seed" else (option.low, option.high)
        step = number(field.step) if field.step is not None else (1 if whole else None)
        form = None if whole or kind == "slider" else "%.6g"
        found |= {"default": number(default), "lower": number(lower), "upper": number(upper), "step": step}
        found["format"] = form
    return Control(**found, options=option.choices)


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
