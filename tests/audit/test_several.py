"""Several files of one model: a config.json beside its weights; what is no such set is one sentence."""

from __future__ import annotations

import io
import json
import math
import struct
from pathlib import Path

import pytest

from core.audit.intake.several import MOST_FILES, Given, received_files
from core.audit.intake.target import path_task
from core.decoder.config import Budget
from core.errors import AuditError, DepthscopeError
from tests.audit.families import GPT2

CONFIG = json.dumps({"model_type": "gpt2", **GPT2}).encode()
NANOGPT = json.dumps({"n_layer": 12, "n_head": 12, "n_embd": 768, "block_size": 1024, "vocab_size": 50304}).encode()
LARGEST = 2**20
Files = dict[str, bytes]


def weights(**shapes: list[int]) -> bytes:
    """A safetensors file of zeros."""
    header, start = {}, 0
    for name, shape in shapes.items():
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, start + size]}
        start += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(start)


def index(**places: str) -> bytes:
    return json.dumps({"weight_map": places}).encode()


def taken(files: list[tuple[str, bytes]], folder: Path) -> Path:
    return received_files([Given(n, io.BytesIO(d), len(d)) for n, d in files], folder, max_bytes=LARGEST)


@pytest.mark.parametrize(
    ("files", "kept"),
    [
        ({"config.json": CONFIG, "model.safetensors": weights(w=[2])}, {"config.json", "model.safetensors"}),
        ({"mine.safetensors": weights(w=[2]), "mine.json": CONFIG}, {"config.json", "model.safetensors"}),
        (
            {"config.json": CONFIG, "tokenizer.json": b"{}", "model.safetensors": weights(w=[2])},
            {"config.json", "model.safetensors"},
        ),
        (
            {
                "config.json": CONFIG, "a.safetensors": weights(a=[2]), "b.safetensors": weights(b=[3]),
                "model.safetensors.index.json": index(a="a.safetensors", b="b.safetensors"),
            },
            {"config.json", "a.safetensors", "b.safetensors", "model.safetensors.index.json"},
        ),
    ],
)  # fmt: skip
def test_a_config_and_its_weights_become_a_folder(files: Files, kept: set[str], tmp_path: Path) -> None:
    folder = taken(list(files.items()), tmp_path)
    assert folder == tmp_path
    assert {path.name for path in folder.iterdir()} == kept
    assert json.loads((folder / "config.json").read_bytes()) == json.loads(CONFIG)
    assert path_task(folder, Budget(), shrink=False, source="x")["kind"] == "folder"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([("w.safetensors", weights(w=[2]))], "holds weights alone; give its config.json"),
        ([("a.json", CONFIG), ("b.json", CONFIG), ("w.safetensors", weights(w=[2]))], "may both be the config"),
        ([("config.json", CONFIG), ("b.json", CONFIG)], "No safetensors file"),
        ([("config.json", CONFIG), ("CONFIG.json", CONFIG)], "'CONFIG.json' was given twice"),
        ([("../config.json", CONFIG), ("w.safetensors", b"")], "is a path"),
        ([("/etc/config.json", CONFIG)], "is a path"),
        ([("a\\config.json", CONFIG)], "is a path"),
        ([("C:config.json", CONFIG)], "is a path"),
        ([("..", CONFIG)], "is a path"),
        ([("config.json", CONFIG), ("pytorch_model.bin", b"x")], "'pytorch_model.bin' is neither"),
        ([("config.json", CONFIG), ("m.zip", b"x")], "'m.zip' is neither"),
        ([("config.json", CONFIG), ("w.safetensors", bytes(LARGEST))], "hold 1,048,"),
        ([(f"{n}.safetensors", b"") for n in range(MOST_FILES + 1)], "21 files were given; at most 20"),
        ([("config.json", CONFIG), ("w.safetensors", struct.pack("<Q", 2**40) + b"{}")], "gives its header"),
        (
            [
                ("config.json", CONFIG), ("a.safetensors", weights(a=[2])),
                ("model.safetensors.index.json", index(a="../a.safetensors")),
            ],
            "a shard is a",
        ),
        ([("config.json", b"{broken"), ("w.safetensors", weights(w=[2]))], "config.json"),
        ([], "No file was given"),
        ([("mine.json", b"{broken")], "'mine.json'"),
        ([("config.json", NANOGPT)], 'add "model_type": "gpt2" to it, and give block_size as n_positions'),
        ([("config.json", b"{}")], "add the name of its transformers family"),
    ],
)  # fmt: skip
def test_what_is_no_set_of_files_is_one_sentence(files: list[tuple[str, bytes]], words: str, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(DepthscopeError) as caught:
        taken(files, inside)
    assert words in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]


def test_more_bytes_than_a_file_said_are_no_model(tmp_path: Path) -> None:
    data = weights(w=[200])
    with pytest.raises(AuditError):
        received_files(
            [Given("config.json", io.BytesIO(CONFIG), len(CONFIG)), Given("w.safetensors", io.BytesIO(data), 20)],
            tmp_path,
            max_bytes=LARGEST,
        )
