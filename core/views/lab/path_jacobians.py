"""Views of identity paths: the ordered product of block Jacobians, and the interaction of two branches."""

from __future__ import annotations

from collections.abc import Mapping

from core.lab.result import Result
from core.views.lab.chart import Chart, Line
from core.views.lab.signal_residuals import decoder_subject
from core.views.lab.view import LabView, Picture, TableView, closeness, number

NORM_AXIS = "spectral norm"


def product_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """Norm bound beside the true norm, and the singular values of product and blocks."""
    bound, values = result.tables["bound"], result.tables["singular_values"]
    product = values[values["factor"] == "product"]
    blocks = values[values["factor"] != "product"]
    return {
        "jacobian-product-bound": Chart(
            title="Norm of the product and its bound", subject=subject, x_title="blocks multiplied", y_title=NORM_AXIS,
            whole_x=True,
            lines=[
                Line.of(bound, "blocks", "product_norm", "ordered product"),
                Line.of(bound, "blocks", "norm_bound", "bound", 0, "predicted"),
                Line.of(bound, "blocks", "block_norm", "this block alone", 1),
            ],
        ),
        "jacobian-product-singular-values": Chart(
            title="Singular values", subject=subject, x_title="index, largest first", y_title="singular value",
            whole_x=True,
            lines=[
                Line.of(product, "index", "singular_value", "ordered product"),
                Line.of(blocks, "index", "singular_value", "single blocks", 1, "points"),
            ],
            levels=[(1.0, "identity, 1")],
        ),
    }  # fmt: skip


def _product_reading(result: Result) -> str:
    found = result.summary
    return (
        f"The product stretches a vector by at most {number(found['product_norm'])}; the blocks' norms multiply to "
        f"{number(found['norm_bound'])}, which is {number(found['bound_over_norm'])} times as much. Carried back by "
        f"the product, the last adjoint gives the first {closeness(found['adjoint_error'])}."
    )


JACOBIAN_PRODUCT = LabView(
    text=(
        "How a small change of the input reaches the end of the stack: the blocks' Jacobians, multiplied in their "
        "order. The norms of the factors bound the norm of the product, often loosely, for the direction that one "
        "block stretches most is not the one the next does. The reversed order is another matrix."
    ),
    formulas=(
        r"\frac{\partial x_L}{\partial x_0}=J_{L-1}\cdots J_1J_0",
        r"\Bigl\|\prod_b J_b\Bigr\|_2\le\prod_b\|J_b\|_2",
    ),
    subject=decoder_subject,
    reading=_product_reading,
    pictures=product_pictures,
    tables={
        "bound": TableView(
            alt="Norm, bound and looseness after every block.",
            titles={
                "blocks": "blocks", "block_norm": "this block's norm", "norm_bound": "bound",
                "product_norm": "product's norm", "looseness": "bound over norm",
            },
        ),
        "singular_values": TableView(
            alt="Singular values of every factor and of the product.",
            titles={"factor": "factor", "index": "index", "singular_value": "singular value"},
        ),
    },
)  # fmt: skip


def interaction_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """Norms of the branches' Jacobians and of what a parallel block lacks."""
    table, axis = result.tables["blocks"], "block, counted from 0"
    names = {"attention": "attention's J", "feed_forward": "feed-forward's J", "interaction": "interaction",
             "shift": "shift", "difference": "difference"}  # fmt: skip
    return {
        "branch-interaction-terms": Chart(
            title="Terms of every block's Jacobian", subject=subject, x_title=axis, y_title=NORM_AXIS, whole_x=True,
            lines=[Line.of(table, "block", name, title, index) for index, (name, title) in enumerate(names.items())],
        ),
        "branch-interaction-orders": Chart(
            title="Sequential and parallel block", subject=subject, x_title=axis, y_title=NORM_AXIS, whole_x=True,
            lines=[
                Line.of(table, "block", "sequential", "sequential", 0),
                Line.of(table, "block", "parallel", "parallel", 1),
            ],
        ),
    }  # fmt: skip


def _interaction_reading(result: Result) -> str:
    found = result.summary
    return (
        f"The largest interaction has norm {number(found['largest_interaction'])}, the largest difference of the two "
        f"orders {number(found['largest_difference'])}; the terms add up {closeness(found['largest_identity_error'])}."
    )


BRANCH_INTERACTION = LabView(
    text=(
        "A sequential block lets its feed-forward read what attention wrote; a parallel block does not. They differ by "
        "the interaction, the product of both branches' Jacobians, and by the shift of the second branch's Jacobian "
        "between the two states that it may be read at."
    ),
    formulas=(
        r"\begin{aligned}&(a_2I+J_M)(a_1I+J_A)\\&-\bigl(a_2a_1I+a_2J_A+a_1J_M^{0}\bigr)\\&="
        r"\underbrace{J_MJ_A}_{\text{interaction}}+\underbrace{a_1\,(J_M-J_M^{0})}_{\text{shift}}\end{aligned}",
    ),
    subject=decoder_subject,
    reading=_interaction_reading,
    pictures=interaction_pictures,
    tables={
        "blocks": TableView(
            alt="Spectral norms of every term, a row a block.",
            titles={
                "block": "block",
                "attention": "attention",
                "feed_forward": "feed-forward",
                "interaction": "interaction",
                "shift": "shift",
                "sequential": "sequential",
                "parallel": "parallel",
                "difference": "difference",
                "identity_error": "error of the sum",
            },
        )
    },
)
