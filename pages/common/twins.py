"""Reduced twins: narrower decoders that stand for a model that is too large to be run at once.

Which twin is used depends on the sizes of the model only, so a link shows the same numbers on every machine.
"""

from __future__ import annotations

from dataclasses import replace

from core.decoder.config import DecoderConfig
from core.decoder.parameters import layout
from core.decoder.twin import LEAST_POSITIONS, LEAST_VOCABULARY, reduced_twin
from core.errors import BudgetError, ConfigError
from core.health.chunks import seeds_seconds
from core.health.estimate import ARMS, estimate
from core.health.pace import REFERENCE, Pace
from core.health.request import ObserveRequest
from core.sweep.request import uniform_batch

# Parameters times seeds, for rows of 32 tokens or fewer: a verdict and its suggestion in ten seconds of one core.
MOST_WORK = 2**27
USUAL_TOKENS = 32
# Largest memory, in bytes, of one observation during a page's run.
MOST_BYTES = 2**28
# The same for a model so deep that no twin is within `MOST_WORK`.
LARGEST_BYTES = 2**30
WIDTHS = (512, 384, 256, 192, 128, 96, 64, 48, 32)


def work(request: ObserveRequest, seeds: int) -> float:
    """Return a measure of the cost of a request over `seeds` seeds: parameters times seeds.

    It is multiplied by tokens / `USUAL_TOKENS` if the batch has more tokens than that.
    """
    return seeds * layout(request.config).parameters * max(1.0, request.batch.inputs.size / USUAL_TOKENS)


def at_once(request: ObserveRequest, seeds: int) -> bool:
    """Return True if a page runs a request over `seeds` seeds without asking the visitor first."""
    return work(request, seeds) <= MOST_WORK and estimate(request).total_bytes <= MOST_BYTES


def answered(request: ObserveRequest, seeds: int) -> ObserveRequest:
    """Return the request itself if a page can run it at once, else that of the widest reduced twin that it can.

    A reduced twin is a narrower decoder. A very deep model has the narrowest one, if that takes a minute at most.
    Raises `BudgetError` if it takes longer.
    """
    if at_once(request, seeds):
        return request
    found = [twin for width in WIDTHS if width < request.config.width and (twin := narrowed(request, width))]
    for twin in found:
        if at_once(twin, seeds):
            return twin
    if found and estimate(found[-1]).total_bytes <= LARGEST_BYTES and seconds(found[-1], seeds, REFERENCE) <= 60:
        return found[-1]
    raise BudgetError(
        f"Even a narrow twin of these {request.config.blocks} blocks takes more than a minute over {seeds} seeds; "
        "choose fewer seeds or shorter rows."
    )


def seconds(request: ObserveRequest, seeds: int, pace: Pace | None = None) -> float:
    """Return a rough time in seconds of a verdict on both arms; `pace` is this machine's if None."""
    return seeds_seconds(request, seeds, ARMS, pace)


def narrowed(request: ObserveRequest, width: int) -> ObserveRequest | None:
    """Return the request for the reduced twin (narrower decoder) of this width, or None if there is none."""
    true, longest = request.config.true_config, request.batch.longest
    random = _is_random(request)
    ids = int(request.batch.inputs.max()) + 1 if not random else 1
    ids = max(ids, int(request.batch.targets.max()) + 1 if not random else 1)
    vocabulary, positions = max(LEAST_VOCABULARY, ids), max(LEAST_POSITIONS, longest)
    try:
        config = reduced_twin(true, width, vocabulary=vocabulary, positions=positions)
    except ConfigError:
        return None
    return with_rows(replace(request, config=config)) if random else replace(request, config=config)


def with_rows(request: ObserveRequest, tokens: int | None = None) -> ObserveRequest:
    """Return the request with random rows of token ids; `tokens` is their length, by default as before."""
    rows, longest = request.batch.inputs.shape
    return replace(request, batch=uniform_batch(rows, tokens or longest, request.config.vocabulary))


def _is_random(request: ObserveRequest) -> bool:
    """Return whether the batch is the random one of this vocabulary; a twin then gets a new one."""
    batch, config = request.batch, request.config
    rows, tokens = batch.inputs.shape
    return batch == uniform_batch(rows, tokens, config.vocabulary)


def sizes_words(true: DecoderConfig, twin: DecoderConfig) -> str:
    """Return a sentence with the sizes of the model and of its reduced twin (narrower decoder)."""
    return (
        f"The model has width {true.width:,} and {layout(true).parameters:,} parameters. For an answer at once it is "
        f"shown as its reduced twin: the same {true.blocks} blocks at width {twin.width:,} with {twin.heads} heads and "
        f"{twin.vocabulary:,} entries, every matrix scaled so that what each branch adds keeps its size."
    )
