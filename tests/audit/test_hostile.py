"""Hostile configs, folders and archives: one sentence, in under two seconds, with nothing imported, fetched or run."""

from __future__ import annotations

import json
import os
import stat
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from core.audit.intake.archive import unpack_model
from core.audit.intake.config_file import paths_in, read_config, screen_config
from core.audit.intake.weight_files import read_header, screen_folder
from core.cli import run
from core.decoder.config import Budget
from core.errors import AuditError, DepthscopeError

SMALL = {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8, "vocab_size": 50}
HUGE = {
    "model_type": "llama", "num_hidden_layers": 126, "hidden_size": 16384, "vocab_size": 128256,
    "intermediate_size": 53248, "num_attention_heads": 128, "num_key_value_heads": 8,
}  # fmt: skip
SECONDS = 2.0

CONFIGS: dict[str, dict[str, Any]] = {
    "attention from a repository": {**SMALL, "attn_implementation": "evil/kernel"},
    "hidden attention from a repository": {**SMALL, "_attn_implementation": "evil/kernel@main:f"},
    "attention a part": {**SMALL, "attn_implementation": {"": "eager", "text_config": "evil/kernel"}},
    "experts from a repository": {**SMALL, "experts_implementation": "evil/kernel"},
    "nested attention": {**SMALL, "text_config": {"attn_implementation": "evil/kernel"}},
    "custom code": {**SMALL, "auto_map": {"AutoModelForCausalLM": "evil/repo--modeling.Evil"}},
    "nested code": {**SMALL, "text_config": {"auto_map": {"AutoConfig": "x.Y"}}},
    "trusting": {**SMALL, "trust_remote_code": True},
    "quantized": {**SMALL, "quantization_config": {"quant_method": "gptq"}},
    "quantized otherwise": {**SMALL, "load_in_4bit": True},
    "half precision": {**SMALL, "torch_dtype": "float16"},
    "half precision, new name": {**SMALL, "dtype": "torch.float16"},
    "eight bits": {**SMALL, "dtype": "float8_e4m3fn"},
    "a dtype that is no text": {**SMALL, "dtype": 5},
    "kernels": {**SMALL, "use_kernels": True},
    "405B": HUGE,
    "a family the plan does not know, 405B": {**HUGE, "model_type": "olmo2"},
    "nested 405B": {"model_type": "gemma3", "text_config": HUGE},
    "endless depth": {**SMALL, "n_layer": 10**9},
    "negative width": {**SMALL, "n_embd": -8},
    "width as text": {**SMALL, "n_embd": "8"},
    "a number of a thousand digits": {**SMALL, "n_head": 2**200},
    "no model type": {"n_layer": 2},
    "a model type that is a path": {**SMALL, "model_type": "../../etc"},
    "a model type that is no text": {**SMALL, "model_type": ["gpt2"]},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_hostile_config_is_refused_before_anything_is_imported(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS[name]))
    assert_refused([str(path)], capsys)


