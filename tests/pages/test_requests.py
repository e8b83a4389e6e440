"""The command of a long run asks the command line for the very request that the page has, in every field."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from core.command import observe
from core.decoder.base_draw import Distribution
from core.decoder.batch import Batch
from core.decoder.config import Budget, DecoderConfig
from core.errors import BudgetError
from core.health.band import Band
from core.health.request import ObserveRequest
from pages.common.cached import ObservationKey
from pages.common.job import command

BASE = DecoderConfig(blocks=3, width=8, heads=2, kv_heads=2, positions=6)
CONFIGS: dict[str, Any] = {
    "blocks": 5, "width": 16, "heads": 4, "kv_heads": 1, "head_dim": 6, "ff_width": 7, "vocabulary": 300,
    "positions": 11, "rope_base": 500000.0, "rms_epsilon": 1e-5, "norm": "layernorm", "mlp": "gelu",
    "position_encoding": "learned", "tied": False, "bias": True,
}  # fmt: skip
ROWS = Batch.from_rows([[1, 2, 3], [4, 5]], [[2, 3, 4], [5, 6]], [[True, False, True], [True, True]])
REQUESTS: dict[str, Any] = {
    "seed": 2**64 - 1, "recipe": "lns+gpt2", "dtype": "bfloat16", "device": "cuda", "batch": ROWS,
    "band": Band(1.1e-7, 123456.789), "budget": Budget(max_parameters=2**20, max_positions=17),
    "distribution": Distribution(0.0200000001, 2.5, 1.5e-5),
}  # fmt: skip
CASES = {
    "defaults": ObserveRequest(),
    "base": ObserveRequest(config=BASE),
    **{name: ObserveRequest(config=replace(BASE, **{name: value})) for name, value in CONFIGS.items()},
    **{name: ObserveRequest(config=BASE, **{name: value}) for name, value in REQUESTS.items()},
    "normal": ObserveRequest(distribution=Distribution(0.1 + 0.2)),
    "everything": ObserveRequest(config=DecoderConfig(**{**CONFIGS, "kv_heads": 2}), **REQUESTS),
    "epsilon": ObserveRequest(config=replace(BASE, rms_epsilon=5e-324, rope_base=1.7e308)),
}


class AskedError(Exception):
    """Carries what the command line understood."""


def parsed(request: ObserveRequest, place: Path, monkeypatch: pytest.MonkeyPatch) -> ObserveRequest:
    """The request that the real verb makes of the command."""

    def asked(understood: ObserveRequest, *_: object, **__: object) -> Any:
        raise AskedError(understood)

    monkeypatch.setattr(observe, "_observed", asked)
    batch = place / "batch.json"
    batch.write_text(json.dumps(request.batch.document()))
    _, module, name, verb, *options = command(request, batch)
    assert (module, name, verb, options[-1]) == ("-m", "core", "observe", "--json")
    with pytest.raises(AskedError) as found:
        observe.command.main(options, standalone_mode=False)
    (understood,) = found.value.args
    assert isinstance(understood, ObserveRequest)
    return understood


@pytest.mark.parametrize("case", CASES)
def test_the_command_line_understands_the_request(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = CASES[case]
    understood = parsed(request, tmp_path, monkeypatch)
    assert replace(understood, batch=request.batch) == request
    assert understood.batch.document() == request.batch.document()


def test_every_field_is_tried() -> None:
    assert set(CONFIGS) == {field.name for field in fields(DecoderConfig)}
    assert {*REQUESTS, "config"} == {field.name for field in fields(ObserveRequest)}
    assert all(getattr(CASES[name].config, name) != getattr(BASE, name) for name in CONFIGS)


def test_a_limit_that_no_option_sets_is_refused_in_words(tmp_path: Path) -> None:
    assert {field.name for field in fields(Budget)} == {"max_parameters", "max_positions", "max_blocks"}
    with pytest.raises(BudgetError, match="at most 4,096 blocks"):
        command(ObserveRequest(budget=Budget(max_blocks=5)), tmp_path / "batch.json")


def test_results_are_kept_apart_by_all_that_decides_them() -> None:
    keys = {ObservationKey.of(request) for name, request in CASES.items() if name != "budget"}
    assert len(keys) == len(CASES) - 1
    near = ObserveRequest(distribution=Distribution(0.02)), ObserveRequest(distribution=Distribution(0.0200000001))
    assert ObservationKey.of(near[0]) != ObservationKey.of(near[1])
