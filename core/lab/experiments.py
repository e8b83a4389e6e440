"""The registry of all experiments, in the order of their pages; the command line and the pages read it alone."""

from __future__ import annotations

from types import MappingProxyType

from core.errors import LabError, unknown_name
from core.lab.experiment import Experiment

_SIGNAL = (
    Experiment(
        name="linear-layer", title="Variance through one linear layer", page="signal_lab",
        place="signal.linear_layer:linear_layer",
        presets={
            "rule holds": {},
            "inputs with a mean": {"input_mean": 2.0},
            "weights with a mean": {"weight_mean": 0.05},
            "correlated weights": {"input_mean": 1.0, "weight_correlation": 0.1},
        },
    ),
    Experiment(
        name="chain", title="Chains, forward and backward", page="signal_lab", place="signal.chain:chain",
        presets={
            "He with ReLU": {},
            "Xavier with ReLU": {"spread": "xavier"},
            "default linear with ReLU": {"spread": "default-linear", "layers": 10, "width": 512, "seeds": 20},
            "half the spread": {"activation": "linear", "spread": "custom", "factor": 0.5},
            "sigmoid": {"activation": "sigmoid", "spread": "xavier"},
            "tanh residual": {"activation": "tanh", "topology": "residual", "spread": "custom", "factor": 0.5},
            "tanh scaled residual": {"activation": "tanh", "topology": "scaled-residual", "spread": "xavier"},
            "norm after every layer": {"activation": "linear", "spread": "custom", "factor": 20.0, "norm": "rmsnorm"},
        },
    ),
    Experiment(
        name="linear-chain", title="Published linear chain at three spreads", page="signal_lab",
        place="signal.published_chains:linear_chain",
        presets={"published": {}, "norm after every layer": {"norm": "rmsnorm"}},
    ),
    Experiment(
        name="relu-chain", title="Published ReLU chain at two variances", page="signal_lab",
        place="signal.published_chains:relu_chain", presets={"published": {}}, torch=True,
    ),
    Experiment(
        name="tanh-chain", title="Published tanh chain with and without its shortcut", page="signal_lab",
        place="signal.published_chains:tanh_chain", presets={"published": {}}, torch=True,
    ),
    Experiment(
        name="compounding", title="A gain compounded over depth", page="signal_lab",
        place="signal.compounding:compounding",
        presets={"56 branches 10% too high": {"gain": 1.1, "layers": 56}, "sigmoid": {"gain": 0.25, "layers": 50}},
    ),
    Experiment(
        name="sigmoid-unit", title="The saturating unit", page="signal_lab", place="signal.sigmoid_unit:sigmoid_unit",
        presets={"reset": {}, "saturated": {"x": 3.0, "w": 3.0}},
    ),
    Experiment(
        name="scaled-residual", title="Why one over root L", page="signal_lab",
        place="signal.scaled_residual:scaled_residual",
        presets={
            "root": {},
            "unscaled": {"coefficient": "1"},
            "one over L": {"coefficient": "L^(-1)"},
            "correlated branches": {"branch_correlation": 0.5},
        },
    ),
    Experiment(
        name="decoder-variance", title="Variance and covariance at every addition of a decoder", page="signal_lab",
        place="signal.decoder_variance:decoder_variance", torch=True,
        presets={"fixture": {}, "unscaled": {"recipe": "unscaled"}},
    ),
    Experiment(
        name="stream-growth", title="Stream growth in a pre-norm stack", page="signal_lab",
        place="signal.stream_growth:stream_growth", torch=True,
        presets={
            "quick": {},
            "published": {"width": 256, "seeds": 20},
            "published, scaled": {"width": 256, "seeds": 20, "scaled": True},
        },
    ),
    Experiment(
        name="norm-placement", title="Norm placement and the last layer's gradient", page="signal_lab",
        place="signal.norm_placement:norm_placement", torch=True, presets={"quick": {}, "wide": {"width": 256}},
    ),
    Experiment(
        name="width-update", title="An aligned update against width", page="signal_lab",
        place="signal.width_update:width_update", presets={"one draw": {}, "published": {"seeds": 50}},
    ),
    Experiment(
        name="soft-cap", title="Soft-capped logits", page="signal_lab", place="signal.soft_cap:soft_cap",
        presets={"attention": {"cap": 50.0, "logit": 50.0}, "final logits": {"cap": 30.0, "logit": 30.0}},
    ),
)  # fmt: skip

