"""Decoders at initialization: sizes, exact draws, recipes as data, construction states, the batched forward, storage.

A public name loads its module when it is first read, so sizes, batches, draws and recipes are at hand without torch.
"""

from core.lazy import public

__getattr__, __dir__, __all__ = public(
    __name__,
    {
        "core.decoder.config": ("DecoderConfig", "Budget"),
        "core.decoder.fixtures": ("FIXTURES",),
        "core.decoder.parameters": ("layout", "Layout", "ParameterSpec"),
        "core.decoder.splitmix64": ("SplitMix64",),
        "core.decoder.xavier": ("xavier_scale", "XavierScale", "NamedParameter", "NamedParameters"),
        "core.decoder.base_draw": ("BaseDraw", "Distribution"),
        "core.decoder.batch": ("Batch", "chapter_batch"),
        "core.recipes.law": ("depth_factor",),
        "core.recipes.recipe": ("Recipe",),
        "core.recipes.catalogue": ("RECIPES", "recipe"),
        "core.decoder.weights": ("WeightProvider", "StoredWeights"),
        "core.construction.drawn_weights": ("DrawnWeights",),
        "core.decoder.tape": ("Tape", "Contribution"),
        "core.decoder.forward_pass": ("forward",),
        "core.construction.record": ("ConstructionRecord", "read_record"),
        "core.construction.states": (
            "Fresh", "FreshInitialization", "Decoder", "initialize_depth_scaled", "restore",
        ),
        "core.construction.storage": ("StoredRun", "save_run", "load_run"),
    },
)  # fmt: skip
