"""`check` gives the verdict that observing gives, whatever it is handed, or one sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from core.audit import verdict as checking
from core.decoder.base_draw import Distribution
from core.decoder.batch import Batch
from core.decoder.config import Budget, DecoderConfig
from core.decoder.twin import twin_for_rows
from core.errors import BatchError, ConfigError, DepthscopeError
from core.health import ObserveRequest, check, observe_module
from core.health.band import Band
from core.health.seeds import observe_seeds
from core.health.verdict import Verdict, verdict_of
from tests.audit import zoo
from tests.support import refused

SEEDS = range(3)
GPT2 = {"model_type": "gpt2", "vocab_size": 300, "n_embd": 32, "n_layer": 4, "n_head": 4, "n_positions": 64}
IDS = torch.randint(0, zoo.VOCABULARY, (2, 13), generator=torch.Generator().manual_seed(5))


def observed(request: ObserveRequest) -> Verdict:
    (arm,) = observe_seeds(request, SEEDS, [request.recipe])
    return arm.verdict


def test_sizes_and_requests_have_the_verdict_of_their_seeds() -> None:
    config = DecoderConfig(blocks=3)
    request = ObserveRequest(config=config, recipe="gpt2", band=Band(0.5, 3))
    assert check(config, seeds=SEEDS) == observed(ObserveRequest(config=config))
    assert check(request, seeds=SEEDS) == observed(request)
    rows = Batch.from_rows([[0, 5, 6]], [[5, 6, 1]])
    other = replace(request, recipe="unscaled", band=Band(), batch=rows)
    assert check(request, seeds=SEEDS, recipe="unscaled", band=Band(), batch=rows) == observed(other)


def test_a_configuration_is_its_familys_own_initialization(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(GPT2))
    found = check(GPT2, seeds=SEEDS)
    assert check(path, seeds=SEEDS) == check(str(path), seeds=SEEDS) == found
    assert found.subject is not None
    assert (found.subject.name, found.subject.blocks, found.subject.embedding_std) == ("gpt2", 4, 0.02)
    assert check(GPT2, seeds=SEEDS, recipe="unscaled").subject != found.subject


def test_a_module_is_judged_as_it_stands() -> None:
    torch.manual_seed(0)
    model = zoo.Decoder()
    observation = observe_module(model, IDS)
    found = check(model, batch=IDS)
    # Two additions make the first block of this decoder.
    expected = verdict_of(observation.activation_ratio, observation.adjoint_ratio, 2)
    assert replace(found, subject=None) == expected
    assert found.subject is not None
    assert (found.seeds, found.subject.name) == (1, "Decoder")
    assert found.subject.blocks == (len(observation.labels) - 1) / 2
    assert "1 of 1 seed of Decoder keeps every ratio" in str(found).replace("\n  ", " ")


def test_what_is_too_large_at_once_is_its_widest_twin_that_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = DecoderConfig(blocks=2, width=512, heads=4, ff_width=512)
    assert str(check(wide, seeds=SEEDS).subject) == str(observed(ObserveRequest(config=wide)).subject)
    monkeypatch.setattr(checking, "SECONDS_AT_ONCE", 0.0)
    request = ObserveRequest(config=wide, distribution=Distribution(0.02))
    narrowest = twin_for_rows(wide, checking.TWIN_WIDTHS[-1], request.batch)
    found = check(request, seeds=SEEDS)
    assert found.subject is not None
    assert found.subject.name == "depth-scaled (reduced twin of width 32)"
    assert found.worst_factor == observed(replace(request, config=narrowest)).worst_factor


def test_a_budget_is_no_obstacle_to_a_twin() -> None:
    request = ObserveRequest(config=DecoderConfig(blocks=2, width=64, heads=2), budget=Budget(max_parameters=30_000))
    found = check(request, seeds=SEEDS)
    assert found.subject is not None
    assert found.subject.name.endswith("(reduced twin of width 32)")


@pytest.mark.parametrize(
    ("model", "options", "kind"),
    [
        (7, {}, ConfigError),
        (np.ones(3), {}, ConfigError),
        ({"model_type": "bert"}, {}, ConfigError),
        ("nowhere.json", {}, DepthscopeError),
        (DecoderConfig(), {"batch": [[1, 2]]}, ConfigError),
        (DecoderConfig(), {"recipe": "gpt3"}, DepthscopeError),
        (DecoderConfig(), {"seeds": []}, ConfigError),
        (torch.nn.Linear(3, 3), {}, BatchError),
    ],
    ids=["number", "array", "family", "path", "batch", "recipe", "seeds", "module"],
)
def test_anything_else_is_one_sentence(model: Any, options: dict[str, Any], kind: type[Exception]) -> None:
    sentence = refused(lambda: check(model, **options))
    assert sentence
    with pytest.raises(kind):
        check(model, **options)
