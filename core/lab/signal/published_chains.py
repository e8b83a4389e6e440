"""What the three published chains share: generators, the order of the draws that gives the printed digits, and charts.

Source: the course text on keeping signals stable. After the draws, the arithmetic is binary64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from ..kit import (
    Chart,
    FloatArray,
    Line,
    Look,
    Options,
    Pictures,
    Printed,
    Result,
    Summary,
    TableView,
    cell,
    plural,
    rounded,
    seed,
    whole,
)
from ..norm.law import RowNorm
from .activations import ACTIVATIONS
from .chain_engine import LAYER_AXIS, RMS_AXIS, Chain, ChainSizes

PASS_TITLES = {
    "forward": "Forward: RMS of the state",
    "backward": "Backward: RMS of the gradient",
}


class PublishedOptions(Options):
    """Options: sizes and seed of a published chain of layers; the defaults are the published ones."""

    layers: int = whole(50, 1, 50, "Layers L", "Layers L.")
    width: int = whole(512, 1, 512, "Width d", "Features d of every layer.")
    seed: int = seed(0, "Seed of the one stream that all cases draw from, in turn.", more=True)


class TorchNormals:
    """A function that draws float32 normal numbers from a separate torch generator and returns binary64 arrays.

    Consecutive calls continue one stream. The numbers are multiplied by `factor`, then divided by `divisor`, in
    float32.
    """

    def __init__(self, of_seed: int) -> None:
        import torch  # only these two chains need torch's stream

        self._torch, self._generator = torch, torch.Generator().manual_seed(of_seed)

    def __call__(self, *shape: int, factor: float = 1.0, divisor: float = 1.0) -> FloatArray:
        drawn = self._torch.randn(*shape, generator=self._generator)
        # The published code scales in float32, factor first.
        scaled: FloatArray = (drawn * factor / divisor).numpy().astype(np.float64)
        return scaled


def chain_of(
    activation: str, matrices: Sequence[FloatArray], *, shortcut: float = 0.0, norm: RowNorm | None = None
) -> Chain:
    return Chain(
        activation=ACTIVATIONS[activation],
        layers=len(matrices),
        weights=matrices.__getitem__,
        shortcut=shortcut,
        norm=norm,
    )


def published_result(case_name: str, found: dict[str, tuple[ChainSizes, ChainSizes]]) -> Result:
    parts = []
    for case, pair in found.items():
        for kind, sizes in zip(("measured", "predicted"), pair, strict=True):
            for name in ("forward", "backward"):
                values = getattr(sizes, name)
                column = {"kind": kind, case_name: case, "pass": name, "layer": np.arange(len(values)), "rms": values}
                parts.append(pd.DataFrame(column))
    summary: dict[str, float] = {}
    for case, (measured, _) in found.items():
        summary |= {f"output_rms[{case}]": measured.forward[-1], f"input_gradient_rms[{case}]": measured.backward[0]}
    return Result(
        summary=summary,
        tables={"sizes": pd.concat(parts, ignore_index=True)},
        notes=("The prediction is for infinite width; the wobble of each layer's gain about it compounds.",),
    )


def case_pictures(case: str) -> Callable[[Result], Pictures]:
    """Return a function that draws the result of a published chain: one chart forward, one backward.

    `case` is the column that tells the cases apart; each case has a colour, with a solid line measured and a dashed one
    predicted.
    """

    def pictures(result: Result) -> Pictures:
        sizes, found = result.tables["sizes"], {}
        for direction, title in PASS_TITLES.items():
            lines = []
            for index, (value, rows) in enumerate(_cases(sizes, case, direction)):
                for kind, part in rows.groupby("kind", sort=False):
                    look: Look = "measured" if kind == "measured" else "predicted"
                    lines.append(Line.of(part, "layer", "rms", f"{_short(value)}, {kind}", index, look))
            found[direction] = Chart(
                title=f"{title}, by {case}",
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
    """Return a short name of a case for a legend."""
    return case.replace("sqrt(d)", "√d")


def case_reading(found: Summary) -> str:
    cases = [name[len("output_rms[") : -1] for name in found if name.startswith("output_rms[")]
    told = [
        f"{case}: output {rounded(found[f'output_rms[{case}]'])}, gradient at the input "
        f"{rounded(found[f'input_gradient_rms[{case}]'])}"
        for case in cases
    ]
    return "; ".join(told).capitalize() + "."


def sizes_table(case: str) -> dict[str, TableView]:
    titles = {"kind": "kind", case: case, "pass": "pass", "layer": "layer", "rms": "RMS"}
    return {"sizes": TableView(alt=f"RMS after every layer, measured and predicted, by {case}.", titles=titles)}


def published_subject(options: PublishedOptions) -> str:
    return f"L = {plural(options.layers, 'layer')}, d = {options.width}, seed {options.seed}"


def printed_sizes(name: str, case: str, layers: Sequence[int], texts: Sequence[str]) -> list[Printed]:
    """Return the published RMS after each of `layers`, with the printed `texts`, for one case.

    `name` is the column of the result's table that tells the cases apart, `case` its value.
    """
    place = {"kind": "measured", "pass": "forward", name: case}
    return [
        Printed(
            what=f"RMS at layer {layer}, {name} {case}", printed=text, find=cell("sizes", "rms", layer=layer, **place)
        )
        for layer, text in zip(layers, texts, strict=True)
    ]
