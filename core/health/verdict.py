"""The verdict over seeds: whether a depth is safe at initialization, by how much, and what the cause is.

A pure function of the ratios of every seed. The ratios A_s / A_0 and G_s / G_last depend on the embeddings and on the
depth. The ratios A_s / A_b and G_s / G_last from site b on, the end of the first block, depend on the depth alone. No
state promises that training converges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..decoder.splitmix64 import FloatArray
from ..errors import ObservationError
from ..numerals import finite
from .band import DEFAULT_BAND, Band

State = Literal["inside", "close", "outside", "refused"]
Cause = Literal["input", "depth"]
# From the best to the worst.
STATES: tuple[State, ...] = ("inside", "close", "outside", "refused")
INSIDE_SHARE, OUTSIDE_SHARE = 0.95, 0.5
# In doublings: a ratio may double or halve without leaving the band.
MARGIN_INSIDE = 1.0
CONFIDENCE = 0.95
LEVELS = {"q05": 0.05, "median": 0.5, "q95": 0.95}


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The 5 %, 50 % and 95 % quantiles, linearly interpolated, over the seeds with finite ratios.

    None if there is no such seed or the value is not finite.
    """

    q05: float | None = None
    median: float | None = None
    q95: float | None = None


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One number for the activations and one for the adjoints; None where undefined."""

    activation: float | None = None
    adjoint: float | None = None


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The exponents of the end-to-end ratios as powers of the number of blocks, fitted over the depths `blocks`.

    `activation` is for A_last / A_0, the activation RMS at the last site over the input; `adjoint` for G_0 / G_last,
    the gradient RMS at the input over the last site. None if undefined.
    """

    activation: float | None
    adjoint: float | None
    blocks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """The limits that decide a state. `band` is (lower, upper), both included.

    A verdict is `inside` if at least the share `inside_share_within_by_2` of seeds has a margin of one doubling or
    more, and `outside` if less than the share `outside_share_within` is within the band. The ratio of the input is
    always 1, so such a margin needs lower <= 1/2 and upper >= 2; otherwise `by_2_possible` is False.
    """

    band: tuple[float, float]
    by_2_possible: bool
    inside_share_within_by_2: float = INSIDE_SHARE
    outside_share_within: float = OUTSIDE_SHARE


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a verdict is about, for its sentences: a name and the number of blocks.

    `embedding_std` is the standard deviation of the embeddings, in weight units, None if it is not known.
    """

    name: str
    blocks: int
    embedding_std: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Verdict:
    """The verdict on one arm over `seeds` seeds, of which `refused` seeds have no finite ratios.

    A seed's margin is the least of log2(r / low) and log2(high / r) over both ratios r and all sites, in doublings,
    negative outside the band; its worst factor is the largest of r and 1/r. `share_within` is the share of all seeds
    with a margin of at least 0, `share_within_by_2` with at least 1; refused seeds count as outside. `interval` is the
    95 % Wilson interval of `share_within`. `state` is inside where `share_within_by_2` >= 0.95, outside where
    `share_within` < 0.5, refused where every seed is refused, else close. `depth_state` is the same for the depth's
    ratios, None at one block.

    `cause` is `input` where `state` is worse than `depth_state`; `depth` where it is not, as at one block, and `state`
    is not inside. `depth_factor` has the medians of each depth ratio's worst factor, `depth_ratio` those of A_last /
    A_b and G_b / G_last, `input_ratio` those of A_b / A_0 and G_0 / G_b. `growth` holds fitted exponents in the depth.
    """

    state: State
    depth_state: State | None
    cause: Cause | None
    seeds: int
    refused: int
    share_within: float
    share_within_by_2: float
    interval: tuple[float, float]
    margin: Spread
    worst_factor: Spread
    depth_factor: Pair
    growth: Growth | None
    thresholds: Thresholds
    depth_ratio: Pair = field(default_factory=Pair)
    input_ratio: Pair = field(default_factory=Pair)
    subject: Subject | None = None

    def document(self) -> dict[str, Any]:
        """Return the verdict as a dict of JSON values, with one key per field."""
        return {name: _plain(value) for name, value in asdict(self).items()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Verdict:
        """Return the verdict from the mapping that `document` returned."""
        found = {
            name: None if document[name] is None else part(**_listed(document[name])) for name, part in PARTS.items()
        }
        return cls(**{**document, **found, "interval": tuple(document["interval"])})

    def __str__(self) -> str:
        from .verdict_words import verdict_text  # the sentences are made of this class

        return verdict_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from .verdict_words import verdict_html

        return verdict_html(self)


# The classes of a verdict's fields that hold several numbers.
PARTS: Mapping[str, Callable[..., Any]] = {
    "margin": Spread, "worst_factor": Spread, "depth_factor": Pair, "depth_ratio": Pair, "input_ratio": Pair,
    "growth": Growth, "thresholds": Thresholds, "subject": Subject,
}  # fmt: skip


def verdict_of(
    activation: FloatArray,
    adjoint: FloatArray,
    first_block: int,
    *,
    refused: npt.NDArray[np.bool_] | None = None,
    band: Band = DEFAULT_BAND,
    growth: Growth | None = None,
    subject: Subject | None = None,
) -> Verdict:
    """Return the verdict on ratios A_s / A_0 and G_s / G_last, `[seeds, sites]` each, dimensionless.

    `first_block` is the index b of the first block's last site; at one block it is the last site. `refused` `[seeds]`
    marks seeds whose ratios mean nothing; a seed with a ratio that is not finite is refused too. Raises
    `ObservationError` if the shapes do not match or there is no seed.
    """
    _check_shapes(activation, adjoint, first_block)
    out = np.zeros(len(activation), dtype=np.bool_) if refused is None else np.asarray(refused, dtype=np.bool_)
    source = _judged([activation, adjoint], out, band)
    deep = first_block < activation.shape[1] - 1
    with np.errstate(all="ignore"):
        after = [activation[:, first_block:] / activation[:, [first_block]], adjoint[:, first_block:]]
        before = [activation[:, first_block], adjoint[:, 0] / adjoint[:, first_block]]
    depth = _judged(after, source.refused, band) if deep else None
    seeds, within = len(activation), int(source.within.sum())
    return Verdict(
        state=source.state,
        depth_state=depth.state if depth else None,
        cause=_cause(source.state, depth.state if depth else None),
        seeds=seeds,
        refused=int(source.refused.sum()),
        share_within=within / seeds,
        share_within_by_2=int(source.within_by_2.sum()) / seeds,
        interval=wilson(within, seeds),
        margin=_spread(source.margin[~source.refused]),
        worst_factor=_spread(np.maximum(*source.factors)[~source.refused]),
        depth_factor=_medians(depth.factors, depth.refused) if depth else Pair(),
        growth=growth,
        thresholds=Thresholds(band=(band.lower, band.upper), by_2_possible=band.lower <= 0.5 and band.upper >= 2),
        depth_ratio=_medians([after[0][:, -1], after[1][:, 0]], depth.refused) if depth else Pair(),
        input_ratio=_medians(before, source.refused),
        subject=subject,
    )


def _check_shapes(activation: FloatArray, adjoint: FloatArray, first_block: int) -> None:
    if activation.shape != adjoint.shape or activation.ndim != 2 or 0 in activation.shape:
        raise ObservationError(
            f"The ratios have shapes {list(activation.shape)} and {list(adjoint.shape)}; give both as [seeds, sites], "
            "of one seed at least."
        )
    if not 0 <= first_block < activation.shape[1]:
        raise ObservationError(f"Site {first_block} does not end the first block of {activation.shape[1]} sites.")


def seed_margins(ratios: Sequence[FloatArray], band: Band) -> FloatArray:
    """Return the smallest margin of each seed, `[seeds]`, over arrays of ratios `[seeds, sites]`.

    A margin is the distance to the nearer limit of `band` in doublings, negative outside.
    """
    return np.asarray(np.minimum.reduce([band.margin(values).min(axis=1) for values in ratios]))


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval (low, high) of the share `successes` / `trials`.

    Without continuity correction. Source: E. B. Wilson, JASA 22 (1927).
    """
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    share, scale = successes / trials, 1 + z * z / trials
    middle = (share + z * z / (2 * trials)) / scale
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / scale
    # Exactly, where rounding would leave a trace beside the ends.
    return (0.0 if successes == 0 else middle - half, 1.0 if successes == trials else middle + half)


