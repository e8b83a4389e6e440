"""Decoders at initialization: sizes, exact draws, the graph, the batched forward, and reduced twins.

A public name loads its module when it is first read, so sizes, batches and draws can be used without torch.
"""

from ..lazy import public

__getattr__, __dir__, __all__ = public(
    __name__,
    {
        ".config": ("DecoderConfig", "Budget"),
        ".fixtures": ("FIXTURES",),
        ".twin": ("reduced_twin", "suggested_width", "twin_for_rows", "twin_document"),
        ".parameters": ("layout", "Layout", "ParameterSpec"),
        ".splitmix64": ("SplitMix64",),
        ".xavier": ("xavier_scale", "XavierScale", "NamedParameter", "NamedParameters"),
        ".base_draw": ("BaseDraw", "Distribution"),
        ".batch": ("Batch", "chapter_batch"),
        "..recipes.law": ("depth_factor",),
        "..recipes.recipe": ("Recipe",),
        "..recipes.catalogue": ("RECIPES", "recipe"),
        ".weights": ("WeightProvider", "StoredWeights"),
        "..construction.drawn_weights": ("DrawnWeights",),
        ".tape": ("Tape", "Contribution"),
        ".forward_pass": ("forward",),
        "..construction.record": ("ConstructionRecord", "read_record"),
        "..construction.states": (
            "Fresh", "FreshInitialization", "Decoder", "initialize_depth_scaled", "restore",
        ),
        "..construction.storage": ("StoredRun", "save_run", "load_run"),
    },
)  # fmt: skip
