"""A batch: rows of token ids with targets, validity and segments, padded on the right to one length."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import BatchError, ObservationError, shown
from ..numerals import SPACES, whole_number
from .config import DecoderConfig

Rows = Sequence[Sequence[int]]

PAD_ID = 0
FIRST_BYTE_ID = 10
TEXT_START, TEXT_END = 0, 1
CHAPTER_INPUTS = ((0, 99, 100, 101),)
CHAPTER_TARGETS = ((99, 100, 101, 1),)
MAX_TOKENS = 2**20
BATCH_KEYS = ("inputs", "targets", "valid", "segments")


@dataclass(frozen=True, eq=False)
class Batch:
    """B rows of T positions; every array is `[B, T]`. Equal batches compare equal and have the same hash.

    `inputs` and `targets` are token ids. `valid` says which positions enter the loss and the statistics; it does not
    change attention. `present` is False on padding. `segments` numbers the texts packed into one row. A token attends
    to itself and to every earlier present token of its segment; `positions` start again at 0 in each segment.
    """

    inputs: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_]
    present: npt.NDArray[np.bool_]
    segments: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]

    @classmethod
    def from_rows(
        cls,
        inputs: Rows,
        targets: Rows,
        valid: Sequence[Sequence[bool]] | None = None,
        segments: Rows | None = None,
    ) -> Batch:
        """Return a batch from rows, which may differ in length and are padded on the right.

        `valid` and `segments` have one entry per input; by default every position is valid and each row is one segment.
        Raises `BatchError` for rows that are empty, too long, of the wrong type or of other lengths than the inputs,
        and for a segment number that returns later in its row; `ObservationError` if no position is valid.
        """
        rows, wanted = _rows("inputs", inputs), _rows("targets", targets)
        lengths = [len(row) for row in rows]
        _check_tokens(lengths)
        _check_lengths("targets", wanted, lengths)
        flags = [[True] * length for length in lengths] if valid is None else _rows("valid", valid)
        _check_lengths("valid", flags, lengths)
        parts = [[0] * length for length in lengths] if segments is None else _rows("segments", segments)
        _check_lengths("segments", parts, lengths)
        if not any(flag for row in flags for flag in row):
            raise ObservationError("No position is valid; mark at least one position valid.")
        offsets = [_segment_positions(index, row) for index, row in enumerate(parts)]
        return cls(
            inputs=_padded(rows, PAD_ID, np.int64),
            targets=_padded(wanted, PAD_ID, np.int64),
            valid=_padded(flags, False, np.bool_),
            present=_padded([[True] * length for length in lengths], False, np.bool_),
            segments=_padded(parts, -1, np.int64),
            positions=_padded(offsets, 0, np.int64),
        )

    @classmethod
    def from_document(cls, document: object) -> Batch:
        """Return a batch from its JSON form: an object with `inputs`, `targets` and optionally `valid` and `segments`.

        Each holds a list of rows. Raises `BatchError` for missing or unknown keys, and the errors of `from_rows`.
        """
        if not isinstance(document, Mapping):
            raise BatchError("A batch is a JSON object with the keys inputs and targets.")
        unknown = [str(key)[:40] for key in document if key not in BATCH_KEYS]
        if unknown:
            raise BatchError(f"The batch has the unknown key {unknown[0]!r}; it may hold {', '.join(BATCH_KEYS)}.")
        for key in ("inputs", "targets"):
            if key not in document:
                raise BatchError(f"The batch lacks the key {key}; give one row of {key} for each row of ids.")
        for key in ("valid", "segments"):
            if key in document and document[key] is None:
                raise BatchError(f"The batch's {key} is null; give one row of {key} for each row of ids, or no {key}.")
        return cls.from_rows(document["inputs"], document["targets"], document.get("valid"), document.get("segments"))

    @classmethod
    def from_text(cls, text: str) -> Batch:
        """Return a batch of one row from text: id 0, then byte + 10 for every UTF-8 byte.

        Targets are the next ids, then 1. This is a convention of this project for its vocabulary of 266 ids: ten
        reserved ids, then 256 bytes. Raises `BatchError` for empty text.
        """
        if not text:
            raise BatchError("The text is empty; type at least one character.")
        ids = [byte + FIRST_BYTE_ID for byte in text.encode("utf-8", errors="surrogatepass")]
        return cls.from_rows([[TEXT_START, *ids]], [[*ids, TEXT_END]])

    @property
    def longest(self) -> int:
        """The length T of the longest row, in positions."""
        return int(self.inputs.shape[1])

    @property
    def valid_count(self) -> int:
        """The number of valid positions over all rows."""
        return int(self.valid.sum())

    def check(self, config: DecoderConfig) -> None:
        """Raise `BatchError` if a decoder of these sizes cannot run the batch.

        The reasons are an id outside the vocabulary, at a valid position or not, and a segment longer than
        `config.positions`.
        """
        for label, ids in (("input", self.inputs), ("target", self.targets)):
            outside = self.present & ((ids < 0) | (ids >= config.vocabulary))
            if outside.any():
                row, position = np.argwhere(outside)[0]
                raise BatchError(
                    f"The {label} id {ids[row, position]} in row {row}, position {position}, is outside the "
                    f"vocabulary of {config.vocabulary}; ids run from 0 to {config.vocabulary - 1}."
                )
        needed = int(self.positions.max()) + 1
        if needed > config.positions:
            raise BatchError(
                f"A row needs {needed} positions but the decoder has {config.positions}; shorten the row or raise "
                "the positions."
            )

    def attention_mask(self) -> npt.NDArray[np.bool_]:
        """Return a boolean mask `[B, T, T]`: entry (b, i, j) is True if position i of row b may attend to position j.

        It is True where j = i, and where j < i is present and of the same segment.
        """
        causal = np.tri(self.longest, dtype=bool)
        same = self.segments[:, :, None] == self.segments[:, None, :]
        allowed = causal & same & self.present[:, None, :]
        allowed |= np.eye(self.longest, dtype=bool)
        return np.asarray(allowed)

    def document(self) -> dict[str, Any]:
        """Return the batch as JSON values: `inputs`, `targets`, `valid` and `segments`, as rows without padding."""
        return {
            "inputs": _unpadded(self.inputs, self.present),
            "targets": _unpadded(self.targets, self.present),
            "valid": _unpadded(self.valid, self.present),
            "segments": _unpadded(self.segments, self.present),
        }

    def digest(self) -> str:
        """Return the SHA-256 of shape and padded arrays as hexadecimal text.

        It identifies a batch in caches and stores.
        """
        state = hashlib.sha256(repr(self.inputs.shape).encode())
        for array in (self.inputs, self.targets, self.valid, self.present, self.segments):
            state.update(array.tobytes())
        return state.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Batch) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())


def chapter_batch() -> Batch:
    """Return the batch of the published example: one row of four valid positions, inputs 0, 99, 100, 101."""
    return Batch.from_rows(CHAPTER_INPUTS, CHAPTER_TARGETS)


def parse_rows(label: str, text: str) -> list[list[int]]:
    """Return rows of ids from text such as `0,99,100;0,99`: ids separated by commas, rows by semicolons.

    `label` names the rows in errors. Raises `BatchError` for a cell that is not a whole number below 10^18 in
    magnitude.
    """
    rows = []
    for index, row in enumerate(text.split(";")):
        ids = []
        for cell in row.split(",") if row.strip(SPACES) else []:
            number = whole_number(cell)
            if number is None or abs(number) >= 10**18:
                raise BatchError(
                    f"Row {index} of {label} holds {cell.strip(SPACES)[:40]!r}, which is not a whole number; separate "
                    "ids by commas and rows by semicolons."
                )
            ids.append(number)
        rows.append(ids)
    return rows


def _rows(label: str, rows: object) -> list[list[Any]]:
    if isinstance(rows, np.ndarray):
        rows = rows.tolist()
    if not isinstance(rows, list | tuple) or not all(isinstance(row, list | tuple | np.ndarray) for row in rows):
        raise BatchError(f"{label} must be a list of rows, each a list.")
    if not rows:
        raise BatchError(f"{label} has no rows; give at least one row.")
    read = _flags if label == "valid" else _ids
    return [read(label, index, row.tolist() if isinstance(row, np.ndarray) else row) for index, row in enumerate(rows)]


def _ids(label: str, index: int, row: Sequence[Any]) -> list[Any]:
    if not row:
        raise BatchError(f"Row {index} of {label} is empty; give at least one id a row.")
    for value in row:
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise BatchError(f"Row {index} of {label} holds {shown(value)}, which is not a whole number.")
        if abs(int(value)) >= 2**62:
            raise BatchError(f"Row {index} of {label} holds a number past 2^62, which no vocabulary reaches.")
    return [int(value) for value in row]


def _flags(label: str, index: int, row: Sequence[Any]) -> list[Any]:
    for value in row:
        if not isinstance(value, bool | np.bool_):
            raise BatchError(f"Row {index} of {label} holds {shown(value)}; use true and false.")
    return [bool(value) for value in row]


def _check_tokens(lengths: list[int]) -> None:
    padded = len(lengths) * max(lengths)
    if padded > MAX_TOKENS:
        raise BatchError(f"The batch has {padded:,} positions with padding; the limit is {MAX_TOKENS:,}.")


def _check_lengths(label: str, rows: Sequence[Sequence[object]], lengths: list[int]) -> None:
    if len(rows) != len(lengths):
        raise BatchError(f"There are {len(lengths)} rows of inputs but {len(rows)} of {label}; give as many of each.")
    for index, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        if len(row) != length:
            raise BatchError(
                f"Row {index} has {length} inputs but {len(row)} entries of {label}; give one for each input."
            )


def _segment_positions(index: int, row: Sequence[int]) -> list[int]:
    positions: list[int] = []
    seen: set[int] = set()
    for segment, run in groupby(row):
        if segment in seen:
            raise BatchError(
                f"Segment {segment} returns in row {index} after another one; number each packed segment anew."
            )
        seen.add(segment)
        positions += range(len(list(run)))
    return positions


def _padded(rows: Sequence[Sequence[Any]], fill: Any, dtype: Any) -> npt.NDArray[Any]:
    out = np.full((len(rows), max(len(row) for row in rows)), fill, dtype=dtype)
    for index, row in enumerate(rows):
        out[index, : len(row)] = row
    return out


def _unpadded(array: npt.NDArray[Any], present: npt.NDArray[np.bool_]) -> list[list[Any]]:
    return [row[kept].tolist() for row, kept in zip(array, present, strict=True)]
