"""What the stream says beside the weights: not pre-norm, or branches in the regime of a norm's epsilon."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from core.audit.discovery import Discovery
from core.audit.initialization import words
from core.audit.result import AuditResult, Stream, stream_of

# A norm whose output is this much smaller than its full size is in the regime of its epsilon.
FULL = 0.99


def stream_notes(result: AuditResult) -> Iterator[str]:
    """Sentences for the report."""
    discovery = result.discovery
    stream = stream_of(discovery)
    if stream in (Stream.POST_NORM, Stream.SOME_NORMS):
        yield words.not_pre_norm(stream.value, _cosine(discovery))
    small = min(_small_branches(discovery), key=lambda pair: pair[1], default=None)
    if small is not None:
        yield words.small_branch(*small)


def _cosine(discovery: Discovery) -> float | None:
    """Between the first and the last state; None where one of them is zero."""
    kept = torch.from_numpy(discovery.inputs.valid)
    first, last = (discovery.states[place][kept].detach().double().flatten() for place in (0, -1))
    size = float(first.norm() * last.norm())
    return float(first @ last) / size if size > 0 else None


def _small_branches(discovery: Discovery) -> Iterator[tuple[str, float]]:
    """Branches that a norm does not bring to full size, with the size: there the writer's scale shows after all."""
    kept = torch.from_numpy(discovery.inputs.valid)
    for site in discovery.sites:
        for branch in site.measured.branches if site.measured is not None else ():
            coefficient = abs(branch.coefficient.value)
            if not branch.branch.norm_out or not coefficient:
                continue
            rms = float(branch.contribution.expand(branch.raw.shape)[kept].double().square().mean().sqrt())
            if 0 < rms / coefficient < FULL:
                yield site.label, rms / coefficient
