"""Experiment: the published chain of linear layers, for three standard deviations of the weights.

The numbers are drawn by NumPy's default generator, as in the source, so that the printed digits can be compared.
"""

from __future__ import annotations

import numpy as np

from ..kit import Experiment, Printed, Result, choice, scalar
from ..norm.law import RowNorm
from .published_chains import (
    PublishedOptions,
    case_pictures,
    case_reading,
    chain_of,
    printed_sizes,
    published_result,
    published_subject,
    sizes_table,
)

NORM_EPSILON = 0.0


class LinearChainOptions(PublishedOptions):
    """Options of the linear chain; `norm` optionally follows every layer."""

    norm: str = choice("none", ("none", "rmsnorm"), "Norm after every layer", "A row norm after every layer.")


def linear_chain(options: LinearChainOptions) -> Result:
    """Return the RMS of state and gradient after every layer, for three standard deviations of the weights.

    They are 1, 1/sqrt(d) and 0.5/sqrt(d) at width d. The input is drawn once, then new matrices for each standard
    deviation in turn. Table `sizes` has one row per kind (measured or predicted), spread, pass (forward or backward)
    and layer.
    """
    d, generator = options.width, np.random.default_rng(options.seed)
    start = generator.standard_normal(d)
    # A separate stream: a draw between the matrices would change the published ones.
    upstream = np.random.default_rng([options.seed, 1]).standard_normal(d)
    norm = None if options.norm == "none" else RowNorm(kind="rmsnorm", epsilon=NORM_EPSILON)
    found = {}
    for case, spread in {"1": 1.0, "1/sqrt(d)": d**-0.5, "0.5/sqrt(d)": 0.5 * d**-0.5}.items():
        matrices = [generator.standard_normal((d, d)) * spread for _ in range(options.layers)]
        built = chain_of("linear", matrices, norm=norm)
        found[case] = (built.run(start, upstream), built.predict(d * spread**2))
    return published_result("spread", found)


PRINTED = {
    "1": ("23.4", "515", "3.86e+13", "6.39e+67"),
    "1/sqrt(d)": ("0.972", "0.943", "0.864", "0.804"),
    "0.5/sqrt(d)": ("0.487", "0.232", "0.00087", "8.6e-16"),
}
EXPERIMENT = Experiment(
    title="Published linear chain at three spreads",
    label="Linear chain",
    function=linear_chain,
    presets={"published": {}, "norm after every layer": {"norm": "rmsnorm"}},
    controls=("norm", "layers", "width", "seed"),
    text=(
        "Fifty layers without activation at three spreads of the weights: only 1/sqrt(d) keeps a signal's size. These "
        "are the published draws, number by number. With a norm after every layer all three spreads end at 1, and "
        "nothing in the forward picture tells them apart."
    ),
    formulas=(r"\operatorname{RMS}(x_l)\approx\bigl(\sigma\sqrt d\bigr)^{l}",),
    subject=lambda options: (
        published_subject(options) + ("" if options.norm == "none" else f", {options.norm} after every layer")
    ),
    reading=case_reading,
    draw=case_pictures("spread"),
    tables=sizes_table("spread"),
    published=(
        *(figure for case, texts in PRINTED.items() for figure in printed_sizes("spread", case, (1, 2, 10, 50), texts)),
        *(
            Printed(
                what=f"output RMS, spread {case}",
                printed="1.000",
                find=scalar(f"output_rms[{case}]"),
                under={"norm": "rmsnorm"},
            )
            for case in PRINTED
        ),
        *(
            Printed(
                what=f"gradient at the input, spread {case}",
                printed=text,
                find=scalar(f"input_gradient_rms[{case}]"),
                between=(0.3, 2.0),
                under={"norm": "rmsnorm"},
            )
            for case, text in zip(PRINTED, ("0.573", "0.930", "0.777"), strict=True)
        ),
    ),
)
