"""Judge a model's initialization: measure, resolve, check; then observe the corrected model and write the document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from ...health.band import DEFAULT_BAND, Band
from ..report.answer import answered
from ..report.result import AuditResult, Stream, stream_of
from ..request import SEEDS
from ..sandbox.guard import undisturbed
from ..trace.discovery import Discovery, discover
from . import words
from .checks_integrity import alike, equal_shards, missing, reloaded, shared, uninitialized
from .checks_scale import CHECKS
from .checks_stream import stream_findings
from .checks_zero import zero_branches
from .corrected import Corrected, correct
from .document import conformance_document, matrix_rows, twin_document
from .findings import Finding, ordered, verdict_of
from .laws import declared_rule
from .measure import ModelStats, measure
from .rebuild import Rebuilder, rebuilder_of, rebuilt
from .request import AUTO, checked_sigma
from .resolution import Resolution
from .resolve import resolve
from .sign_hash import sign_hashes

# Beyond this many blocks the second depth is half the first, not twice.
DEEP = 8
# A norm whose output is this much smaller than its full size is in the regime of its epsilon.
FULL = 0.99
TRAINED = "The weights are trained, so they say nothing of their initialization."


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The judgement of an initialization: the name of the rule, the findings, and what they are based on.

    `resolution` is None if nothing could be measured. `hashes` identify the random draw of each matrix by its signs.
    `reseeds` is True if the source builds this very model, so that it can be built from other seeds.
    """

    rule: str | None
    findings: tuple[Finding, ...]
    resolution: Resolution | None = None
    corrected: Corrected | None = None
    notes: tuple[str, ...] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)
    # Whether the source builds this very model, so that it may at other seeds.
    reseeds: bool = False

    @property
    def verdict(self) -> str:
        """The kind of the worst finding that judges the initialization; `nothing-to-judge` where there is none."""
        return verdict_of(self.findings)

    def document(self) -> dict[str, Any]:
        """Return the part `conformance` of the audit document as a dict."""
        return conformance_document(self.rule, self.findings, self.resolution, self.notes)


def judged_document(
    result: AuditResult,
    *,
    rule: str = AUTO,
    sigma: float | None = None,
    source: Rebuilder | None = None,
    band: Band = DEFAULT_BAND,
    seeds: Sequence[int] = SEEDS,
) -> dict[str, Any]:
    """Return the whole audit document as a dict, with the judgement of the initialization and the corrected model.

    `rule` is the declared rule, `auto` to recognize it; `sigma` the declared standard deviation before depth, or None.
    `source` builds the model again. `seeds` are those that ratios are measured over if it can; the first is the model's
    own.
    """
    source = source or rebuilder_of(result.discovery.guard.model)
    judgement = judge(result, rule=rule, sigma=sigma, source=source)
    return document_of(result, judgement, source, band, seeds)


def document_of(
    result: AuditResult,
    judgement: Judgement,
    source: Rebuilder,
    band: Band = DEFAULT_BAND,
    seeds: Sequence[int] = SEEDS,
) -> dict[str, Any]:
    """Return the whole audit document of a judged model as a dict; the arguments are those of `judged_document`."""
    found, matrices = judgement.resolution, None
    if found is not None:
        stats = found.first.stats
        matrices = (
            matrix_rows(found, stats.writers, judgement.hashes),
            matrix_rows(found, stats.readers, judgement.hashes),
        )
    document = result.document(
        band,
        matrices=matrices,
        conformance=judgement.document(),
        twin=twin_document(judgement.corrected, band),
    )
    answer = answered(
        document, result, found, judgement.findings, source, reseeds=judgement.reseeds, band=band, seeds=seeds
    )
    return document | answer


def judge(
    result: AuditResult,
    *,
    rule: str = AUTO,
    sigma: float | None = None,
    source: Rebuilder | None = None,
    with_twin: bool = True,
) -> Judgement:
    """Judge the initialization of an audited model by a rule, and return the `Judgement`.

    `rule` is the name of a recipe; `auto` takes the one that most writers (matrices that end a branch) meet. `sigma` is
    the declared standard deviation before depth, None if none is declared. `source` builds the model again; None
    derives it from the model. `with_twin` observes the corrected model too. Raises `AuditError` or `RecipeError` for a
    rule or a sigma that is not valid.
    """
    sigma = checked_sigma(sigma)
    model = result.discovery.guard.model
    source = source or rebuilder_of(model)
    declared = declared_rule(rule, max(1, len({site.block for site in result.discovery.sites})))
    whole = [*missing(source), *shared(model), *equal_shards(model), *reloaded(model, source)]
    if source.trained if source.trained is not None else result.facts.trained:
        name = declared.name if declared else None
        return _judgement(name, [*whole, _no_rule(TRAINED)], notes=[TRAINED])
    marked = rebuilt(source, model, sentinel=True)
    same = marked is not None and alike(model, marked)
    stats = _stats(result, source, deep=same)
    notes = _notes(stats, changed=marked is not None and not same)
    marked = marked if same else None
    if not stats:
        note = f"No writer was found, so no scale can be judged: {result.identity.reason}"
        return _judgement(None, [*whole, *uninitialized(model, marked), _no_rule(note)], notes=[note])
    found = resolve(stats, declared, sigma=sigma, settings=source.settings)
    return _judgement(
        found.rule.name if found.rule else None,
        [*checked(result.discovery, found, partial(uninitialized, model, marked)), *whole],
        resolution=found,
        corrected=correct(result, found) if with_twin else None,
        notes=[*notes, *stream_notes(result)],
        hashes=sign_hashes(result.discovery.names.parameters),
        reseeds=same,
    )