@dataclass(frozen=True)
class _Judged:
    """Two kinds of ratios judged per seed: margins, worst factors of each kind, and refused seeds, `[seeds]` each."""

    state: State
    margin: FloatArray
    factors: list[FloatArray]
    refused: npt.NDArray[np.bool_]
    within: npt.NDArray[np.bool_]
    within_by_2: npt.NDArray[np.bool_]


def _judged(ratios: list[FloatArray], refused: npt.NDArray[np.bool_], band: Band) -> _Judged:
    finite_seeds = np.logical_and.reduce([np.isfinite(values).all(axis=1) for values in ratios])
    refused = refused | ~finite_seeds
    with np.errstate(all="ignore"):
        margin = seed_margins(ratios, band)
        factors = [np.maximum(values, 1 / values).max(axis=1) for values in ratios]
        within, within_by_2 = (margin >= 0) & ~refused, (margin >= MARGIN_INSIDE) & ~refused
    return _Judged(_state(within, within_by_2, refused), margin, factors, refused, within, within_by_2)


def _state(within: npt.NDArray[np.bool_], within_by_2: npt.NDArray[np.bool_], refused: npt.NDArray[np.bool_]) -> State:
    if refused.all():
        return "refused"
    if within_by_2.mean() >= INSIDE_SHARE:
        return "inside"
    return "outside" if within.mean() < OUTSIDE_SHARE else "close"


def _cause(state: State, depth_state: State | None) -> Cause | None:
    if depth_state is not None and STATES.index(state) > STATES.index(depth_state):
        return "input"
    return None if state == "inside" else "depth"


def _spread(values: FloatArray) -> Spread:
    if not len(values):
        return Spread()
    with np.errstate(invalid="ignore"):
        found = np.quantile(values, list(LEVELS.values())).tolist()
    return Spread(**{name: finite(value) for name, value in zip(LEVELS, found, strict=True)})


def _medians(values: list[FloatArray], refused: npt.NDArray[np.bool_]) -> Pair:
    activation, adjoint = (_spread(each[~refused]).median for each in values)
    return Pair(activation=activation, adjoint=adjoint)


def _listed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a part with the lists of JSON turned back into tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value
