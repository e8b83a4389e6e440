"""Repairs as code to paste: a loop over a model's named parameters, or an override of transformers' `_init_weights`.

Names from the user's model appear in the code as quoted literals only.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..initialization.base_std import CONSTANT, FAN_IN, FAN_OUT, LARGER_FAN, XAVIER, FanLaw
from ..initialization.findings import MEANING
from ..initialization.weight_stats import ORTHOGONAL
from .repair import Draw, Repair

LINE, INDENT = 110, "    "
LOOP_CODE = """\
# {what}
# Run it once, when the model is built and before it is trained.
import torch

parameters = dict(model.named_parameters())
with torch.no_grad():
{body}
"""
OVERRIDE_CODE = """\
# {what}
# Build this class in the place of {name}.
import torch
from transformers import {name}


class Repaired{name}({name}):
    @classmethod
    def is_custom_code(cls):
        # Otherwise transformers 5 leaves out modules without direct parameters, such as the whole model.
        return False

    def _init_weights(self, module):
        super()._init_weights(module)
        # The library comes last with the whole model. What a checkpoint brought stays as it is.
        if module is not self or any(getattr(p, "_is_hf_initialized", False) for p in self.parameters()):
            return
        parameters = dict(self.named_parameters())
        with torch.no_grad():
{body}
"""
# What the loops over the numbers of a name are called, outermost first.
COUNTERS = ("block", "part")
# A law of the fans as an expression of a parameter's shape.
LAWS: Mapping[FanLaw, str] = {
    FAN_IN: "{p}.shape[{i}] ** -0.5",
    FAN_OUT: "{p}.shape[{o}] ** -0.5",
    XAVIER: "(2 / ({p}.shape[{i}] + {p}.shape[{o}])) ** 0.5",
    LARGER_FAN: "max({p}.shape[{i}], {p}.shape[{o}]) ** -0.5",
}


def loop_code(repair: Repair, *, shrunk: bool) -> str:
    """Return the repair as Python code: a loop over the parameters of a variable `model`.

    `shrunk` is True if the model was audited at small widths.
    """
    return LOOP_CODE.format(what=_comment(repair, shrunk), body=_body(repair, 1))


def override_code(repair: Repair, class_name: str, *, shrunk: bool) -> str:
    """Return the repair as Python code: a subclass of the transformers class `class_name`.

    `shrunk` is True if the model was audited at small widths.
    """
    return OVERRIDE_CODE.format(what=_comment(repair, shrunk), name=class_name, body=_body(repair, 3))


def _comment(repair: Repair, shrunk: bool) -> str:
    """Return the comment above the code: what is repaired, and the rule that the numbers follow."""
    rule, what = repair.rule, MEANING[repair.kind]
    if rule is not None and rule.scales:
        what = f"{what}: drawn by {rule.name}, {rule.formula}, at L = {repair.blocks}"
    if shrunk and repair.at_this_width:
        what = f"{what}.\n# The numbers depend on the width: audit at the true widths to have them for yours"
    return f"{what}."


@dataclass(frozen=True)
class _Pattern:
    """Draws whose names differ in numbers only: the texts between the numbers, and the draws by these numbers."""

    texts: tuple[str, ...]
    draws: Mapping[tuple[int, ...], Draw]


def _body(repair: Repair, depth: int) -> str:
    """Return the statements inside their loops; patterns over the same numbers share one loop."""
    shared: dict[tuple[str, ...], list[str]] = {}
    patterns = list(_patterns(repair.draws))
    for pattern in patterns:
        loops, statements = _pattern_code(pattern)
        shared.setdefault(loops, []).extend(statements)
    scales = repair.rule is not None and repair.rule.scales
    lines = list(_guard(patterns, repair.blocks)) if scales else []
    for loops, statements in shared.items():
        for place, loop in enumerate(loops):
            lines += [INDENT * place + line for line in _wrapped(loop)]
        lines += [INDENT * len(loops) + statement for statement in statements]
    return "\n".join(INDENT * depth + line for line in lines)


def _guard(patterns: Sequence[_Pattern], blocks: int) -> Iterator[str]:
    """Yield lines that raise an error for a deeper model, which needs other factors.

    In a shallower one a name is missing, which raises too.
    """
    for pattern in patterns:
        if len(pattern.texts) == 2 and sorted(pattern.draws) == [(block,) for block in range(blocks)]:
            before, after = map(repr, pattern.texts)
            yield f"if {before} + str({blocks}) + {after} in parameters:"
            yield f'{INDENT}raise ValueError("These numbers are for {blocks} blocks; audit this depth anew.")'
            return


def _wrapped(loop: str) -> list[str]:
    """Return a loop over many numbers as several lines, broken between numbers only."""
    return textwrap.wrap(loop, LINE, subsequent_indent=INDENT * 2, break_long_words=False, break_on_hyphens=False)


def _patterns(draws: Sequence[Draw]) -> Iterator[_Pattern]:
    """Yield draws grouped by their names without numbers and by how they are drawn, apart from the constant."""
    found: dict[tuple[tuple[str, ...], Draw], dict[tuple[int, ...], Draw]] = {}
    for draw in draws:
        texts, numbers = _split(draw.name)
        found.setdefault((texts, replace(draw, name="", constant=0.0)), {})[numbers] = draw
    for (texts, _), members in found.items():
        yield from _regular(texts, members)


def _regular(texts: tuple[str, ...], members: Mapping[tuple[int, ...], Draw]) -> Iterator[_Pattern]:
    """Yield one pattern where the numbers take all combinations, else one per draw; constant numbers become text."""
    varied = [place for place in range(len(texts) - 1) if len({numbers[place] for numbers in members}) > 1]
    ranges = [sorted({numbers[place] for numbers in members}) for place in varied]
    whole = len(members) == math.prod(map(len, ranges)) and len(varied) <= len(COUNTERS)
    if not whole or (len(varied) > 1 and len({draw.constant for draw in members.values()}) > 1):
        for draw in members.values():
            yield _Pattern((draw.name,), {(): draw})
        return
    first = next(iter(members))
    joined = [texts[0]]
    for place, text in enumerate(texts[1:]):
        joined = [*joined, text] if place in varied else [*joined[:-1], f"{joined[-1]}{first[place]}{text}"]
    yield _Pattern(tuple(joined), {tuple(numbers[place] for place in varied): d for numbers, d in members.items()})


def _split(name: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the texts around the numbers of a dotted name, and these numbers."""
    texts, numbers = [""], []
    for place, component in enumerate(name.split(".")):
        dot = "." if place else ""
        # What int() would write otherwise, such as 07 or another script's digits, is text.
        if component.isascii() and component.isdecimal() and str(int(component)) == component:
            texts[-1] += dot
            texts.append("")
            numbers.append(int(component))
        else:
            texts[-1] += dot + component
    return tuple(texts), tuple(numbers)


