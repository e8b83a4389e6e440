"""Measure what one part of a combination changes: run the combination with and without it on the same base weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..decoder.base_draw import BaseDraw
from ..decoder.graph import BranchKind
from ..decoder.parameters import WRITERS, Role, layout
from ..health.arms import Arm, observe_arms
from ..health.request import ObserveRequest
from ..recipes.catalogue import recipe
from ..recipes.recipe import Recipe, combination

BRANCH_OF: dict[Role, BranchKind] = {"output": "attention", "down": "feed_forward"}


@dataclass(frozen=True, kw_only=True)
class Effect:
    """The largest relative change of an RMS, over all residual sites, that the factors of one part cause.

    `part` is the part's recipe and `roles` the kinds of weights whose factors are removed for the comparison.
    `quantity`, `site` and `label` say where the change is.
    """

    part: str
    roles: tuple[Role, ...]
    largest_change: float
    quantity: str
    site: int
    label: str

    @property
    def place(self) -> str:
        """The change with its quantity and site, as text."""
        return f"largest relative change {self.largest_change:.3g} ({self.quantity} at site {self.site}, {self.label})"


def largest_change(arm: Arm, twin: Arm, seed: int = 0) -> tuple[float, str, int]:
    """Return the largest relative change of an RMS over all residual sites, with its quantity and site.

    The change is |arm / twin - 1| (absolute value) of an activation or adjoint (gradient) RMS. `arm` and `twin` are two
    recipes on the same seeds, and `seed` is the position of a seed among these. Equal numbers, also two zeros, have
    change 0. If only one of the two numbers is undefined, the change is infinity.
    """
    changes = []
    for quantity in ("activation", "adjoint"):
        ours, theirs = (
            getattr(one.observation, f"{quantity}_rms")[one.member(seed)] for one in (arm, twin)
        )  # fmt: skip
        with np.errstate(all="ignore"):
            relative = np.where(ours == theirs, 0.0, np.abs(ours / theirs - 1.0))
        relative = np.where(np.isnan(relative), np.inf, relative)
        site = int(np.argmax(relative))
        changes.append((float(relative[site]), quantity, site))
    return max(changes, key=lambda change: change[0])


class MeasuredCombination:
    """A combination of recipes on one decoder, seed and batch; each variant of it runs when it is first needed."""

    def __init__(self, request: ObserveRequest) -> None:
        self.request = request
        self.chosen = recipe(request.recipe)
        self.parts = [recipe(name) for name in self.chosen.parts]
        self.laws = [part for part in self.parts if part.laws]
        self.graph = self.chosen.graph(request.config)
        self._draw = BaseDraw(request.config, [request.seed], request.distribution)
        self._arms: dict[str, Arm] = {}

    @property
    def hidden_writers(self) -> list[Role]:
        """The kinds of writers (matrices that end a branch) with a norm between the branch and the addition."""
        branches = {branch.kind: branch for addition in self.graph.blocks[0] for branch in addition.branches}
        return [role for role in WRITERS if branches[BRANCH_OF[role]].norm_out is not None]

    @property
    def added(self) -> list[Recipe]:
        """The parts that leave the graph as it is and scale at least one writer (a matrix that ends a branch)."""
        return [part for part in self.laws if not part.changes_graph and set(self.writer_coefficients(part)) != {1.0}]

    def arm(self, twin: Recipe) -> Arm:
        """Run a recipe on the shared base weights and return its observation; results are kept by the recipe's name."""
        if twin.name not in self._arms:
            request = self.request
            (arm,) = observe_arms(self._draw, [twin], request.batch, dtype=request.dtype, device=request.device)
            self._arms[twin.name] = arm
        return self._arms[twin.name]

    def without(self, part: Recipe, roles: Sequence[Role]) -> Recipe:
        """Return the combination without the factors of `part` on the weights of `roles`; all other factors stay."""
        bared = replace(part, laws={role: law for role, law in part.laws.items() if role not in roles})
        twin = combination([bared if other is part else other for other in self.parts])
        return replace(twin, name=f"{self.chosen.name} without {part.name} on {', '.join(roles)}")

    def effect(self, part: Recipe, roles: Sequence[Role]) -> Effect:
        """Return the largest relative change that the factors of `part` on the weights of `roles` cause."""
        ours = self.arm(self.chosen)
        value, quantity, site = largest_change(ours, self.arm(self.without(part, roles)))
        return Effect(
            part=part.name,
            roles=tuple(roles),
            largest_change=value,
            quantity=quantity,
            site=site,
            label=ours.observation.labels[site],
        )

    def writer_coefficients(self, part: Recipe) -> list[float]:
        """Return the factors of a recipe on every writer (a matrix that ends a branch), in block order."""
        config, law = self.request.config, self.request.distribution
        writers = [spec for spec in layout(config).block_template if spec.role in WRITERS]
        return [
            part.coefficient(spec, block, config, law.base_std(spec))
            for block in range(config.blocks)
            for spec in writers
        ]

    def last_branch_size(self, twin: Recipe) -> float:
        """Return the larger RMS that a branch of the last block adds to the stream, divided by the RMS of the input."""
        arm, last = self.arm(twin), self.request.config.blocks - 1
        found = [float(c.contribution_rms[0]) for c in arm.observation.contributions if c.block == last]
        return max(found) / float(arm.observation.activation_rms[0, 0])
