"""Experiment: the published chain of tanh layers with and without a shortcut around every layer.

The numbers are drawn in float32 by torch's generator, as in the source, so that the printed digits can be compared.
"""

from __future__ import annotations

from ..kit import Experiment, Printed, Result, number, scalar
from .published_chains import (
    PublishedOptions,
    TorchNormals,
    case_pictures,
    case_reading,
    chain_of,
    published_result,
    published_subject,
    sizes_table,
)


class TanhChainOptions(PublishedOptions):
    """Options of the tanh chain; the chains with and without shortcut have the same matrices."""

    factor: float = number(
        0.5, 0.001, 100.0, "Spread times sqrt(d)", "Standard deviation of a weight times sqrt(width).", step=0.1
    )


def tanh_chain(options: TanhChainOptions) -> Result:
    """Return the RMS of state and gradient after every layer, with and without the shortcut.

    The matrices are drawn first, then the upstream gradient, then the input of the chain without shortcut, then that of
    the other. Table `sizes` has one row per kind (measured or predicted), topology, pass (forward or backward) and
    layer.
    """
    draw, d, found = TorchNormals(options.seed), options.width, {}
    matrices = [draw(d, d, factor=options.factor, divisor=d**0.5) for _ in range(options.layers)]
    upstream = draw(d)
    for case, shortcut in {"plain": 0.0, "residual": 1.0}.items():
        built = chain_of("tanh", matrices, shortcut=shortcut)
        found[case] = (built.run(draw(d), upstream), built.predict(options.factor**2))
    return published_result("topology", found)


PRINTED = {"plain": ("9.93e-16", "5.95e-16"), "residual": ("4.94", "8.46")}
ENDS = {"output": "output_rms", "gradient": "input_gradient_rms"}
EXPERIMENT = Experiment(
    title="Published tanh chain with and without its shortcut",
    label="tanh chain",
    function=tanh_chain,
    presets={"published": {}},
    torch=True,
    controls=("factor", "layers", "width", "seed"),
    text=(
        "The same fifty matrices, half as large as they should be, with and without a shortcut around every layer. The "
        "shortcut carries signal and gradient, and lets both grow."
    ),
    formulas=(r"x_{l+1}=\tanh(Wx_l)", r"x_{l+1}=x_l+\tanh(Wx_l)"),
    subject=lambda options: f"{published_subject(options)}, spread {options.factor:g}/sqrt(d)",
    reading=case_reading,
    draw=case_pictures("topology"),
    tables=sizes_table("topology"),
    published=tuple(
        Printed(what=f"{what}, {case}", printed=text, find=scalar(f"{quantity}[{case}]"))
        for case, texts in PRINTED.items()
        for (what, quantity), text in zip(ENDS.items(), texts, strict=True)
    ),
)
