"""What the stream itself says beside the weights: not pre-norm, or branches in the regime of a norm's epsilon."""

from __future__ import annotations

import torch

from core.audit.result import AuditResult, topology

# A norm whose output is this much smaller than its full size is in the regime of its epsilon.
FULL = 0.99


def stream_notes(result: AuditResult) -> list[str]:
    """Sentences for the report."""
    return [*_topology(result), *_epsilon(result)]


def _topology(result: AuditResult) -> list[str]:
    kind = topology(result.discovery)
    if kind is None or "not pre-norm" not in kind:
        return []
    kept = torch.from_numpy(result.discovery.inputs.valid)
    first, last = (result.discovery.states[place][kept].detach().double().flatten() for place in (0, -1))
    size = float(first.norm() * last.norm())
    cosine = f"; the last state's cosine with the input is {float(first @ last) / size:.2f}" if size > 0 else ""
    return [f"The stream is no pre-norm one: {kind}{cosine}. The norm, not the writers, sets its size."]


def _epsilon(result: AuditResult) -> list[str]:
    """Norms on branch outputs that do not bring the branch to full size: there the writer's scale shows after all."""
    shown = []
    for site in result.discovery.sites:
        for branch in site.measured.branches if site.measured is not None else ():
            coefficient = abs(branch.coefficient.value)
            if not branch.branch.norm_out or not coefficient:
                continue
            kept = torch.from_numpy(result.discovery.inputs.valid)
            rms = float(branch.contribution.expand(branch.raw.shape)[kept].double().square().mean().sqrt())
            if 0 < rms / coefficient < FULL:
                shown.append((site.label, rms / coefficient))
    if not shown:
        return []
    label, size = min(shown, key=lambda pair: pair[1])
    return [
        f"The norm on the branch output brings {label} to {size:.2f} of full size: its epsilon is not small beside so "
        "small a branch (or its gain is below 1), and the writer's scale shows through in part."
    ]
