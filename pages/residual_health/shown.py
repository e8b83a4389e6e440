"""What the page Health shows: the current model, its document, its arms over the seeds, and the rows of the arms."""

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
    """The current model, the document that answers for it, and the sheet on which it is shown.

    `document` observes one seed of the model or of its reduced twin; `at_true_size` says that it is of the model itself
    although the verdict is that of its twin.
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
        """The recipes counted over seeds: the model's and the one it is compared with."""
        return (self.request.recipe, CONTROL if self.request.recipe != CONTROL else DEFAULT)

    @cached_property
    def arms(self) -> list[SeedArm] | None:
        """Both arms over the model's seeds; None while they are not counted."""
        return seeds.counted(self.request, self.model.seed_values, self.names)

    @property
    def seeds(self) -> Sequence[SeedArm]:
        """The arms whose spread is drawn around the document's curves; none beside a document of another width."""
        return () if self.at_true_size else self.arms or ()

    @cached_property
    def refusal(self) -> str | None:
        """Why the last count of seeds was refused; None if it was not."""
        return seeds.refusal()

    @cached_property
    def suggestion(self) -> Suggestion | None:
        """What would improve the verdict; None while it is not known."""
        return None if self.arms is None else seeds.suggested(self.request, self.arms[0])

    @cached_property
    def sites(self) -> pd.DataFrame:
        """The site table of both arms."""
        return site_table(self.document)

    @cached_property
    def contributions(self) -> pd.DataFrame:
        """The contribution table of the arm `arm`."""
        table = contribution_table(self.document)
        return table[table["arm"] == self.arm]

    @property
    def arm(self) -> str:
        """The name of the arm whose blocks are drawn."""
        return SAME_BASE_CONTROL if controls.ARMS.value == controls.CONTROL_ONLY else INITIALIZED

    @property
    def site(self) -> int | None:
        """The chosen site; None if no site is chosen or the arm does not have it."""
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
        """Whether figures have a logarithmic axis."""
        return bool(controls.SCALE.value == controls.LOGARITHMIC)


def chosen_arms(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the arms that the reader has chosen."""
    wanted = {controls.RECIPE_ONLY: "initialized", controls.CONTROL_ONLY: "control"}.get(controls.ARMS.value)
    return table if wanted is None else table[table["arm"] == wanted]
