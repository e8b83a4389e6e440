"""What each tab of the page Recipes shows, by its name; only the open one is drawn and computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pages.recipes.contracts import contracts, difference, drift
from pages.recipes.observed import against_depth, contributions, profiles
from pages.recipes.shown import Shown
from pages.recipes.theory import theory

VIEWS: Mapping[str, Callable[[Shown], None]] = {
    "Profiles": profiles,
    "Against depth": against_depth,
    "Contributions": contributions,
    "Theory": theory,
    "Contracts": contracts,
    "Difference": difference,
    "Drift": drift,
}
