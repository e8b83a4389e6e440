"""A visitor's own model: one at a time, in a private folder that goes with the session or with the next upload."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import streamlit as st

from core.audit.intake.target import received
from core.errors import DepthscopeError
from pages.common import panels

MAX_MEGABYTES = 200
UNPACKED_BYTES = 2**29
LIMITS = (
    f"A config.json of at most 1 MB, or a zip of at most {MAX_MEGABYTES} MB ({UNPACKED_BYTES // 2**20} MB unpacked) of "
    "the folder that a model was saved to: config.json and safetensors. Pickles, links, code and quantized weights are "
    "refused; nothing is fetched, and the files go with your session."
)
# Session entries: how many files were taken, which names the uploader, and why the last one was refused.
ROUND, REFUSAL = "model uploads", "model upload refusal"


@dataclass(frozen=True)
class Upload:
    """A screened upload: its name as given, where its config or folder lies, its size, and the digest of its bytes."""

    name: str
    path: Path
    size: int
    digest: str


class Room:
    """The private folder of one session, with the upload that lies there."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.upload: Upload | None = None

    def take(self, name: str, stream: BinaryIO, size: int) -> None:
        """Put an upload in the place of the one before; raises its refusal, after which there is none."""
        self.clear()
        self._folder = tempfile.TemporaryDirectory(prefix="depthscope-upload-", ignore_cleanup_errors=True)
        digest = hashlib.sha256()
        while chunk := stream.read(2**20):
            digest.update(chunk)
        stream.seek(0)
        try:
            path = received(name, stream, Path(self._folder.name), max_bytes=UNPACKED_BYTES)
        except BaseException:
            self.clear()
            raise
        self.upload = Upload(name, path, size, digest.hexdigest())

    def clear(self) -> None:
        """Delete what lies there."""
        self.upload = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


@st.cache_resource(scope="session", show_spinner=False, on_release=Room.clear)
def room() -> Room:
    """The session's room; Streamlit releases it when the session ends."""
    return Room()


def uploader() -> None:
    """Draw the uploader; a file that was taken leaves it, and with it the server's memory."""
    number = st.session_state.setdefault(ROUND, 0)
    st.file_uploader(
        "Model: config.json or zipped folder", type=["json", "zip"], key=f"model-file-{number}",
        max_upload_size=MAX_MEGABYTES, on_change=_take, args=(number,),
    )  # fmt: skip


def remove() -> None:
    """Callback: delete the upload."""
    room().clear()
    st.session_state[REFUSAL] = None


def _take(number: int) -> None:
    file = st.session_state.get(f"model-file-{number}")
    if file is None:
        return
    st.session_state[ROUND], st.session_state[REFUSAL] = number + 1, None
    try:
        room().take(file.name, file, file.size)
    except DepthscopeError as error:
        st.session_state[REFUSAL] = panels.of_file(file.name, error)
