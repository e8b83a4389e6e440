"""The survey's columns of conformance beside two builds and a plain standard deviation of tensors picked by name."""

from __future__ import annotations

import math

import pytest
import torch

from core.audit.family import family_settings
from core.audit.hub import built_config, built_model, model_class_of
from core.audit.survey import survey_row

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
