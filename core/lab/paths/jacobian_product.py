"""Experiment: the product of all blocks' Jacobians, its singular values, and how far its norm is below its bound."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..decoder_source import DECODER, decoder_subject
from ..kit import (
    Chart,
    Experiment,
    FloatArray,
    Line,
    Pictures,
    Result,
    TableView,
    closeness,
    ordered_product,
    rounded,
    spectral_norm,
)
from .options import NORM_AXIS, JacobianOptions


def jacobian_product(options: JacobianOptions) -> Result:
    """Return the product J_{L-1} ... J_0 of the Jacobians of L blocks, with its singular values and its norm."""
    import torch  # the adjoints that the product must carry back

    from .jacobians import path_jacobians

    paths = path_jacobians(options)
    blocks = paths.blocks
    product, reverse = ordered_product(blocks), ordered_product(blocks[::-1])
    ends = torch.autograd.grad(paths.tape.loss.sum(), [paths.tape.states[0], paths.tape.states[-1]])
    first, last = (end.numpy().ravel() for end in ends)
    bounds = _bounds(blocks)
    values = {f"block {index}": factor for index, factor in enumerate(blocks)} | {"product": product}
    spectra = {name: np.linalg.svd(matrix, compute_uv=False) for name, matrix in values.items()}
    return Result(
        summary={
            "product_norm": spectra["product"][0],
            "smallest_singular_value": spectra["product"][-1],
            "norm_bound": bounds["norm_bound"].iloc[-1],
            "bound_over_norm": bounds["looseness"].iloc[-1],
            "reversed_order_distance": spectral_norm(product - reverse) / spectra["product"][0],
            "adjoint_error": np.abs(product.T @ last - first).max() / np.abs(first).max(),
            "state_entries": len(product),
        },
        tables={
            "singular_values": pd.concat(
                [
                    pd.DataFrame({"factor": name, "index": np.arange(len(found)), "singular_value": found})
                    for name, found in spectra.items()
                ],
                ignore_index=True,
            ),
            "bound": bounds,
        },
        notes=(
            "The adjoint error compares the transposed product applied to the last adjoint with the first adjoint.",
            "Jacobians do not commute: the reversed product is another matrix.",
        ),
    )


def _bounds(blocks: Sequence[FloatArray]) -> pd.DataFrame:
    """Return the norm of every block, the product of the norms so far, and the norm of the product so far."""
    partial, bound, rows = np.eye(len(blocks[0])), 1.0, []
    for index, factor in enumerate(blocks):
        partial, norm = factor @ partial, spectral_norm(factor)
        bound *= norm
        actual = spectral_norm(partial)
        rows.append((index + 1, norm, bound, actual, bound / actual if actual > 0 else np.nan))
    return pd.DataFrame(rows, columns=["blocks", "block_norm", "norm_bound", "product_norm", "looseness"])


def _pictures(result: Result) -> Pictures:
    """Return charts of the norm bound beside the true norm, and of the singular values of product and blocks."""
    bound, values = result.tables["bound"], result.tables["singular_values"]
    product = values[values["factor"] == "product"]
    blocks = values[values["factor"] != "product"]
    return {
        "bound": Chart(
            title="Norm of the product and its bound", x_title="blocks multiplied", y_title=NORM_AXIS,
            whole_x=True,
            lines=[
                Line.of(bound, "blocks", "product_norm", "ordered product"),
                Line.of(bound, "blocks", "norm_bound", "bound", 0, "predicted"),
                Line.of(bound, "blocks", "block_norm", "this block alone", 1),
            ],
        ),
        "singular-values": Chart(
            title="Singular values", x_title="index, largest first", y_title="singular value",
            whole_x=True,
            lines=[
                Line.of(product, "index", "singular_value", "ordered product"),
                Line.of(blocks, "index", "singular_value", "single blocks", 1, "points"),
            ],
            levels=[(1.0, "identity, 1")],
        ),
    }  # fmt: skip


EXPERIMENT = Experiment(
    title="Ordered product of block Jacobians",
    label="Jacobian product",
    function=jacobian_product,
    presets={"fixture": {}, "unscaled": {"recipe": "unscaled"}, "post-norm": {"recipe": "post-norm"}},
    torch=True,
    controls=DECODER,
    shared=DECODER,
    text=(
        "How a small change of the input reaches the end of the stack: the blocks' Jacobians, multiplied in their "
        "order. The norms of the factors bound the norm of the product, often loosely, for the direction that one "
        "block stretches most is not the one the next does. The reversed order is another matrix."
    ),
    formulas=(
        r"\frac{\partial x_L}{\partial x_0}=J_{L-1}\cdots J_1J_0",
        r"\Bigl\|\prod_b J_b\Bigr\|_2\le\prod_b\|J_b\|_2",
    ),
    subject=decoder_subject,
    reading=lambda found: (
        f"The product stretches a vector by at most {rounded(found['product_norm'])}; the blocks' norms multiply to "
        f"{rounded(found['norm_bound'])}, which is {rounded(found['bound_over_norm'])} times as much. Carried back by "
        f"the product, the last adjoint gives the first {closeness(found['adjoint_error'])}."
    ),
    draw=_pictures,
    tables={
        "bound": TableView(
            alt="Norm, bound and looseness after every block.",
            titles={
                "blocks": "blocks", "block_norm": "this block's norm", "norm_bound": "bound",
                "product_norm": "product's norm", "looseness": "bound over norm",
            },
        ),
        "singular_values": TableView(
            alt="Singular values of every factor and of the product.",
            titles={"factor": "factor", "index": "index", "singular_value": "singular value"},
        ),
    },
)  # fmt: skip
