"""Numbers published for an experiment, as printed, and how to find the same numbers in its result.

Source: the course text on keeping signals stable, and the exercise on one saturating unit. A number without randomness
must agree in all printed digits. Where the published draws cannot be repeated, a range of accepted values is given.
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
    """One published number: what it is, its printed text, and a function that finds the computed number in a `Result`.

    `between` is the smallest and the largest accepted value; with None, all printed digits must agree. `under` are the
    options, other than the defaults, for which the number is published; None means that it holds for any options.
    """

    what: str
    printed: str
    find: Finder
    between: tuple[float, float] | None = None
    under: Mapping[str, Any] | None = field(default_factory=dict)

    def agrees(self, value: float) -> bool:
        """Return True if a computed value agrees with the published one: within `between`, or in all printed digits."""
        if self.between is not None:
            return self.between[0] <= value <= self.between[1]
        printed = Decimal(self.printed)
        return Decimal(value).quantize(Decimal(1).scaleb(int(printed.as_tuple().exponent))) == printed

    def belongs(self, options: Options) -> bool:
        """Return True if the number is published for these options."""
        wanted = {} if self.under is None else {**options.defaults(), **self.under}
        return all(getattr(options, key) == value for key, value in wanted.items())

    @property
    def accepted(self) -> str:
        """The accepted values as text: a range such as "0.19 to 0.21", or "printed digits"."""
        return DIGITS if self.between is None else "{:.4g} to {:.4g}".format(*self.between)


def near(law: float, relative: float) -> tuple[float, float]:
    """Return the range `(law * (1 - relative), law * (1 + relative))`."""
    return law * (1 - relative), law * (1 + relative)


def cell(table: str, column: str, **where: Any) -> Finder:
    """Return a function that takes a result and returns one number of its table `table` as a float.

    The number is in `column`, in the first row where every column named in `where` has the value given there.
    """

    def find(result: Result) -> float:
        rows = result.tables[table]
        for name, value in where.items():
            rows = rows[rows[name] == value]
        return float(rows[column].iloc[0])

    return find


def scalar(name: str) -> Finder:
    """Return a function that takes a result and returns the number `name` of its summary as a float."""
    return lambda result: float(result.summary[name])
