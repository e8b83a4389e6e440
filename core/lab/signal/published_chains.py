"""Experiments: the three published chains, with the generators and draw orders that give the printed digits.

Source: the course text on keeping signals stable. A linear chain at three spreads (NumPy's default generator), a ReLU
chain at two variances and a tanh chain with and without its shortcut (torch's generator, float32 draws). The arithmetic
after the draws is binary64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.decoder.splitmix64 import FloatArray
from core.lab.norm.law import RowNorm
from core.lab.options import Options, choice, number, seed, whole
from core.lab.result import Result
from core.lab.signal.activations import ACTIVATIONS
from core.lab.signal.chain_engine import Chain, ChainSizes

NORM_EPSILON = 0.0


@dataclass(frozen=True, kw_only=True)
class PublishedOptions(Options):
    """Sizes and seed of a published chain; the defaults are its own."""

    layers: int = whole(50, 1, 50, "Layers L.")
    width: int = whole(512, 1, 512, "Features d of every layer.")
    seed: int = seed(0, "Seed of the one stream that all cases draw from, in turn.")


@dataclass(frozen=True, kw_only=True)
class LinearChainOptions(PublishedOptions):
    """The linear chain; with a norm it is the chain that is reset after every layer."""

    norm: str = choice("none", ("none", "rmsnorm"), "A row norm after every layer.")


@dataclass(frozen=True, kw_only=True)
class TanhChainOptions(PublishedOptions):
    """The tanh chain; both cases share their matrices."""

    factor: float = number(0.5, 0.001, 100.0, "Standard deviation of a weight times sqrt(width).")


def linear_chain(options: LinearChainOptions) -> Result:
    """Three spreads, one input: drawn once, then fresh matrices for each spread in turn. Table: `sizes`."""
    d, generator = options.width, np.random.default_rng(options.seed)
    start = generator.standard_normal(d)
    # A stream of its own, for a draw between the matrices would change the published ones.
    upstream = np.random.default_rng([options.seed, 1]).standard_normal(d)
    norm = None if options.norm == "none" else RowNorm(kind="rmsnorm", epsilon=NORM_EPSILON)
    found = {}
    for case, spread in {"1": 1.0, "1/sqrt(d)": d**-0.5, "0.5/sqrt(d)": 0.5 * d**-0.5}.items():
        matrices = [generator.standard_normal((d, d)) * spread for _ in range(options.layers)]
        built = _chain("linear", matrices, norm=norm)
        found[case] = (built.run(start, upstream), built.predict(d * spread**2))
    return _result("spread", found)


def relu_chain(options: PublishedOptions) -> Result:
    """Variances 1/d and 2/d: for each an input, the matrices and the upstream gradient. Table: `sizes`."""
    draw, d, found = _TorchNormals(options.seed), options.width, {}
    for case, variance in {"1/d": 1 / d, "2/d": 2 / d}.items():
        start = draw(d)
        matrices = [draw(d, d, factor=variance**0.5) for _ in range(options.layers)]
        built = _chain("relu", matrices)
        found[case] = (built.run(start, draw(d)), built.predict(d * variance))
    return _result("variance", found)


def tanh_chain(options: TanhChainOptions) -> Result:
    """The matrices, the upstream gradient, then an input a case, plain first. Table: `sizes`."""
    draw, d, found = _TorchNormals(options.seed), options.width, {}
    matrices = [draw(d, d, factor=options.factor, divisor=d**0.5) for _ in range(options.layers)]
    upstream = draw(d)
    for case, shortcut in {"plain": 0.0, "residual": 1.0}.items():
        built = _chain("tanh", matrices, shortcut=shortcut)
        found[case] = (built.run(draw(d), upstream), built.predict(options.factor**2))
    return _result("topology", found)


class _TorchNormals:
    """Consecutive float32 normals of a private torch generator, as binary64 arrays."""

    def __init__(self, of_seed: int) -> None:
        import torch  # only these two chains need torch's stream

        self._torch, self._generator = torch, torch.Generator().manual_seed(of_seed)

    def __call__(self, *shape: int, factor: float = 1.0, divisor: float = 1.0) -> FloatArray:
        drawn = self._torch.randn(*shape, generator=self._generator)
        # The published code scales in float32, factor first.
        scaled: FloatArray = (drawn * factor / divisor).numpy().astype(np.float64)
        return scaled


def _chain(
    activation: str, matrices: Sequence[FloatArray], *, shortcut: float = 0.0, norm: RowNorm | None = None
) -> Chain:
    return Chain(
        activation=ACTIVATIONS[activation],
        layers=len(matrices),
        weights=matrices.__getitem__,
        shortcut=shortcut,
        norm=norm,
    )


def _result(case_name: str, found: dict[str, tuple[ChainSizes, ChainSizes]]) -> Result:
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
