"""Guided tours over the pages of the dashboard; each step is a setting and two sentences on what to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..errors import LabError, shown


@dataclass(frozen=True)
class Step:
    """One step of a tour: the name of a page, the values of its controls as text, and two sentences.

    On a page of the labs, `parameters` holds the name of an experiment under `experiment` and its options; on another
    page it holds the page's own controls.
    """

    page: str
    parameters: Mapping[str, str]
    sentences: tuple[str, str]


@dataclass(frozen=True)
class Tour:
    """A guided tour: its name, its title and its steps in order."""

    name: str
    title: str
    steps: tuple[Step, ...]

    def step(self, position: int) -> Step:
        """Return the step at `position`, counted from 0. Raises `LabError` if the tour has no such step."""
        if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < len(self.steps):
            raise LabError(f"Step {shown(position)} is not on this tour; its steps are 0 to {len(self.steps) - 1}.")
        return self.steps[position]


def _lab(page: str, experiment: str, first: str, second: str, **options: object) -> Step:
    return Step(page, {"experiment": experiment, **{k: str(v) for k, v in options.items()}}, (first, second))


def _health(recipe: str, blocks: int, first: str, second: str) -> Step:
    return Step("residual_health", {"recipe": recipe, "blocks": str(blocks)}, (first, second))


ROOT_L = Tour(
    "root-l",
    "Why one over root L",
    (
        _lab(
            "signal_lab", "scaled-residual",
            "Forty-eight branches of variance 1 that have nothing in common are added as they are.",
            "Their variances add, so the stream gains variance 48 and its size grows like the root of the depth.",
            coefficient="1", branches=48,
        ),
        _lab(
            "signal_lab", "scaled-residual",
            "Now every branch is multiplied by one over the root of L, and variance takes the square of a factor.",
            "L branches of variance 1/L add exactly 1, whatever L is: move the depth and the end point stays.",
            coefficient="L^(-1/2)", branches=48,
        ),
        _lab(
            "signal_lab", "scaled-residual",
            "One over L is smaller than that and also seems safe.",
            "But then all branches together add only 1/L: the deeper the stack, the less it computes at the start.",
            coefficient="L^(-1)", branches=48,
        ),
        _lab(
            "signal_lab", "stream-growth",
            "A real stack of GELU blocks reads a normalized copy of its stream, so its branches keep one size.",
            "The stream follows the root of the depth closely, without any constant fitted.",
        ),
        _lab(
            "signal_lab", "stream-growth",
            "The same weights with every branch scaled by one over the root of the number of blocks.",
            "The whole stack now adds what one unscaled branch added before.",
            scaled="true",
        ),
        _health(
            "unscaled", 64,
            "The same question in a decoder with attention: 64 narrow blocks, writers as they were drawn.",
            "The stream's ratio to its input climbs with depth, and so does the loss sensitivity on the way back.",
        ),
        _health(
            "depth-scaled", 64,
            "Only the matrices that write to the stream are multiplied by one over the root of the blocks.",
            "The profile flattens, with nothing else changed in the draw.",
        ),
    ),
)  # fmt: skip

NORM_HIDES = Tour(
    "norm-hides",
    "What the norm hides",
    (
        _lab(
            "norm_lab", "norm-invariances",
            "Multiply the row by 100 and LayerNorm and RMSNorm give the same output as before.",
            "So whoever looks at normalized rows alone cannot see how large the stream has become.",
            factor=100,
        ),
        _lab(
            "signal_lab", "chain",
            "Each matrix here multiplies a size by 20, and a norm follows every one.",
            "The forward line lies at 1 from end to end: the fault is still there, but not in this picture.",
            activation="linear", spread="custom", factor=20, norm="rmsnorm",
        ),
        _lab(
            "norm_lab", "norm-jacobian",
            "The price is paid backward: a norm's Jacobian is its projection divided by the row's size.",
            "Two directions are lost altogether in LayerNorm, the constant shift and the row's own scale.",
            norm="layernorm", epsilon=0,
        ),
        _lab(
            "signal_lab", "norm-placement",
            "In a pre-norm stack the stream grows between the norms, and the last norm divides by its size.",
            "The last layer's gradient therefore falls with depth, while in post-norm it stays where it is.",
        ),
        _lab(
            "norm_lab", "norm-epsilon",
            "Epsilon sets a floor: this row is so small that it leaves the norm at 13% of its full size.",
            "A norm hides the scale of a row only while its moment stays well above epsilon.",
            norm="rmsnorm", factor=0.0001,
        ),
        _health(
            "post-norm", 32,
            "With a norm after every addition the activation ratios settle at one value from the first block on.",
            "Look at the adjoint beside it: the two directions of one network need not agree.",
        ),
    ),
)  # fmt: skip

RULE_FAILS = Tour(
    "rule-fails",
    "When the rule fails",
    (
        _lab(
            "signal_lab", "linear-layer",
            "With weights of mean 0, independent of each other, a layer multiplies the mean square by d sigma squared.",
            "Measured and rule agree up to the scatter of a sample.",
        ),
        _lab(
            "signal_lab", "linear-layer",
            "Now the inputs have mean 2, and the rule still holds, for it asks for the mean square of the input.",
            "Put the variance in its place and the answer is five times too small.",
            input_mean=2,
        ),
        _lab(
            "signal_lab", "linear-layer",
            "A correlation of 0.1 between the weights of an output, on inputs of mean 1, breaks the rule.",
            "The shared part of the weights adds up over all inputs instead of cancelling, and it wins by far.",
            input_mean=1, weight_correlation=0.1,
        ),
        _lab(
            "signal_lab", "chain",
            "Xavier's variance is right for a slope of 1, but ReLU throws half of every signal away.",
            "Each layer halves the mean square, so fifty layers leave about two to the power of minus 25.",
            activation="relu", spread="xavier",
        ),
        _lab(
            "signal_lab", "scaled-residual",
            "One over root L assumed branches that are uncorrelated; here any two are correlated by a half.",
            "The added variance is then of the order of L again, and the coefficient no longer holds it.",
            branch_correlation=0.5,
        ),
        _lab(
            "signal_lab", "decoder-variance",
            "In a real decoder a branch is a function of the stream it is added to.",
            "The covariance measured at its additions is not zero, and the sum of variances misses the true one.",
        ),
        _lab(
            "residual_paths", "jacobian-product",
            "Multiplying the norms of the blocks' Jacobians gives a bound on how much a gradient can grow.",
            "The true product stays far below it, for the directions that one block stretches the next need not.",
        ),
    ),
)  # fmt: skip

TOURS: Mapping[str, Tour] = MappingProxyType({tour.name: tour for tour in (ROOT_L, NORM_HIDES, RULE_FAILS)})


def tour(name: str) -> Tour:
    """Return the tour of that name. Raises `LabError`, with the known names, if it is unknown."""
    if name not in TOURS:
        raise LabError(f"The tour {shown(name)} is unknown; choose one of {', '.join(TOURS)}.")
    return TOURS[name]
