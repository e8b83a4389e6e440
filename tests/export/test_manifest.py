"""Manifests and bundles: complete, the same bytes each time, and strict when they come back."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from typing import Any

import pytest

from core.errors import StorageError
from core.export.bundle import bundle, bundle_files
from core.export.csv import csv_text
from core.export.json import json_text
from core.export.manifest import Export, SavedSetting, manifest_text, read_manifest, record_of
from core.export.observe import observe_contents
from core.export.pictures import image

SETTING = SavedSetting(setting={"blocks": 8, "recipe": "depth-scaled"})
EXPORT = Export(page="residual_health", saved=SETTING, query="blocks=8", pins=(SETTING,))


def test_a_manifest_reads_back_as_it_was_written() -> None:
    manifest = read_manifest(manifest_text(EXPORT, {}).encode())
    assert manifest.page == "residual_health"
    assert dict(manifest.saved.setting) == dict(SETTING.setting)
    assert [dict(pin.setting) for pin in manifest.pins] == [dict(SETTING.setting)]


def test_the_zip_is_complete_exact_and_the_same_bytes(document: dict[str, Any]) -> None:
    export = Export(page="residual_health", saved=SETTING, record=record_of(document))
    data = bundle(observe_contents(document), export)
    assert data == bundle(observe_contents(document), export)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        files = {name: archive.read(name) for name in names}
    contents = observe_contents(document)
    wanted = {"report.html", "plotly.min.js", "manifest.json"}
    for table in contents.tables:
        wanted |= {f"tables/{table}.csv", f"tables/{table}.json"}
    for figure in contents.figures:
        wanted |= {f"figures/{figure}.{kind}" for kind in ("html", "json", "svg")}
    assert set(names) == wanted
    assert files["tables/sites.csv"].decode() == csv_text(contents.tables["sites"])
    assert all(files[f"figures/{name}.svg"] == image(one, "svg") for name, one in contents.figures.items())
    assert files["tables/sites.json"].decode() == json_text(contents.tables["sites"])
    manifest = json.loads(files["manifest.json"])
    assert manifest["record"]["initial_rng_state"] == "4701"
    assert manifest["record"]["final_rng_state"] == document["final_rng_state"]
    digests = {name: hashlib.sha256(found).hexdigest() for name, found in files.items() if name != "manifest.json"}
    assert manifest["files"] == digests


def test_nothing_in_a_manifest_tells_host_user_or_time(
    document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    export = Export(page="residual_health", saved=SETTING, record=record_of(document))
    here = manifest_text(export, {})
    monkeypatch.setenv("HOSTNAME", "elsewhere")
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert manifest_text(export, {}) == here
    assert set(json.loads(here)) == {
        "schema", "version", "page", "query", "setting", "batch", "pins", "record", "versions", "files",
    }  # fmt: skip


def test_figure_pages_of_the_zip_load_the_one_library_beside_them(document: dict[str, Any]) -> None:
    page = bundle_files(observe_contents(document), EXPORT)["figures/activation-ratio.html"].decode()
    assert '<script src="../plotly.min.js"></script>' in page
    assert len(page) < 100_000


def hostile(**changes: Any) -> bytes:
    document = json.loads(manifest_text(EXPORT, {}))
    return json.dumps({**document, **changes}).encode()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"[" * 100_000, "nests deeper"),
        (b'{"schema": "depthscope.manifest/1", "schema": "x"}', "twice"),
        (b'{"schema": NaN}', "NaN"),
        (b'{"a": 1e999}', "too large"),
        (b" " * (2**20 + 1), "larger than"),
        (b"{}", "is no depthscope.manifest/1 manifest"),
        (b"[1]", "is no depthscope.manifest/1 manifest"),
        (hostile(extra=1), "unknown key 'extra'"),
        (hostile(setting=[1]), "has no setting"),
        (hostile(batch=3), "holds a batch that is 3"),
        (hostile(page=7), "names no page"),
        (hostile(pins=[{}] * 5), "at most 4"),
        (hostile(pins=[{"setting": {}, "x": 1}]), "unknown key 'x'"),
        (hostile(pins=["a"]), "must be an object"),
    ],
)  # fmt: skip
def test_a_hostile_manifest_is_one_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(StorageError) as refusal:
        read_manifest(data)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 300
