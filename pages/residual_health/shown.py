"""What the page Health shows: the current model, its document, and its ratios over the seeds for two recipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from core.health.columns import INITIALIZED, SAME_BASE_CONTROL
from core.health.request import ObserveRequest
from core.recipes.catalogue import CONTROL, DEFAULT
from core.tables.observe import (
    contribution_table,
    site_table,
)
from pages.common import cached, seeds
from pages.common.model import Model
from pages.common.outputs import Sheet
from pages.residual_health import controls

if TYPE_CHECKING:
    from core.health.seeds import SeedArm
    from core.health.suggestion import Suggestion


@dataclass(frozen=True)
class Shown:
    """The current model, its observe document, and the sheet (figures and tables with exports) on which it is shown.

    `document` observes one seed of the model or of its reduced twin (a narrower decoder); `at_true_size` says that it
    is of the model itself although the verdict is that of its twin.
    """

    model: Model
    document: Mapping[str, Any]
    sheet: Sheet
    at_true_size: bool = False

    @property
    def request(self) -> ObserveRequest:
        """The request of the verdict: of the model, or of its reduced twin."""
        return self.model.answered

    @property
    def observed(self) -> ObserveRequest:
        """The request that `document` answers."""
        return self.model.request if self.at_true_size else self.request

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the two recipes counted over seeds: the model's, and `unscaled` or the default beside it."""
        return (self.request.recipe, CONTROL if self.request.recipe != CONTROL else DEFAULT)

    @cached_property
    def arms(self) -> list[SeedArm] | None:
        """The results of both recipes over the model's seeds; None while they are not counted."""
        return seeds.counted(self.request, self.model.seed_values, self.names)

    @property
    def seeds(self) -> Sequence[SeedArm]:
        """The arms whose spread is drawn around the document's curves; none beside a document of another width."""
        return () if self.at_true_size else self.arms or ()

    @cached_property
    def refusal(self) -> str | None:
        """The sentence that says why the last count of seeds failed; None if it did not."""
        return seeds.refusal()

    @cached_property
    def suggestion(self) -> Suggestion | None:
        """The `Suggestion` of what would improve the verdict; None while it is not known."""
        return None if self.arms is None else seeds.suggested(self.request, self.arms[0])

    @cached_property
    def sites(self) -> pd.DataFrame:
        """The table of sites with the recipe and without (both arms), one row per site."""
        return site_table(self.document)

    @cached_property
    def contributions(self) -> pd.DataFrame:
        """The table of contributions of the arm whose blocks are drawn, one row per branch."""
        table = contribution_table(self.document)
        return table[table["arm"] == self.arm]

    @property
    def arm(self) -> str:
        """The name of the arm whose blocks are drawn: `initialized` (with the recipe) or `control` (without)."""
        return SAME_BASE_CONTROL if controls.ARMS.value == controls.CONTROL_ONLY else INITIALIZED

    @property
    def site(self) -> int | None:
        """The index of the chosen site; None if no site is chosen or the arm does not have it."""
        wanted = str(controls.SITE.value).strip()
        known = wanted.isascii() and wanted.isdigit() and len(wanted) < 6
        return (
            int(wanted) if known and int(wanted) in set(self.sites.loc[self.sites["arm"] == self.arm, "site"]) else None
        )

    @cached_property
    def compared(self) -> pd.DataFrame:
        """The site table of both arms; if the recipe is the control, the second arm is the default recipe.

        At true size there is no second arm then.
        """
        if self.request.recipe != CONTROL or self.at_true_size:
            return self.sites
        other = site_table(cached.observation(replace(self.request, recipe=DEFAULT)))
        own = self.sites[self.sites["arm"] == INITIALIZED]
        return pd.concat([own, other[other["arm"] == INITIALIZED]], ignore_index=True)

    @property
    def log(self) -> bool:
        """True if figures have a logarithmic axis."""
        return bool(controls.SCALE.value == controls.LOGARITHMIC)


def chosen_arms(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `table` of the arms (with the recipe, without, or both) that the visitor has chosen."""
    wanted = {controls.RECIPE_ONLY: "initialized", controls.CONTROL_ONLY: "control"}.get(controls.ARMS.value)
    return table if wanted is None else table[table["arm"] == wanted]
