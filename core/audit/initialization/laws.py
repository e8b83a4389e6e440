"""What recipes (depth rules) require of matrices, and the depth laws that writers may follow instead.

The latter are the laws of other recipes and known mistakes. A factor is a standard deviation over the base, the
standard deviation before any depth rule. A stage is a group of blocks that code may count separately.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...decoder.graph import DepthLaw
from ...decoder.parameters import BLOCK_MATRICES, WRITERS
from ...errors import AuditError
from ...recipes.catalogue import CONTROL, RECIPES
from ...recipes.law import Law, Matrix
from ...recipes.recipe import Recipe
from ..trace.names import numbered
from .base_std import BaseStd
from .measure import MatrixStats, ModelStats
from .request import checked_rule

READERS = tuple(role for role in BLOCK_MATRICES if role not in WRITERS)


@dataclass(frozen=True)
class Rule:
    """A recipe as factors that a model can be checked for.

    `stored` is the factor on a standard deviation, `forward` that on a contribution relative to the shortcut. `guessed`
    is True if the rule was recognized and not declared.
    """

    recipe: Recipe
    guessed: bool = False

    @property
    def name(self) -> str:
        """The name of the recipe."""
        return self.recipe.name

    @property
    def scales(self) -> bool:
        """True for every recipe except the control, which scales nothing."""
        return self.recipe.name != CONTROL

    @property
    def formula(self) -> str:
        """The formula of the rule as text: that on the writers' weights, else that in the forward, else `1`."""
        law, branch = self.recipe.laws.get("down"), self.recipe.topology.branch
        return law.formula if law is not None else branch.formula if branch is not None else "1"

    @property
    def absolute(self) -> bool:
        """True if the recipe sets a standard deviation itself, and not a factor on the one that a matrix has."""
        law = self.recipe.laws.get("down")
        return law is not None and len({law.coefficient(Matrix(0, 2, 1, 1, 1, std)) for std in (1.0, 2.0)}) > 1

    def stored(self, matrix: MatrixStats, stats: ModelStats, base: BaseStd) -> float:
        """Return the factor on the base standard deviation that the recipe requires of a writer's weights.

        A writer is a matrix that ends a branch.
        """
        return _coefficient(self.recipe.laws.get(matrix.role), matrix, stats, base)

    def forward(self, block: int, blocks: int) -> float:
        """Return the forward's factor on contributions of block `block` of `blocks`, over that on the shortcut."""
        branch = self.recipe.topology.branch
        return (1.0 if branch is None else branch(block, blocks)) / self.shortcut(block, blocks)

    def readers(self, matrix: MatrixStats, stats: ModelStats, base: BaseStd) -> tuple[float, ...]:
        """Return the factors that the recipe allows for the weights of a reader (a matrix that begins a branch), as a
        tuple.

        There are several if the role of the reader is not known, or if it holds several roles with different factors.
        """
        return tuple({_coefficient(self.recipe.laws.get(role), matrix, stats, base) for role in matrix.reads_as})

    @property
    def in_forward(self) -> bool:
        """True if the recipe multiplies branches or shortcuts in the forward."""
        topology = self.recipe.topology
        return topology.branch is not None or isinstance(topology.shortcut, DepthLaw)

    def shortcut(self, block: int, blocks: int) -> float:
        """Return the factor that the recipe's forward puts on the shortcut in block `block`, from 0, of `blocks`."""
        shortcut = self.recipe.topology.shortcut
        return shortcut(block, blocks) if isinstance(shortcut, DepthLaw) else 1.0


def _coefficient(law: Law | None, matrix: MatrixStats, stats: ModelStats, base: BaseStd) -> float:
    if law is None:
        return 1.0
    return law.coefficient(
        Matrix(matrix.block, stats.blocks, matrix.fan_in, matrix.fan_out, stats.width, base.std(matrix))
    )


def counted_additions(rule: Rule, blocks: int, ratio: float) -> float:
    """Return the n for which n^(-1/2) = `ratio` * N^(-1/2), which is N / ratio^2.

    N is the number of additions (two per block) if the rule's recipe counts additions, else the number of blocks.
    """
    return blocks * (2 if rule.recipe.counts == "additions" else 1) / ratio**2


def declared_rule(name: str, blocks: int) -> Rule | None:
    """Return the `Rule` named `name` for a model with `blocks` blocks; None for `auto`.

    Raises `AuditError` if weights cannot show the rule or it needs more blocks, `RecipeError` for an unknown name.
    """
    chosen = checked_rule(name)
    if chosen is None:
        return None
    if blocks < chosen.minimum_blocks:
        raise AuditError(
            f"The rule {chosen.name} needs at least {chosen.minimum_blocks} blocks; this model has {blocks}."
        )
    return Rule(chosen)


def recognized_rules(blocks: int) -> list[Rule]:
    """Return the list of `Rule` objects that `auto` tries for a model with `blocks` blocks, the most common first."""
    known = [recipe for recipe in RECIPES if recipe.auto_order is not None and recipe.minimum_blocks <= blocks]
    return [Rule(recipe, guessed=True) for recipe in sorted(known, key=lambda recipe: recipe.auto_order or 0)]


