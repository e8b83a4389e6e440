"""Observes recipes over many seeds, in passes of limited size, and gives a verdict on each recipe.

An arm is one recipe over all seeds. Only scalars are kept, so memory does not grow much with the number of seeds. A
seed without finite ratios is *refused*: the arm has the reason instead of numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..decoder.base_draw import BaseDraw
from ..decoder.parameters import layout
from ..decoder.progress import Told, silent
from ..decoder.splitmix64 import FloatArray
from ..errors import ConfigError, ObservationError
from ..numerals import checked_seed
from ..recipes.catalogue import CONTROL, recipe
from ..recipes.recipe import Recipe
from .arms import Arm, ByBlock, by_block_of, observe_arms
from .band import Band
from .chunks import arms_per_pass, seed_chunks, seeds_per_chunk
from .estimate import check_run
from .request import ObserveRequest
from .sites import first_block_site, site_ratios
from .verdict import Growth, Subject, Verdict, seed_margins, verdict_of


@dataclass(frozen=True, eq=False)
class SeedArm:
    """One recipe observed over seeds. Rows are seeds in the order given, columns are sites, named by `labels`.

    `activation_rms` and `adjoint_rms` are `[seeds, sites]`, absolute values and not ratios; `loss_nats` is `[seeds]`.
    `reasons` maps the row of each refused seed (without finite ratios) to a sentence; the numbers in that row mean
    nothing.
    """

    recipe: Recipe
    seeds: tuple[int, ...]
    labels: list[str]
    activation_rms: FloatArray
    adjoint_rms: FloatArray
    loss_nats: FloatArray
    reasons: Mapping[int, str]
    band: Band
    subject: Subject
    growth: Growth | None = None

    @cached_property
    def ratios(self) -> tuple[FloatArray, FloatArray]:
        """The pair (`activation_ratio`, `adjoint_ratio`), `[seeds, sites]` each; NaN in the rows of refused seeds.

        A refused seed has no finite ratios.
        """
        found = site_ratios(self.activation_rms, self.adjoint_rms)
        for values in found:
            values[self.refused] = np.nan
        return found

    @property
    def activation_ratio(self) -> FloatArray:
        """Activation RMS at each site (state of the stream) over that at the input, `[seeds, sites]`.

        NaN in the rows of seeds without finite ratios.
        """
        return self.ratios[0]

    @property
    def adjoint_ratio(self) -> FloatArray:
        """RMS of the loss gradient at each site (state of the stream) over that at the last site, `[seeds, sites]`.

        NaN in the rows of seeds without finite ratios.
        """
        return self.ratios[1]

    @cached_property
    def refused(self) -> npt.NDArray[np.bool_]:
        """True for each seed that has no finite ratios, boolean `[seeds]`."""
        out = np.zeros(len(self.seeds), dtype=np.bool_)
        out[list(self.reasons)] = True
        return out

    @property
    def first_block(self) -> int:
        """The index of the last site (state of the stream) of the first block.

        Ratios relative to it do not depend on the scale of the input.
        """
        return first_block_site(self.labels)

    @cached_property
    def margins(self) -> FloatArray:
        """The smallest margin of each seed over all sites, in doublings, `[seeds]`; -inf for refused seeds.

        A margin of 1 means that the ratio could double or halve and stay inside the band; it is negative outside.
        """
        return np.where(self.refused, -np.inf, seed_margins(self.ratios, self.band))

    @property
    def median_loss(self) -> float:
        """The median loss in nats over the seeds with finite ratios; NaN if there are none."""
        return float(np.median(self.loss_nats[~self.refused])) if not self.refused.all() else float("nan")

    @cached_property
    def verdict(self) -> Verdict:
        """The `Verdict` on this recipe over all its seeds."""
        return verdict_of(
            *self.ratios,
            self.first_block,
            refused=self.refused,
            band=self.band,
            growth=self.growth,
            subject=self.subject,
        )

    def followed_by(self, other: SeedArm) -> SeedArm:
        """Return a `SeedArm` with these seeds and then those of `other`, of the same request and recipe."""
        return replace(
            self,
            seeds=self.seeds + other.seeds,
            activation_rms=np.concatenate([self.activation_rms, other.activation_rms]),
            adjoint_rms=np.concatenate([self.adjoint_rms, other.adjoint_rms]),
            loss_nats=np.concatenate([self.loss_nats, other.loss_nats]),
            reasons={**self.reasons, **{len(self.seeds) + row: reason for row, reason in other.reasons.items()}},
        )

    def ribbon(self, quantity: str, levels: Sequence[float] = (0.05, 0.5, 0.95)) -> FloatArray:
        """Return quantiles over the seeds of the ratios of `quantity` (activation or adjoint): `[len(levels), sites]`.

        Seeds without finite ratios are left out; all quantiles are NaN if none remains.
        """
        values = getattr(self, f"{quantity}_ratio")[~self.refused]
        if not len(values):
            return np.full((len(levels), len(self.labels)), np.nan)
        return np.asarray(np.quantile(values, list(levels), axis=0))


@dataclass(frozen=True)
class SeedRows:
    """One recipe in one pass: RMS `[seeds, sites]`, loss `[seeds]` in nats, and reasons by row if refused."""

    activation: FloatArray
    adjoint: FloatArray
    loss: FloatArray
    reasons: dict[int, str]


def rows_of(arm: Arm, seeds: int) -> SeedRows:
    """Return the `SeedRows` (RMS, loss, reasons) of the first `seeds` seeds of an arm, one recipe on many seeds.

    The numbers of a seed without finite ratios mean nothing.
    """
    observation, members = arm.observation, [arm.member(seed) for seed in range(seeds)]
    reasons = {
        row: str(observation.refusal(members[row])) for row in np.flatnonzero(~observation.sound[members]).tolist()
    }
    return SeedRows(
        observation.activation_rms[members], observation.adjoint_rms[members], observation.loss_nats[members], reasons
    )


def observe_seeds(
    request: ObserveRequest,
    seeds: Sequence[int],
    recipes: Sequence[str] | None = None,
    *,
    told: Told = silent,
) -> list[SeedArm]:
    """Observe `recipes` on every seed of `seeds`, on shared base draws; return one `SeedArm` per recipe, in order.

    `seeds` replace the request's seed. If `recipes` is None, these are the request's recipe and the unscaled control.
    `told(what, done, total)` is the progress callback, called with the number of finished seeds. A seed without finite
    ratios raises nothing: the arm has the reason. Raises the errors of the request, and an error for a recipe that
    cannot run on the decoder, for empty `seeds` and for a repeated seed.
    """
    asked = [recipe(name) for name in recipes or (request.recipe, CONTROL)]
    # The control is computed once where it is also the recipe.
    chosen = list({known.name: known for known in asked}.values())
    numbers = _checked_seeds(seeds)
    by_block = by_block_of(check_run(request))
    graphs = [known.graph(request.config) for known in chosen]
    together = arms_per_pass(request.config, request.batch, request.dtype, len(chosen))
    groups = [chosen[start : start + together] for start in range(0, len(chosen), together)]
    each = seeds_per_chunk(request.config, request.batch, request.dtype, min(together, len(chosen)))
    parts: list[list[SeedRows]] = []
    done = 0
    for chunk in seed_chunks(numbers, each):
        draw = BaseDraw(request.config, chunk, request.distribution)
        parts.append([part for group in groups for part in _observed(request, draw, group, by_block)])
        done += len(chunk)
        told("seeds", done, len(numbers))
    arms = {
        known.name: _arm(request, numbers, known, graph.site_labels(), [part[index] for part in parts])
        for index, (known, graph) in enumerate(zip(chosen, graphs, strict=True))
    }
    return [arms[known.name] for known in asked]


def observe_embeddings(
    request: ObserveRequest, seeds: Sequence[int], stds: Sequence[float], *, told: Told = silent
) -> list[SeedArm]:
    """Observe the request's recipe with embeddings of each standard deviation in `stds`; the rest is drawn once.

    Returns one `SeedArm` per standard deviation, in order. Everything else is as in `observe_seeds`.
    """
    known, numbers = recipe(request.recipe), _checked_seeds(seeds)
    by_block = by_block_of(check_run(request))
    requests = [replace(request, distribution=replace(request.distribution, embedding_std=std)) for std in stds]
    labels = known.graph(request.config).site_labels()
    each = seeds_per_chunk(request.config, request.batch, request.dtype, 1)
    parts: list[list[SeedRows]] = []
    done = 0
    for chunk in seed_chunks(numbers, each):
        draw = BaseDraw(request.config, chunk, request.distribution)
        parts.append([_observed(request, draw.with_embeddings(std), [known], by_block)[0] for std in stds])
        done += len(chunk)
        told("seeds", done, len(numbers))
    return [_arm(one, numbers, known, labels, [part[index] for part in parts]) for index, one in enumerate(requests)]


def _checked_seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    numbers = tuple(checked_seed(seed) for seed in seeds)
    if not numbers:
        raise ConfigError("A verdict needs at least one seed.")
    if len(set(numbers)) != len(numbers):
        raise ConfigError("A seed stands twice among the seeds of a verdict; give each once.")
    return numbers


def _observed(
    request: ObserveRequest, draw: BaseDraw, recipes: Sequence[Recipe], by_block: ByBlock | None
) -> list[SeedRows]:
    seeds = draw.seeds
    try:
        arms = observe_arms(
            draw,
            recipes,
            request.batch,
            dtype=request.dtype,
            device=request.device,
            contributions=False,
            by_block=by_block,
        )
    except ObservationError as refusal:
        # What makes a tape unusable lies in the graph that all members share.
        return [_nothing(request, len(seeds), known, str(refusal)) for known in recipes]
    return [rows_of(arm, len(seeds)) for arm in arms]


def _nothing(request: ObserveRequest, seeds: int, known: Recipe, reason: str) -> SeedRows:
    empty = np.full((seeds, len(known.graph(request.config).site_labels())), np.nan)
    return SeedRows(empty, empty, np.full(seeds, np.nan), dict.fromkeys(range(seeds), reason))


def _arm(
    request: ObserveRequest, seeds: tuple[int, ...], known: Recipe, labels: list[str], parts: Sequence[SeedRows]
) -> SeedArm:
    starts = np.cumsum([0, *(len(part.loss) for part in parts)]).tolist()
    return SeedArm(
        recipe=known,
        seeds=seeds,
        labels=labels,
        activation_rms=np.concatenate([part.activation for part in parts]),
        adjoint_rms=np.concatenate([part.adjoint for part in parts]),
        loss_nats=np.concatenate([part.loss for part in parts]),
        reasons={
            start + row: reason
            for start, part in zip(starts, parts, strict=False)
            for row, reason in part.reasons.items()
        },
        band=request.band,
        subject=_subject(request, known),
    )


def _subject(request: ObserveRequest, known: Recipe) -> Subject:
    embedding = layout(request.config).stem[0]
    base = request.distribution.base_std(embedding)
    return Subject(
        name=known.name,
        blocks=request.config.blocks,
        embedding_std=base * known.coefficient(embedding, 0, request.config, base),
    )
