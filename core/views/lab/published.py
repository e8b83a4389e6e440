"""The published figures of the experiments, as printed, beside what is computed here.

Source: the course text on keeping signals stable, and the exercise on one saturating unit. Exact figures must agree to
the printed digits; the others have no published draw and a stated tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pandas as pd

from core.lab.options import Options
from core.lab.result import Result

DIGITS = "printed digits"
Finder = Callable[[Result], float]


@dataclass(frozen=True, kw_only=True)
class Printed:
    """One published figure: what it is, as printed, and where it stands in a result.

    `between` has the least and the greatest accepted value, None asks for the printed digits. `under` names the
    options, apart from the defaults, that the figure is published for; None is any options.
    """

    what: str
    printed: str
    find: Finder
    between: tuple[float, float] | None = None
    under: Mapping[str, Any] | None = field(default_factory=dict)

    def agrees(self, value: float) -> bool:
        """Whether a computed value is the published one."""
        if self.between is not None:
            return self.between[0] <= value <= self.between[1]
        printed = Decimal(self.printed)
        return Decimal(value).quantize(Decimal(1).scaleb(int(printed.as_tuple().exponent))) == printed

    def belongs(self, options: Options) -> bool:
        """Whether the figure is published for these options."""
        wanted = {} if self.under is None else {**options.defaults(), **self.under}
        return all(getattr(options, key) == value for key, value in wanted.items())

    @property
    def accepted(self) -> str:
        """What is accepted, in words."""
        return DIGITS if self.between is None else "{:.4g} to {:.4g}".format(*self.between)


def published_table(name: str, options: Options, result: Result) -> pd.DataFrame | None:
    """The published figures of an experiment beside the result's, or None where none is published for the options."""
    rows = []
    for figure in PUBLISHED.get(name, ()):
        if figure.belongs(options):
            value = float(figure.find(result))
            rows.append((figure.what, figure.printed, value, figure.accepted, "yes" if figure.agrees(value) else "no"))
    return pd.DataFrame(rows, columns=["quantity", "published", "here", "accepted", "agrees"]) if rows else None


def _near(law: float, relative: float) -> tuple[float, float]:
    return law * (1 - relative), law * (1 + relative)


def _cell(table: str, column: str, **where: Any) -> Finder:
    """A cell of a table by the values of other columns."""

    def find(result: Result) -> float:
        rows = result.tables[table]
        for name, value in where.items():
            rows = rows[rows[name] == value]
        return float(rows[column].iloc[0])

    return find


def _scalar(name: str) -> Finder:
    return lambda result: float(result.summary[name])


def _linear_chain() -> list[Printed]:
    printed = {
        "1": ("23.4", "515", "3.86e+13", "6.39e+67"),
        "1/sqrt(d)": ("0.972", "0.943", "0.864", "0.804"),
        "0.5/sqrt(d)": ("0.487", "0.232", "0.00087", "8.6e-16"),
    }
    found = [
        Printed(
            what=f"RMS at layer {layer}, spread {case}", printed=text,
            find=_cell("sizes", "rms", kind="measured", spread=case, **{"pass": "forward", "layer": layer}),
        )
        for case, texts in printed.items()
        for layer, text in zip((1, 2, 10, 50), texts, strict=True)
    ]  # fmt: skip
    normed = {"norm": "rmsnorm"}
    ends = [
        Printed(what=f"output RMS, spread {case}", printed="1.000", find=_scalar(f"output_rms[{case}]"), under=normed)
        for case in printed
    ]
    gradients = [
        Printed(
            what=f"gradient at the input, spread {case}", printed=text, find=_scalar(f"input_gradient_rms[{case}]"),
            between=(0.3, 2.0), under=normed,
        )
        for case, text in zip(printed, ("0.573", "0.930", "0.777"), strict=True)
    ]  # fmt: skip
    return [*found, *ends, *gradients]


def _torch_chains() -> dict[str, list[Printed]]:
    relu = {"1/d": ("0.685", "0.0375", "3.56e-08", "3.23e-08"), "2/d": ("1.02", "0.902", "0.596", "0.822")}
    tanh = {"plain": ("9.93e-16", "5.95e-16"), "residual": ("4.94", "8.46")}
    found: dict[str, list[Printed]] = {"relu-chain": [], "tanh-chain": []}
    for case, (*sizes, gradient) in relu.items():
        for layer, text in zip((1, 10, 50), sizes, strict=True):
            place = {"pass": "forward", "layer": layer, "kind": "measured", "variance": case}
            what = f"RMS at layer {layer}, variance {case}"
            found["relu-chain"].append(Printed(what=what, printed=text, find=_cell("sizes", "rms", **place)))
        what, find = f"gradient at the input, variance {case}", _scalar(f"input_gradient_rms[{case}]")
        found["relu-chain"].append(Printed(what=what, printed=gradient, find=find))
    for case, (output, gradient) in tanh.items():
        found["tanh-chain"] += [
            Printed(what=f"output, {case}", printed=output, find=_scalar(f"output_rms[{case}]")),
            Printed(what=f"gradient, {case}", printed=gradient, find=_scalar(f"input_gradient_rms[{case}]")),
        ]
    return found


