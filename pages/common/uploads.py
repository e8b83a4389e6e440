"""A visitor's own weights: one model at a time, in a private folder that is deleted with the session or the next model.

Files are screened by the audit's intake, which checks counts, sizes, names, headers and code before anything is
written.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from core.audit.intake.several import MOST_FILES, Given, received_files
from core.audit.intake.weight_files import CONFIG
from core.lab.view import plural

MAX_MEGABYTES = 200
UNPACKED_BYTES = 2**29
LIMITS = (
    f"A config.json of at most 1 MB; or it with its safetensors, at most {MOST_FILES} files of {MAX_MEGABYTES} MB and "
    f"{UNPACKED_BYTES // 2**20} MB in all; or a zip of the folder that a model was saved to. Nothing is fetched, no "
    "code of yours is run, pickles are refused, and the files go with your session."
)


@dataclass(frozen=True)
class Upload:
    """A screened upload: the name for display, the path of its folder, and the digests of all bytes and its config."""

    name: str
    path: Path
    digest: str
    config: str


class Room:
    """The private folder of one session, with the upload in it."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.upload: Upload | None = None

    def take(self, files: Sequence[Given]) -> bytes:
        """Replace the present upload by a new one; return the bytes of its config.

        Raises `DepthscopeError` if it is refused, and keeps no upload.
        """
        self.clear()
        self._folder = tempfile.TemporaryDirectory(prefix="depthscope-upload-", ignore_cleanup_errors=True)
        try:
            path = received_files(files, Path(self._folder.name), max_bytes=UNPACKED_BYTES)
            config = (path / CONFIG).read_bytes()
        except BaseException:
            self.clear()
            raise
        self.upload = Upload(titled(files), path, _digest(files), digest_of(config))
        return config

    def clear(self) -> None:
        """Delete the files in the folder."""
        self.upload = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


@st.cache_resource(scope="session", show_spinner=False, on_release=Room.clear)
def room() -> Room:
    """Return the session's room; Streamlit deletes it when the session ends."""
    return Room()


def keep_only(digest: str) -> None:
    """Delete the upload unless its config has this digest."""
    upload = room().upload
    if upload is not None and upload.config != digest:
        room().clear()


def digest_of(config: bytes) -> str:
    """Return the digest of a config that stands for it in links."""
    return hashlib.sha256(config).hexdigest()[:16]


def titled(files: Sequence[Given]) -> str:
    """Return the upload's name for display: the name of the first file, and how many more there are."""
    more = len(files) - 1
    return files[0].name + (f" and {plural(more, 'more file')}" if more else "")


def _digest(files: Sequence[Given]) -> str:
    """Return one digest of all names and bytes; it does not depend on the order of the files."""
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.name):
        file.stream.seek(0)
        digest.update(f"{len(files)} {file.name} {file.size}\n".encode())
        while chunk := file.stream.read(2**20):
            digest.update(chunk)
        file.stream.seek(0)
    return digest.hexdigest()
