"""Views of residual additions: variance with its covariance, stream growth and norm placement."""

from __future__ import annotations

from collections.abc import Mapping

from core.lab.decoder_source import DecoderOptions
from core.lab.result import Result
from core.lab.signal.norm_placement import NormPlacementOptions
from core.lab.signal.scaled_residual import ScaledResidualOptions
from core.lab.signal.stream_growth import StreamGrowthOptions
from core.views.lab.chart import Chart, Line
from core.views.lab.view import LabView, Picture, TableView, closeness, counted, number

IDENTITY = (
    r"\begin{aligned}\operatorname{Var}(h+cF)={}&\operatorname{Var}(h)+c^2\operatorname{Var}(F)\\"
    r"&+2c\operatorname{Cov}(h,F)\end{aligned}"
)
IDENTITY_TITLES = {
    "addition": "addition", "label": "label", "stream_variance": "Var(h)", "branch_variance": "Var(cF)",
    "twice_covariance": "2 Cov(h, cF)", "measured_variance": "measured Var(h + cF)",
    "independence": "without this covariance", "independence_from_input": "without any covariance",
    "correlation": "correlation", "identity_error": "error of the identity",
}  # fmt: skip
# A correlation or cosine with a little room; rounding alone should look like 0.
COSINES = (-1.08, 1.08)
ADDITION_AXIS = "residual addition, counted from 0"


def addition_pictures(name: str, result: Result, subject: str) -> Mapping[str, Picture]:
    """Variance after every addition beside independence, and the correlation that independence leaves out."""
    table = result.tables["additions"]
    return {
        f"{name}-variance": Chart(
            title="Variance after every addition", subject=subject, x_title=ADDITION_AXIS,
            y_title="variance, dimensionless", whole_x=True,
            lines=[
                Line.of(table, "addition", "measured_variance", "measured"),
                Line.of(table, "addition", "independence_from_input", "without covariances", 0, "predicted"),
                Line.of(table, "addition", "independence", "without this one", 1, "predicted"),
            ],
        ),
        f"{name}-correlation": Chart(
            title="Correlation of stream and branch", subject=subject, x_title=ADDITION_AXIS,
            y_title="correlation, -1 to 1", log_y=False, whole_x=True, levels=[(0.0, "independence, 0")],
            y_range=COSINES,
            lines=[Line.of(table, "addition", "correlation", "measured", 1)],
        ),
    }  # fmt: skip


def _scaled_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    return addition_pictures("scaled-residual", result, subject)


def _scaled_reading(result: Result) -> str:
    found = result.summary
    return (
        f"All branches together add variance {number(found['added_variance'])}; independence predicts "
        f"{number(found['added_variance_if_independent'])}. The identity with covariance holds "
        f"{closeness(found['largest_identity_error'])}."
    )


def _scaled_subject(options: ScaledResidualOptions) -> str:
    coefficient = f"{options.factor:g}" if options.coefficient == "custom" else options.coefficient
    return f"L = {options.branches} branches, c = {coefficient}, branch correlation {options.branch_correlation:g}"


SCALED_RESIDUAL = LabView(
    text=(
        "L branches of variance 1 are added to a stream of variance 1. With nothing in common and c = 1/sqrt(L) they "
        "add exactly 1 at any depth. Give them a correlation with each other or with the input, and the sum of the "
        "variances is no longer the variance of the sum."
    ),
    formulas=(IDENTITY, r"\operatorname{Cov}=0:\quad L\,c^2=1\ \text{at}\ c=L^{-1/2}"),
    subject=_scaled_subject,
    reading=_scaled_reading,
    pictures=_scaled_pictures,
    tables={
        "coefficients": TableView(
            alt="Added variance of uncorrelated branches by coefficient.",
            titles={"coefficient": "coefficient", "value": "value at this L", "added_variance": "added variance"},
        ),
        "additions": TableView(alt="The identity's terms at every addition.", titles=IDENTITY_TITLES),
    },
)


def _decoder_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    return addition_pictures("decoder-variance", result, subject)


def decoder_subject(options: DecoderOptions) -> str:
    """A decoder's sizes, recipe and seed, for the line under a title."""
    return f"L = {counted(options.blocks, 'block')}, d = {options.width}, {options.recipe}, seed {options.seed}"


def _decoder_reading(result: Result) -> str:
    found = result.summary
    if found["final_variance_if_independent"] != found["final_variance_if_independent"]:
        return (
            f"A norm follows every addition, so no variance is handed on; the largest correlation of stream and branch "
            f"is {number(found['largest_correlation'])}."
        )
    return (
        f"The last state has variance {number(found['final_variance'])}; independence predicts "
        f"{number(found['final_variance_if_independent'])}. The largest correlation of stream and branch is "
        f"{number(found['largest_correlation'])}, and the identity holds {closeness(found['largest_identity_error'])}."
    )


DECODER_VARIANCE = LabView(
    text=(
        "The same identity at every addition of a real decoder, over all valid positions and features. A branch reads "
        "the stream that it is added to, so independent weights do not make the covariance vanish: the dashed line is "
        "what one would believe, the solid one what is there."
    ),
    formulas=(IDENTITY,),
    subject=decoder_subject,
    reading=_decoder_reading,
    pictures=_decoder_pictures,
    tables={"additions": TableView(alt="The identity's terms at every addition.", titles=IDENTITY_TITLES)},
)


