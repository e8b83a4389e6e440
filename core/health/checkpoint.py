"""A folder that keeps the finished steps of one block-by-block run, so that a killed run goes on where it was.

Each step is one file that appears under its name only when it is complete: the tensors of its record as safetensors,
then the SHA-256 of the run's identity, the file's name and the tensors. `checkpoint.json` is the identity in words.

A folder of another run is refused, and so is one that holds anything else. Steps rest on earlier ones, so a step that
is damaged or missing while later ones are there is refused too. Where the last step is damaged, everything that it was
computed from is intact: it is computed again, and that is said.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from .. import __version__
from ..canonical import canonical_json
from ..decoder.profile import Record
from ..errors import Remedy, StorageError, shown
from ..files import clear, is_room, replacing, write_text
from ..locks import made_and_locked
from ..strict_json import read_json

SCHEMA = "depthscope.checkpoint/1"
RECORD, LOCK = "checkpoint.json", ".checkpoint.lock"
STEP = re.compile(r"pass-\d+\.[a-z]+(-[a-z0-9]+)*\.step")
MAX_RECORD_BYTES = 2**20
DIGEST_BYTES = 32


class Checkpoint:
    """The folder of finished steps of one run; open it with `Checkpoint.opened`. Failures raise `StorageError`.

    The run must ask for its steps in the order in which they are computed. `kept` is the number of step files that were
    there at opening. `say(sentence)` is called if a damaged last step has to be computed again.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], say: Callable[[str], None]) -> None:
        self.path, self._say = folder, say
        self._identity = hashlib.sha256(canonical_json(identity).encode()).digest()
        self._unread = _claimed(folder, identity)
        self.kept = len(self._unread)

    @classmethod
    @contextmanager
    def opened(
        cls,
        folder: str | os.PathLike[str],
        identity: Mapping[str, Any],
        say: Callable[[str], None] = lambda sentence: None,
    ) -> Iterator[Checkpoint]:
        """A context that gives the `Checkpoint` in `folder`, which is created if missing and locked until exit.

        `identity` maps the name of each setting that can change the result to its value. `say(sentence)` receives a
        message if a damaged last step is computed again. Raises `StorageError` if another process holds the folder, or
        if it holds another run or anything else.
        """
        place = Path(folder)
        busy = StorageError(
            f"Another process keeps its run in the folder {place}", "wait until it has ended", Remedy.CHECKPOINT
        )
        with made_and_locked(place, LOCK, busy):
            yield cls(place, identity, say)

    def journal(self, number: int) -> PassJournal:
        """Return the journal (store of finished steps) of pass `number`, counted from 1."""
        return PassJournal(self, f"pass-{number}.")

    def find(self, file: str) -> Record | None:
        """Return the record stored in `file`, a dict of tensors; None if the step must be computed.

        Raises `StorageError` if the file is missing or damaged while files of later steps exist.
        """
        present = file in self._unread
        self._unread.discard(file)
        record = self._read(file) if present else None
        if record is None and self._unread:
            raise StorageError(
                f"The checkpoint {self.path} has lost {file}, missing or damaged, and later blocks rest on it",
                Remedy.CHECKPOINT,
            )
        if record is None and present:
            self._say(f"The last file of the checkpoint, {self.path / file}, is damaged; its block is computed again.")
        return record

    def keep(self, file: str, record: Record) -> None:
        """Write a record to `file`, either completely or not at all. Raises `StorageError` if it cannot be written."""
        payload = save({name: value.cpu().contiguous() for name, value in record.items()})
        try:
            with replacing(self.path / file) as (aside,):
                aside.write_bytes(payload + self._digest(file, payload))
        except OSError as error:
            raise StorageError(
                f"The checkpoint {self.path} cannot be written: {error.strerror or error}; finished blocks are kept, "
                "so free space and run it again."
            ) from error

    def _read(self, file: str) -> Record | None:
        """Return the record of a whole file; None if it is damaged."""
        try:
            data = (self.path / file).read_bytes()
        except OSError as error:
            raise StorageError(f"The file {self.path / file} cannot be read: {error.strerror or error}.") from error
        payload, digest = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
        if digest != self._digest(file, payload):
            return None
        try:
            found: Record = load(payload)
        except SafetensorError:
            return None
        return found

    def _digest(self, file: str, payload: bytes) -> bytes:
        return hashlib.sha256(self._identity + file.encode() + b"\0" + payload).digest()


class PassJournal:
    """The `Journal` of one pass of a run: a store of its finished steps in the folder of a checkpoint."""

    def __init__(self, checkpoint: Checkpoint, prefix: str) -> None:
        self._checkpoint, self._prefix = checkpoint, prefix

    def find(self, name: str) -> Record | None:
        """Return the record of the step `name`, a dict of tensors; None if it must be computed."""
        return self._checkpoint.find(f"{self._prefix}{name}.step")

    def keep(self, name: str, record: dict[str, torch.Tensor]) -> None:
        """Store the record of the step `name`."""
        self._checkpoint.keep(f"{self._prefix}{name}.step", record)


def _claimed(folder: Path, identity: Mapping[str, Any]) -> set[str]:
    """Return the names of the steps in a locked folder, which becomes this run's if it is empty."""
    # No other process writes here now, so whatever is left aside is that of a killed one.
    clear(folder, 0.0)
    names = {name for name in os.listdir(folder) if name != LOCK and not is_room(name)}
    steps = {name for name in names if STEP.fullmatch(name)}
    foreign = sorted(names - steps - {RECORD})
    if foreign:
        raise StorageError(
            f"The folder {folder} holds {shown(foreign[0])}, which no checkpoint put there", Remedy.CHECKPOINT
        )
    if RECORD in names:
        _check_identity(folder, identity)
    elif steps:
        raise StorageError(f"The folder {folder} holds steps of a run without its {RECORD}", Remedy.CHECKPOINT)
    else:
        document = {"schema": SCHEMA, "version": __version__, "run": dict(identity)}
        write_text(folder / RECORD, json.dumps(document, indent=1, allow_nan=False) + "\n")
    return steps


def _check_identity(folder: Path, identity: Mapping[str, Any]) -> None:
    """Raise `StorageError`, naming the first setting that differs, if the folder is of another run."""
    try:
        document = read_json(folder / RECORD, name=RECORD, max_bytes=MAX_RECORD_BYTES)
    except StorageError as error:
        raise StorageError(f"{error.sentence.removesuffix('.')} in {folder}", Remedy.CHECKPOINT) from error
    stored = document.get("run") if isinstance(document, dict) and document.get("schema") == SCHEMA else None
    if not isinstance(stored, dict):
        raise StorageError(f"The {RECORD} in {folder} is not a checkpoint's", Remedy.CHECKPOINT)
    for name in [*identity, *stored]:
        ours, theirs = identity.get(name), stored.get(name)
        if ours != theirs:
            raise StorageError(
                f"The checkpoint in {folder} is of another run: {name} is {shown(theirs)} there and {shown(ours)} here",
                Remedy.CHECKPOINT,
            )
