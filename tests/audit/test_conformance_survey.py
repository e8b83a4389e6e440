"""The survey's columns of conformance beside two builds and a plain standard deviation of tensors picked by name."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from core.audit.intake.family import family_settings
from core.audit.intake.hub import built_config, built_model, model_class_of
from core.audit.survey import DEPTHS, survey_row

pytest.importorskip("transformers")


def plain_std(family: str, blocks: int, ends: tuple[str, ...]) -> list[float]:
    model_class = model_class_of(family)
    config = built_config(model_class.config_class, family_settings(family, blocks))
    model = built_model(model_class, config, seed=3, max_parameters=2**24)
    parameters = dict(model.named_parameters())
    return [
        float(torch.cat([p.detach().flatten() for name, p in parameters.items() if name.endswith(end)]).std())
        for end in ends
    ]


@pytest.mark.parametrize(
    ("family", "ends", "scaled", "rule", "kind"),
    [
        ("gpt2", ("attn.c_proj.weight", "mlp.c_proj.weight"), (True, True), "gpt2", "applied"),
        ("gpt_bigcode", ("attn.c_proj.weight", "mlp.c_proj.weight"), (True, True), "gpt2", "applied"),
        ("nanochat", ("o_proj.weight", "fc2.weight"), (True, False), "gpt2", "partial"),
        ("llama", ("o_proj.weight", "down_proj.weight"), (False, False), None, "no-rule-declared"),
        ("granite", ("o_proj.weight", "down_proj.weight"), (False, False), None, "no-rule-declared"),
    ],
)
def test_the_survey_agrees_with_plain_standard_deviations(
    family: str, ends: tuple[str, ...], scaled: tuple[bool, ...], rule: str | None, kind: str
) -> None:
    for blocks in (2, 4):
        for found, law in zip(plain_std(family, blocks, ends), scaled, strict=True):
            assert found == pytest.approx(0.02 * ((2 * blocks) ** -0.5 if law else 1), rel=0.08)
    row = survey_row(family)
    assert (row["rule"], row["kind"], row["identity"]) == (rule, kind, "proved")
    if all(scaled):
        assert row["ratio_shallow"] / row["ratio_deep"] == pytest.approx(math.sqrt(2), rel=0.05)


SHIPPED = Path("core/audit/survey_data/survey.csv")
# Seven standard errors of the logarithm of a quotient of two standard deviations, over some thousand groups.
SURE = 7.0


def spreads(family: str, blocks: int) -> dict[str, tuple[float, int, int]]:
    """(std, values, tensors) of every kind of matrix, numbers left out of its name: no audit, no discovery."""
    model_class = model_class_of(family)
    config = built_config(model_class.config_class, family_settings(family, blocks))
    model = built_model(model_class, config, seed=blocks, max_parameters=2**27)
    groups: dict[str, list[torch.Tensor]] = {}
    for name, parameter in model.named_parameters():
        if parameter.dim() >= 2 and re.search(r"\.\d+\.", name):
            groups.setdefault(re.sub(r"\d+", "#", name), []).append(parameter.detach().double().flatten())
    return {
        name: (float(values.std(correction=0)), values.numel(), len(tensors))
        for name, tensors in groups.items()
        for values in [torch.cat(tensors)]
    }


def moving(family: str) -> dict[str, tuple[float, float, int]]:
    """Kinds of matrices whose standard deviation changes with the depth: factor, its log's error, how many deeper."""
    shallow, deep = (spreads(family, blocks) for blocks in DEPTHS)
    found = {}
    for name, (std, count, tensors) in deep.items():
        before, values, _ = shallow.get(name, (0.0, 0, 0))
        if before > 0 and std > 0:
            error = math.sqrt(1 / (2 * count) + 1 / (2 * values))
            if abs(math.log(std / before)) > max(SURE * error, 0.02):
                found[name] = (std / before, error, tensors)
    return found


def table() -> list[dict[str, Any]]:
    with SHIPPED.open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["built"] == "true" and row["kind"]]


# What doubling the depth does to a writer's standard deviation.
FACTOR = {"gpt2": 2**-0.5, "wang": 0.5}
# The share of the writers that the row's kind says is scaled.
SHARE = {"applied": 1.0, "partial": 0.5, "wrong-fan-in": 1.0}


def agrees(row: dict[str, Any], found: dict[str, tuple[float, float, int]]) -> bool:
    """Whether a row says what two plain builds show."""
    scaled = sum(tensors for _, _, tensors in found.values())
    if not row["rule"]:
        # A rule that fewer than half of the writers meet is none that is declared.
        return 2 * scaled < max(1, int(row["writers"]))
    wanted = FACTOR[row["rule"]]
    ratio = float(row["ratio_deep"]) / float(row["ratio_shallow"])
    return (
        all(abs(math.log(factor / wanted)) < SURE * error for factor, error, _ in found.values())
        and scaled == SHARE[row["kind"]] * int(row["writers"])
        and (row["kind"] == "partial" or ratio == pytest.approx(wanted, rel=0.05))
    )


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")
def test_every_row_of_the_shipped_table_agrees_with_two_plain_builds() -> None:
    """A depth rule of weights is a standard deviation that changes with the depth, but for few."""
    state = torch.get_rng_state()
    found = {row["family"]: (row, moving(row["family"])) for row in table()}
    torch.set_rng_state(state)
    assert len(found) > 190
    assert {family: pair for family, pair in found.items() if not agrees(*pair)} == {}
