"""What a model is judged against: the rule, the base and an explanation per group of writers.

Writers are the matrices that end a branch, readers those that begin one. The base is the standard deviation before any
depth rule. The description length measures how many assumptions a resolution needs; the shortest one is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from .base_std import Origin
from .explain import Cause, Explained
from .factors import Factors, close
from .laws import Rule
from .measure import MatrixStats, grouped, usable

# Description lengths: a constant made to fit costs more than one in common use or a guessed rule.
FREE_CONSTANT, NAMED_CONSTANT, GUESS, REMARK, EXPLANATION = 8, 2, 3, 2, 4


class Remark(Enum):
    """An observation about the base or the readers as a whole."""

    NONE = "nothing"
    EVERYTHING = "every reader is scaled as the writers are"
    BY_FAN_OUT = "every reader is drawn by its fan_out"
    UNUSED_RANGE = "no matrix follows the configured standard deviation"


@dataclass(frozen=True)
class Resolution:
    """What a model is judged against.

    `depths` are the measured models with their bases, the audited one first. `rule` is None if none is declared or met.
    `explained` holds an explanation for every writer whose scale reaches the stream. `scaled_readers` have the factor
    of the writer of their branch although the rule does not scale readers.
    """

    depths: tuple[Factors, ...]
    rule: Rule | None
    remark: Remark = Remark.NONE
    explained: tuple[Explained, ...] = ()
    scaled_readers: tuple[MatrixStats, ...] = ()

    @property
    def first(self) -> Factors:
        """The factors of the audited model."""
        return self.depths[0]

    @property
    def guessed(self) -> bool:
        """True if there is a rule that was not declared."""
        return self.rule is not None and self.rule.guessed

    @property
    def everything(self) -> bool:
        """True if all writers (matrices that end a branch) meet the rule and all readers have its factor too.

        Readers are the matrices that begin a branch.
        """
        readers = usable(self.first.stats.readers)
        met = all(found.cause is Cause.AS_ASKED for found in self.explained)
        return met and len(self.scaled_readers) == len(readers) > 1

    def beside_readers(self, *, bare: bool) -> list[MatrixStats]:
        """Return the writers (matrices that end a branch) of branches whose reader has the depth factor.

        With `bare` those without the factor, otherwise those that have it too. A reader is a matrix that begins a
        branch.
        """
        places = set() if self.everything else {m.where for m in self.scaled_readers}
        return [
            m
            for found in self.explained
            if (found.cause is Cause.UNSCALED) == bare
            for m in found.writers
            if m.where in places
        ]

    @property
    def unsettled(self) -> tuple[Explained, ...]:
        """The explanations of writers (matrices that end a branch), without those that another finding covers.

        The other findings are about readers, the matrices that begin a branch.
        """
        if self.everything:
            return ()
        gone = {m.shown for bare in (True, False) for m in self.beside_readers(bare=bare)}
        kept = [replace(e, writers=tuple(m for m in e.writers if m.shown not in gone)) for e in self.explained]
        return tuple(found for found in kept if found.writers)

    @property
    def length(self) -> int:
        """The description length: how many assumptions this resolution needs; the one with the smallest is taken."""
        base = self.first.base
        named = base.named or base.origin is Origin.OUTSIDE
        total = NAMED_CONSTANT if named else FREE_CONSTANT if base.count else 0
        total += NAMED_CONSTANT if base.beside is not None else 0
        total += FREE_CONSTANT if self._moving_base() else 0
        total += GUESS if self.guessed else 0
        total += REMARK if self.remark in (Remark.EVERYTHING, Remark.BY_FAN_OUT) else 0
        return total + self._writers_length() + self._readers_length()

    def _moving_base(self) -> bool:
        """Return whether the bases of two depths differ by more than sampling error, without a remark to explain it."""
        if self.remark is Remark.EVERYTHING or len(self.depths) < 2:
            return False
        one, two = self.first.base, self.depths[1].base
        margin = one.tolerance + two.tolerance
        return one.law == two.law and not close(one.constant, two.constant, margin + 1e-9)

    def _writers_length(self) -> int:
        groups = grouped(self.first.visible)
        if self.rule is None:
            away = sum(1 for group in groups if not all(d.fits(d.alike(group), 1.0) for d in self.depths))
            return FREE_CONSTANT * away + EXPLANATION * (away < len(groups))
        unknown = sum(1 for found in self.explained if found.cause in (Cause.CONSTANT, Cause.UNKNOWN))
        return EXPLANATION * (len({found.explanation for found in self.explained}) + unknown * len(groups))

    def _readers_length(self) -> int:
        if self.remark is Remark.EVERYTHING or self.first.base.beside is not None:
            return 0
        scaled = {m.shown for m in self.scaled_readers}
        others = [m for m in usable(self.first.stats.readers) if m.shown not in scaled]
        away = {m.group for m in others if not self.first.at_base(m, self.rule)}
        return EXPLANATION * (len(away) + bool(scaled))