def _pattern_code(pattern: _Pattern) -> tuple[tuple[str, ...], list[str]]:
    """Return the loops over a pattern's numbers, outermost first, and the statements inside them."""
    counters = COUNTERS[: len(pattern.texts) - 1]
    name = " + ".join(_pieces(pattern.texts, counters)) or repr("")
    example = next(iter(pattern.draws.values()))
    if len(counters) == 1 and len({draw.constant for draw in pattern.draws.values()}) > 1:
        return (_by_number(pattern),), list(_statements(example, f"parameters[{name}]", "std"))
    ranges = (_numbers(sorted({key[place] for key in pattern.draws})) for place in range(len(counters)))
    loops = tuple(f"for {counter} in {numbers}:" for counter, numbers in zip(counters, ranges, strict=True))
    return loops, list(_statements(example, f"parameters[{name}]", None))


def _pieces(texts: Sequence[str], counters: Sequence[str]) -> Iterator[str]:
    for place, text in enumerate(texts):
        if text:
            yield repr(text)
        if place < len(counters):
            yield f"str({counters[place]})"


def _by_number(pattern: _Pattern) -> str:
    stds = {key[0]: draw.constant for key, draw in sorted(pattern.draws.items(), key=lambda item: item[0])}
    if list(stds) == list(range(len(stds))):
        return f"for block, std in enumerate({list(stds.values())!r}):"
    return f"for block, std in {stds!r}.items():"


def _numbers(numbers: Sequence[int]) -> str:
    """Return numbers as code: a `range` where they are consecutive, else a tuple."""
    first, last = numbers[0], numbers[-1]
    if list(numbers) != list(range(first, last + 1)):
        return repr(tuple(numbers))
    return f"range({last + 1})" if first == 0 else f"range({first}, {last + 1})"


def _statements(draw: Draw, target: str, std: str | None) -> Iterator[str]:
    """Yield the statements that draw one parameter or a range of it.

    `std` is the loop variable that holds the constant.
    """
    shaped = draw.law != CONSTANT or draw.part
    if draw.fill is not None:
        yield f"{target}.fill_({draw.fill!r})"
        return
    if shaped or draw.distribution == ORTHOGONAL:
        yield f"parameter = {target}"
        target = "parameter"
    constant = std or repr(draw.constant)
    i, o = draw.axes
    if draw.law != CONSTANT:
        law = LAWS[draw.law].format(p=target, i=i, o=o)
        constant = law if constant == "1.0" else f"{constant} * {law}"
    yield _drawing(draw, target + draw.part, constant)


def _drawing(draw: Draw, target: str, std: str) -> str:
    """Return the statement that draws from the draw's distribution."""
    if draw.distribution == "uniform":
        return f"{target}.uniform_(-1, 1).mul_(3**0.5 * {std})"
    if draw.distribution == ORTHOGONAL:
        return f"torch.nn.init.orthogonal_({target}).mul_({std} * max({target}.shape[-2:]) ** 0.5)"
    if draw.cut is not None:
        return f"torch.nn.init.trunc_normal_({target}, a=-{draw.cut!r}, b={draw.cut!r}).mul_({std} / {draw.shrink!r})"
    return f"{target}.normal_(0.0, {std})"
