"""Norms of a row x of d features as one formula, y = gain * z / r(x) + bias, with exact Jacobian and gradient.

- z is x; for LayerNorm it is x minus its mean.
- The moment s is a sum of squares of z over a divisor. LayerNorm: d (population variance) or d - 1 (sample variance);
  RMSNorm: d; pRMSNorm: m, over the first m features only; ScaleNorm: 1.
- The denominator r is sqrt(s + epsilon), or sqrt(s) + epsilon if epsilon is outside the square root.

DyT, y = gain * tanh(alpha * x) + bias, is elementwise and has no moment.

Sources: Ba et al. (2016); Zhang and Sennrich (2019); Nguyen and Salazar (2019); Zhu et al. (2025).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..kit import FloatArray, UndefinedNorm

NormKind = Literal["layernorm", "rmsnorm", "prmsnorm", "scalenorm", "dyt"]
NORMS: tuple[NormKind, ...] = ("layernorm", "rmsnorm", "prmsnorm", "scalenorm", "dyt")
# Central differences of step h err by h^2 and by rounding / h: least near the cube root of binary64's unit.
STEP = 6.055454452393343e-06


@dataclass(frozen=True, kw_only=True, eq=False)
class RowNorm:
    """A norm over the last axis of rows `[..., d]`: y = gain * z / r(x) + bias.

    z, the moment s and the denominator r are those of the module. `inside` puts epsilon inside the square root;
    `sample` takes the divisor d - 1 in LayerNorm. `share` is used by pRMSNorm: only the first ceil(share * d) features
    enter its moment. `alpha` is the slope inside DyT's tanh. `gain` and `bias` are `[d]`; None means ones and zeros.
    Every method that divides raises `UndefinedNorm` if r is 0 for a row.
    """

    kind: NormKind = "rmsnorm"
    epsilon: float = 1e-5
    inside: bool = True
    sample: bool = False
    share: float = 1.0
    alpha: float = 0.5
    gain: FloatArray | None = None
    bias: FloatArray | None = None

    @property
    def moves(self) -> bool:
        """True if the norm divides by a moment of the row, False for DyT."""
        return self.kind != "dyt"

    def centered(self, x: FloatArray) -> FloatArray:
        """Return z, of the shape of `x`: the rows themselves, minus their mean for LayerNorm."""
        return x - x.mean(axis=-1, keepdims=True) if self.kind == "layernorm" else x

    def counted(self, d: int) -> int:
        """Return the number of leading features, out of `d`, that enter the moment."""
        return math.ceil(self.share * d) if self.kind == "prmsnorm" else d

    def divisor(self, d: int) -> int:
        """Return the divisor of the sum of squares for rows of `d` features.

        Raises `UndefinedNorm` for the sample variance of a single feature.
        """
        if self.kind == "scalenorm":
            return 1
        if self.kind == "layernorm" and self.sample:
            if d < 2:
                raise UndefinedNorm("The sample variance of one number divides by 0; give two numbers or more.")
            return d - 1
        return self.counted(d)

    def moment(self, x: FloatArray) -> FloatArray:
        """Return the moment s `[..., 1]`: variance (LayerNorm), squared length (ScaleNorm) or mean square (others)."""
        d = x.shape[-1]
        z = self.centered(x)[..., : self.counted(d)]
        return np.asarray(np.square(z).sum(axis=-1, keepdims=True) / self.divisor(d))

    def denominator(self, x: FloatArray) -> FloatArray:
        """Return the denominator r `[..., 1]`. Raises `UndefinedNorm` if it is 0 for a row."""
        s = self.moment(x)
        r = np.sqrt(s + self.epsilon) if self.inside else np.sqrt(s) + self.epsilon
        if not (r > 0).all():
            what = {"layernorm": "variance", "scalenorm": "length"}.get(self.kind, "mean square")
            raise UndefinedNorm(
                f"The {what} of the row and epsilon are both 0, so {self.kind} divides 0 by 0; give a positive epsilon."
            )
        return r

    def normalized(self, x: FloatArray) -> FloatArray:
        """Return the normalized rows before gain and bias: z / r, or tanh(alpha * x) for DyT."""
        return self.centered(x) / self.denominator(x) if self.moves else np.tanh(self.alpha * x)

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return the norm with gain and bias."""
        y = self.normalized(x)
        y = y if self.gain is None else y * self.gain
        return y if self.bias is None else y + self.bias

    def moment_slope(self, x: FloatArray) -> FloatArray:
        """Return the gradient of the denominator r with respect to the row x, `[..., d]`.

        Raises `UndefinedNorm` if r is 0 with epsilon inside the square root, or if epsilon is outside and the moment is
        0 although z is not.
        """
        counted, whole = self.centered(x).copy(), self.centered(x)
        counted[..., self.counted(x.shape[-1]) :] = 0.0
        root = self.denominator(x) if self.inside else np.sqrt(self.moment(x))
        if ((root == 0) & (whole != 0).any(axis=-1, keepdims=True)).any():
            raise UndefinedNorm(
                f"The square root in {self.kind} has no slope at a row whose moment is 0; put epsilon inside the root."
            )
        return np.asarray(counted / (self.divisor(x.shape[-1]) * np.where(root == 0, 1.0, root)))

    def jacobian(self, x: FloatArray) -> FloatArray:
        """Return the Jacobian dy / dx `[d, d]` of one row x `[d]`.

        It is diag(gain) (C / r - z (dr/dx)^T / r^2), where C = I - 1/d in every entry (LayerNorm) or C = I (the
        others), and z, r are those of `RowNorm`. For DyT it is diagonal.
        """
        d = x.shape[-1]
        if not self.moves:
            matrix = np.diag(self.alpha * (1.0 - np.square(np.tanh(self.alpha * x))))
        else:
            r = self.denominator(x)
            projector = np.eye(d) - (1.0 / d if self.kind == "layernorm" else 0.0)
            matrix = projector / r - np.outer(self.centered(x), self.moment_slope(x)) / r**2
        return matrix if self.gain is None else self.gain[:, None] * matrix

    def gradient_terms(self, x: FloatArray, upstream: FloatArray) -> dict[str, FloatArray]:
        """Return the terms of the gradient of sum(upstream * y) by the rows `x`: a dict of arrays `[..., d]`.

        The gradient is the sum of the terms. With g = gain * upstream, and z and the denominator r as in `RowNorm`,
        they are:

        - `incoming`: g / r.
        - `mean`, for LayerNorm only: -mean(g) / r at every feature. With it, the gradient no longer changes the row's
          mean.
        - `radial`: -sum(g * z) / r^2 * dr/dx, because r depends on x too. Without epsilon it removes the part of the
          gradient that would rescale the row.

        DyT has one term, `incoming`: g * alpha * (1 - tanh(alpha * x)^2).
        """
        g = upstream if self.gain is None else upstream * self.gain
        if not self.moves:
            return {"incoming": g * self.alpha * (1.0 - np.square(np.tanh(self.alpha * x)))}
        r, z = self.denominator(x), self.centered(x)
        terms = {"incoming": g / r}
        if self.kind == "layernorm":
            terms["mean"] = np.broadcast_to(-g.mean(axis=-1, keepdims=True) / r, x.shape)
        terms["radial"] = -(g * z).sum(axis=-1, keepdims=True) / r**2 * self.moment_slope(x)
        return terms

    def input_gradient(self, x: FloatArray, upstream: FloatArray) -> FloatArray:
        """Return the gradient of sum(upstream * y) with respect to the rows `x`, of their shape."""
        return np.asarray(sum(self.gradient_terms(x, upstream).values()))

    def affine_gradients(self, x: FloatArray, upstream: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the gradients of sum(upstream * y) with respect to gain and bias, each `[d]`, summed over all rows."""
        flat = (-1, x.shape[-1])
        return (upstream * self.normalized(x)).reshape(flat).sum(axis=0), upstream.reshape(flat).sum(axis=0)


def central_difference(law: RowNorm, x: FloatArray, step: float) -> FloatArray:
    """Return the Jacobian dy / dx `[d, d]` of one row `x`, with every feature moved by +`step` and -`step`."""
    moved = step * np.eye(len(x))
    return np.asarray((law(x + moved) - law(x - moved)).T / (2 * step))