_NORM = (
    Experiment(
        name="norm-steps", title="A norm step by step", page="norm_lab", place="norm.steps:norm_steps",
        presets={
            "LayerNorm": {},
            "RMSNorm": {"norm": "rmsnorm"},
            "pRMSNorm": {"norm": "prmsnorm"},
            "ScaleNorm": {"norm": "scalenorm"},
            "DyT": {"norm": "dyt"},
        },
    ),
    Experiment(
        name="norm-invariances", title="What each norm does not see", page="norm_lab",
        place="norm.invariances:norm_invariances", presets={"usual epsilon": {}, "no epsilon": {"epsilon": 0.0}},
    ),
    Experiment(
        name="norm-epsilon", title="Epsilon's two jobs", page="norm_lab", place="norm.epsilon:norm_epsilon",
        presets={"a tiny row": {}, "no epsilon": {"norm": "layernorm", "epsilon": 0.0, "factor": 1.0}},
    ),
    Experiment(
        name="norm-divergence", title="Where LayerNorm and RMSNorm part", page="norm_lab",
        place="norm.divergence:norm_divergence", presets={"mean 3": {}, "mean 0": {"x": ((1.0, -5.0, 3.0, 1.0),)}},
    ),
    Experiment(
        name="norm-jacobian", title="Jacobian, null directions and singular values", page="norm_lab",
        place="norm.jacobian:norm_jacobian",
        presets={"LayerNorm": {}, "RMSNorm": {"norm": "rmsnorm"}, "with epsilon": {"epsilon": 1.0}},
    ),
    Experiment(
        name="norm-gradients", title="Gradients term by term", page="norm_lab",
        place="norm.gradients:norm_gradients", presets={"LayerNorm": {}, "RMSNorm": {"norm": "rmsnorm"}},
    ),
    Experiment(
        name="epsilon-placement", title="Epsilon inside or outside the root", page="norm_lab",
        place="norm.epsilon:epsilon_placement", presets={"usual row": {}, "a tiny row": {"factor": 0.0001}},
    ),
    Experiment(
        name="variance-divisor", title="Population against sample variance", page="norm_lab",
        place="norm.epsilon:variance_divisor", presets={"four features": {}},
    ),
    Experiment(
        name="one-pass-moments", title="One-pass moments", page="norm_lab", torch=True,
        place="norm.one_pass:one_pass_moments", presets={"usual": {}},
    ),
    Experiment(
        name="accumulation", title="Sums in low precision", page="norm_lab", torch=True,
        place="norm.accumulation:accumulation", presets={"unit row": {}, "past float16": {"factor": 300.0}},
    ),
    Experiment(
        name="sharded-moments", title="Feature-sharded moments, right and wrong", page="norm_lab",
        place="norm.sharding:sharded_moments",
        presets={"two ranks": {}, "uneven ranks": {"norm": "rmsnorm", "ranks": 3}},
    ),
    Experiment(
        name="residual-once", title="A residual added once or on every rank", page="norm_lab",
        place="norm.sharding:residual_once", presets={"four ranks": {}},
    ),
)  # fmt: skip

_PATHS = (
    Experiment(
        name="jacobian-product", title="Ordered product of block Jacobians", page="residual_paths", torch=True,
        place="paths.product:jacobian_product",
        presets={"fixture": {}, "unscaled": {"recipe": "unscaled"}, "post-norm": {"recipe": "post-norm"}},
    ),
    Experiment(
        name="branch-interaction", title="Sequential against parallel branches", page="residual_paths", torch=True,
        place="paths.interaction:branch_interaction", presets={"fixture": {}, "unscaled": {"recipe": "unscaled"}},
    ),
    Experiment(
        name="stream-expansion", title="The last state as a sum of updates", page="residual_paths", torch=True,
        place="paths.expansion:stream_expansion",
        presets={"fixture": {}, "scaled shortcuts": {"recipe": "deepscalelm"}},
    ),
    Experiment(
        name="update-geometry", title="Size and direction of every update", page="residual_paths", torch=True,
        place="paths.expansion:update_geometry", presets={"fixture": {}, "unscaled": {"recipe": "unscaled"}},
    ),
    Experiment(
        name="residual-ledger", title="The residual state's ledger", page="residual_paths",
        place="paths.ledger:residual_ledger", presets={"8 x 2048 x 4096 in 2 bytes": {}},
    ),
)  # fmt: skip

EXPERIMENTS = MappingProxyType({entry.name: entry for entry in (*_SIGNAL, *_NORM, *_PATHS)})


def experiment(name: str) -> Experiment:
    """The experiment of that name; an unknown name is refused with the known ones."""
    if name not in EXPERIMENTS:
        raise LabError(unknown_name("experiment", name, EXPERIMENTS, "lab --list"))
    return EXPERIMENTS[name]


def listing() -> list[dict[str, object]]:
    """Every experiment by name, page, title and presets, without importing any."""
    return [
        {"name": entry.name, "page": entry.page, "title": entry.title, "presets": list(entry.presets)}
        for entry in EXPERIMENTS.values()
    ]
