"""Saving and restoring a run bit for bit, and every folder that is not a whole run."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from core.construction.storage import load_run, save_run
from core.decoder.config import Budget, DecoderConfig
from core.errors import BudgetError, ConstructionError, DepthscopeError, StorageError
from core.health.report import built_run, observe_document, restored_document
from core.health.request import ObserveRequest
from tests.support import PACKED, batch_of, run_cli

CONFIG = DecoderConfig(blocks=3, width=8, heads=4, kv_heads=2, ff_width=6, vocabulary=110, positions=6)
RECIPES = ["depth-scaled", "unscaled", "block-indexed", "zero-writer", "admin", "ngpt", "parallel", "wang+post-norm"]
DTYPES = ["float64", "float32", "bfloat16"]
FILES = ["control.safetensors", "initialized.safetensors", "record.json"]
WRITER = "blocks.1.ffn.down.weight"


def request(name: str = "depth-scaled", dtype: str = "float64", config: DecoderConfig = CONFIG) -> ObserveRequest:
    return ObserveRequest(config=config, recipe=name, dtype=dtype, batch=batch_of(PACKED))


def saved(folder: Path, name: str = "depth-scaled", dtype: str = "float64", config: DecoderConfig = CONFIG) -> Path:
    run = built_run(request(name, dtype, config))
    save_run(folder, run.initialized, run.control, run.dtype)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("runs") / "whole")


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy that a test may break."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RECIPES)
def test_a_run_comes_back_bit_for_bit(name: str, dtype: str, tmp_path: Path) -> None:
    """Values as rounded to the run's type, the record, and every number of the observation."""
    run = built_run(request(name, dtype))
    save_run(tmp_path, run.initialized, run.control, dtype)
    assert sorted(os.listdir(tmp_path)) == FILES
    again = load_run(tmp_path)
    assert (again.dtype, again.initialized.record) == (dtype, run.initialized.record)
    for arm in ("initialized", "control"):
        ours, theirs = getattr(run, arm), getattr(again, arm)
        assert theirs.source == "restored"
        assert list(ours.parameters) == list(theirs.parameters)
        for key, values in ours.parameters.items():
            rounded = values.detach().to(getattr(torch, dtype)).to(torch.float64)
            assert torch.equal(rounded.view(torch.int64), theirs.parameters[key].detach().view(torch.int64))
    observed, restored = observe_document(request(name, dtype)), restored_document(again, batch_of(PACKED))
    assert restored.pop("construction") == "restored"
    assert observed.pop("construction") == "initialized"
    assert restored == observed


def test_a_restored_run_is_saved_as_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    run = load_run(folder)
    save_run(tmp_path / "again", run.initialized, run.control, run.dtype)
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_every_family_option_comes_back(tmp_path: Path) -> None:
    options = {"norm": "layernorm", "mlp": "gelu", "position_encoding": "learned", "tied": False, "bias": True}
    config = DecoderConfig(**{**CONFIG.document(), **options, "rope_base": 123.5, "rms_epsilon": 1e-5})
    again = load_run(saved(tmp_path, config=config))
    assert again.initialized.config == config


def test_stored_gains_and_signed_zeros_survive(folder: Path) -> None:
    """What a person changed in the file is observed, not the draw."""
    path = folder / "initialized.safetensors"
    tensors = load_file(path)
    gain = [-0.0, 5e-324, 0.1, 1.0, 2.0, -3.0, 1e10, 0.0]
    tensors["final_norm.gain"] = torch.tensor(gain, dtype=torch.float64)
    save_file(tensors, path)
    document = restored_document(load_run(folder), batch_of(PACKED))
    assert document["changed_weights"] == ["initialized"]
    arm = document["initialized"]
    assert np.array(arm["final_norm_gain"]).tobytes() == np.array(gain).tobytes()


def test_a_flipped_bit_and_anothers_weights_are_told_of(folder: Path, tmp_path: Path) -> None:
    """Both restore, for weights may be edited on purpose, but not in silence."""
    assert load_run(folder).changed == ()
    assert "changed_weights" not in restored_document(load_run(folder), batch_of(PACKED))
    data = bytearray((folder / "control.safetensors").read_bytes())
    data[-9] ^= 0x10
    (folder / "control.safetensors").write_bytes(data)
    assert load_run(folder).changed == ("control",)
    shutil.copy(saved(tmp_path / "other", "gpt2") / "initialized.safetensors", folder)
    outcome = run_cli("observe", "--restore", folder, "--json")
    assert outcome.status == 0
    assert outcome.document()["changed_weights"] == ["initialized", "control"]
    assert [line.split(" arm ")[0] for line in outcome.err.splitlines()] == [
        "The weights of the initialized", "The weights of the control"
    ]  # fmt: skip


