"""Predictions without any fitted constant, beside measurements, each with its relative error.

Every prediction starts from numbers measured in the same run, such as the RMS of the input or the size of the branches.
`relative_error` is predicted / measured - 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pandas as pd

from ..decoder.base_draw import Distribution
from ..decoder.config import DecoderConfig
from ..decoder.graph import Addition, Graph, Norm
from ..decoder.parameters import WRITERS, Role, layout
from ..decoder.splitmix64 import FloatArray
from ..health.columns import OBSERVED
from ..health.observation import Observation
from ..recipes.catalogue import recipe
from ..recipes.recipe import Recipe
from .comparison import Comparison

EVIDENCE = "derived"
SITE_OVERLAY_COLUMNS = (
    "recipe", "seed", "blocks", "site", "label", "law", "measured", "predicted", "relative_error", "evidence",
)  # fmt: skip
DEPTH_OVERLAY_COLUMNS = ("recipe", "seed", "blocks", "law", "measured", "predicted", "relative_error", "evidence")

INDEPENDENT = "branch variances added, no covariance"
WITH_COVARIANCE = "branch variances and covariance added"
UNIT_BRANCHES = "one unit of mean square per addition, 1 + 2L"
SQUARE_ROOT = "square-root growth from the first block's branches"
GRADIENT = "terminal adjoint as 1/sqrt(L) from the least depth"
GRADIENT_BY_STREAM = "terminal adjoint as one over the last state's RMS"


@dataclass(frozen=True)
class _Member:
    observation: Observation
    index: int
    graph: Graph

    @property
    def states(self) -> FloatArray:
        """Return the RMS of every state."""
        values: FloatArray = self.observation.activation_rms[self.index]
        return values

    def additions(self) -> list[tuple[Addition, list[tuple[float, float, float]]]]:
        """Return every addition with contribution RMS, stream RMS and cosine of each of its branches."""
        i = self.index
        found = [
            [(float(c.contribution_rms[i]), float(c.stream_rms[i]), np.nan_to_num(float(c.cosine[i]))) for c in group]
            for _, group in groupby(self.observation.contributions, key=lambda c: c.site)
        ]
        return list(zip((addition for block in self.graph.blocks for addition in block), found, strict=True))


def site_overlay_table(comparison: Comparison) -> pd.DataFrame:
    """Return predicted and measured activation RMS at every residual site, for every law that applies.

    Columns are `SITE_OVERLAY_COLUMNS`. A recipe with a norm after the additions has no rows, since the norm sets the
    scale there.
    """
    parts = []
    for chunk, arm, members in comparison.arms():
        graph = arm.recipe.graph(chunk.config)
        for seed, index in zip(chunk.seeds, members, strict=True):
            member = _Member(arm.observation, index, graph)
            for law, predicted in _site_laws(arm.recipe, chunk.config, comparison.request.distribution, member):
                frame = {"recipe": arm.recipe.name, "seed": str(seed), "blocks": chunk.config.blocks, "law": law}
                frame |= {"site": np.arange(len(predicted)), "label": arm.observation.labels}
                frame |= {"measured": member.states, "predicted": predicted}
                parts.append(frame)
    return _with_errors(parts, SITE_OVERLAY_COLUMNS)


def depth_overlay_table(rows: pd.DataFrame, config: DecoderConfig) -> pd.DataFrame:
    """Return the predicted and measured adjoint RMS of the last site against depth (columns `DEPTH_OVERLAY_COLUMNS`).

    The adjoint is the gradient of the mean loss with respect to the state. Every prediction starts from the value of
    the same recipe and seed at the smallest depth. The laws hold for pre-norm decoders with a final norm: the gradient
    is divided by the size of the last state. The law 1/sqrt(L) also needs branches that no recipe makes smaller. Other
    recipes have no rows. `rows` is a long table such as `profile_table`, and `config` gives the sizes apart from the
    depth.
    """
    last = rows[rows["status"] == OBSERVED].sort_values(["blocks", "site"], kind="stable")
    last = last.groupby(["recipe", "seed", "blocks"], sort=False).tail(1)
    parts = []
    for (name, _), cells in last.groupby(["recipe", "seed"], sort=False):
        known = recipe(str(name))
        if not _is_pre_norm(known.graph(replace(config, blocks=int(cells["blocks"].iloc[0])))):
            continue
        measured, states, depths = (cells[key].to_numpy() for key in ("adjoint_rms", "activation_rms", "blocks"))
        laws = {GRADIENT_BY_STREAM: measured[0] * states[0] / states}
        if known.topology.branch is None and not set(WRITERS) & set(known.laws):
            laws[GRADIENT] = measured[0] * np.sqrt(depths[0] / depths)
        for law, predicted in laws.items():
            head = {"recipe": name, "seed": cells["seed"].to_numpy(), "blocks": depths, "law": law}
            parts.append({**head, "measured": measured, "predicted": predicted})
    return _with_errors(parts, DEPTH_OVERLAY_COLUMNS)


def overlay_errors(table: pd.DataFrame) -> pd.DataFrame:
    """Return the median and the largest absolute relative error, one row per recipe, depth and law.

    Columns: `recipe`, `blocks`, `law`, `median_error`, `largest_error`.
    """
    errors = table.assign(error=table["relative_error"].abs())
    grouped = errors.groupby(["recipe", "blocks", "law"], sort=False)["error"]
    return grouped.agg(median_error="median", largest_error="max").reset_index()


def _site_laws(
    chosen: Recipe, config: DecoderConfig, distribution: Distribution, member: _Member
) -> Iterator[tuple[str, FloatArray]]:
    graph = member.graph
    if any(addition.norm_after is not None for additions in graph.blocks for addition in additions):
        return
    yield INDEPENDENT, _accounted(member, covariance=False)
    yield WITH_COVARIANCE, _accounted(member, covariance=True)
    if _has_unit_branches(graph):
        added = np.concatenate([[0], np.cumsum([len(a.branches) for block in graph.blocks for a in block])])
        yield UNIT_BRANCHES, np.sqrt(member.states[0] ** 2 + added)
    elif _is_pre_norm(graph) and chosen.topology.norm_in_factor is None:
        yield SQUARE_ROOT, _square_root(chosen, config, distribution, member)


def _accounted(member: _Member, *, covariance: bool) -> FloatArray:
    """Return the sums of mean squares: without covariance from the input alone, with it from each measured stream.

    For one branch per addition the latter is an identity; for two parallel branches the product between them is
    missing.
    """
    squares = [float(member.states[0]) ** 2]
    for addition, branches in member.additions():
        total = branches[0][1] ** 2 if covariance else float(addition.shortcut) ** 2 * squares[-1]
        for gained, stream, cosine in branches:
            total += gained**2 + (2 * cosine * gained * stream if covariance else 0.0)
        squares.append(total)
    return np.sqrt(np.maximum(squares, 0.0))


def _square_root(chosen: Recipe, config: DecoderConfig, distribution: Distribution, member: _Member) -> FloatArray:
    """Return the RMS of every state if all branches have the size of the first block's, up to writer coefficients.

    The mean square is A_0^2 plus the first block's branch mean squares once per block, each scaled by its own block's
    writer coefficient.
    """
    first = [gained for _, found in member.additions()[: len(member.graph.blocks[0])] for gained, _, _ in found]
    scales = [_writer_scales(chosen, config, distribution, role) for role in WRITERS]
    squares = [float(member.states[0]) ** 2]
    for block, additions in enumerate(member.graph.blocks):
        # The branches of a block stand in the order of the writers, attention first.
        sizes = (size * scale[block] for size, scale in zip(first, scales, strict=True))
        for addition in additions:
            squares.append(sum((next(sizes) ** 2 for _ in addition.branches), start=squares[-1]))
    return np.sqrt(squares)


def _writer_scales(chosen: Recipe, config: DecoderConfig, distribution: Distribution, role: Role) -> list[float]:
    """Return the coefficient on a writer in every block divided by that in the first; 0 if the first is 0."""
    (spec,) = (spec for spec in layout(config).block_template if spec.role == role)
    std = distribution.base_std(spec)
    found = [chosen.coefficient(spec, block, config, std) for block in range(config.blocks)]
    return [scale / found[0] if found[0] else 0.0 for scale in found]


def _has_unit_branches(graph: Graph) -> bool:
    branches = [branch for block in graph.blocks for addition in block for branch in addition.branches]
    plain = all(addition.shortcut == 1.0 for block in graph.blocks for addition in block)
    return plain and all(_is_own_norm(b.norm_out) and b.coefficient == 1.0 for b in branches)


def _is_pre_norm(graph: Graph) -> bool:
    additions = [addition for block in graph.blocks for addition in block]
    plain = all(addition.shortcut == 1.0 and addition.norm_after is None for addition in additions)
    branches = [branch for addition in additions for branch in addition.branches]
    return plain and _is_own_norm(graph.final_norm) and all(_is_own_norm(b.norm_in) for b in branches)


def _is_own_norm(norm: Norm | None) -> bool:
    return norm is not None and norm.kind in ("rmsnorm", "layernorm")


def _with_errors(parts: Sequence[dict[str, object]], columns: Sequence[str]) -> pd.DataFrame:
    """Concatenate all parts into one table and add the relative errors; a value that is not a column fills all rows."""
    if not parts:
        return pd.DataFrame(columns=list(columns))
    sizes = [len(np.atleast_1d(np.asarray(part["predicted"]))) for part in parts]
    joined = {
        name: np.concatenate(
            [np.broadcast_to(np.asarray(part[name]), size) for part, size in zip(parts, sizes, strict=True)]
        )
        for name in parts[0]
    }
    table = pd.DataFrame(joined)
    table["relative_error"] = table["predicted"] / table["measured"] - 1.0
    table["evidence"] = EVIDENCE
    return table[list(columns)]