@dataclass(frozen=True)
class LayerIndex:
    """The position of a writer.

    It is in block `block`, counted from 0, of `blocks`, and in block `inner` of the `stage` blocks of its stage.
    """

    block: int
    blocks: int
    stage: int
    inner: int


@dataclass(frozen=True)
class KnownLaw:
    """A depth law: its formula, a clause on what it counts, and its factor as a function of the `LayerIndex`.

    `by_stage` is True if it counts within stages (groups of blocks).
    """

    formula: str
    counted: str
    factor: Callable[[LayerIndex], float]
    by_stage: bool = False


def _from_catalogue(recipe: Recipe) -> KnownLaw:
    law = recipe.laws["down"]
    return KnownLaw(
        law.formula, recipe.counted or "", lambda at: law.coefficient(Matrix(at.block, at.blocks, 1, 1, 1, 1.0))
    )


def _root(formula: str, counted: str, count: Callable[[LayerIndex], int], *, by_stage: bool = False) -> KnownLaw:
    return KnownLaw(formula, counted, lambda at: count(at) ** -0.5 if count(at) > 0 else math.inf, by_stage)


_FROM_ZERO = "blocks are counted up from 0, which makes the first infinite"
_ANEW = "the block's index is counted anew"
CATALOGUE = tuple(_from_catalogue(recipe) for recipe in RECIPES if recipe.counted is not None)
KNOWN_MISTAKES = (
    _root("(2l)^(-1/2)", _FROM_ZERO, lambda at: 2 * at.block),
    _root("l^(-1/2)", _FROM_ZERO, lambda at: at.block),
    _root("(2S)^(-1/2)", "the depth of a stage is counted, not that of the whole model",
          lambda at: 2 * at.stage, by_stage=True),
    _root("S^(-1/2)", "the depth of a stage is counted, one addition a block", lambda at: at.stage, by_stage=True),
    _root("(2(s+1))^(-1/2)", f"{_ANEW} in every stage", lambda at: 2 * (at.inner + 1), by_stage=True),
    _root("(s+1)^(-1/2)", f"{_ANEW} in every stage, one addition a block", lambda at: at.inner + 1, by_stage=True),
    _root("(2s)^(-1/2)", f"{_ANEW} from 0 in every stage", lambda at: 2 * at.inner, by_stage=True),
    _root("s^(-1/2)", f"{_ANEW} from 0 in every stage", lambda at: at.inner, by_stage=True),
    _root("(2(L-l))^(-1/2)", "blocks are counted down from the last", lambda at: 2 * (at.blocks - at.block)),
    _root("(L-l)^(-1/2)", "blocks are counted down from the last, one addition a block",
          lambda at: at.blocks - at.block),
    _root("(2(L-1))^(-1/2)", "one block less than there is is counted", lambda at: 2 * (at.blocks - 1)),
    _root("(L+1)^(-1/2)", "one block more than there is is counted, one addition a block", lambda at: at.blocks + 1),
    _root("(3L)^(-1/2)", "three additions a block are counted", lambda at: 3 * at.blocks),
    _root("(4L)^(-1/2)", "four additions a block are counted", lambda at: 4 * at.blocks),
    KnownLaw("L^(-1)", "the depth is not under a root", lambda at: 1 / at.blocks),
    KnownLaw("(2L)^(-1)", "the number of additions is not under a root", lambda at: 1 / (2 * at.blocks)),
    KnownLaw("L^(-1/4)", "a fourth root of the depth is taken", lambda at: at.blocks**-0.25),
    KnownLaw("(2L)^(-1/4)", "a fourth root of the additions is taken", lambda at: (2 * at.blocks) ** -0.25),
)  # fmt: skip

# Block -> (blocks of its stage, its index in it).
Stages = dict[int, tuple[int, int]]


def named_stages(writers: Sequence[MatrixStats]) -> Stages | None:
    """Return the stages (groups of blocks) that parameter names show; None if there are fewer than two.

    The result maps a block to (number of blocks in its stage, its index in the stage). Names show stages as several
    containers of blocks, or as numbered containers inside numbered ones.
    """
    names = [(m.block, numbered(m.name)) for m in writers]
    if not all(pairs for _, pairs in names):
        return None
    blocks = {block for block, _ in names}
    # The outer number is a stage's where it changes less often than the blocks do.
    nested = len({pairs[0] for _, pairs in names}) < len(blocks)
    containers: dict[str, dict[int, None]] = {}
    for block, pairs in names:
        container = pairs[1][0] if len(pairs) > 1 and nested else pairs[0][0]
        containers.setdefault(container, {})[block] = None
    if len(containers) < 2 or sum(map(len, containers.values())) != len(blocks):
        return None
    return {block: (len(members), inner) for members in containers.values() for inner, block in enumerate(members)}


def equal_stages(blocks: int) -> Iterator[Stages]:
    """Yield every division of the blocks into stages (groups) of equal size, the largest size first.

    Each maps a block to (number of blocks in its stage, its index in the stage).
    """
    for size in range(blocks // 2, 1, -1):
        if blocks % size == 0:
            yield {block: (size, block % size) for block in range(blocks)}
