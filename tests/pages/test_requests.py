"""A page's answers belong to the very request that was asked, in every field, in a cache as in a separate process."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.runtime.caching.cache_type import CacheType
from streamlit.runtime.caching.hashing import update_hash

from core.compare.request import comparison_of
from core.decoder.base_draw import Distribution
from core.decoder.batch import Batch
from core.decoder.config import Budget, DecoderConfig, TrueSizes
from core.errors import BudgetError, RecipeError, StorageError
from core.health.band import Band
from core.health.report import observe_document
from core.health.request import ObserveRequest
from pages.common.cached import BY_REQUEST
from pages.common.true_runs import Running

BASE = DecoderConfig(blocks=3, width=8, heads=2, kv_heads=2, positions=6)
CONFIGS: dict[str, Any] = {
    "blocks": 5, "width": 16, "heads": 4, "kv_heads": 1, "head_dim": 6, "ff_width": 7, "vocabulary": 300,
    "positions": 11, "rope_base": 500000.0, "rms_epsilon": 1e-5, "norm": "layernorm", "mlp": "gelu",
    "position_encoding": "learned", "tied": False, "bias": True, "query_key_norm": True,
    "true_sizes": TrueSizes(
        width=16, heads=2, kv_heads=2, head_dim=8, ff_width=4, vocabulary=266, positions=6
    ),
}  # fmt: skip
ROWS = Batch.from_rows([[1, 2, 3], [4, 5]], [[2, 3, 4], [5, 6]], [[True, False, True], [True, True]])
REQUESTS: dict[str, Any] = {
    "seed": 2**64 - 1, "recipe": "lns+gpt2", "dtype": "bfloat16", "device": "cuda", "batch": ROWS,
    "band": Band(1.1e-7, 123456.789), "budget": Budget(max_parameters=2**20, max_positions=17),
    "distribution": Distribution(0.0200000001, 2.5, 1.5e-5), "driver": "block", "max_memory": 2**31,
}  # fmt: skip
# What a comparison does not have: its recipes are its own, and it runs by the whole graph.
OF_OBSERVE = ("recipe", "driver", "max_memory")
CASES = {
    "base": ObserveRequest(config=BASE),
    **{name: ObserveRequest(config=replace(BASE, **{name: value})) for name, value in CONFIGS.items()},
    **{name: ObserveRequest(config=BASE, **{name: value}) for name, value in REQUESTS.items()},
    "near": ObserveRequest(config=BASE, distribution=Distribution(0.02)),
    "nearer": ObserveRequest(config=BASE, distribution=Distribution(0.0200000001)),
}


def cache_key(request: object) -> bytes:
    """What the pages' caches know a request by."""
    state = hashlib.sha256()
    update_hash(request, state, CacheType.DATA, cache_key, BY_REQUEST)
    return state.digest()


def test_every_field_is_tried() -> None:
    assert set(CONFIGS) == {field.name for field in fields(DecoderConfig)}
    assert {*REQUESTS, "config"} == {field.name for field in fields(ObserveRequest)}
    assert all(getattr(CASES[name].config, name) != getattr(BASE, name) for name in CONFIGS)


def test_answers_are_kept_apart_by_all_that_decides_them() -> None:
    assert len(set(CASES.values())) == len(CASES)
    assert len({cache_key(request) for request in CASES.values()}) == len(CASES)
    compared = [comparison_of(CASES[name], ("unscaled",), 2) for name in CASES if name not in OF_OBSERVE]
    assert len({cache_key(request) for request in compared}) == len(compared)


def test_equal_requests_share_an_answer() -> None:
    again = {
        name: replace(request, batch=Batch.from_document(request.batch.document())) for name, request in CASES.items()
    }
    assert again == CASES
    assert all(cache_key(again[name]) == cache_key(CASES[name]) for name in CASES)


@pytest.mark.parametrize("place", [0, 2**19, 2**20 - 1])
def test_a_large_batch_that_differs_in_one_token_is_another(place: int) -> None:
    ids = np.zeros((1, 2**20), dtype=np.int64)
    other = ids.copy()
    other[0, place] = 1
    arrays = {"targets": ids, "valid": ids == 0, "present": ids == 0, "segments": ids, "positions": ids}
    first, second = (ObserveRequest(batch=Batch(inputs=inputs, **arrays)) for inputs in (ids, other))
    assert first != second
    assert cache_key(first) != cache_key(second)


def test_a_process_of_its_own_answers_with_the_core_s_document(tmp_path: Path) -> None:
    request = replace(CASES["batch"], driver="block")
    assert Running(request, str(tmp_path), {}).result() == observe_document(request)


def test_a_refusal_in_the_process_comes_back_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"The recipe .* is unknown"):
        Running(replace(CASES["base"], recipe="no recipe"), str(tmp_path), {}).result()


def test_a_process_that_was_ended_has_no_answer(tmp_path: Path) -> None:
    work = Running(CASES["base"], str(tmp_path), {})
    work.end()
    with pytest.raises(BudgetError, match="The run was stopped"):
        work.result()


def test_a_folder_that_cannot_be_used_is_not_named_to_the_visitor(tmp_path: Path) -> None:
    (tmp_path / "foreign").touch()
    with pytest.raises(StorageError, match="cannot keep this run's blocks") as raised:
        Running(CASES["base"], str(tmp_path), {}).result()
    assert str(tmp_path) not in raised.value.sentence
