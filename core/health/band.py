"""The band: the inclusive range that ratios must lie in, judged on unrounded values."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from ..errors import ConfigError, shown
from ..numerals import exact_text, finite_number

# Help waits for no array library, so the method that needs one imports it.
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Place = Literal["below", "within", "above"]


@dataclass(frozen=True)
class Band:
    """The range that ratios must lie in: `lower` and `upper` limit, both included, without unit.

    Raises `ConfigError` unless 0 < lower <= upper < inf.
    """

    lower: float = 0.01
    upper: float = 100.0

    def __post_init__(self) -> None:
        for limit in (self.lower, self.upper):
            number = isinstance(limit, int | float) and not isinstance(limit, bool)
            if not number or not 0 < limit <= sys.float_info.max:
                raise ConfigError(f"The band limit {shown(limit)} is not a positive finite number.")
        if self.lower > self.upper:
            lower, upper = exact_text(self.lower), exact_text(self.upper)
            raise ConfigError(f"The band's lower limit {lower} is above its upper limit {upper}.")

    def judge(self, ratios: npt.ArrayLike) -> npt.NDArray[np.str_]:
        """Return `below`, `within` or `above` for each ratio, in the shape of `ratios`.

        An empty string where a ratio is NaN.
        """
        import numpy as np

        values = np.asarray(ratios)
        sides = [values < self.lower, values <= self.upper, values > self.upper]
        return np.select(sides, ["below", "within", "above"], "")

    def margin(self, ratios: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return min(log2(ratio / lower), log2(upper / ratio)) in the shape of `ratios`; NaN where a ratio is NaN.

        The unit is doublings: 0 at a limit, negative outside the band, 1 where the ratio could double or halve and stay
        inside.
        """
        import numpy as np

        values = np.asarray(ratios, dtype=np.float64)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            return np.minimum(np.log2(values / self.lower), np.log2(self.upper / values))


DEFAULT_BAND = Band()


def classify(ratio: float, band: Band = DEFAULT_BAND) -> Place:
    """Return `below`, `within` or `above` for a ratio and the band. Raises `ConfigError` if it is not finite."""
    if not abs(ratio) <= sys.float_info.max:
        raise ConfigError(f"The ratio {shown(ratio)} is not finite, so it has no place beside the band.")
    return cast("Place", band.judge(ratio).item())


def parse_band(text: str) -> Band:
    """Return the `Band` written as `lower,upper`, such as `0.01,100`.

    Raises `ConfigError` unless the text is two numbers that make a valid band.
    """
    limits = [finite_number(part) for part in text.split(",")]
    if len(limits) != 2 or limits[0] is None or limits[1] is None:
        raise ConfigError(f"The band {text[:40]!r} is not two numbers; write it as 0.01,100.")
    return Band(limits[0], limits[1])
