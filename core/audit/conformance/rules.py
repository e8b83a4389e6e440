"""What a declared recipe asks of stored matrices and of the forward, as factors on the base standard deviation."""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.audit.conformance.base import Base
from core.audit.conformance.matrices import Stored
from core.audit.conformance.request import checked_rule
from core.decoder.graph import DepthLaw
from core.decoder.parameters import BLOCK_MATRICES, WRITERS
from core.errors import AuditError
from core.recipes.catalogue import CONTROL, recipe
from core.recipes.law import Matrix
from core.recipes.recipe import Recipe

# Recognized where nothing is declared: rules that scale writers, or their contribution, by the depth alone.
RECOGNIZED = (
    "gpt2", "depth-scaled", "block-indexed", "lingua-global", "wang", "ds-init", "completep", "deepscalelm",
)  # fmt: skip
READERS = tuple(role for role in BLOCK_MATRICES if role not in WRITERS)


@dataclass(frozen=True)
class Rule:
    """A recipe read as factors: `stored` on a matrix, `forward` on a contribution relative to the shortcut."""

    recipe: Recipe

    @property
    def name(self) -> str:
        """The recipe's name."""
        return self.recipe.name

    @property
    def scales(self) -> bool:
        """Whether it is more than the control."""
        return self.recipe.name != CONTROL

    def stored(self, matrix: Stored, blocks: int, width: int, base: Base) -> float:
        """The factor of a writer's standard deviation."""
        return self._law(matrix, matrix.role, blocks, width, base)

    def forward(self, block: int, blocks: int) -> float:
        """The factor of the forward."""
        branch, shortcut = self.recipe.topology.branch, self.recipe.topology.shortcut
        factor = 1.0 if branch is None else branch(block, blocks)
        return factor / (shortcut(block, blocks) if isinstance(shortcut, DepthLaw) else 1.0)

    def effective(self, matrix: Stored, blocks: int, width: int, base: Base) -> float:
        """What a writer's standard deviation and the forward together ask for."""
        return self.stored(matrix, blocks, width, base) * self.forward(matrix.block, blocks)

    def readers(self, matrix: Stored, blocks: int, width: int, base: Base) -> tuple[float, ...]:
        """The factors that a reader may have; several where the recipe tells readers apart and the audit does not."""
        return tuple({self._law(matrix, role, blocks, width, base) for role in READERS})

    @property
    def formula(self) -> str:
        """The law on writers, or that of the forward, in words."""
        law = self.recipe.laws.get("down")
        branch = self.recipe.topology.branch
        return law.formula if law is not None else branch.formula if branch is not None else "1"

    def _law(self, matrix: Stored, role: str, blocks: int, width: int, base: Base) -> float:
        law = next((law for known, law in self.recipe.laws.items() if known == role), None)
        if law is None:
            return 1.0
        place = Matrix(matrix.block, blocks, matrix.fan_in, matrix.fan_out, width, base.std(matrix))
        return law.coefficient(place)


def declared_rule(name: str, blocks: int) -> Rule | None:
    """The rule of that name at a depth, None for `auto`; refuses what a model's weights cannot show."""
    chosen = checked_rule(name)
    if chosen is None:
        return None
    if blocks < chosen.minimum_blocks:
        raise AuditError(
            f"The rule {chosen.name} needs at least {chosen.minimum_blocks} blocks; this model has {blocks}."
        )
    return Rule(chosen)


def recognized_rules(blocks: int) -> list[Rule]:
    """The rules that `auto` tries, in order of preference."""
    return [Rule(recipe(name)) for name in RECOGNIZED if recipe(name).minimum_blocks <= blocks]


def close(one: float, two: float, margin: float) -> bool:
    """Whether two positive factors agree within a margin of their logarithms."""
    if one <= 0 or two <= 0 or not (math.isfinite(one) and math.isfinite(two)):
        return one == two
    return abs(math.log(one / two)) <= margin
