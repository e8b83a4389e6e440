"""A published number of an experiment, as printed, and its place in a result.

Source: the course text on keeping signals stable, and the exercise on one saturating unit. Exact numbers must agree to
the printed digits; the draws of the others are not published, and they have a stated tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from .options import Options

if TYPE_CHECKING:
    from .experiment import Result

DIGITS = "printed digits"
Finder = Callable[["Result"], float]


@dataclass(frozen=True, kw_only=True)
class Printed:
    """One published number: what it is, the printed text, and its place in a result.

    `between` is the smallest and the largest accepted value; None requires the printed digits. `under` names the
    options, other than defaults, that the number is published for; None is any options.
    """

    what: str
    printed: str
    find: Finder
    between: tuple[float, float] | None = None
    under: Mapping[str, Any] | None = field(default_factory=dict)

    def agrees(self, value: float) -> bool:
        """Return whether a computed value agrees with the published one."""
        if self.between is not None:
            return self.between[0] <= value <= self.between[1]
        printed = Decimal(self.printed)
        return Decimal(value).quantize(Decimal(1).scaleb(int(printed.as_tuple().exponent))) == printed

    def belongs(self, options: Options) -> bool:
        """Return whether the number is published for these options."""
        wanted = {} if self.under is None else {**options.defaults(), **self.under}
        return all(getattr(options, key) == value for key, value in wanted.items())

    @property
    def accepted(self) -> str:
        """Return the accepted values as text."""
        return DIGITS if self.between is None else "{:.4g} to {:.4g}".format(*self.between)


def near(law: float, relative: float) -> tuple[float, float]:
    """Return `law` * (1 - relative) and `law` * (1 + relative)."""
    return law * (1 - relative), law * (1 + relative)


def cell(table: str, column: str, **where: Any) -> Finder:
    """Return a function that finds a cell of a result's table by the values of other columns."""

    def find(result: Result) -> float:
        rows = result.tables[table]
        for name, value in where.items():
            rows = rows[rows[name] == value]
        return float(rows[column].iloc[0])

    return find


def scalar(name: str) -> Finder:
    """Return a function that finds a number of a result's summary."""
    return lambda result: float(result.summary[name])
