"""Health of a residual stream: RMS and adjoint ratios at every site, the band they are judged by, and documents.

    from core.decoder import BaseDraw, DecoderConfig, chapter_batch, recipe
    from core.health import arm_document, observe_arms

    draw = BaseDraw(DecoderConfig(blocks=16), seeds=range(4))
    scaled, control = observe_arms(draw, [recipe("depth-scaled"), recipe("unscaled")], chapter_batch())
    scaled.observation.activation_ratio  # [members, sites]; `scaled.member(3)` is the member of seed 3
    arm_document(scaled.observation, scaled.member(3))["within_band"]

`observe` takes the `Tape` of any forward. `observe_module` observes a user's model in a training script, and `check`
gives the verdict on it, on a decoder's sizes or on a config.json; both are in `core.audit`. A public name loads its
module when it is first read, so the band and requests can be used without torch.
"""

from ..lazy import public

__getattr__, __dir__, __all__ = public(
    __name__,
    {
        ".band": ("Band", "DEFAULT_BAND", "classify", "parse_band"),
        ".request": ("ObserveRequest",),
        ".rms": ("valid_rms",),
        ".observation": ("Observation", "observe", "measure"),
        ".arms": ("Arm", "observe_arms"),
        ".document": ("arm_document",),
        ".seeds": ("SeedArm", "observe_seeds"),
        ".suggestion": ("Suggestion", "suggest"),
        ".verdict": ("Verdict", "verdict_of"),
        ".report": ("observe_document", "built_run", "restored_document"),
        "..audit": ("check", "observe_module"),
    },
)
