"""A refusal of an upload says which file it means, by the name its owner gave it, and never where the server put it."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
import zlib
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.audit.sandbox import worker
from core.audit.true_size import task as task_of_driver
from core.errors import AuditError, shown
from pages.common import audits, jobs
from tests.pages.conftest import ROOT, Open
from tests.pages.support import assert_no_trace, change, sentences

NAMES = (
    "my llama", "../../etc/passwd", "/root/secret", "two\nlines", "![x](http://example.invalid/a.png)", "=1+1",
    "<b>bold</b>", "x" * 300, "`tick`", "Ünïcode ☂", "\u202egnp", "depthscope-upload-1",
)  # fmt: skip
GPT2 = {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 64, "n_positions": 16}
CONFIG = json.dumps(GPT2).encode()


def zipped(members: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target.getvalue()


def broken_stream() -> bytes:
    """A zip whose member cannot be unpacked: its compressed bytes begin a block of no known kind."""
    data = bytearray(zipped({"config.json": CONFIG}))
    start = 30 + len("config.json")
    data[start : start + 4] = b"\xff\xff\xff\xff"
    with pytest.raises(zlib.error), zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        archive.read("config.json")
    return bytes(data)


EMPTY = b"\x02" + b"\0" * 7 + b"{}"
SHARDS = {"config.json": CONFIG, "a.safetensors": b"", "b.safetensors": b""}
# Ending of the name, bytes, words of the sentence.
MODELS = {
    "no JSON": (".json", b"not json", "is not JSON"),
    "no object": (".json", b"[1]", "one object"),
    "code": (".json", json.dumps({**GPT2, "auto_map": {"a": "b"}}).encode(), "auto_map"),
    "no family": (".json", b"{}", "model_type"),
    "a folder's config": (".zip", zipped({"config.json": b"not json", "model.safetensors": EMPTY}), "is not JSON"),
    "no weights": (".zip", zipped({"config.json": CONFIG}), "no safetensors file"),
    "no index": (".zip", zipped(SHARDS), "2 safetensors files"),
    "a broken index": (".zip", zipped({"config.json": CONFIG, "model.safetensors.index.json": b"{"}), "is not JSON"),
    "a broken header": (".zip", zipped({"config.json": CONFIG, "model.safetensors": b"x"}), "gives its header"),
    "no config": (".zip", zipped({"readme.md": b"x"}), "holds no config.json"),
    "a file below a file": (".zip", zipped({"config.json": CONFIG, "config.json/x.json": b"{}"}), "cannot be written"),
    "a long member": (".zip", zipped({"y" * 300 + ".json": b"{}"}), "cannot be written"),
    "a broken stream": (".zip", broken_stream(), "cannot be read"),
    "no zip": (".zip", b"PK", "cannot be read"),
}


def assert_names(sentence: str, name: str) -> None:
    """The visitor's own name stands in the sentence, and no folder of the server's does."""
    assert shown(name).replace("\\", "") in sentence
    assert tempfile.gettempdir() not in sentence.replace(shown(name).replace("\\", ""), "")
    assert "\n" not in sentence


def refused(app: AppTest) -> str:
    assert_no_trace(app)
    (sentence,) = sentences(app)
    return sentence


def bands_page(open_app: Open, name: str, data: bytes) -> AppTest:
    """A page that has no model of its own to refuse, after a file was dropped in the dialog."""
    app = change(open_app("pages/bands/bands.py"), "Drop files")
    app.file_uploader(key="model-files").set_value([(name, data, "application/octet-stream")]).run()
    return change(app, "Drop files")


@pytest.mark.parametrize("case", MODELS)
def test_a_model_that_is_refused_is_called_by_its_name(open_app: Open, case: str) -> None:
    ending, data, words = MODELS[case]
    name = "my own model" + ending
    sentence = refused(bands_page(open_app, name, data))
    assert words in sentence
    assert_names(sentence, name)


@pytest.mark.parametrize("stem", NAMES)
@pytest.mark.parametrize(("ending", "data"), [(".json", b"not json"), (".zip", zipped({"config.json": b"[1]"}))])
def test_a_hostile_name_is_text(open_app: Open, stem: str, ending: str, data: bytes) -> None:
    name = stem + ending
    assert_names(refused(bands_page(open_app, name, data)), name)


@pytest.mark.parametrize("stem", NAMES)
def test_batch_manifest_and_config_name_the_file(open_app: Open, stem: str) -> None:
    name = f"{stem}.json"
    for key in ("batch_file", "manifest_file", "landing-files"):
        app = open_app(**({"batch": "uploaded"} if key == "batch_file" else {}))
        if key == "batch_file":
            change(app, "Input, seeds and band")
        file = (name, b'{"a": 1}', "application/json")
        app.file_uploader(key=key).set_value([file] if key == "landing-files" else file).run()
        assert_names(refused(app), name)


class Refusing:
    """A child that refuses."""

    def __init__(self, task: Any, **limits: Any) -> None:
        self.stage, self.seconds = "build", 0.1

    def result(self) -> Any:
        raise AuditError("The model cannot be built: for want of a reason.")

    def end(self) -> None:
        """Nothing runs."""


def test_what_the_child_refuses_is_called_by_the_uploads_name(open_app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "Child", Refusing)
    app = bands_page(open_app, "my own model.json", CONFIG)
    app.switch_page(str(ROOT / "pages/model_audit/model_audit.py")).run()
    # The one job of the server may still be another test's.
    assert jobs.AUDITS.lock.acquire(timeout=60)
    jobs.AUDITS.lock.release()
    app.button(key="audit-run").click().run()
    while not sentences(app):
        app.run()
    assert refused(app) == "'my own model.json': The model cannot be built: for want of a reason."


@pytest.mark.parametrize("kind", [OSError, AuditError])
def test_a_library_that_names_the_folder_is_heard_with_the_uploads_name(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    folder = "/tmp/depthscope-upload-abc"

    def fail(task: Any, **_: Any) -> Any:
        raise kind(f"no such file: {task['folder']}/model.safetensors")

    monkeypatch.setattr(task_of_driver, "run_task", fail)
    task = {"kind": "folder", "folder": folder, "source": "mine.zip"}
    sentence = worker.reply_to(task, 2**30, 10, lambda name: None)["sentence"]
    assert "mine.zip/model.safetensors" in sentence
    assert folder not in sentence