def test_a_record_without_digests_is_restored(folder: Path) -> None:
    record = json.loads((folder / "record.json").read_text())
    del record["sha256"]
    (folder / "record.json").write_text(json.dumps(record))
    assert load_run(folder).changed == ()


def test_saving_again_replaces_an_earlier_run(folder: Path) -> None:
    (folder / "control.safetensors.partial").write_bytes(b"left by an interrupted run")
    saved(folder, "gpt2", "float32")
    assert load_run(folder).initialized.record.recipe == "gpt2"
    assert load_run(folder).dtype == "float32"


def test_an_interrupted_save_leaves_the_earlier_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of one run never stand beside the record of another, and a run is never lost to one that failed."""
    run = built_run(request("gpt2"))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def broken(tensors: Any, path: Path) -> None:
        path.with_name("temporary").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("core.construction.storage.save_file", broken)
    with pytest.raises(StorageError, match="No space left on device"):
        save_run(folder, run.initialized, run.control, run.dtype)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("name", ["notes.txt", ".git", "model.safetensors"])
def test_a_foreign_folder_is_not_written_into(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(StorageError, match="save into an empty folder"):
        saved(tmp_path)
    assert os.listdir(tmp_path) == [name]


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.write_text("mine")
    with pytest.raises(StorageError, match="cannot be saved"):
        saved(path)
    with pytest.raises(StorageError, match="is not a folder"):
        load_run(path)
    assert path.read_text() == "mine"


class TestBrokenFolders:
    """Each is refused in one sentence, before the values are used."""

    @pytest.mark.parametrize("name", FILES)
    def test_a_missing_file(self, folder: Path, name: str) -> None:
        (folder / name).unlink()
        with pytest.raises(StorageError, match=name.replace(".", r"\.")):
            load_run(folder)

    @pytest.mark.parametrize("name", FILES)
    @pytest.mark.parametrize("kept", [0, 5, 200, -1])
    def test_a_truncated_file(self, folder: Path, name: str, kept: int) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: kept if kept >= 0 else len(data) * 9 // 10])
        with pytest.raises(StorageError):
            load_run(folder)

    @pytest.mark.parametrize("name", FILES)
    def test_a_folder_or_a_pipe_in_the_place_of_a_file(self, folder: Path, name: str) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with pytest.raises(StorageError):
            load_run(folder)
        (folder / name).unlink()
        (folder / name).mkdir()
        with pytest.raises(StorageError):
            load_run(folder)

    def edited(self, folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
        tensors = load_file(folder / "initialized.safetensors")
        change(tensors)
        save_file(tensors, folder / "initialized.safetensors")

    def test_another_type(self, folder: Path) -> None:
        self.edited(folder, lambda tensors: tensors.update({WRITER: tensors[WRITER].float()}))
        with pytest.raises(StorageError, match=f"{WRITER} is stored as F32 .* the record says float64"):
            load_run(folder)

    def test_an_integer_type(self, folder: Path) -> None:
        self.edited(folder, lambda tensors: tensors.update({WRITER: tensors[WRITER].to(torch.int64)}))
        with pytest.raises(StorageError, match="I64"):
            load_run(folder)

    def test_another_shape(self, folder: Path) -> None:
        self.edited(folder, lambda tensors: tensors.update({WRITER: tensors[WRITER].T.contiguous()}))
        with pytest.raises(ConstructionError, match=rf"{WRITER} has shape \[8, 6\]"):
            load_run(folder)

    def test_an_extra_tensor(self, folder: Path) -> None:
        self.edited(folder, lambda tensors: tensors.update({"head.weight": torch.ones(8, 110, dtype=torch.float64)}))
        with pytest.raises(ConstructionError, match=r"holds the unknown tensor 'head\.weight'"):
            load_run(folder)

    def test_a_missing_tensor(self, folder: Path) -> None:
        self.edited(folder, lambda tensors: tensors.pop(WRITER))
        with pytest.raises(ConstructionError, match=f"lacks tensor '{WRITER}'"):
            load_run(folder)

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_nonfinite_weights(self, folder: Path, value: float) -> None:
        self.edited(folder, lambda tensors: tensors[WRITER].view(-1)[3:4].fill_(value))
        with pytest.raises(ConstructionError, match=f"{WRITER} are not all finite"):
            load_run(folder)

    def test_weights_of_another_decoder(self, folder: Path, tmp_path: Path) -> None:
        other = saved(tmp_path / "other", config=DecoderConfig(blocks=2))
        shutil.copy(other / "initialized.safetensors", folder)
        with pytest.raises(ConstructionError, match="lacks tensor"):
            load_run(folder)

    def test_a_foreign_folder(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text("{}")
        with pytest.raises(StorageError, match=r"record\.json"):
            load_run(tmp_path)
        with pytest.raises(StorageError, match="is not a folder"):
            load_run(tmp_path / "absent")


REMOVED = object()
RECORD_EDITS: list[tuple[str, Any]] = [
    ("schema", REMOVED), ("schema", "depthscope.sweep/1"), ("schema", None), ("dtype", "float16"),
    ("dtype", ["float64"]), ("dtype", REMOVED), ("recipe", "mine"), ("recipe", 5), ("recipe", "t-fixup"),
    ("recipe", None), ("recipe", REMOVED), ("config", None), ("config", []), ("config", {}),
    ("config", {"blocks": 2}), ("config.blocks", 0), ("config.blocks", REMOVED), ("config.blocks", "3"),
    ("config.width", 7), ("config.heads", 3), ("config.kv_heads", 3), ("config.rms_epsilon", 0),
    ("config.rms_epsilon", REMOVED), ("config.norm", "batchnorm"), ("config.blocks", 4), ("config.width", 16),
    ("config.tied", False), ("config.tied", "yes"), ("initial_rng_state", "-1"), ("initial_rng_state", str(2**64)),
    ("initial_rng_state", "x"), ("initial_rng_state", None), ("final_rng_state", REMOVED), ("factor", "half"),
    ("factor", []), ("selected_names", 3), ("transformed_tensors", None), ("transformed_tensors", "many"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), RECORD_EDITS)
def test_a_broken_record(folder: Path, key: str, value: Any) -> None:
    edit_record(folder, key, value)
    with pytest.raises(DepthscopeError) as refusal:
        load_run(folder)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["", "[]", "null", "5", '"x"', "{", '{"schema": "depthscope.record/1"}', "\x00", "{}"])
def test_a_record_that_is_none(folder: Path, text: str) -> None:
    (folder / "record.json").write_text(text)
    with pytest.raises(StorageError, match="record"):
        load_run(folder)


@pytest.mark.parametrize(
    "shortcuts",
    [
        None,
        [],
        [{}, {}, {}],
        [{"attention_shortcut": 1.0, "feed_forward_shortcut": 1.0}] * 2,
        [{"attention_shortcut": 1.0}] * 3,
        [{"attention_shortcut": 1.0, "feed_forward_shortcut": 1.0, "more": 1.0}] * 3,
        [{"attention_shortcut": 1.0, "feed_forward_shortcut": -1.0}] * 3,
        [{"attention_shortcut": 1.0, "feed_forward_shortcut": "two"}] * 3,
        [1, 2, 3],
        "measured",
    ],
)
def test_broken_shortcuts_of_a_profiled_recipe(tmp_path: Path, shortcuts: Any) -> None:
    edit_record(saved(tmp_path, "admin"), "shortcuts", shortcuts)
    with pytest.raises(StorageError):
        load_run(tmp_path)


@pytest.mark.parametrize(
    ("budget", "changes"),
    [
        (Budget(max_parameters=100), {}),
        (Budget(max_positions=5), {}),
        (Budget(), {"config.blocks": 2**53}),
        (Budget(), {"config.width": 2**40, "config.head_dim": 2}),
    ],
)
def test_the_budget_is_checked_before_a_tensor_is_read(folder: Path, budget: Budget, changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        edit_record(folder, key, value)
    (folder / "initialized.safetensors").unlink()
    with pytest.raises(BudgetError):
        load_run(folder, budget)


def edit_record(folder: Path, key: str, value: Any) -> None:
    path = folder / "record.json"
    record = json.loads(path.read_text())
    *outer, last = key.split(".")
    place = record
    for part in outer:
        place = place[part]
    if value is REMOVED:
        del place[last]
    else:
        place[last] = value
    path.write_text(json.dumps(record))
