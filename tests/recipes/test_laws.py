"""Printed formulas against their numbers: a reader of the text finds the coefficient that the law gives."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest

from core.decoder.graph import DepthLaw
from core.recipes.catalogue import RECIPES
from core.recipes.law import FOURTH, HALF, Expression, L, Law, Matrix, constant, d, fan_in, l, stepwise
from core.recipes.variants import VARIANTS

PLACES = [Matrix(block, blocks, 5, 7, 16, 0.02) for blocks in (2, 3, 24) for block in (0, 1, blocks - 1)]
LAYERSCALE = "0.1 to 18 blocks, 1e-5 to 24, 1e-6 beyond"


def read(text: str, at: Matrix) -> float:
    """The number that a printed formula says, by Python's own arithmetic: `2L` and `L d` are products."""
    spaced = re.sub(r"(?<=[\w)]) (?=[\w(])", "*", text.removeprefix("std ").replace("^", "**"))
    spaced = re.sub(r"(\d)(?=[A-Za-z(])", r"\1*", spaced)
    names = {"L": at.blocks, "l": at.block, "d": at.width, "fan_in": at.fan_in}
    return float(eval(spaced, {"__builtins__": {}}, names)) / (at.base_std if text.startswith("std ") else 1.0)


def laws() -> dict[str, DepthLaw | Law]:
    """Every formula of the catalogue and of the variants once."""
    found: dict[str, DepthLaw | Law] = {}
    for known in [*RECIPES, *(variant.as_recipe() for variant in VARIANTS)]:
        topology = known.topology
        found |= {law.formula: law for law in known.laws.values() if law.normalize is None}
        forward = (topology.shortcut, topology.branch, topology.norm_in_factor)
        found |= {f"forward {law.formula}": law for law in forward if isinstance(law, DepthLaw)}
    return found


@pytest.mark.parametrize("at", PLACES, ids=lambda at: f"{at.block}-of-{at.blocks}")
def test_every_formula_says_its_number(at: Matrix) -> None:
    found = laws()
    assert len(found) == 22
    found.pop(f"forward {LAYERSCALE}")
    for text, law in found.items():
        number = law(at.block, at.blocks) if isinstance(law, DepthLaw) else law.coefficient(at)
        assert number == pytest.approx(read(text.removeprefix("forward "), at), rel=1e-14), text


def test_steps_say_their_numbers() -> None:
    law = laws()[f"forward {LAYERSCALE}"]
    assert isinstance(law, DepthLaw)
    depths = {1: 0.1, 18: 0.1, 19: 1e-5, 24: 1e-5, 25: 1e-6, 100: 1e-6}
    assert {depth: law(0, depth) for depth in depths} == depths
    assert stepwise((0.5, 3), beyond=2e-4).text == "0.5 to 3 blocks, 0.0002 beyond"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ((2 * (l + 1)) ** -HALF, "(2(l+1))^(-1/2)"),
        ((1 - 1 / L) ** HALF, "(1 - 1/L)^(1/2)"),
        (1 / (L * d**HALF), "1/(L d^(1/2))"),
        ((L / 2) ** -1, "(L/2)^(-1)"),
        (2 * (L + 1) * fan_in, "2(L+1) fan_in"),
        ((8 * L) ** -FOURTH, "(8L)^(-1/4)"),
        ((2 * L) ** Fraction(-1, 6), "(2L)^(-1/6)"),
        (1 / (L / 2), "1/(L/2)"),
        ((L**HALF) ** 2, "(L^(1/2))^(2)"),
        (constant(0.95), "0.95"),
    ],
)
def test_brackets_stand_where_they_are_needed(expression: Expression, text: str) -> None:
    assert expression.text == text
    for at in PLACES:
        assert expression.value(at) == pytest.approx(read(text, at), rel=1e-14)


def test_roots_are_rounded_once() -> None:
    """Like 1 / sqrt, the published factor's rounding, and not like a general power."""
    for blocks in range(1, 500):
        at = Matrix(0, blocks, 1, 1, 1, 1.0)
        assert (L**-HALF).value(at) == 1.0 / math.sqrt(blocks)
        assert ((1 / L) ** HALF).value(at) == math.sqrt(1 / blocks)
