"""What an initialization may be judged by, checked before torch is imported: a rule's name and a base sigma."""

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
    """A declared base standard deviation; refused unless positive and finite."""
    if sigma is not None and not 0 < sigma < math.inf:
        raise AuditError(f"The base standard deviation {sigma!r} is not positive and finite; declare 0.02, say.")
    return sigma


def checked_rule(name: str) -> Recipe | None:
    """The recipe of a declared rule, None for `auto`; refuses what weights and coefficients cannot show."""
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
    """Whether stored writers and branch coefficients say all that the recipe does to the stream's depth."""
    if chosen.name == CONTROL:
        return True
    topology = replace(chosen.topology, branch=None, shortcut=None, norm_in="norm", norm_after=None, final_norm="norm")
    if chosen.refusal is not None or chosen.profile is not None or topology != Topology():
        return False
    if any(law.normalize for law in chosen.laws.values()):
        return False
    return chosen.topology.branch is not None or any(role in chosen.laws for role in WRITERS)
