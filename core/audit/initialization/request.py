"""What an initialization is judged by: the name of a rule, and a base standard deviation.

Both are checked before torch is imported.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ...decoder.graph import Topology
from ...decoder.parameters import WRITERS
from ...errors import AuditError
from ...recipes.catalogue import CONTROL, RECIPES, recipe
from ...recipes.recipe import Recipe

AUTO = "auto"


def checked_sigma(sigma: float | None) -> float | None:
    """Return a declared base standard deviation, unchanged.

    Raises `AuditError` unless it is None, or positive and finite.
    """
    if sigma is not None and not 0 < sigma < math.inf:
        raise AuditError(f"The base standard deviation {sigma!r} is not positive and finite; declare 0.02, say.")
    return sigma


def checked_rule(name: str) -> Recipe | None:
    """Return the recipe of a declared rule; None for `auto`.

    Raises `AuditError` where weights and coefficients cannot show whether it is met, `RecipeError` for an unknown name.
    """
    if name == AUTO:
        return None
    chosen = recipe(name)
    if chosen.refusal is not None:
        raise AuditError(f"The rule {chosen.name} cannot be declared: {chosen.refusal}")
    if not checkable(chosen):
        able = ", ".join(known.name for known in RECIPES if checkable(known))
        raise AuditError(
            f"The rule {chosen.name} is more than stored writers and a branch coefficient, so weights cannot show "
            f"whether it is met; declare one of {able}, or auto."
        )
    return chosen


def checkable(chosen: Recipe) -> bool:
    """Return True if stored writers and branch coefficients are all that the recipe uses to control depth."""
    if chosen.name == CONTROL:
        return True
    topology = replace(chosen.topology, branch=None, shortcut=None, norm_in="norm", norm_after=None, final_norm="norm")
    if chosen.refusal is not None or chosen.profile is not None or topology != Topology():
        return False
    if any(law.normalize for law in chosen.laws.values()):
        return False
    return chosen.topology.branch is not None or any(role in chosen.laws for role in WRITERS)
