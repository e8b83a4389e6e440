"""What each tab of the page Recipes shows, by its name; only the open one is drawn and computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pages.views.recipe_contracts import contracts, difference, drift
from pages.views.recipe_observed import against_depth, contributions, profiles
from pages.views.recipe_shown import Shown
from pages.views.recipe_theory import theory

VIEWS: Mapping[str, Callable[[Shown], None]] = {
    "Profiles": profiles,
    "Against depth": against_depth,
    "Contributions": contributions,
    "Theory": theory,
    "Contracts": contracts,
    "Difference": difference,
    "Drift": drift,
}
