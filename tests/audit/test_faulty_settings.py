"""A config with which the library or the model fails: the key at fault is named with its value."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest

from core.audit.intake.fault import Trial, faulty_keys
from core.audit.sandbox.tasks import build_target, run_task
from core.audit.sandbox.worker import reply_to
from core.errors import AuditError, BudgetError, DepthscopeError, InternalError
from tests.audit.families import GPT2, SIZES
from tests.audit.test_build import own_generator, task

pytestmark = pytest.mark.filterwarnings("ignore")
__all__ = ["own_generator"]
LLAMA: dict[str, Any] = {"model_type": "llama", **SIZES, "num_hidden_layers": 2, "head_dim": 8}


def refusal(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """The sentence of an audit that is not confined, for this process lives on."""
    monkeypatch.setattr("core.audit.sandbox.tasks.confine", lambda memory, seconds: None)
    reply = reply_to(task(settings), 2**31, 300, lambda name: None)
    assert reply["kind"] != InternalError.__name__
    sentence = reply["sentence"]
    assert isinstance(sentence, str)
    return sentence


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("intermediate_size", 0), ("intermediate_size", -1), ("hidden_act", "nope"), ("hidden_act", ""),
        ("rope_theta", "x"), ("rope_theta", None), ("num_attention_heads", 0), ("num_attention_heads", -1),
        ("num_attention_heads", 3), ("num_key_value_heads", 0), ("num_key_value_heads", 3), ("rope_scaling", 5),
        ("rope_scaling", {"rope_type": "yarn", "factor": "x"}), ("rope_scaling", {"rope_type": "nope"}),
        ("vocab_size", 0), ("hidden_size", 0), ("head_dim", 0), ("initializer_range", -1.0), ("rms_norm_eps", "x"),
        ("attention_dropout", "x"), ("pad_token_id", 10**6), ("max_position_embeddings", "x"),
    ],
)  # fmt: skip
def test_the_key_at_fault_is_named(key: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = refusal({**LLAMA, key: value}, monkeypatch)
    assert f"config.json sets {key}" in sentence
    assert sentence.endswith("; correct the value, or remove the key.")


@pytest.mark.parametrize(
    ("family", "key", "value"),
    [
        ("gpt2", "n_head", 0), ("gpt2", "activation_function", "nope"), ("gpt2", "layer_norm_epsilon", "x"),
        ("gpt2", "n_positions", 0), ("gpt2", "n_inner", -2), ("gpt2", "vocab_size", 0),
        ("mixtral", "num_local_experts", 0), ("mixtral", "num_experts_per_tok", 99),
        ("gemma2", "layer_types", ["x"]),
        ("gemma2", "query_pre_attn_scalar", 0), ("bloom", "layer_norm_epsilon", "x"),
        ("opt", "word_embed_proj_dim", -3),
    ],
)  # fmt: skip
def test_other_families_and_their_own_words(family: str, key: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = GPT2 if family == "gpt2" else {**SIZES, "head_dim": 8}
    assert f"config.json sets {key}" in refusal({"model_type": family, **sizes, key: value}, monkeypatch)


def test_a_part_inside_and_several_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = {**SIZES, "num_hidden_layers": 2, "hidden_act": "nope", "model_type": "llama"}
    nested = {"model_type": "gemma3", "text_config": {**inner, "hidden_activation": "nope"}}
    assert "text_config.hidden_activation to 'nope'" in refusal(nested, monkeypatch)
    both = refusal({**LLAMA, "hidden_act": "nope", "num_key_value_heads": 0}, monkeypatch)
    assert "hidden_act to 'nope'" in both
    assert "num_key_value_heads to 0" in both
    assert both.endswith("; correct one of the values, or remove its key.")


def test_unknown_keys_and_good_ones_are_never_blamed() -> None:
    odd = {"unheard_of": "x" * 500, "another": {"deep": [1, 2]}, "": 5, "n_ctx": -1}
    notes = build_target(task({**LLAMA, **odd})).facts.notes
    assert len(notes) == len(odd)
    assert all(len(note) < 200 for note in notes)


def oracle(bad: set[str], seen: list[frozenset[str]]) -> Any:
    def works(settings: Mapping[str, Any]) -> bool:
        seen.append(frozenset(settings))
        return not bad & set(settings)

    return works


@pytest.mark.parametrize("bad", [{"a"}, {"c"}, {"a", "b"}, {"b", "d"}, {"a", "b", "c", "d"}])
def test_the_search_finds_the_smallest_set(bad: set[str]) -> None:
    assert set(faulty_keys(dict.fromkeys("abcd", 1), oracle(bad, []), time.monotonic() + 60)) == bad


def test_keys_that_clash_are_all_named_and_none_where_none_helps() -> None:
    deadline = time.monotonic() + 60
    assert faulty_keys(dict.fromkeys("abc", 1), lambda s: not {"a", "b"} <= set(s), deadline) == ["a", "b"]
    assert faulty_keys(dict.fromkeys("abc", 1), lambda s: False, deadline) == []
    nested = {"a": 1, "part": {"b": 2, "c": {"d": 3}}}
    assert faulty_keys(nested, lambda s: "d" not in json.dumps(s), deadline) == ["part.c.d"]


def test_the_search_ends_with_its_time_and_only_begins_where_settings_fail() -> None:
    seen: list[frozenset[str]] = []
    assert faulty_keys(dict.fromkeys("abc", 1), oracle({"c"}, seen), time.monotonic() - 1) == []
    assert seen == []
    error = ValueError("so")
    assert Trial({"a": 1}, (oracle(set(), seen),), 60).blamed(error) is None
    assert Trial({"a": 1}, (lambda settings: None,), 60).blamed(error) is None
    assert seen == [frozenset("a")]


def test_what_is_no_setting_s_doing_stays_what_it_is() -> None:
    trial = Trial({"a": 5}, (oracle({"a"}, []),), 60)
    for error in (BudgetError("too large"), MemoryError(), RuntimeError("cannot allocate memory")):
        with pytest.raises(type(error)), trial.blaming():
            raise error
    with pytest.raises(AuditError, match="sets a to 5"), trial.blaming():
        raise AuditError("refused")
    with pytest.raises(AuditError, match="sets a to 5"), trial.blaming():
        raise KeyError("x")
    with pytest.raises(DepthscopeError, match="forward fails"), Trial().blaming():
        raise DepthscopeError("forward fails")


def test_a_fault_of_the_audit_is_not_the_model_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Building, refusing and judging fail with different sentences."""

    def fails(*words: Any, **options: Any) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr("core.audit.sandbox.tasks.confine", lambda memory, seconds: None)
    monkeypatch.setattr("core.audit.sandbox.tasks.judged_document", fails)
    reply = reply_to(task(LLAMA), 2**31, 300, lambda name: None)
    assert reply["kind"] == InternalError.__name__
    assert reply["sentence"].startswith("An internal error, IndexError in test_faulty_settings.py")
    assert "cannot be built" not in reply["sentence"]
    with pytest.raises(IndexError):
        run_task(task(LLAMA), memory=2**31, seconds=300)
