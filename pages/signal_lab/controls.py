"""Controls of the page Signal lab; their names begin with `signal_`."""

from __future__ import annotations

from pages.common.lab_controls import Field, lab_page

CUSTOM = ("custom",)
SEED = Field(option="seed", label="Seed", more=True)
DECODER = (
    Field(option="recipe", label="Recipe"),
    Field(option="blocks", label="Blocks L"),
    Field(option="width", label="Width d"),
    Field(option="heads", label="Query heads", more=True),
    Field(option="kv_heads", label="Key/value heads", more=True),
    Field(option="ff_width", label="Feed-forward width", more=True),
    Field(option="text", label="Text", more=True),
    SEED,
)
CHAIN_SIZES = (Field(option="layers", label="Layers L"), Field(option="width", label="Width d"), SEED)

PAGE = lab_page(
    "signal_lab",
    "Signal lab",
    "signal",
    {
        "linear-layer": (
            "One layer",
            (
                Field(option="input_mean", label="Mean of the inputs", step=0.5),
                Field(option="weight_mean", label="Mean of the weights", step=0.01),
                Field(option="weight_correlation", label="Correlation of the weights", kind="slider", step=0.01),
                Field(option="spread", label="Spread of the weights", step=0.01),
                Field(option="fan_in", label="Fan-in d"),
                Field(option="input_spread", label="Spread of the inputs", step=0.1, more=True),
                Field(option="outputs", label="Outputs", more=True),
                Field(option="inputs", label="Input vectors", more=True),
                SEED,
            ),
        ),
        "chain": (
            "Chains",
            (
                Field(option="activation", label="Activation"),
                Field(option="topology", label="Topology", kind="choice"),
                Field(option="spread", label="Weights", kind="choice"),
                Field(option="factor", label="Spread times sqrt(d)", step=0.1, when=("spread", CUSTOM)),
                Field(option="norm", label="Norm after every layer", kind="choice"),
                Field(option="layers", label="Layers L"),
                Field(option="width", label="Width d"),
                Field(option="seeds", label="Seeds drawn", more=True),
                SEED,
            ),
        ),
        "linear-chain": (
            "Linear chain",
            (Field(option="norm", label="Norm after every layer"), *CHAIN_SIZES),
        ),
        "relu-chain": ("ReLU chain", CHAIN_SIZES),
        "tanh-chain": ("tanh chain", (Field(option="factor", label="Spread times sqrt(d)", step=0.1), *CHAIN_SIZES)),
        "compounding": (
            "Compounding",
            (
                Field(option="gain", label="Gain a layer", step=0.05),
                Field(option="layers", label="Layers L", kind="slider"),
            ),
        ),
        "sigmoid-unit": (
            "Saturating unit",
            (
                Field(option="x", label="Input x", step=0.5),
                Field(option="w", label="Weight w", step=0.5),
                Field(option="bias", label="Bias", step=0.5),
            ),
        ),
        "scaled-residual": (
            "Scaled residual",
            (
                Field(option="branches", label="Branches L"),
                Field(option="coefficient", label="Coefficient c", kind="choice"),
                Field(option="factor", label="Custom c", step=0.05, when=("coefficient", CUSTOM)),
                Field(option="branch_correlation", label="Correlation of the branches", kind="slider", step=0.01),
                Field(option="input_correlation", label="Correlation with the input", kind="slider", step=0.01),
                SEED,
            ),
        ),
        "decoder-variance": ("Decoder additions", DECODER),
        "stream-growth": (
            "Stream growth",
            (
                Field(option="scaled", label="Scale branches by 1/sqrt(L)"),
                Field(option="blocks", label="Blocks L"),
                Field(option="width", label="Width d"),
                Field(option="spread", label="Spread of weights and embeddings", step=0.01),
                Field(option="ff_ratio", label="Feed-forward width over d", more=True),
                Field(option="rows", label="Rows", more=True),
                Field(option="seeds", label="Seeds drawn", more=True),
                SEED,
            ),
        ),
        "norm-placement": (
            "Norm placement",
            (
                Field(option="depths", label="Depths, in blocks"),
                Field(option="width", label="Width d"),
                Field(option="rows", label="Rows", more=True),
                Field(option="seeds", label="Seeds drawn", more=True),
                SEED,
            ),
        ),
        "width-update": (
            "Width and update",
            (
                Field(option="widths", label="Widths d"),
                Field(option="update", label="Update of every weight", step=0.001),
                Field(option="seeds", label="Draws a width"),
                SEED,
            ),
        ),
        "soft-cap": (
            "Soft cap",
            (Field(option="cap", label="Cap", step=5.0), Field(option="logit", label="Logit", step=5.0)),
        ),
    },
)
CONTROLS = PAGE.controls
