"""Audit any PyTorch model: find its residual stream, prove it, and observe its residual health.

    from core.audit import audit

    result = audit(model)                     # or audit(model, token_ids), audit(model, {"input_ids": ...})
    result.identity.verdict                   # proved, partial or failed, with the reason
    result.observation.activation_ratio       # an Observation, as of this project's own decoders
    result.document()["additions"]            # every addition: writers, readers, coefficients, RMS

`observe_module` is the short form for a training script. The model runs in evaluation mode and is left as it was.
"""

from ..lazy import public

__getattr__, __dir__, __all__ = public(
    __name__,
    {
        ".run": ("audit", "observe_module"),
        ".verdict": ("check",),
        ".report.result": ("AuditResult", "ModelFacts"),
        ".trace.discovery": ("Discovery", "Site"),
        ".trace.proof": ("Identity", "Intervention"),
    },
)
