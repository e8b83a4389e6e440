"""A published figure of an experiment, as printed, and where it stands in a result.

Source: the course text on keeping signals stable, and the exercise on one saturating unit. Exact figures must agree to
the printed digits; the others have no published draw and a stated tolerance.
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
    """One published figure: what it is, as printed, and where it stands in a result.

    `between` has the least and the greatest accepted value, None asks for the printed digits. `under` names the
    options, apart from the defaults, that the figure is published for; None is any options.
    """

    what: str
    printed: str
    find: Finder
    between: tuple[float, float] | None = None
    under: Mapping[str, Any] | None = field(default_factory=dict)

    def agrees(self, value: float) -> bool:
        """Whether a computed value is the published one."""
        if self.between is not None:
            return self.between[0] <= value <= self.between[1]
        printed = Decimal(self.printed)
        return Decimal(value).quantize(Decimal(1).scaleb(int(printed.as_tuple().exponent))) == printed

    def belongs(self, options: Options) -> bool:
        """Whether the figure is published for these options."""
        wanted = {} if self.under is None else {**options.defaults(), **self.under}
        return all(getattr(options, key) == value for key, value in wanted.items())

    @property
    def accepted(self) -> str:
        """What is accepted, in words."""
        return DIGITS if self.between is None else "{:.4g} to {:.4g}".format(*self.between)


def near(law: float, relative: float) -> tuple[float, float]:
    """Limits at a relative distance below and above `law`."""
    return law * (1 - relative), law * (1 + relative)


def cell(table: str, column: str, **where: Any) -> Finder:
    """A cell of a table by the values of other columns."""

    def find(result: Result) -> float:
        rows = result.tables[table]
        for name, value in where.items():
            rows = rows[rows[name] == value]
        return float(rows[column].iloc[0])

    return find


def scalar(name: str) -> Finder:
    """A number of the summary."""
    return lambda result: float(result.summary[name])
