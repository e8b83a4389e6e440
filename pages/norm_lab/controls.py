"""Controls of the page Norm lab; their names begin with `norm_`, and those of the row are shared by its experiments."""

from __future__ import annotations

from typing import Any

from pages.common.lab_controls import Field, lab_page


def _row(*sources: str, source_shared: bool = True) -> tuple[Field, ...]:
    """Where the row comes from: typed, or a site of a decoder; shared unless the experiment can also draw one."""
    typed: tuple[str, tuple[Any, ...]] = ("source", ("typed",))
    decoder: tuple[str, tuple[Any, ...]] = ("source", ("decoder",))
    seed = ("source", (*sources, "decoder"))
    return (
        Field(option="source", label="Row", kind="segments", shared=source_shared),
        Field(option="x", label="x, rows with semicolons between", when=typed, shared=True),
        Field(option="site", label="Residual site", kind="whole", when=decoder, shared=True),
        Field(option="position", label="Position", kind="whole", when=decoder, shared=True),
        Field(option="recipe", label="Recipe", when=decoder, shared=True),
        Field(option="blocks", label="Blocks L", when=decoder, shared=True),
        Field(option="width", label="Width d", kind="whole", when=decoder, shared=True),
        Field(option="seed", label="Seed", when=seed, shared=True),
        Field(option="heads", label="Query heads", when=decoder, shared=True, more=True),
        Field(option="kv_heads", label="Key/value heads", when=decoder, shared=True, more=True),
        Field(option="ff_width", label="Feed-forward width", when=decoder, shared=True, more=True),
        Field(option="text", label="Text", when=decoder, shared=True, more=True),
    )


ROW = _row()
LONG_ROW = (
    *_row("drawn", source_shared=False),
    Field(option="drawn_width", label="Features of the drawn row", when=("source", ("drawn",))),
)
WITH_MOMENT: tuple[str, tuple[Any, ...]] = ("norm", ("layernorm", "rmsnorm", "prmsnorm", "scalenorm"))
EPSILON = Field(option="epsilon", label="Epsilon", step=1e-5)
FACTOR = Field(option="factor", label="Factor on the row", step=0.01)


def _norm(*more: Field, epsilon_when: tuple[str, tuple[Any, ...]] | None = WITH_MOMENT) -> tuple[Field, ...]:
    """Which norm, on which row; `more` stands right below the norm."""
    layer: tuple[str, tuple[Any, ...]] = ("norm", ("layernorm",))
    return (
        Field(option="norm", label="Norm", kind="choice"),
        *more,
        Field(option="epsilon", label="Epsilon", step=1e-5, when=epsilon_when),
        *ROW,
        Field(option="share", label="Part of the features", step=0.1, kind="slider", when=("norm", ("prmsnorm",))),
        Field(option="alpha", label="Alpha", step=0.1, when=("norm", ("dyt",))),
        Field(option="placement", label="Epsilon stands", when=epsilon_when, more=True),
        Field(option="variance", label="Variance", when=layer, more=True),
        Field(option="gain", label="Gain", more=True),
        Field(option="bias", label="Bias", more=True),
    )


def _moment_norm(*more: Field) -> tuple[Field, ...]:
    """The fields of a norm that always has a moment."""
    kept = ("share", "alpha")
    return tuple(field for field in _norm(*more, epsilon_when=None) if field.option not in kept)


PAGE = lab_page(
    "norm_lab",
    "Norm lab",
    "norm",
    {
        "norm-steps": ("Step by step", _norm()),
        "norm-invariances": (
            "Invariances",
            (
                Field(option="factor", label="Factor on the row", step=1.0),
                Field(option="shift", label="Shift of every entry", step=1.0),
                EPSILON,
                *ROW,
                Field(option="share", label="pRMSNorm: part of the features", kind="slider", step=0.1, more=True),
                Field(option="alpha", label="DyT: alpha", step=0.1, more=True),
            ),
        ),
        "norm-epsilon": (
            "Epsilon",
            _moment_norm(
                Field(option="factor", label="Factor on the row", step=1e-4),
                Field(option="constant", label="Entry of the constant row", step=1.0),
            ),
        ),
        "epsilon-placement": (
            "Epsilon's place",
            (Field(option="norm", label="Norm", kind="choice"), FACTOR, EPSILON, *ROW),
        ),
        "norm-divergence": ("Two norms part", (EPSILON, *ROW)),
        "norm-jacobian": (
            "Jacobian",
            (*_norm(), Field(option="step", label="Step of the difference", step=1e-6, more=True)),
        ),
        "norm-gradients": (
            "Gradients",
            (
                *_norm(),
                Field(option="upstream", label="Gradient at the output", more=True),
                Field(option="upstream_seed", label="Seed of a drawn gradient", more=True),
            ),
        ),
        "variance-divisor": ("Divisor", (EPSILON, *ROW)),
        "one-pass-moments": (
            "One pass",
            (Field(option="largest_power", label="Largest offset, power of ten"), *LONG_ROW),
        ),
        "accumulation": ("Low precision", (FACTOR, *LONG_ROW)),
        "sharded-moments": (
            "Shards",
            (Field(option="norm", label="Norm"), Field(option="ranks", label="Ranks"), EPSILON, *ROW),
        ),
        "residual-once": (
            "Add once",
            (
                Field(option="ranks", label="Ranks P"),
                Field(option="width", label="Width d"),
                Field(option="branch_spread", label="RMS of the branch", step=0.1),
                Field(option="seed", label="Seed", more=True),
            ),
        ),
    },
)
CONTROLS = PAGE.controls
