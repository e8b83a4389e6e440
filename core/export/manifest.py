"""The manifest of an exported page: all that is needed to reproduce it, and nothing on where or when it was made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .. import __version__
from ..errors import StorageError, shown
from ..strict_json import JsonValue, parse_json

SCHEMA = "depthscope.manifest/1"
KEYS = ("schema", "version", "page", "query", "setting", "batch", "pins", "record", "versions", "files")
PIN_KEYS = ("name", "setting", "batch")
PACKAGES = ("matplotlib", "numpy", "pandas", "plotly", "streamlit", "torch")
MAX_PINS = 4
# Of an observe document, what says how its decoders came to be.
RECORD_KEYS = (
    "config", "seed", "dtype", "recipe", "policy_id", "base_initializer_id", "factor", "band", "initial_rng_state",
    "final_rng_state",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SavedSetting:
    """The values of a page's controls by name, and the batch if it was typed or uploaded.

    `name` is that of a saved (pinned) setting, empty for the page's own.
    """

    setting: Mapping[str, JsonValue]
    batch: Mapping[str, JsonValue] | None = None
    name: str = ""

    def document(self) -> dict[str, Any]:
        """Return the setting as a dict for JSON."""
        return {"name": self.name, "setting": dict(self.setting), "batch": self.batch}


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A manifest that was read: the name of its page, the page's setting and its saved (pinned) settings."""

    page: str
    saved: SavedSetting
    pins: tuple[SavedSetting, ...] = ()
    version: str = __version__


@dataclass(frozen=True, kw_only=True)
class Export:
    """What a manifest is written from.

    The page, its setting and saved (pinned) settings, the query of its link, and `record`, how its decoder was made.
    """

    page: str
    saved: SavedSetting
    query: str = ""
    pins: Sequence[SavedSetting] = ()
    record: Mapping[str, Any] = field(default_factory=dict)


def record_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return those entries of an `observe` document that say how its decoders were made."""
    return {key: document[key] for key in RECORD_KEYS if key in document}


def manifest_text(export: Export, files: Mapping[str, bytes]) -> str:
    """Return the manifest as JSON text; `files` maps the paths of all other files to their bytes, for the digests."""
    document = {
        "schema": SCHEMA,
        "version": __version__,
        "page": export.page,
        "query": export.query,
        "setting": dict(export.saved.setting),
        "batch": export.saved.batch,
        "pins": [pin.document() for pin in export.pins],
        "record": dict(export.record),
        "versions": {name: package_version(name) for name in PACKAGES},
        "files": {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)},
    }
    return json.dumps(document, allow_nan=False, indent=1, ensure_ascii=False) + "\n"


def read_manifest(data: bytes) -> Manifest:
    """Return the manifest in untrusted bytes: strict JSON of at most 1 MB with known keys. Raises `StorageError`.

    The values of the settings are not checked here; the controls of the page do that.
    """
    document = parse_json(data, source="The manifest")
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise StorageError(f"The file is no {SCHEMA} manifest; upload the manifest.json of an exported page.")
    _known("The manifest", document, KEYS)
    page, found = document.get("page"), document.get("version")
    if not isinstance(page, str) or not isinstance(found, str):
        raise StorageError("The manifest names no page or no version; upload the manifest.json of an exported page.")
    pins = document.get("pins", [])
    if not isinstance(pins, list) or len(pins) > MAX_PINS:
        raise StorageError(f"The manifest's pins are not a list of at most {MAX_PINS} settings.")
    return Manifest(
        page=page,
        saved=_saved(document, "The manifest"),
        pins=tuple(_pin(pin, index) for index, pin in enumerate(pins)),
        version=found,
    )


def _pin(value: JsonValue, index: int) -> SavedSetting:
    source = f"Pin {index} of the manifest"
    if not isinstance(value, dict):
        raise StorageError(f"{source} is {shown(value)}; it must be an object.")
    _known(source, value, PIN_KEYS)
    return _saved(value, source)


def _saved(document: Mapping[str, JsonValue], source: str) -> SavedSetting:
    setting, batch, name = document.get("setting"), document.get("batch"), document.get("name", "")
    if not isinstance(setting, dict):
        raise StorageError(f"{source} has no setting; it must be an object of control values.")
    if batch is not None and not isinstance(batch, dict):
        raise StorageError(f"{source} holds a batch that is {shown(batch)}; it must be an object or null.")
    if not isinstance(name, str):
        raise StorageError(f"{source} has a name that is {shown(name)}; it must be text.")
    return SavedSetting(setting=setting, batch=batch, name=name[:60])


def _known(source: str, document: Mapping[str, JsonValue], keys: Sequence[str]) -> None:
    for key in document:
        if key not in keys:
            raise StorageError(f"{source} has the unknown key {shown(key)}; it may hold {', '.join(keys)}.")


def package_version(package: str) -> str:
    """Return the installed version of a package as text, or "not installed"."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
