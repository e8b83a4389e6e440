"""Tables of the pages on initialization, the plan and the band."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ..decoder.base_draw import XAVIER, Distribution
from ..decoder.config import DecoderConfig
from ..decoder.parameters import layout
from ..errors import ConfigError, shown
from ..health.band import DEFAULT_BAND, Band, classify
from ..numerals import SPACES, finite_number
from ..recipes.catalogue import recipe
from .frame import stacked

POPULATIONS = ("zero", "oversized", "xavier")
MAX_RATIOS = 10_000
FILLS = {"ones": "ones", "zeros": "zeros"}


def histogram_table(document: Mapping[str, Any]) -> pd.DataFrame:
    """Return counts and percentages, one row per set of weights (zero, oversized, xavier) and bin.

    `document` is an `init` document. A bin includes its left edge; the last bin includes both edges.
    """
    bins = {"from": document["edges"][:-1], "to": document["edges"][1:]}
    return stacked("population", {
        name: {**bins, "count": document["populations"][name]["counts"],
               "percent": document["populations"][name]["percent"]}
        for name in POPULATIONS
    })  # fmt: skip


def moment_table(document: Mapping[str, Any]) -> pd.DataFrame:
    """Return the measured mean and variance of each set of weights, beside the variance that Xavier aims at.

    `document` is an `init` document.
    """
    target = document["target_variance"]
    rows = [
        {
            "population": name,
            "mean": found["mean"],
            "variance": found["variance"],
            "target_variance": target,
            "variance_to_target": found["variance"] / target,
        }
        for name, found in ((name, document["populations"][name]) for name in POPULATIONS)
    ]
    return pd.DataFrame(rows)


def propagation_table(document: Mapping[str, Any]) -> pd.DataFrame:
    """Return the expected variance of a signal after each layer, one row per set of weights and layer; not measured.

    `document` is an `init` document.
    """
    found = document["expected_propagation"]
    return stacked(
        "population", {name: {"layer": found["layers"], "expected_variance": found[name]} for name in POPULATIONS}
    )


def ideal_table(worked: Mapping[str, Any]) -> pd.DataFrame:
    """Return half-bound, variance, derivatives and toy variance, one row per depth; `worked` is of `worked_values`."""
    stored = worked["derivatives"]["stored"]
    rows = [
        {
            "blocks": int(depth),
            "half_bound": ideal["half_bound"],
            "variance": ideal["variance"],
            "stored_derivative": stored,
            "base_derivative": worked["derivatives"]["base"][depth],
            "toy_variance": worked["toy_variance"][depth],
        }
        for depth, ideal in worked["ideal"].items()
    ]
    return pd.DataFrame(rows)


def vector_table(worked: Mapping[str, Any]) -> pd.DataFrame:
    """Return the example vector with and without the depth factor, one row per depth and coordinate.

    `worked` is the result of `worked_values`.
    """
    base, twin = worked["base"], worked["unselected"]
    return stacked("blocks", {
        int(depth): {"coordinate": range(len(base)), "base": base, "selected": vector, "unselected": twin}
        for depth, vector in worked["blocks"].items()
    })  # fmt: skip


def symmetry_table(document: Mapping[str, Any]) -> pd.DataFrame:
    """Return every hidden weight of the zero-symmetry example with its gradient; `document` is an `init` document."""
    found = document["zero_symmetry"]
    columns = len(found["output_weights"])
    rows = [
        {
            "row": index // columns,
            "column": index % columns,
            "input": found["input"][index // columns],
            "hidden_weight": found["hidden_weights"][index // columns][index % columns],
            "gradient": gradient,
        }
        for index, gradient in enumerate(found["hidden_weight_gradient_row_major"])
    ]
    return pd.DataFrame(rows)


def initializer_table(config: DecoderConfig, recipe_name: str, distribution: Distribution = XAVIER) -> pd.DataFrame:
    """Return the initializer, standard deviations and factor of every parameter, one row per name pattern.

    The numbers are those of block 0; `stored_std` is `factor` times `base_std`.
    """
    chosen, parts = recipe(recipe_name), layout(config)
    rows = []
    for spec in (*parts.stem, *parts.block_template, *parts.tail):
        drawn = spec.fill == "drawn"
        std = distribution.base_std(spec) if drawn else float("nan")
        factor = chosen.coefficient(spec, 0, config, std) if drawn else 1.0
        rows.append(
            {
                "tensor": spec.name,
                "shape": " x ".join(map(str, spec.shape)),
                "initializer": distribution.name if drawn else FILLS[spec.fill],
                "base_std": std,
                "factor": factor,
                "stored_std": factor * std,
            }
        )
    return pd.DataFrame(rows)


def role_table(document: Mapping[str, Any]) -> pd.DataFrame:
    """Return the number of parameters per name pattern and its share of the total; `document` is a `plan` document."""
    total = int(document["parameters"])
    rows = [
        {
            "pattern": row["pattern"],
            "role": row["role"],
            "tensors": int(row["tensors"]),
            "shape": " x ".join(map(str, row["shape"])),
            "coordinates": int(row["coordinates"]),
            "share": int(row["coordinates"]) / total,
        }
        for row in document["by_role"]
    ]
    return pd.DataFrame(rows)


def byte_table(document: Mapping[str, Any]) -> pd.DataFrame:
    """Return the bytes of weights, gradients, Adam's moments and one row's residual states, one row per dtype.

    `document` is a `plan` document.
    """
    parts = list(document["bytes_meaning"])
    rows = [
        {"dtype": dtype, **{f"{part}_bytes": int(found[part]) for part in parts}}
        for dtype, found in document["bytes"].items()
    ]
    return pd.DataFrame(rows)


def classifier_table(arrays: Mapping[str, Mapping[str, Sequence[Any]]]) -> pd.DataFrame:
    """Return the ratios of each named array and their classes (below, within, above the band), one row per ratio."""
    return stacked("array", {
        name: {"site": range(len(found["ratios"])), "ratio": found["ratios"], "band": found["bands"]}
        for name, found in arrays.items()
    })  # fmt: skip


def judged_table(ratios: Sequence[float], band: Band = DEFAULT_BAND) -> pd.DataFrame:
    """Return given ratios with their classes (below, within, above the band). Raises `ConfigError` if not finite."""
    rows = [{"site": index, "ratio": ratio, "band": classify(ratio, band)} for index, ratio in enumerate(ratios)]
    return pd.DataFrame(rows)


def off_first(judged: pd.DataFrame) -> pd.DataFrame:
    """Return a table of judged ratios with the rows outside the band first, otherwise in their order."""
    return judged.sort_values("band", key=lambda band: band == "within", kind="stable")


def parsed_ratios(text: str) -> list[float]:
    """Return the ratios in a text, separated by commas, semicolons or spaces, as a list of floats.

    Raises `ConfigError` if one is not a number, or if there is none or too many.
    """
    cells = re.split(rf"[,;{SPACES}]+", text)
    if len(cells) > MAX_RATIOS:
        raise ConfigError(f"The text holds {len(cells):,} ratios; give at most {MAX_RATIOS:,}.")
    ratios = []
    for cell in filter(None, cells):
        ratio = finite_number(cell)
        if ratio is None:
            raise ConfigError(f"The ratio {shown(cell)} is not a number; separate numbers by commas.")
        ratios.append(ratio)
    if not ratios:
        raise ConfigError("There is no ratio yet; give at least one number.")
    return ratios
