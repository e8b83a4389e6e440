"""A visitor's own model: one at a time, in a private folder that is deleted with the session or by the next upload."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from core.audit.intake.several import MOST_FILES, Given, received_files
from core.audit.intake.target import path_task
from core.decoder.config import Budget
from core.errors import BudgetError, DepthscopeError
from core.lab.view import plural
from pages.common import panels

MAX_MEGABYTES = 200
UNPACKED_BYTES = 2**29
LIMITS = (
    f"A config.json of at most 1 MB; or it with its safetensors, at most {MOST_FILES} files of {MAX_MEGABYTES} MB and "
    f"{UNPACKED_BYTES // 2**20} MB in all; or a zip of the folder that a model was saved to. Pickles, links, code and "
    "quantized weights are refused; nothing is fetched, and the files go with your session."
)
# Session entries: the number of uploads, which is part of the uploader's key; the last refused upload, and why.
ROUND, REFUSED, REFUSAL = "model uploads", "model upload refused", "model upload refusal"


@dataclass(frozen=True)
class Upload:
    """An uploaded model that was accepted: its name, the path of its config or folder, its size, and its digest.

    `too_large` is the error that its sizes cause, or None if it can be audited as it is.
    """

    name: str
    path: Path
    size: int
    digest: str
    too_large: BudgetError | None = None


class Room:
    """The private folder of one session, with the uploaded model in it."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.upload: Upload | None = None

    def take(self, files: Sequence[Given], budget: Budget) -> None:
        """Replace the uploaded model by a new one.

        Raises `DepthscopeError` if it is refused; then there is no model.
        """
        self.clear()
        self._folder = tempfile.TemporaryDirectory(prefix="depthscope-upload-", ignore_cleanup_errors=True)
        try:
            path = received_files(files, Path(self._folder.name), max_bytes=UNPACKED_BYTES)
        except BaseException:
            self.clear()
            raise
        name = titled(files)
        size = sum(file.size for file in files)
        self.upload = Upload(name, path, size, _digest(files), _too_large(path, budget, name))

    def clear(self) -> None:
        """Delete the uploaded model and the folder."""
        self.upload = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


@st.cache_resource(scope="session", show_spinner=False, on_release=Room.clear)
def room() -> Room:
    """Return the folder of this session; Streamlit deletes it when the session ends."""
    return Room()


def uploader(budget: Budget) -> None:
    """Draw the file uploader; accepted files are removed from it, and so from the server's memory."""
    number = st.session_state.setdefault(ROUND, 0)
    st.file_uploader(
        "Your model: config.json, with its safetensors or without, or a zipped folder",
        type=["json", "safetensors", "zip"], accept_multiple_files=True, key=f"model-file-{number}",
        max_upload_size=MAX_MEGABYTES, on_change=_take, args=(number, budget),
        help="Drop config.json and model.safetensors together to have stored weights audited; the config alone has "
        "its family draw them anew.",
    )  # fmt: skip


def remove() -> None:
    """Callback of the button Remove: delete the uploaded model, or forget the refused one."""
    room().clear()
    st.session_state[REFUSAL] = st.session_state[REFUSED] = None


def titled(files: Sequence[Given]) -> str:
    """Return the name of an upload for display: that of the first file, and how many more there are."""
    more = len(files) - 1
    return files[0].name + (f" and {plural(more, 'more file')}" if more else "")


def _take(number: int, budget: Budget) -> None:
    given = [Given(file.name, file, file.size) for file in st.session_state.get(f"model-file-{number}") or ()]
    if not given:
        return
    st.session_state[ROUND], st.session_state[REFUSAL], st.session_state[REFUSED] = number + 1, None, None
    try:
        room().take(given, budget)
    except DepthscopeError as error:
        st.session_state[REFUSAL] = panels.of_file(given[0].name, error)
        st.session_state[REFUSED] = (titled(given), sum(file.size for file in given))


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


def _too_large(path: Path, budget: Budget, name: str) -> BudgetError | None:
    """Return the error of a model that exceeds the page's budget, else None; further errors are found by the audit."""
    try:
        path_task(path, budget, shrink=False, source=name)
    except BudgetError as error:
        return error
    except DepthscopeError:
        return None
    return None
