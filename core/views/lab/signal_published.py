"""Views of the three published chains."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd

from core.lab.result import Result
from core.lab.signal.published_chains import LinearChainOptions, PublishedOptions, TanhChainOptions
from core.views.lab.chart import Chart, Line, Look
from core.views.lab.signal_layers import LAYER_AXIS, PASS_TITLES, RMS_AXIS
from core.views.lab.view import LabView, Picture, TableView, counted, number


def case_pictures(name: str, case: str) -> Callable[[Result, str], Mapping[str, Picture]]:
    """Pictures of a published chain: forward and backward, a colour a case, each beside its prediction."""

    def pictures(result: Result, subject: str) -> Mapping[str, Picture]:
        sizes, found = result.tables["sizes"], {}
        for direction, title in PASS_TITLES.items():
            lines = []
            for index, (value, rows) in enumerate(_cases(sizes, case, direction)):
                for kind, part in rows.groupby("kind", sort=False):
                    look: Look = "measured" if kind == "measured" else "predicted"
                    lines.append(Line.of(part, "layer", "rms", f"{_short(value)}, {kind}", index, look))
            found[f"{name}-{direction}"] = Chart(
                title=f"{title}, by {case}",
                subject=subject,
                lines=lines,
                x_title=LAYER_AXIS,
                y_title=RMS_AXIS,
                whole_x=True,
            )
        return found

    return pictures


def _cases(sizes: pd.DataFrame, case: str, direction: str) -> list[tuple[str, pd.DataFrame]]:
    chosen = sizes[sizes["pass"] == direction]
    return [(str(value), rows) for value, rows in chosen.groupby(case, sort=False)]


def _short(case: str) -> str:
    """A case's name for a legend, which has little room."""
    return case.replace("sqrt(d)", "√d")


def _case_reading(result: Result) -> str:
    cases = [name[len("output_rms[") : -1] for name in result.summary if name.startswith("output_rms[")]
    told = [
        f"{case}: output {number(result.summary[f'output_rms[{case}]'])}, gradient at the input "
        f"{number(result.summary[f'input_gradient_rms[{case}]'])}"
        for case in cases
    ]
    return "; ".join(told).capitalize() + "."


def _sizes_table(case: str) -> dict[str, TableView]:
    titles = {"kind": "kind", case: case, "pass": "pass", "layer": "layer", "rms": "RMS"}
    return {"sizes": TableView(alt=f"RMS after every layer, measured and predicted, by {case}.", titles=titles)}


def _published_subject(options: PublishedOptions) -> str:
    return f"L = {counted(options.layers, 'layer')}, d = {options.width}, seed {options.seed}"


def _linear_chain_subject(options: LinearChainOptions) -> str:
    return _published_subject(options) + ("" if options.norm == "none" else f", {options.norm} after every layer")


def _tanh_chain_subject(options: TanhChainOptions) -> str:
    return f"{_published_subject(options)}, spread {options.factor:g}/sqrt(d)"


LINEAR_CHAIN = LabView(
    text=(
        "Fifty layers without activation at three spreads of the weights: only 1/sqrt(d) keeps a signal's size. These "
        "are the published draws, number by number. With a norm after every layer all three spreads end at 1, and "
        "nothing in the forward picture tells them apart."
    ),
    formulas=(r"\operatorname{RMS}(x_l)\approx\bigl(\sigma\sqrt d\bigr)^{l}",),
    subject=_linear_chain_subject,
    reading=_case_reading,
    pictures=case_pictures("linear-chain", "spread"),
    tables=_sizes_table("spread"),
)
RELU_CHAIN = LabView(
    text=(
        "ReLU throws half of every signal away, so a variance of 1/d halves the mean square in each layer, forward and "
        "backward alike. He's 2/d replaces what is lost."
    ),
    formulas=(r"\mathbb{E}\bigl[\operatorname{ReLU}(z)^2\bigr]=\tfrac12\operatorname{Var}(z)",),
    subject=_published_subject,
    reading=_case_reading,
    pictures=case_pictures("relu-chain", "variance"),
    tables=_sizes_table("variance"),
)
TANH_CHAIN = LabView(
    text=(
        "The same fifty matrices, half as large as they should be, with and without a shortcut around every layer. The "
        "shortcut carries signal and gradient, and lets both grow."
    ),
    formulas=(r"x_{l+1}=\tanh(Wx_l)", r"x_{l+1}=x_l+\tanh(Wx_l)"),
    subject=_tanh_chain_subject,
    reading=_case_reading,
    pictures=case_pictures("tanh-chain", "topology"),
    tables=_sizes_table("topology"),
)