def _compounding() -> list[Printed]:
    texts = ("208", "117", "0.005", "5e+67", "8.9e-16", "8e-31")

    def at(row: int) -> Finder:
        return lambda result: float(result.tables["published"]["product"].iloc[row])

    cases = ("1.1 over 56", "1.1 over 50", "0.9 over 50", "22.6 over 50", "0.5 over 50", "0.25 over 50")
    return [
        Printed(what=f"gain {case} layers", printed=text, find=at(row), under=None)
        for row, (case, text) in enumerate(zip(cases, texts, strict=True))
    ]


def _stream_growth() -> list[Printed]:
    under = {"width": 256, "seeds": 20}
    sizes = [
        Printed(
            what=f"RMS after block {block}", printed=text, find=_cell("mean", "rms", block=block),
            between=_near(float(text), 0.015), under=under,
        )
        for block, text in {1: "0.111", 12: "0.382", 24: "0.536", 48: "0.769"}.items()
    ]  # fmt: skip
    scaled = Printed(
        what="RMS after block 48, branches scaled", printed="0.112", find=_scalar("final_rms"),
        between=_near(0.112, 0.015), under={**under, "scaled": True},
    )  # fmt: skip
    return [*sizes, scaled]


def _width_update() -> list[Printed]:
    widths = {256: ("0.214", 0.2043), 1024: ("0.811", 0.8170), 4096: ("3.264", 3.2682)}
    return [
        Printed(
            what=f"mean effect at width {width}, published a single draw", printed=text,
            between=_near(law, 0.01), find=_cell("law", "measured_mean", width=width), under={"seeds": 50},
        )
        for width, (text, law) in widths.items()
    ]  # fmt: skip


def _norm_steps() -> list[Printed]:
    by_hand = {
        "layernorm": ("0.333", "-1.667", "1.000", "0.333"),
        "rmsnorm": ("0.943", "-0.471", "1.414", "0.943"),
    }
    moments = {"mean": "3", "variance": "9", "mean_square": "18"}
    return [
        *(
            Printed(what=name.replace("_", " "), printed=text, find=_scalar(name), under={"norm": norm})
            for norm in by_hand
            for name, text in moments.items()
        ),
        *(
            Printed(
                what=f"output of feature {index}", printed=text, under={"norm": norm},
                find=_cell("steps", "value", quantity="normalized", index=index),
            )
            for norm, texts in by_hand.items()
            for index, text in enumerate(texts)
        ),
    ]  # fmt: skip


def _norm_epsilon() -> list[Printed]:
    outputs: Sequence[tuple[str, float, tuple[str, ...]]] = (
        ("layernorm", 0.01, ("0.331", "-1.657", "0.994", "0.331")),
        ("rmsnorm", 0.01, ("0.94", "-0.47", "1.41", "0.94")),
        ("rmsnorm", 0.0001, ("0.125", "-0.063", "0.188", "0.125")),
    )
    constant = [
        Printed(
            what=f"constant row, feature {index}",
            printed="0",
            find=_cell("constant_row", "output", index=index),
            under={"norm": "layernorm", "factor": 0.01},
        )
        for index in range(4)
    ]
    return constant + [
        Printed(
            what=f"output of feature {index}", printed=text, find=_cell("output", "output", index=index),
            under={"norm": norm, "factor": factor},
        )
        for norm, factor, texts in outputs
        for index, text in enumerate(texts)
    ]  # fmt: skip


def _unit() -> list[Printed]:
    settings: Sequence[tuple[Mapping[str, float], str, str]] = (
        ({}, "0.5", "0.235"),
        ({"x": 3.0, "w": 3.0}, "8.5", "0.0002034"),
    )
    return [
        Printed(what=name, printed=text, find=_scalar(name), under=under)
        for under, logit, slope in settings
        for name, text in (("logit", logit), ("slope", slope))
    ]


_PLACEMENT = [
    Printed(
        what="slope of the gradient against depth, pre-norm", printed="-0.38", find=_scalar("slope[pre-norm]"),
        between=(-0.43, -0.33),
    ),
    Printed(
        what="slope of the gradient against depth, post-norm", printed="0", find=_scalar("slope[post-norm]"),
        between=(-0.03, 0.03),
    ),
]  # fmt: skip
_DEFAULT_LINEAR = [
    Printed(
        what="RMS after 10 layers, mean of 20 seeds", printed="0.000129", between=_near(6.0**-5, 0.05),
        find=_scalar("output_rms"),
        under={"spread": "default-linear", "layers": 10, "width": 512, "seeds": 20},
    )
]  # fmt: skip

PUBLISHED: Mapping[str, Sequence[Printed]] = MappingProxyType(
    {
        "linear-chain": _linear_chain(),
        **_torch_chains(),
        "chain": _DEFAULT_LINEAR,
        "compounding": _compounding(),
        "stream-growth": _stream_growth(),
        "norm-placement": _PLACEMENT,
        "width-update": _width_update(),
        "norm-steps": _norm_steps(),
        "norm-epsilon": _norm_epsilon(),
        "sigmoid-unit": _unit(),
    }
)
