"""Controls of the page Residual paths; their names begin with `paths_`, and those of the decoder are shared."""

from __future__ import annotations

from pages.common.lab_controls import Field, lab_page

DECODER = (
    Field(option="recipe", label="Recipe", shared=True),
    Field(option="blocks", label="Blocks L", shared=True),
    Field(option="width", label="Width d", kind="whole", shared=True),
    Field(option="seed", label="Seed", shared=True),
    Field(option="heads", label="Query heads", shared=True, more=True),
    Field(option="kv_heads", label="Key/value heads", shared=True, more=True),
    Field(option="ff_width", label="Feed-forward width", shared=True, more=True),
    Field(option="text", label="Text", shared=True, more=True),
)
PAGE = lab_page(
    "residual_paths",
    "Residual paths",
    "paths",
    {
        "jacobian-product": ("Jacobian product", DECODER),
        "branch-interaction": ("Interaction", DECODER),
        "stream-expansion": ("Expansion", DECODER),
        "update-geometry": ("Update geometry", DECODER),
        "residual-ledger": (
            "Ledger",
            (
                Field(option="batch", label="Rows B"),
                Field(option="positions", label="Positions S"),
                Field(option="width", label="Features d"),
                Field(option="dtype", label="Floating type", kind="choice"),
                Field(option="blocks", label="Blocks L"),
                Field(option="additions", label="Additions a block"),
                Field(option="norm", label="Norm before every branch"),
            ),
        ),
    },
)
CONTROLS = PAGE.controls