def checked(
    discovery: Discovery, found: Resolution, unwritten: Callable[[frozenset[str]], Iterable[Finding]]
) -> Iterator[Finding]:
    """Yield the findings about scale, about unwritten memory, about the stream, and about branches that add zero.

    `unwritten(explained)` gives those about unwritten memory, except for the parameters that a finding explains.
    """
    scale = [finding for check in CHECKS for finding in check(found)]
    explained = frozenset(name for f in scale if f.kind == "depth-convention" for name in f.parameters)
    yield from scale
    yield from unwritten(explained)
    stream = list(stream_findings(discovery))
    yield from stream
    lost = any(finding.kind == "stream-lost" for finding in stream)
    yield from zero_branches(discovery, found.first.stats, lost=lost)


def _judgement(rule: str | None, findings: Iterable[Finding], *, notes: Sequence[str], **more: Any) -> Judgement:
    return Judgement(rule=rule, findings=ordered(findings), notes=tuple(notes), **more)


def _no_rule(sentence: str) -> Finding:
    return Finding(kind="no-rule-declared", sentence=sentence)


def _notes(stats: Sequence[ModelStats], *, changed: bool) -> list[str]:
    notes = []
    if len(stats) == 1:
        notes.append(f"Judged at {stats[0].blocks} blocks alone, where a depth law can be met by coincidence.")
    if changed:
        notes.append("The model is not as its source builds it anew, so it is judged by what it holds.")
    return notes


def _stats(result: AuditResult, source: Rebuilder, *, deep: bool) -> list[ModelStats]:
    """Return the matrices of the model and, if it can be built, of the model at another depth.

    Empty where the model has no writer.
    """
    first = measure(result.discovery)
    if not first.writers:
        return []
    again = None
    if deep and source.deep:
        again = at_depth(result, source, first.blocks)
    return [first, again] if again is not None and again.blocks != first.blocks else [first]


def at_depth(result: AuditResult, source: Rebuilder, blocks: int) -> ModelStats | None:
    """Return the statistics of the matrices at another depth; None if the model cannot be built or run at it.

    `blocks` is the depth of the audited model; the other one is twice that, or half for more than 8 blocks.
    """
    again = 2 * blocks if blocks <= DEEP else blocks // 2
    model = rebuilt(source, result.discovery.guard.model, blocks=again)
    if model is None:
        return None
    try:
        with undisturbed(model) as guard:
            stats = measure(discover(guard, result.discovery.inputs))
    except Exception:
        # Another depth is a bonus; a model that fails at it is judged at its own.
        return None
    return stats if stats.writers else None


def stream_notes(result: AuditResult) -> Iterator[str]:
    """Yield sentences on the stream: its norms are not before the branches, or a branch is small beside epsilon."""
    discovery = result.discovery
    stream = stream_of(discovery)
    if stream in (Stream.POST_NORM, Stream.SOME_NORMS):
        yield words.not_pre_norm(stream.value, _cosine(discovery))
    small = min(_small_branches(discovery), key=lambda pair: pair[1], default=None)
    if small is not None:
        yield words.small_branch(*small)


def _cosine(discovery: Discovery) -> float | None:
    """Return the cosine between the first and the last state; None where one of them is zero."""
    kept = torch.from_numpy(discovery.valid)
    first, last = (discovery.states[place][kept].detach().double().flatten() for place in (0, -1))
    size = float(first.norm() * last.norm())
    return float(first @ last) / size if size > 0 else None


def _small_branches(discovery: Discovery) -> Iterator[tuple[str, float]]:
    """Yield (label, size) of branches that their norm does not bring to full size, which is 1.

    There the writer's scale does reach the stream.
    """
    kept = torch.from_numpy(discovery.valid)
    for site in discovery.sites:
        for branch in site.contributions:
            coefficient = abs(branch.coefficient.value)
            if not branch.branch.norm_out or not coefficient:
                continue
            rms = float(branch.contribution.expand(branch.raw.shape)[kept].double().square().mean().sqrt())
            if 0 < rms / coefficient < FULL:
                yield site.label, rms / coefficient
