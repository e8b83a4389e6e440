"""Experiment: the published chain of ReLU layers for two variances of the weights.

The numbers are drawn in float32 by torch's generator, as in the source, so that the printed digits can be compared.
"""

from __future__ import annotations

from ..kit import Experiment, Printed, Result, scalar
from .published_chains import (
    PublishedOptions,
    TorchNormals,
    case_pictures,
    case_reading,
    chain_of,
    printed_sizes,
    published_result,
    published_subject,
    sizes_table,
)


def relu_chain(options: PublishedOptions) -> Result:
    """Return the RMS of state and gradient after every layer, for weights of variance 1/d and 2/d at width d.

    For each variance the input, the matrices and the upstream gradient are drawn, in this order. Table `sizes` has one
    row per kind (measured or predicted), variance, pass (forward or backward) and layer.
    """
    draw, d, found = TorchNormals(options.seed), options.width, {}
    for case, variance in {"1/d": 1 / d, "2/d": 2 / d}.items():
        start = draw(d)
        matrices = [draw(d, d, factor=variance**0.5) for _ in range(options.layers)]
        built = chain_of("relu", matrices)
        found[case] = (built.run(start, draw(d)), built.predict(d * variance))
    return published_result("variance", found)


# RMS at layers 1, 10 and 50, and the gradient at the input.
PRINTED = {"1/d": ("0.685", "0.0375", "3.56e-08", "3.23e-08"), "2/d": ("1.02", "0.902", "0.596", "0.822")}
EXPERIMENT = Experiment(
    title="Published ReLU chain at two variances",
    label="ReLU chain",
    function=relu_chain,
    presets={"published": {}},
    torch=True,
    text=(
        "ReLU throws half of every signal away, so a variance of 1/d halves the mean square in each layer, forward and "
        "backward alike. He's 2/d replaces what is lost."
    ),
    formulas=(r"\mathbb{E}\bigl[\operatorname{ReLU}(z)^2\bigr]=\tfrac12\operatorname{Var}(z)",),
    subject=published_subject,
    reading=case_reading,
    draw=case_pictures("variance"),
    tables=sizes_table("variance"),
    published=tuple(
        figure
        for case, (*sizes, gradient) in PRINTED.items()
        for figure in (
            *printed_sizes("variance", case, (1, 10, 50), sizes),
            Printed(
                what=f"gradient at the input, variance {case}",
                printed=gradient,
                find=scalar(f"input_gradient_rms[{case}]"),
            ),
        )
    ),
)
