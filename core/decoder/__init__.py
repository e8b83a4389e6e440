"""Decoders at initialization: sizes, exact draws, recipes as data, construction states, the batched forward, storage.

A public name loads its module when it is first read, so sizes, batches, draws and recipes are at hand without torch.
"""

from core.lazy import expose

__all__ = expose(
    __name__,
    {
        "core.decoder.config": ("DecoderConfig", "Budget"),
        "core.decoder.fixtures": ("FIXTURES",),
        "core.decoder.parameters": ("layout", "Layout", "ParameterSpec"),
        "core.decoder.splitmix64": ("SplitMix64",),
        "core.decoder.xavier": ("xavier_scale", "XavierScale", "NamedParameter", "NamedParameters"),
        "core.decoder.base_draw": ("BaseDraw", "Distribution"),
        "core.decoder.batch": ("Batch", "chapter_batch"),
        "core.decoder.law": ("depth_factor",),
        "core.decoder.recipe_type": ("Recipe",),
        "core.decoder.recipes": ("RECIPES", "recipe"),
        "core.decoder.weights": ("WeightProvider", "DrawnWeights", "StoredWeights"),
        "core.decoder.tape": ("Tape", "Contribution"),
        "core.decoder.forward": ("forward",),
        "core.decoder.record": ("ConstructionRecord", "read_record"),
        "core.decoder.construction": (
            "Fresh", "FreshInitialization", "Decoder", "initialize_depth_scaled", "restore",
        ),
        "core.decoder.storage": ("StoredRun", "save_run", "load_run"),
    },
)  # fmt: skip
