"""Statistics of a stored matrix: its standard deviation, the sampling tolerance of that, and the distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

# Deviations beyond this many standard errors are no accident: one in 5e8, where an audit asks some thousand times.
SIGMAS = 6.0
# Laws that lie closer together than this are not distinguished, however large the matrix.
FLOOR = 0.003
# Fourth standardized moments of the candidates; a normal cut at two standard deviations lies between.
KURTOSIS = {"uniform": 1.8, "truncated normal": 2.3653, "normal": 3.0}
SMALLEST_SAMPLE, LARGEST_SAMPLE = 256, 2**16
SMALLEST_TRUNCATION, LARGEST_TRUNCATION = 0.5, 6.0
ORTHOGONAL = "orthogonal"
# Rows whose angles are looked at, and how much smaller than those of independent draws orthogonal ones' cosines are.
ROWS, NEAR = 8, 0.1
_CHANCE = math.log(1e-9)


@dataclass(frozen=True, kw_only=True)
class WeightStats:
    """Statistics of the values of a tensor.

    `largest` is the largest magnitude, `count` the number of values, `distribution` its name. `truncation` is where a
    truncated normal is cut, in standard deviations before truncation; None if it is not cut.
    """

    std: float
    mean: float
    largest: float
    count: int
    distribution: str
    truncation: float | None = None

    @property
    def shrink(self) -> float:
        """Standard deviation over that before truncation: 0.88 for a cut at two of them, 1 without truncation."""
        return 1.0 if self.truncation is None else shrink(self.truncation)

    @property
    def finite(self) -> bool:
        """True if every value is finite."""
        return math.isfinite(self.std) and math.isfinite(self.largest)


def weight_stats(tensor: torch.Tensor) -> WeightStats:
    """Return the `WeightStats` of a tensor, computed in float64."""
    values = tensor.detach().to(torch.float64).flatten()
    if not values.numel():
        return WeightStats(std=0.0, mean=0.0, largest=0.0, count=0, distribution="unclear")
    deviation, mean = torch.std_mean(values, correction=0)
    largest, name = float(values.abs().max()), distribution(tensor)
    found = WeightStats(
        std=float(deviation), mean=float(mean), largest=largest, count=values.numel(), distribution=name
    )
    return completed(found, orthogonal=found.finite and _orthogonal(tensor.detach()))


def completed(found: WeightStats, *, orthogonal: bool) -> WeightStats:
    """Return the statistics with the distribution refined to `orthogonal` or `truncated normal` where that is seen."""
    if orthogonal:
        return replace(found, distribution=ORTHOGONAL)
    name = found.distribution
    cut = None if name in ("uniform", "zeros", "constant") or not found.finite else _truncation(found)
    if cut is None:
        return found
    return replace(found, distribution="truncated normal", truncation=cut)


def shrink(cut: float) -> float:
    """Return the std of a unit normal cut at -c and c, c = `cut`: sqrt(1 - 2 c phi(c) / (2 Phi(c) - 1))."""
    density = math.exp(-0.5 * cut * cut) / math.sqrt(2 * math.pi)
    return math.sqrt(1 - 2 * cut * density / math.erf(cut / math.sqrt(2)))


def tolerance(count: int, sigmas: float = SIGMAS) -> float:
    """Return how far the standard deviation of `count` normal values may be off by chance: |log(found / true)|.

    It is the bound at `sigmas` standard errors, by Wilson and Hilferty's cube root of chi-square, which holds in the
    far tail too; flatter distributions than the normal stay closer. Infinite if there are too few values; at least
    `FLOOR`.
    """
    if count < 2:
        return math.inf
    step = 2 / (9 * count)
    low = 1 - step - sigmas * math.sqrt(step)
    if low <= 0:
        return math.inf
    high = 1 - step + sigmas * math.sqrt(step)
    return max(FLOOR, abs(1.5 * math.log(low)), abs(1.5 * math.log(high)))


def combined_tolerance(*tolerances: float) -> float:
    """Return the tolerance, a difference of logarithms, of a quotient of independent estimates."""
    return math.hypot(*tolerances)


def _orthogonal(tensor: torch.Tensor) -> bool:
    """Return whether the rows of a wide matrix, or the columns of a tall one, are orthogonal.

    Of a stack, only the first matrix is tested.

    Cosines of independent draws of n values have standard deviation n^(-1/2); rounding to bfloat16 leaves 1e-3 of it.
    """
    matrix = tensor[(0,) * max(0, tensor.dim() - 2)]
    if matrix.dim() != 2 or min(matrix.shape) < ROWS:
        return False
    rows = (matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T)[:ROWS].to(torch.float64)
    return orthogonal_products(rows @ rows.T, rows.shape[1])


def orthogonal_products(products: torch.Tensor, length: int) -> bool:
    """Return True if `ROWS` vectors of `length` values are orthogonal; `products[i, j]` is that of vectors i and j."""
    sizes = products.diagonal().sqrt()
    apart = ~torch.eye(len(sizes), dtype=torch.bool, device=products.device)
    cosines = (products / sizes / sizes[:, None])[apart]
    return float(cosines.square().mean().sqrt()) < NEAR / math.sqrt(length)


def _truncation(found: WeightStats) -> float | None:
    """Return the cut of a truncated normal in sigmas; None where the largest value may be as small by chance."""
    if found.std <= 0:
        return None
    reach = found.largest / found.std
    inside = math.erf(reach / math.sqrt(2))
    if inside >= 1 or found.count * math.log(inside) > _CHANCE:
        return None
    low, high = SMALLEST_TRUNCATION, LARGEST_TRUNCATION
    if low / shrink(low) > reach:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle / shrink(middle) < reach else (low, middle)
    return low


def standard_deviation(tensor: torch.Tensor) -> float:
    """Return the population standard deviation of all values, computed in float64; 0 for an empty tensor."""
    values = tensor.detach().to(torch.float64)
    return float(values.std(correction=0)) if values.numel() else 0.0


def distribution(tensor: torch.Tensor) -> str:
    """Return `zeros`, `constant`, `uniform`, `truncated normal` or `normal`; `unclear` where the moments do not decide.

    Large tensors are judged by `LARGEST_SAMPLE` of their values, from all rows and columns.
    """
    values = tensor.detach()
    if not values.numel() or not math.isfinite(float(values.sum(dtype=torch.float64))):
        return "unclear"
    if not bool(values.any()):
        return "zeros"
    return distribution_of(values.flatten()[:: sample_step(values.numel(), values.shape[-1])])


def distribution_of(sample: torch.Tensor) -> str:
    """Return `constant`, `uniform`, `truncated normal`, `normal` or `unclear` for a sample of finite values."""
    sample = sample.to(torch.float64)
    squares = (sample - sample.mean()).square_()
    variance = float(squares.mean())
    if variance == 0.0:
        return "constant"
    if sample.numel() < SMALLEST_SAMPLE:
        return "unclear"
    kurtosis = float(squares.square_().mean()) / variance**2
    # The sampling error of a normal's kurtosis; that of the flatter candidates is smaller.
    tolerance = 5.0 * math.sqrt(24.0 / sample.numel())
    name, distance = min(((n, abs(kurtosis - k)) for n, k in KURTOSIS.items()), key=lambda pair: pair[1])
    return name if distance <= tolerance else "unclear"


def sample_step(count: int, row: int) -> int:
    """Return the step that takes at most `LARGEST_SAMPLE` of `count` values and covers all columns of a row equally."""
    step = -(-count // LARGEST_SAMPLE)
    while step > 1 and math.gcd(step, row) > 1:
        step += 1
    return step
