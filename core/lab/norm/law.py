"""Row norms as one law: y = gain * z / r(x) + bias, with exact Jacobian and gradient.

z is x, or x minus its mean for LayerNorm. The moment s is z'z over a divisor: d (population) or d - 1 (sample) for
LayerNorm, d for RMSNorm, m over the first m coordinates for pRMSNorm, 1 for ScaleNorm. The denominator r is sqrt(s +
epsilon), or sqrt(s) + epsilon if epsilon is outside the root. DyT, gain * tanh(alpha x) + bias, has no moment at all
and is elementwise.

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
    """One norm over the last axis of rows `[..., d]`; `gain` and `bias` are `[d]`, or None for ones and zeros.

    pRMSNorm uses the first ceil(share * d) coordinates; `alpha` is DyT's slope. Raises `UndefinedNorm` if a row's
    denominator is 0.
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
        """Whether the norm divides by a moment of the row."""
        return self.kind != "dyt"

    def centered(self, x: FloatArray) -> FloatArray:
        """Return z: the row, minus its mean for LayerNorm."""
        return x - x.mean(axis=-1, keepdims=True) if self.kind == "layernorm" else x

    def counted(self, d: int) -> int:
        """Return how many leading coordinates enter the moment."""
        return math.ceil(self.share * d) if self.kind == "prmsnorm" else d

    def divisor(self, d: int) -> int:
        """Return the divisor of the sum of squares."""
        if self.kind == "scalenorm":
            return 1
        if self.kind == "layernorm" and self.sample:
            if d < 2:
                raise UndefinedNorm("The sample variance of one number divides by 0; give two numbers or more.")
            return d - 1
        return self.counted(d)

    def moment(self, x: FloatArray) -> FloatArray:
        """Return s `[..., 1]`: variance, mean square or squared length."""
        d = x.shape[-1]
        z = self.centered(x)[..., : self.counted(d)]
        return np.asarray(np.square(z).sum(axis=-1, keepdims=True) / self.divisor(d))

    def denominator(self, x: FloatArray) -> FloatArray:
        """Return r `[..., 1]`. Raises `UndefinedNorm` if it is 0 for a row."""
        s = self.moment(x)
        r = np.sqrt(s + self.epsilon) if self.inside else np.sqrt(s) + self.epsilon
        if not (r > 0).all():
            what = {"layernorm": "variance", "scalenorm": "length"}.get(self.kind, "mean square")
            raise UndefinedNorm(
                f"The {what} of the row and epsilon are both 0, so {self.kind} divides 0 by 0; give a positive epsilon."
            )
        return r

    def normalized(self, x: FloatArray) -> FloatArray:
        """Return the row before gain and bias."""
        return self.centered(x) / self.denominator(x) if self.moves else np.tanh(self.alpha * x)

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return the norm with gain and bias."""
        y = self.normalized(x)
        y = y if self.gain is None else y * self.gain
        return y if self.bias is None else y + self.bias

    def moment_slope(self, x: FloatArray) -> FloatArray:
        """Return dr / dx `[..., d]`.

        Raises `UndefinedNorm` for a root without epsilon at moment 0, unless z is 0 too.
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
        """Return dy / dx `[d, d]` of one row `[d]`: gain * (C / r - z (dr/dx)' / r^2).

        C is the centering projector for LayerNorm, else I.
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
        """Return terms `[..., d]` whose sum is the gradient of sum(upstream * y) with respect to rows `x`.

        `incoming` is the upstream gradient times gain over r. `mean` removes what moves the row's mean (LayerNorm).
        `radial` removes what moves the row's scale. DyT has one term, `incoming` times its slope.
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
        """Return the gradient of sum(upstream * y) with respect to rows `x`."""
        return np.asarray(sum(self.gradient_terms(x, upstream).values()))

    def affine_gradients(self, x: FloatArray, upstream: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the gradients `[d]` with respect to gain and bias, summed over all rows that share them."""
        flat = (-1, x.shape[-1])
        return (upstream * self.normalized(x)).reshape(flat).sum(axis=0), upstream.reshape(flat).sum(axis=0)


def central_difference(law: RowNorm, x: FloatArray, step: float) -> FloatArray:
    """Return dy / dx `[d, d]` of one row by central differences of width 2 `step`."""
    moved = step * np.eye(len(x))
    return np.asarray((law(x + moved) - law(x - moved)).T / (2 * step))
