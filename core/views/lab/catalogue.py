"""Every experiment's view by the experiment's name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from core.views.lab import (
    norm_epsilon,
    norm_numerics,
    norm_rows,
    norm_slopes,
    path_jacobians,
    path_stream,
    signal_layers,
    signal_published,
    signal_residuals,
    signal_units,
)
from core.views.lab.view import LabView

VIEWS: Mapping[str, LabView] = MappingProxyType(
    {
        "linear-layer": signal_layers.LINEAR_LAYER,
        "chain": signal_layers.CHAIN,
        "linear-chain": signal_published.LINEAR_CHAIN,
        "relu-chain": signal_published.RELU_CHAIN,
        "tanh-chain": signal_published.TANH_CHAIN,
        "compounding": signal_layers.COMPOUNDING,
        "sigmoid-unit": signal_units.SIGMOID_UNIT,
        "soft-cap": signal_units.SOFT_CAP,
        "width-update": signal_units.WIDTH_UPDATE,
        "scaled-residual": signal_residuals.SCALED_RESIDUAL,
        "decoder-variance": signal_residuals.DECODER_VARIANCE,
        "stream-growth": signal_residuals.STREAM_GROWTH,
        "norm-placement": signal_residuals.NORM_PLACEMENT,
        "norm-steps": norm_rows.NORM_STEPS,
        "norm-invariances": norm_rows.NORM_INVARIANCES,
        "norm-epsilon": norm_epsilon.NORM_EPSILON,
        "norm-divergence": norm_rows.NORM_DIVERGENCE,
        "epsilon-placement": norm_epsilon.EPSILON_PLACEMENT,
        "variance-divisor": norm_epsilon.VARIANCE_DIVISOR,
        "norm-jacobian": norm_slopes.NORM_JACOBIAN,
        "norm-gradients": norm_slopes.NORM_GRADIENTS,
        "one-pass-moments": norm_numerics.ONE_PASS,
        "accumulation": norm_numerics.ACCUMULATION,
        "sharded-moments": norm_numerics.SHARDED_MOMENTS,
        "residual-once": norm_numerics.RESIDUAL_ONCE,
        "jacobian-product": path_jacobians.JACOBIAN_PRODUCT,
        "branch-interaction": path_jacobians.BRANCH_INTERACTION,
        "stream-expansion": path_stream.STREAM_EXPANSION,
        "update-geometry": path_stream.UPDATE_GEOMETRY,
        "residual-ledger": path_stream.RESIDUAL_LEDGER,
    }
)
