"""Configs and checkpoints built in a confined child, and what is said of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from core.audit.sandbox.confine import OFFLINE
from core.audit.sandbox.isolation import answer, died, run_isolated
from core.audit.sandbox.tasks import build_target, special_ids
from core.cli import run
from core.errors import AuditError, BudgetError
from tests.audit.families import GPT2, SIZES, family

pytestmark = pytest.mark.filterwarnings("ignore")
LLAMA: dict[str, Any] = {"model_type": "llama", **SIZES}


def task(settings: dict[str, Any], **changes: Any) -> dict[str, Any]:
    base = {"kind": "config", "settings": settings, "source": "config.json", "shrink": False, "seed": 0}
    return {**base, "dtype": "float32", "batch": None, "max_parameters": 2**24, **changes}


@pytest.fixture(autouse=True)
def own_generator() -> Any:
    """Building a model draws from torch's global generator, which belongs to the child."""
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


def test_a_config_is_built_from_its_seed_alone() -> None:
    first, again, other = (build_target(task(LLAMA, seed=seed)).model.state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_float32_and_eager_whatever_the_file_says() -> None:
    settings = {**LLAMA, "torch_dtype": "bfloat16", "attn_implementation": "flash_attention_2", "use_cache": True}
    target = build_target(task(settings))
    assert {parameter.dtype for parameter in target.model.parameters()} == {torch.float32}
    assert target.model.config._attn_implementation == "eager"
    assert target.facts.trained is False
    double = build_target(task(LLAMA, dtype="float64")).model
    assert {parameter.dtype for parameter in double.parameters()} == {torch.float64}


def test_keys_that_no_configuration_declares_are_named() -> None:
    target = build_target(task({**LLAMA, "n_ctx": 5, "architectures": ["X"], "transformers_version": "4.0"}))
    assert target.facts.notes == ("Not read, for the configuration does not declare it: n_ctx.",)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({**LLAMA, "hidden_act": "evil/act"}, AuditError, "hidden_act"),
        ({**LLAMA, "hidden_size": 33}, AuditError, "multiple"),
        ({**LLAMA, "model_type": "vitt"}, AuditError, "vitt"),
        (
            {**LLAMA, "model_type": "mixtral", "num_local_experts": 4096, "intermediate_size": 4096},
            BudgetError,
            "budget",
        ),
    ],
)
def test_what_the_library_or_the_budget_refuses(settings: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        build_target(task(settings))


def test_shrinking_keeps_the_depth_and_says_so() -> None:
    large = {
        "model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
        "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,
    }  # fmt: skip
    target = build_target(task(large, shrink=True))
    assert target.facts.shrunk
    assert target.model.config.num_hidden_layers == 80
    assert target.model.config.hidden_size == 32
    assert sum(parameter.numel() for parameter in target.model.parameters()) < 2**20


def test_the_default_batch_passes_over_special_ids() -> None:
    settings = {"pad_token_id": 7, "eos_token_id": [1, 2], "image_token_index": 9, "text_config": {"bos_token_id": 0}}
    assert special_ids(settings) == {0, 1, 2, 7, 9}
    target = build_target(task({**LLAMA, "pad_token_id": 7, "bos_token_id": 0, "eos_token_id": 1}))
    assert not {0, 1, 7} & set(target.batch.inputs.flatten().tolist())


def saved(folder: Path, name: str = "gpt2", **settings: Any) -> Any:
    model = family(name, seed=5, **settings)
    save_file({key: value.clone() for key, value in model.state_dict().items()}, folder / "model.safetensors")
    config = {"model_type": name, **(GPT2 if name == "gpt2" else SIZES), **settings}
    (folder / "config.json").write_text(json.dumps(config))
    return model


def folder_task(folder: Path) -> dict[str, Any]:
    return task({}, kind="folder", folder=str(folder))


@pytest.mark.parametrize("name", ["gpt2", "llama", "mixtral"])
def test_a_folder_is_loaded_exactly(name: str, tmp_path: Path) -> None:
    model = saved(tmp_path, name)
    target = build_target(folder_task(tmp_path))
    loaded = target.model.state_dict()
    assert all(torch.equal(value, loaded[key]) for key, value in model.state_dict().items())
    assert target.facts.notes == ()
    assert target.facts.trained is False


def test_trained_weights_are_called_trained(tmp_path: Path) -> None:
    saved(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["transformer.ln_f.weight"][3] = 1.5
    save_file(tensors, tmp_path / "model.safetensors")
    assert build_target(folder_task(tmp_path)).facts.trained is True


def test_tensors_that_do_not_fit_are_findings(tmp_path: Path) -> None:
    saved(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["transformer.h.1.mlp.c_proj.weight"]
    tensors["transformer.h.9.mlp.c_proj.weight"] = torch.zeros(2, 2)
    save_file(tensors, tmp_path / "model.safetensors")
    notes = build_target(folder_task(tmp_path)).facts.notes
    assert any("missing" in note and "transformer.h.1.mlp.c_proj.weight" in note for note in notes)
    assert any("not in the model" in note and "transformer.h.9.mlp.c_proj.weight" in note for note in notes)


def test_a_tensor_of_another_shape_is_named(tmp_path: Path) -> None:
    saved(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    name = "transformer.h.1.mlp.c_proj.weight"
    wanted = list(tensors[name].shape)
    tensors[name] = torch.zeros(2, 3)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(AuditError) as refusal:
        build_target(folder_task(tmp_path))
    assert f"{name!r} is [2, 3] in the files and {wanted} in the model." in str(refusal.value)


def test_the_command_line_gives_the_contracts_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "gpt2", **GPT2}))
    assert run(["audit", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    for key in ("class", "family", "source", "blocks", "parameters", "trained", "shrunk"):
        assert key in document["model"]
    assert document["model"]["class"] == "GPT2LMHeadModel"
    assert (document["model"]["family"], document["model"]["blocks"]) == ("gpt2", 4)
    assert document["identity"]["verdict"] == "proved"
    assert len(document["additions"]) == 8
    assert set(document["additions"][0]) >= {
        "index", "block", "label", "writers", "readers", "coefficient", "norm_after", "state_rms", "contribution_rms",
        "contribution_to_stream",
    }  # fmt: skip
    assert set(document["writers"][0]) >= {
        "name", "block", "fan_in", "fan_out", "distribution", "std", "declared_std", "ratio",
    }  # fmt: skip
    assert len(document["health"]["sites"]) == 9
    assert document["health_refusal"] is None


def test_a_callable_of_the_users_own(tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "users_own.py").write_text(
        "import torch\nfrom tests.audit import zoo\n"
        "def build():\n    return zoo.Decoder()\n"
        "def pair():\n    return zoo.Functional(), torch.arange(26).reshape(2, 13)\n"
        "def wrong():\n    return 5\n"
    )
    for name, kind in (("build", "Decoder"), ("pair", "Functional")):
        assert run(["audit", f"users_own:{name}", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["model"]["class"] == kind
        assert document["identity"]["verdict"] == "proved"
    assert run(["audit", "users_own:wrong"]) == 2
    assert "returned a int" in capsys.readouterr().err
    assert run(["audit", "users_own:missing"]) == 2
    capsys.readouterr()


def test_a_child_past_its_limits_is_one_sentence() -> None:
    with pytest.raises(AuditError, match="MiB"):
        answer(b"", -9, 2**30)
    assert "SIGKILL" in str(died(-9, 2**30))
    with pytest.raises(AuditError, match="SIGKILL"):
        answer(b'{"stage": "build"}', -9, 2**30)
    with pytest.raises(BudgetError, match="too large"):
        answer(json.dumps({"kind": "BudgetError", "sentence": "too large"}).encode(), 0, 0)
    with pytest.raises(AuditError, match="odd"):
        answer(json.dumps({"kind": "InitializationError", "sentence": "odd"}).encode(), 0, 0)


def test_without_the_library_one_sentence_says_how_to_get_it(monkeypatch: Any) -> None:
    from core.audit.intake import hub

    hub.library.cache_clear()
    monkeypatch.setitem(sys.modules, "transformers", None)
    try:
        with pytest.raises(AuditError, match="pip install transformers"):
            hub.library()
    finally:
        monkeypatch.undo()
        hub.library.cache_clear()


@pytest.mark.heavy
def test_memory_and_time_are_bounded() -> None:
    wide = {**LLAMA, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 8, "vocab_size": 32000}
    with pytest.raises(AuditError, match=r"memory|MiB"):
        run_isolated(task(wide, max_parameters=2**30), memory=2**28, seconds=120)
    with pytest.raises(AuditError, match="within 1 seconds"):
        run_isolated(task(LLAMA), seconds=1)


@pytest.mark.heavy
def test_a_child_reaches_nothing_outside() -> None:
    """In a confined process connections, processes, pickles and large files are refused."""
    script = (
        "import os, socket, subprocess, pickle, tempfile\n"
        "from core.audit.sandbox.confine import confine\n"
        "confine(2**30, 60)\n"
        "def tried(action):\n"
        "    try:\n        action()\n    except Exception as error:\n        return type(error).__name__\n"
        "    return 'done'\n"
        "name = tempfile.mktemp()\n"
        "def big():\n    with open(name, 'wb') as f: f.write(bytes(2**20)); f.flush()\n"
        "print(tried(lambda: socket.create_connection(('127.0.0.1', 9))),"
        " tried(lambda: socket.getaddrinfo('x.org', 80)),"
        " tried(lambda: subprocess.run(['true'])), tried(lambda: os.system('true')),"
        " tried(lambda: pickle.loads(b'cos\\nsystem\\n.')), tried(big))\n"
        "os.path.exists(name) and os.unlink(name)\n"
    )
    environment = {**os.environ, **OFFLINE, "PYTHONPATH": os.getcwd()}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["AuditError"] * 5 + ["OSError"]


def test_a_library_that_is_imported_already_is_taken_as_it_is() -> None:
    """It has asked which other libraries there are, and none of them may be gone since."""
    called = "library()\nmodel_class_of('gpt2')\n"
    script = "import transformers\nfrom core.audit.intake.hub import library, model_class_of\n" + called
    environment = {**os.environ, **OFFLINE, "PYTHONPATH": os.getcwd()}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