def assert_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Exit 2, one sentence on standard error, nothing on standard output, in time."""
    start = time.process_time()
    assert run(["audit", *arguments, "--json"]) == 2
    assert time.process_time() - start < SECONDS
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(".\n")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def test_a_refusal_needs_neither_torch_nor_transformers(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["attention from a repository"]))
    script = (
        "import sys\nfrom core.cli import run\n"
        f"status = run(['audit', {str(path)!r}])\n"
        "print(status, [name for name in ('torch', 'transformers', 'safetensors') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2 []"


@pytest.mark.parametrize(
    "text", ["", "[]", "5", "{", '{"a": NaN}', '{"a": 1, "a": 2}', "\x00", "[" * 10000, '{"model_type": "gpt2"}x']
)
def test_what_is_no_config_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    assert_refused([str(path)], capsys)


def test_what_is_harmless_passes() -> None:
    for extra in (
        {"torch_dtype": "bfloat16"},
        {"attn_implementation": "sdpa"},
        {"dtype": "float32"},
        {"auto_map": None},
    ):
        assert screen_config({**SMALL, **extra}, Budget()) == "gpt2"
    assert screen_config({**HUGE, "model_type": "llama"}, Budget(), shrink=True) == "llama"


def test_paths_among_settings_are_found() -> None:
    settings = {
        "a": "evil/repo",
        "b": {"c": "~/x"},
        "d": ["https://x"],
        "e": "silu",
        "f": ["full_attention"],
        "g": "..\\x",
    }
    assert paths_in(settings) == ["a", "d", "g", "b.c"]


# Folders.


def header(tensors: dict[str, Any], data: bytes = b"", length: int | None = None) -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(shape: list[Any], begin: Any, end: Any, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


FINE = header({"w": tensor([2, 2], 0, 16)}, bytes(16))
FILES: dict[str, bytes] = {
    "empty": b"",
    "a header longer than the file": struct.pack("<Q", 10**6) + b"{}",
    "a header of 2^63 bytes": struct.pack("<Q", 2**63) + b"{}",
    "a header that is no JSON": struct.pack("<Q", 4) + b"abcd",
    "a header that is a list": header([]),  # type: ignore[arg-type]
    "fewer bytes than the shape": header({"w": tensor([2, 2], 0, 8)}, bytes(8)),
    "more bytes than the file": header({"w": tensor([1000], 0, 4000)}, bytes(16)),
    "bytes behind the tensors": header({"w": tensor([2], 0, 8)}, bytes(16)),
    "overlapping tensors": header({"a": tensor([2], 0, 8), "b": tensor([2], 4, 12)}, bytes(12)),
    "a gap": header({"a": tensor([2], 0, 8), "b": tensor([2], 12, 20)}, bytes(20)),
    "offsets that run backwards": header({"w": tensor([2], 8, 0)}, bytes(8)),
    "a negative size": header({"w": tensor([-2], 0, 8)}, bytes(8)),
    "a size that is no number": header({"w": tensor(["2"], 0, 8)}, bytes(8)),
    "a size that is a truth": header({"w": tensor([True], 0, 4)}, bytes(4)),
    "sizes whose product overflows": header({"w": tensor([2**40, 2**40], 0, 8)}, bytes(8)),
    "an unknown type": header({"w": tensor([2], 0, 8, "F7")}, bytes(8)),
    "a tensor that is text": header({"w": "x"}),
    "a type that is a list": header({"w": {"dtype": [], "shape": [2], "data_offsets": [0, 8]}}, bytes(8)),
    "one offset": header({"w": {"dtype": "F32", "shape": [2], "data_offsets": [8]}}, bytes(8)),
    "a hundred axes": header({"w": tensor([1] * 100, 0, 4)}, bytes(4)),
}


@pytest.mark.parametrize("name", FILES)
def test_a_lying_header_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    (tmp_path / "model.safetensors").write_bytes(FILES[name])
    assert_refused([str(tmp_path)], capsys)


def test_a_true_header_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(FINE)
    assert read_header(tmp_path / "x.safetensors") == {"w": ((2, 2), "F32")}


@pytest.mark.parametrize(
    "shard",
    [
        "../model.safetensors", "/etc/passwd", "/tmp/x.safetensors", "a/../../b.safetensors", "..", "", 5, None,
        "x.bin", "sub/x.safetensors", "C:\\x.safetensors", "..safetensors/..",
    ],
)  # fmt: skip
def test_an_index_stays_in_its_folder(shard: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": shard}}))
    assert_refused([str(tmp_path)], capsys)


def test_pickles_are_refused_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04")
    assert "can run code when it is read" in assert_refused([str(tmp_path)], capsys)


def test_links_and_devices_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(FINE)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SMALL))
    (folder / "model.safetensors").symlink_to(outside)
    assert "leaves its folder" in assert_refused([str(folder)], capsys)
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    assert "regular file" in assert_refused([str(folder)], capsys)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(folder / "nowhere")
    assert_refused([str(folder)], capsys)


def test_a_hub_caches_links_are_followed(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "1").write_bytes(FINE)
    (blobs / "2").write_text(json.dumps(SMALL))
    (snapshot / "model.safetensors").symlink_to("../../blobs/1")
    (snapshot / "config.json").symlink_to("../../blobs/2")
    assert list(screen_folder(snapshot, Budget()).tensors) == ["w"]


def test_missing_and_overlapping_tensors_are_findings(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    for name in ("a", "b"):
        (tmp_path / f"{name}.safetensors").write_bytes(FINE)
    index = {"weight_map": {"w": "a.safetensors", "x": "b.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    files = screen_folder(tmp_path, Budget())
    assert files.twice == ("w",)
    assert files.absent == ("x",)


def test_more_values_than_the_budget_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    (tmp_path / "model.safetensors").write_bytes(FINE)
    with pytest.raises(DepthscopeError, match="budget"):
        screen_folder(tmp_path, Budget(max_parameters=3))


# Archives.


def archive(path: Path, members: dict[str, bytes], mode: int = 0, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as opened:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = compression
            if mode:
                info.external_attr = mode << 16
            opened.writestr(info, data)
    return path


ARCHIVES: dict[str, tuple[dict[str, bytes], int]] = {
    "a bomb": ({"config.json": b" " * 3 * 10**7}, 0),
    "a name that leaves": ({"../config.json": b"{}"}, 0),
    "an absolute name": ({"/etc/config.json": b"{}"}, 0),
    "a name with a drive": ({"C:/config.json": b"{}"}, 0),
    "a name with backslashes": ({"..\\config.json": b"{}"}, 0),
    "a link": ({"config.json": b"/etc/passwd"}, stat.S_IFLNK | 0o777),
    "a device": ({"config.json": b"x"}, stat.S_IFCHR | 0o600),
    "a pickle": ({"config.json": b"{}", "pytorch_model.bin": b"x"}, 0),
    "a script": ({"config.json": b"{}", "modeling.py": b"x"}, 0),
    "an archive in an archive": ({"config.json": b"{}", "more.zip": b"x"}, 0),
    "no config": ({"notes.txt": b"x"}, 0),
    "a thousand files": ({f"{n}.json": b"{}" for n in range(1000)}, 0),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_hostile_archive_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    members, mode = ARCHIVES[name]
    assert_refused([str(archive(tmp_path / "model.zip", members, mode))], capsys)
    assert sorted(os.listdir(tmp_path)) == ["model.zip"]


def test_what_is_no_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.zip"
    for data in (b"", b"PK\x03\x04 not a zip", archive(tmp_path / "x.zip", {"config.json": b"{}"}).read_bytes()[:-10]):
        path.write_bytes(data)
        assert_refused([str(path)], capsys)


def test_an_archive_that_understates_its_sizes_is_refused(tmp_path: Path) -> None:
    """The directory of the archive says 10 bytes; the member holds 100,000."""
    path = archive(tmp_path / "model.zip", {"config.json": b"x" * 100_000}, compression=zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    place = data.rindex(b"PK\x01\x02")
    data[place + 24 : place + 28] = struct.pack("<I", 10)
    path.write_bytes(bytes(data))
    target = tmp_path / "out"
    target.mkdir()
    with pytest.raises(AuditError):
        unpack_model(path, target)


def test_members_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "model.zip", {"config.json": b"{}" * 50, "b.json": b"{}" * 50}, compression=zipfile.ZIP_STORED
    )
    data = bytearray(path.read_bytes())
    second = data.rindex(b"PK\x01\x02")
    data[second + 42 : second + 46] = struct.pack("<I", 0)
    path.write_bytes(bytes(data))
    with pytest.raises(AuditError):
        unpack_model(path, tmp_path)


def test_a_fine_archive_is_unpacked(tmp_path: Path) -> None:
    text = json.dumps(SMALL).encode()
    path = archive(tmp_path / "m.zip", {"model/config.json": text, "model/model.safetensors": FINE})
    target = tmp_path / "out"
    target.mkdir()
    folder = unpack_model(path, target)
    assert read_config(folder / "config.json") == SMALL
    assert list(screen_folder(folder, Budget()).tensors) == ["w"]


def test_other_arguments_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "neither" in assert_refused([str(tmp_path / "nothing.json")], capsys)
    assert "no config.json" in assert_refused([str(tmp_path)], capsys)
    assert "cannot be called" in assert_refused(["no_such_module:build"], capsys)
    assert "'float16' is not one of" in assert_refused([str(tmp_path), "--dtype", "float16"], capsys)