def growth_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """RMS of the stream after every block beside both laws, on logarithmic axes."""
    mean, stream = result.tables["mean"], result.tables["stream"]
    seeds = stream["seed"].nunique()
    lines = [
        Line.of(mean, "block", "rms", "measured" if seeds == 1 else f"measured, mean of {seeds} seeds"),
        Line.of(mean, "block", "first_times_sqrt_l", "first RMS x sqrt(l)", 0, "predicted"),
        Line.of(mean, "block", "expected_rms", "without covariance", 1, "predicted"),
    ]
    chart = Chart(
        title="Growth of the stream", subject=subject, lines=lines, x_title="blocks l, counted from 1",
        y_title="RMS of the stream, dimensionless", log_x=True,
    )  # fmt: skip
    return {"stream-growth-rms": chart}


def _growth_reading(result: Result) -> str:
    found = result.summary
    return (
        f"After the first block the stream has RMS {number(found['first_rms'])}, after the last "
        f"{number(found['final_rms'])} (expected {number(found['final_rms_expected'])}); its size grows like l to the "
        f"power of {found['growth_exponent']:.3f}."
    )


def _growth_subject(options: StreamGrowthOptions) -> str:
    scaled = ", branches scaled by 1/sqrt(L)" if options.scaled else ""
    seeds = f"seed {options.seed}" if options.seeds == 1 else f"{options.seeds} seeds from {options.seed}"
    return f"L = {counted(options.blocks, 'block')}, d = {options.width}, spread {options.spread:g}, {seeds}{scaled}"


STREAM_GROWTH = LabView(
    text=(
        "In a pre-norm stack every branch reads a normalized copy of the stream, so all branches have about one size "
        "and their variances add: the stream grows like the root of the depth. No constant is fitted here. Scale the "
        "branches by 1/sqrt(L), and the whole stack adds what one branch added before."
    ),
    formulas=(
        r"r_l^2=s^2+l\,c^2\,s^2 d_{\mathrm{ff}}\,\mathbb{E}[\operatorname{gelu}(z)^2]",
        r"z\sim\mathcal N(0,d\,s^2)",
    ),
    subject=_growth_subject,
    reading=_growth_reading,
    pictures=growth_pictures,
    tables={
        "mean": TableView(
            alt="RMS of the stream after every block, measured and by both laws.",
            titles={
                "block": "block", "rms": "measured RMS", "first_times_sqrt_l": "first RMS times sqrt(l)",
                "expected_rms": "expected RMS",
            },
        ),
        "stream": TableView(
            alt="RMS of the stream after every block and seed.",
            titles={"seed": "seed", "block": "block", "rms": "RMS"},
        ),
    },
)  # fmt: skip


def placement_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """The last writer's gradient against depth, every draw and the mean, on logarithmic axes."""
    gradients, mean, lines = result.tables["gradients"], result.tables["mean"], []
    for index, (placement, rows) in enumerate(mean.groupby("placement", sort=False)):
        drawn = gradients[gradients["placement"] == placement]
        lines.append(Line.of(rows, "blocks", "gradient_norm", f"{placement}, mean", index))
        lines.append(Line.of(drawn, "blocks", "gradient_norm", f"{placement}, draws", index, "points"))
        lines.append(Line.of(rows, "blocks", "by_theory", f"{placement}, theory", index, "predicted"))
    chart = Chart(
        title="Gradient of the last layer's weights", subject=subject, lines=lines, x_title="depth L, blocks",
        y_title="Frobenius norm of the gradient", log_x=True, ticks_at_points=True,
    )  # fmt: skip
    return {"norm-placement-gradients": chart}


def _placement_reading(result: Result) -> str:
    found = result.summary
    return (
        f"Against depth on logarithmic axes the gradient has slope {number(found['slope[post-norm]'])} in post-norm "
        f"(theory {found['slope_in_theory[post-norm]']:g}) and {number(found['slope[pre-norm]'])} in pre-norm (theory "
        f"{found['slope_in_theory[pre-norm]']:g})."
    )


def _placement_subject(options: NormPlacementOptions) -> str:
    rows = counted(options.rows, "row")
    return f"d = {options.width}, {rows}, {counted(options.seeds, 'draw')} from seed {options.seed}"


NORM_PLACEMENT = LabView(
    text=(
        "Where the norm stands decides what the last layer's weights are told. In post-norm their gradient does not "
        "depend on the depth; in pre-norm the final norm divides by a stream that has grown, so the gradient falls. A "
        "small toy falls less steeply than the theorem's limit."
    ),
    formulas=(
        r"\text{post-norm:}\quad x_{l+1}=N\bigl(x_l+f(x_l)\bigr)",
        r"\text{pre-norm:}\quad x_{l+1}=x_l+f\bigl(N(x_l)\bigr)",
    ),
    subject=_placement_subject,
    reading=_placement_reading,
    pictures=placement_pictures,
    tables={
        "mean": TableView(
            alt="Mean gradient norm, a row a placement and depth.",
            titles={
                "placement": "placement",
                "blocks": "blocks",
                "gradient_norm": "gradient norm",
                "by_theory": "by theory, from the first depth",
            },
        ),
        "gradients": TableView(
            alt="Gradient norm of every draw.",
            titles={"placement": "placement", "seed": "seed", "blocks": "blocks", "gradient_norm": "gradient norm"},
        ),
    },
)
