"""The stages of the judgement on matrices given as numbers: resolve, each check, and what holds for all of them."""

from __future__ import annotations

import ast
import math
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from core.audit.initialization import base_std, checks_scale
from core.audit.initialization.explain import Cause
from core.audit.initialization.findings import KINDS, Finding, ordered, severity
from core.audit.initialization.laws import CATALOGUE, KNOWN_MISTAKES, LayerIndex, Rule, declared_rule, recognized_rules
from core.audit.initialization.measure import MatrixStats, ModelStats
from core.audit.initialization.resolution import Remark, Resolution
from core.audit.initialization.resolve import resolve
from core.audit.initialization.weight_stats import WeightStats
from core.recipes.catalogue import RECIPES, recipe

WIDTH, FF, COUNT = 64, 172, 10**6
FANS = {
    "query": (WIDTH, WIDTH),
    "value": (WIDTH, WIDTH),
    "output": (WIDTH, WIDTH),
    "up": (WIDTH, FF),
    "down": (FF, WIDTH),
}
# Standard deviation of a matrix, by role, block and depth.
Std = Callable[[str, int, int], float]


def matrix(role: str, block: int, std: float, **options: object) -> MatrixStats:
    weights = WeightStats(std=std, mean=0.0, largest=4 * std, count=COUNT, distribution="normal")
    place = 2 * block + (role in ("up", "down"))
    fan_in, fan_out = FANS[role]
    plain = MatrixStats(
        name=f"layers.{block}.{role}.weight", part="", block=block, place=place, branch=0,
        kind="feed_forward" if role in ("up", "down") else "attention", writes=role in ("output", "down"),
        fan_in=fan_in, fan_out=fan_out, shape=(fan_out, fan_in), weights=weights,
    )  # fmt: skip
    return replace(plain, **options)  # type: ignore[arg-type]


def model(std: Std, blocks: int = 8, **options: object) -> ModelStats:
    """A model of exactly these standard deviations; `options` are those of the writers."""
    every = [matrix(role, block, std(role, block, blocks)) for block in range(blocks) for role in FANS]
    writers = tuple(replace(m, **options) for m in every if m.writes)  # type: ignore[arg-type]
    readers = tuple(m for m in every if not m.writes)
    return ModelStats(blocks=blocks, width=WIDTH, writers=writers, readers=readers, outside={})


def on_writers(factor: Callable[[int, int], float], base: float = 0.02) -> Std:
    return lambda role, block, blocks: base * (factor(block, blocks) if role in ("output", "down") else 1)


def gpt2(block: int, blocks: int) -> float:
    return (2 * blocks) ** -0.5


def on_roles(*roles: str) -> Std:
    return lambda role, block, blocks: 0.02 * (gpt2(block, blocks) if role in roles else 1)


def found(stats: ModelStats, rule: str = "auto", sigma: float | None = None) -> list[Finding]:
    resolution = resolve([stats], declared_rule(rule, stats.blocks), sigma=sigma)
    return [finding for check in checks_scale.CHECKS for finding in check(resolution)]


def kinds(findings: list[Finding]) -> list[str]:
    return [finding.kind for finding in ordered(findings)]


