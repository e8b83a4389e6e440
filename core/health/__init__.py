"""Health of a residual stream: RMS and adjoint ratios at every site, the band they are judged by, and documents.

    from core.decoder import BaseDraw, DecoderConfig, chapter_batch, recipe
    from core.health import arm_document, observe_arms

    draw = BaseDraw(DecoderConfig(blocks=16), seeds=range(4))
    scaled, control = observe_arms(draw, [recipe("depth-scaled"), recipe("unscaled")], chapter_batch())
    scaled.observation.activation_ratio  # [members, sites]; `scaled.member(3)` is the member of seed 3
    arm_document(scaled.observation, scaled.member(3))["within_band"]

`observe` takes the `Tape` of any forward. `observe_module` observes a user's model in a training script; it
stands in `core.audit`. A public name loads its module when it is first read, so the band and requests need no torch.
"""

from core.lazy import public

__getattr__, __dir__, __all__ = public(
    __name__,
    {
        "core.health.band": ("Band", "DEFAULT_BAND", "classify", "parse_band"),
        "core.health.request": ("ObserveRequest",),
        "core.health.rms": ("valid_rms",),
        "core.health.observation": ("Observation", "observe", "measure"),
        "core.health.arms": ("Arm", "observe_arms"),
        "core.health.document": ("arm_document",),
        "core.health.report": ("observe_document", "built_run", "restored_document"),
        "core.audit": ("observe_module",),
    },
)
