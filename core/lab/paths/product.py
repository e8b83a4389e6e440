"""Experiment: the ordered product of block Jacobians, its singular values, and how loose the norm bound is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.decoder.splitmix64 import FloatArray
from core.lab.paths.options import JacobianOptions
from core.lab.result import Result


@dataclass(frozen=True, kw_only=True)
class JacobianProductOptions(JacobianOptions):
    """The decoder whose blocks are differentiated."""


def jacobian_product(options: JacobianProductOptions) -> Result:
    """dx_L / dx_0 as J_{L-1} ... J_0. Tables: `singular_values` a factor, `bound` after every block."""
    import torch  # the adjoints that the product must carry back

    from core.lab.paths.jacobians import ordered_product, path_jacobians, spectral_norm

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
    """Norm of every block, product of the norms so far, and norm of the product so far."""
    from core.lab.paths.jacobians import spectral_norm

    partial, bound, rows = np.eye(len(blocks[0])), 1.0, []
    for index, factor in enumerate(blocks):
        partial, norm = factor @ partial, spectral_norm(factor)
        bound *= norm
        actual = spectral_norm(partial)
        rows.append((index + 1, norm, bound, actual, bound / actual if actual > 0 else np.nan))
    return pd.DataFrame(rows, columns=["blocks", "block_norm", "norm_bound", "product_norm", "looseness"])
