"""Decide the kind of every node of a flow: a sum, a matrix product, a view, a norm and so on.

A node is dynamic if its value depends on the batch. Fused operations (`addcmul`, `addmm` onto a stream, `lerp`) and
in-place writes through a view of a whole tensor are taken apart, so that every residual addition is a node of kind
`sum`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from .flow import CUSTOM, Factor, Flow, FlowNode, Kind, SumTerm, Vertex
from .operations import (
    BOUNDS,
    FUSED_ADDITIONS,
    LOOKUPS,
    MATRICES,
    NORMS,
    POINTWISE,
    REDUCTIONS,
    SUMS,
    TABLES,
    VIEWS,
)
from .recorder import Call, tensors_of

KINDS: dict[str, Kind] = {
    **dict.fromkeys(NORMS, "norm"),
    **dict.fromkeys(POINTWISE, "pointwise"),
    **dict.fromkeys(REDUCTIONS, "reduce"),
}


class Classifier:
    """Classifies the nodes of a flow in topological order.

    `features` are the `id()`s of the model's floating-point inputs.
    """

    def __init__(self, flow: Flow, features: set[int]) -> None:
        self._flow = flow
        self._features = features

    def classify(self, node: FlowNode) -> None:
        """Decide what a node of the dataflow does, and set its fields in place; its inputs must be classified already.

        Sets `kind`, `dynamic` (whether the value depends on the batch) and what the kind needs: the `terms` of a sum,
        the `factor` of a scale, the `operand` of a matrix product, a leaf's `parameter`. May shorten or replace
        `inputs`.
        """
        if node.name == "CopyBackwards":
            # A copy onto a tensor keeps nothing of what was there.
            node.inputs = node.inputs[-1:]
        moving = self._flow.moving(node)
        node.dynamic = bool(moving)
        if node.name == "AccumulateGrad":
            self._leaf(node)
        elif self._reads_a_table(node):
            node.kind, node.dynamic = "source", True
        elif node.name in MATRICES:
            self._matrix(node)
        elif node.name in SUMS or self._sums_a_stack(node):
            self._sum(node)
        elif (node.name in BOUNDS or self._one_to_one(node)) and (source := self._unchanged(node, moving)) is not None:
            node.kind, node.inputs = "view", (source,)
        elif node.name in ("Mul", "Div"):
            self._product(node, None if node.call is None else _two(node.call))
        elif node.name == "Neg":
            node.kind, node.factor = "scale", -1.0
        elif node.name in VIEWS and len(moving) == 1 and self._keeps_size(node, moving[0]):
            node.kind = "view"
        else:
            node.kind = KINDS.get(node.name, "other")

    def _leaf(self, node: FlowNode) -> None:
        variable: torch.Tensor = node.origin.variable  # type: ignore[union-attr]
        node.parameter = variable
        node.dynamic = id(variable) in self._features
        node.kind = "source" if node.dynamic else "parameter"

    def _reads_a_table(self, node: FlowNode) -> bool:
        """Return whether the node reads rows of a two-dimensional parameter, as an embedding does.

        An index into a stack of matrices does not count: it selects weights.
        """
        if node.name in TABLES:
            return True
        static = self._flow.static(node)
        if node.name not in LOOKUPS or node.dynamic or not static:
            return False
        return len(self._flow.shape(static[0])) == 2 and len(node.shapes[0]) >= 2

    def _keeps_size(self, node: FlowNode, source: Vertex) -> bool:
        return node.name == "Expand" or math.prod(self._flow.shape(source)) == math.prod(node.shapes[0])

    def _unchanged(self, node: FlowNode, moving: Sequence[Vertex]) -> Vertex | None:
        """Return the input that has the same values and type as the output; None where no input has."""
        sight = None if node.origin is None else self._flow.recording.sights.get((node.origin, 0))
        for source in moving:
            value = self._flow.value(source)
            if sight is None or value is None or value.dtype != sight.value.dtype:
                continue
            if torch.equal(value, sight.value):
                return source
        return None

    def _one_to_one(self, node: FlowNode) -> bool:
        """Return whether the node is a custom autograd function with one input and output; it may be the identity."""
        return node.name == CUSTOM and len(node.inputs) == len(node.shapes) == 1

    def _matrix(self, node: FlowNode) -> None:
        node.kind = "matrix"
        onto = node.name in FUSED_ADDITIONS
        if onto and self._flow.dynamic(node.inputs[0]) and node.call is not None:
            self._onto_stream(node, node.call)
            return
        first = 1 if onto else 0
        self._set_operand(node, node.inputs[first : first + 2], first)
        if not node.dynamic and None in node.inputs[first : first + 2] and node.name != "Mv":
            # A constant of the batch (one-hot rows, features) times a parameter: the values are data. A single vector
            # is none, but belongs to the model (as spectral norms keep one).
            node.kind, node.dynamic = "source", True

    def _onto_stream(self, node: FlowNode, call: Call) -> None:
        """Split `beta * stream + alpha * (first @ second)` into a matrix product and a sum."""
        product = FlowNode(node.name, "matrix", node.inputs[1:], node.shapes, node.dtype, True, call)
        self._set_operand(product, product.inputs, 1)
        base, first, second = list(tensors_of(call.arguments, call.keywords))[:3]
        joined = torch.matmul(first.detach(), second.detach())
        product.value = (joined.sum(0) if node.name == "Addbmm" else joined).reshape(base.shape)
        vertex = self._flow.insert(product)
        node.kind, node.inputs = "sum", (node.inputs[0], vertex)
        beta, alpha = (float(call.keywords.get(name, 1)) for name in ("beta", "alpha"))
        node.terms = [SumTerm(node.inputs[0], beta), SumTerm(vertex, alpha)]

    def _set_operand(self, node: FlowNode, factors: Sequence[Vertex | None], first: int) -> None:
        static = [place for place, v in enumerate(factors) if v is not None and not self._flow.dynamic(v)]
        if node.call is not None and len(static) == 1 and len(factors) == 2:
            node.operand = (node.call.index, first + static[0])

    def _sums_a_stack(self, node: FlowNode) -> bool:
        """Return whether the node sums or averages a stack along the stacked axis, as `stack([x, y]).sum(0)` does."""
        if node.name not in ("Sum", "Mean") or not node.dynamic or len(node.inputs) != 1 or node.inputs[0] is None:
            return False
        stack = self._flow.node(node.inputs[0])
        if stack.name != "Stack" or stack.origin is None or node.origin is None:
            return False
        along = getattr(node.origin, "_saved_dim", ())
        return list(along) == [stack.origin._saved_dim] and None not in stack.inputs  # type: ignore[attr-defined]

    def _sum(self, node: FlowNode) -> None:
        if node.name in ("Sum", "Mean"):
            assert node.inputs[0] is not None
            node.inputs = self._flow.node(node.inputs[0]).inputs
            share = 1.0 / len(node.inputs) if node.name == "Mean" else 1.0
            self._set_terms(node, [None] * len(node.inputs), [share] * len(node.inputs))
            return
        call = node.call
        if call is None or not call.arguments:
            # Made out of sight, or by an operation in place that is no sum, such as a fill.
            return
        if node.name == "CopySlices":
            self._whole_slice(node, call)
        elif node.name in ("Addcmul", "Addcdiv"):
            self._fused_product(node, call)
        elif node.name == "Lerp":
            self._lerp(node, call)
        else:
            alpha = float(call.keywords.get("alpha", call.arguments[2] if len(call.arguments) > 2 else 1))
            factors = {"Add": (1.0, alpha), "Sub": (1.0, -alpha), "Rsub": (-alpha, 1.0)}[node.name]
            if node.name == "Add" and _is_zero(_two(call)[1]) and self._flow.moving(node) == list(node.inputs[:1]):
                # Python's own `sum` begins with 0.
                node.kind = "view"
                return
            self._set_terms(node, _two(call), factors)

    def _set_terms(self, node: FlowNode, values: Sequence[Any], factors: Sequence[Factor]) -> None:
        node.kind = "sum"
        vertices = [*node.inputs, None, None]
        node.terms = [
            SumTerm(vertex, factor, None if vertex is not None else torch.as_tensor(value).detach())
            for vertex, value, factor in zip(vertices, values, factors, strict=False)
        ]

    def _fused_product(self, node: FlowNode, call: Call) -> None:
        base, first, second = call.arguments[:3]
        name = "Mul" if node.name == "Addcmul" else "Div"
        product = FlowNode(name, "product", node.inputs[1:], node.shapes, node.dtype, call=call)
        product.dynamic = bool(self._flow.moving(product))
        product.value = (first * second if name == "Mul" else first / second).detach()
        self._product(product, (first, second))
        node.inputs = (node.inputs[0], self._flow.insert(product))
        self._set_terms(node, (base, None), (1.0, float(call.keywords.get("value", 1))))

    def _lerp(self, node: FlowNode, call: Call) -> None:
        start, end, weight = call.arguments[:3]
        if len(node.inputs) > 2 and self._flow.dynamic(node.inputs[2]):
            return
        share = _factor(weight, inverse=False)
        node.inputs = node.inputs[:2]
        self._set_terms(node, (start, end), (1.0 - share, share))

    def _whole_slice(self, node: FlowNode, call: Call) -> None:
        """Replace an in-place write through a view that covers its whole base by the operation itself."""
        target, other = _two(call)
        base = target._base
        if base is None or target.numel() != base.numel() or len(node.inputs) < 2:
            return
        if call.name in ("add_", "sub_"):
            alpha = float(call.keywords.get("alpha", 1))
            node.inputs = node.inputs[:2]
            self._set_terms(node, (target, other), (1.0, alpha if call.name == "add_" else -alpha))
        elif call.name == "copy_" and self._flow.dynamic(node.inputs[1]):
            node.kind, node.inputs, node.dynamic = "view", (node.inputs[1],), True
        elif call.name in ("mul_", "div_") and not self._flow.dynamic(node.inputs[1]):
            node.inputs = node.inputs[:1]
            node.kind, node.factor = "scale", _factor(other, inverse=call.name == "div_")

    def _product(self, node: FlowNode, operands: tuple[Any, Any] | None) -> None:
        moving = [self._flow.dynamic(vertex) for vertex in node.inputs]
        node.kind = "product"
        if sum(moving) != 1 or operands is None:
            return
        if node.name == "Div" and not moving[0]:
            node.kind = "pointwise"
            return
        node.kind = "scale"
        node.factor = _factor(operands[1] if moving[0] else operands[0], inverse=node.name == "Div")


def _factor(value: Any, *, inverse: bool) -> Factor:
    if isinstance(value, torch.Tensor) and value.numel() != 1:
        return value.detach().reciprocal() if inverse else value.detach()
    number = value.item() if isinstance(value, torch.Tensor) else float(value)
    if not inverse:
        return number
    return 1.0 / number if number != 0 else math.inf


def _is_zero(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.numel() == 1 and not value.requires_grad and float(value) == 0.0
    return bool(value == 0)


def _two(call: Call) -> tuple[Any, Any]:
    values = [*call.arguments, *call.keywords.values()]
    return values[0], values[1] if len(values) > 1 else 1.0