FAULTS: dict[str, tuple[Std, list[str]]] = {
    "met": (on_writers(gpt2), ["applied"]),
    "unscaled": (on_writers(lambda block, blocks: 1.0), ["absent"]),
    "one writer": (on_roles("output"), ["partial"]),
    "reader in place of writer": (on_roles("output", "up"), ["on-reader"]),
    "reader beside writer": (on_roles("output", "down", "up"), ["on-reader", "twice"]),
    "squared": (on_writers(lambda block, blocks: 1 / (2 * blocks)), ["twice"]),
    "blocks alone": (on_writers(lambda block, blocks: blocks**-0.5), ["depth-convention"]),
    "from zero": (on_writers(lambda block, blocks: (2 * block) ** -0.5 if block else math.inf), ["depth-convention"]),
    "two laws": (lambda r, b, n: 0.02 * {"output": gpt2(b, n), "down": n**-0.5}.get(r, 1.0), ["mixed-depth"]),
    "a constant": (on_writers(lambda block, blocks: 0.137), ["depth-convention"]),
    "nothing known": (on_writers(lambda block, blocks: 0.1 + 0.013 * (block * 5 % 7)), ["depth-convention"]),
    "by the width": (lambda r, b, n: WIDTH**-0.5 * (gpt2(b, n) if r in ("output", "down") else 1), ["wrong-fan-in"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_has_its_kind(name: str) -> None:
    std, expected = FAULTS[name]
    assert kinds(found(model(std), "gpt2")) == expected


@pytest.mark.parametrize("name", FAULTS)
def test_a_guessed_rule_yields_a_warning_at_most_and_a_declared_one_what_the_kind_says(name: str) -> None:
    std, _ = FAULTS[name]
    guessed = found(model(std))
    assert all(finding.severity != "error" for finding in guessed if finding.kind != "wrong-fan-in" or finding.guessed)
    assert all(finding.severity == severity(finding.kind) for finding in found(model(std), "gpt2"))


def test_a_rule_met_by_half_of_the_writers_is_guessed_and_the_others_are_a_warning() -> None:
    (finding,) = found(model(on_roles("output")))
    assert (finding.kind, finding.severity, severity(finding.kind)) == ("partial", "warning", "error")


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_matrices_decides_nothing(name: str, seed: int) -> None:
    stats = model(FAULTS[name][0])
    shuffled = random.Random(seed)
    writers, readers = (tuple(shuffled.sample(side, len(side))) for side in (stats.writers, stats.readers))
    for rule in ("auto", "gpt2"):
        one, two = found(stats, rule), found(replace(stats, writers=writers, readers=readers), rule)
        assert {(f.kind, frozenset(f.parameters)) for f in one} == {(f.kind, frozenset(f.parameters)) for f in two}


@pytest.mark.parametrize("name", [name for name in FAULTS if name != "by the width"])
def test_the_unit_of_the_base_decides_nothing(name: str) -> None:
    """A constant base of any size; 0.02 itself is one that code writes down."""
    std, expected = FAULTS[name]
    assert kinds(found(model(lambda r, b, n: 37 * std(r, b, n)), "gpt2")) == expected


@pytest.mark.parametrize(("constant", "rule"), [(0.22, "auto"), (0.22, "gpt2"), (0.36, "gpt2")])
def test_a_constant_of_the_forward_is_known_exactly(constant: float, rule: str) -> None:
    """0.36 lies within the sampling error of (8L)^(-1/4) = 0.3536 at eight blocks of small matrices, and is not it."""
    small = model(on_writers(lambda block, blocks: 1.0), forward=constant)
    writers = tuple(replace(m, weights=replace(m.weights, count=1024)) for m in small.writers)
    findings = found(replace(small, writers=writers), rule)
    assert kinds(findings) == (["no-rule-declared"] if rule == "auto" else ["depth-convention"])
    assert rule == "auto" or f"a factor of {constant}" in findings[0].sentence


def test_two_depths_tell_a_number_written_down_from_a_law() -> None:
    std = on_writers(lambda block, blocks: 16**-0.5)
    assert kinds(found(model(std), "gpt2")) == ["applied"]
    resolution = resolve([model(std), model(std, blocks=16)], declared_rule("gpt2", 8))
    assert [one.cause for one in resolution.explained] == [Cause.CONSTANT]


def test_every_reader_scaled_is_told_by_a_base_in_common_use() -> None:
    everything = model(lambda role, block, blocks: gpt2(block, blocks) * FANS[role][0] ** -0.5)
    for rule in ("auto", "gpt2"):
        resolution = resolve([everything], declared_rule(rule, 8))
        assert resolution.remark is Remark.EVERYTHING
        assert kinds(found(everything, rule)) == ["on-everything"]


def test_readers_away_from_a_declared_base_and_hidden_writers() -> None:
    away = found(model(on_writers(gpt2)), "gpt2", sigma=0.05)
    assert "range-ignored" in kinds(away)
    behind = found(model(on_writers(gpt2), hidden=True), "gpt2")
    assert kinds(behind) == ["invisible-after-norm"]
    assert kinds(found(model(on_writers(lambda block, blocks: 1.0), hidden=True))) == ["no-rule-declared"]


def test_readers_by_the_other_fan() -> None:
    findings = found(model(lambda role, block, blocks: FANS[role][1] ** -0.5))
    assert set(kinds(findings)) == {"wrong-fan-in", "no-rule-declared"}
    assert {name.split(".")[2] for finding in findings for name in finding.parameters} == {"up", "down"}


@pytest.mark.parametrize("check", checks_scale.CHECKS, ids=lambda check: check.__name__)
def test_a_check_changes_nothing_and_says_the_same_again(check: Callable[[Resolution], object]) -> None:
    for std, _ in FAULTS.values():
        resolution = resolve([model(std)], declared_rule("gpt2", 8))
        assert list(check(resolution)) == list(check(resolution))  # type: ignore[call-overload]


def test_hypotheses_are_the_catalogues_own_laws_and_no_mistake_is_one_of_them() -> None:
    """Each law of the catalogue once, as its entry computes it; a mistake differs from all of them somewhere."""
    at = LayerIndex(block=10, blocks=101, stage=37, inner=6)
    assert {law.counted for law in CATALOGUE} == {known.counted for known in RECIPES if known.counted is not None}
    values = [law.factor(at) for law in (*CATALOGUE, *KNOWN_MISTAKES)]
    assert len({round(value, 9) for value in values}) == len(values)
    for law in CATALOGUE:
        (entry,) = [known for known in RECIPES if known.counted == law.counted]
        assert law.formula == entry.laws["down"].formula


def test_what_auto_tries_is_a_fact_of_the_catalogue() -> None:
    tried = [rule.name for rule in recognized_rules(2)]
    assert tried == [
        "gpt2", "depth-scaled", "block-indexed", "lingua-global", "wang", "ds-init", "completep", "deepscalelm",
        "deepnorm",
    ]  # fmt: skip
    assert "deepscalelm" not in [rule.name for rule in recognized_rules(1)]
    assert [name for name in tried if Rule(recipe(name)).absolute] == ["wang"]
    assert all(rule.guessed for rule in recognized_rules(2))


def test_kinds_stand_worst_first() -> None:
    ranks = [("error", "warning", "info").index(kind.severity) for kind in KINDS]
    assert ranks == sorted(ranks)
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_no_string_names_an_option_of_the_command_line() -> None:
    for path in Path(base_std.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not re.search(r"(?<![\w-])--[a-z]", node.value), (path.name, node.value)
