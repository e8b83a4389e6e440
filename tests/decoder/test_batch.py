"""Batches: padding, validity, segments and visibility beside definitions by hand, and everything that is no batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from core.decoder.batch import Batch, chapter_batch, parse_rows
from core.decoder.config import DecoderConfig
from core.errors import BatchError, ObservationError
from tests.oracles.plain_decoder import make_row
from tests.support import PACKED, batch_of, refused

ROWS = [([0, 99, 100], [99, 100, 1]), ([5], [1])]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 300) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=12,
)


@st.composite
def packed_rows(draw: st.DrawFn) -> list[tuple[list[int], list[int], list[bool], list[int]]]:
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
        names = draw(st.lists(st.integers(-5, 5), min_size=len(lengths), max_size=len(lengths), unique=True))
        segments = [name for name, length in zip(names, lengths, strict=True) for _ in range(length)]
        ids = st.lists(st.integers(0, 265), min_size=len(segments), max_size=len(segments))
        valid = draw(st.lists(st.booleans(), min_size=len(segments), max_size=len(segments)))
        rows.append((draw(ids), draw(ids), valid, segments))
    assume(any(any(row[2]) for row in rows))
    return rows


@given(packed_rows())
def test_visibility_and_positions_are_those_of_each_row_alone(rows: list[Any]) -> None:
    batch = batch_of(rows)
    mask = batch.attention_mask()
    for index, row in enumerate(rows):
        plain, length = make_row(row), len(row[0])
        assert batch.positions[index, :length].tolist() == plain.positions()
        for query in range(length):
            assert np.flatnonzero(mask[index, query]).tolist() == plain.seen(query)
        assert batch.present[index].tolist() == [position < length for position in range(batch.longest)]
        assert not batch.valid[index, length:].any()
    assert mask[:, range(batch.longest), range(batch.longest)].all()
    assert batch.valid_count == sum(sum(row[2]) for row in rows)


@given(packed_rows())
def test_a_batch_comes_back_from_its_document(rows: list[Any]) -> None:
    batch = batch_of(rows)
    document = batch.document()
    assert document["inputs"] == [row[0] for row in rows]
    again = Batch.from_document(document)
    assert again.digest() == batch.digest()
    assert again.document() == document


def test_the_digest_tells_batches_apart() -> None:
    digests = {batch_of(rows).digest() for rows in (ROWS, ROWS[:1], ROWS[::-1], PACKED, [([0, 99, 100], [99, 100, 2])])}
    assert len(digests) == 5


def test_the_published_row() -> None:
    batch = chapter_batch()
    assert batch.document() == {
        "inputs": [[0, 99, 100, 101]],
        "targets": [[99, 100, 101, 1]],
        "valid": [[True] * 4],
        "segments": [[0] * 4],
    }
    assert batch.positions.tolist() == [[0, 1, 2, 3]]


def test_arrays_and_tuples_are_rows_too() -> None:
    inputs, targets = np.array([[1, 2], [3, 4]]), ((5, 6), (7, 8))
    valid = np.array([[True, False], [True, True]])
    assert Batch.from_rows(inputs, targets, valid).document()["valid"] == [[True, False], [True, True]]


class TestText:
    """Bytes plus ten, led by 0 and ending in target 1."""

    @given(st.text(min_size=1, max_size=40))
    def test_any_text(self, text: str) -> None:
        batch = Batch.from_text(text)
        ids = [byte + 10 for byte in text.encode("utf-8", "surrogatepass")]
        assert batch.inputs.tolist() == [[0, *ids]]
        assert batch.targets.tolist() == [[*ids, 1]]
        batch.check(DecoderConfig(positions=batch.longest))

    def test_bytes_of_each_length(self) -> None:
        assert Batch.from_text("aé€😀").inputs.tolist() == [[0, 97 + 10, *(b + 10 for b in "é€😀".encode())]]

    def test_no_text(self) -> None:
        with pytest.raises(BatchError, match="type at least one character"):
            Batch.from_text("")


class TestRows:
    """Rows as typed on the command line."""

    def test_commas_and_semicolons(self) -> None:
        assert parse_rows("--inputs", " 0, 99 ;5") == [[0, 99], [5]]
        assert parse_rows("--inputs", "1;") == [[1], []]
        assert parse_rows("--inputs", "-4") == [[-4]]

    @pytest.mark.parametrize(
        "text", ["1,", ",1", "a", "1.0", "1 2", "1,,2", "٣", "1e3", "--1", "0x10", "1_000", "9" * 19]
    )
    def test_what_is_no_id(self, text: str) -> None:
        with pytest.raises(BatchError, match="which is not a whole number"):
            parse_rows("--inputs", text)


class TestRefusals:
    """Each gives the row and the rule."""

    @pytest.mark.parametrize(
        ("inputs", "targets", "extra", "sentence"),
        [
            ([], [], {}, "inputs has no rows"),
            ([[]], [[]], {}, "Row 0 of inputs is empty"),
            ([[1], []], [[1], []], {}, "Row 1 of inputs is empty"),
            ([[1]], [[]], {}, "Row 0 of targets is empty"),
            ([[1, 2]], [[1]], {}, "Row 0 has 2 inputs but 1 entries of targets"),
            ([[1], [2]], [[1]], {}, "There are 2 rows of inputs but 1 of targets"),
            ([[1.0]], [[1]], {}, r"holds 1\.0, which is not a whole number"),
            ([[True]], [[1]], {}, "holds true, which is not a whole number"),
            ([["1"]], [[1]], {}, "holds '1', which is not a whole number"),
            ([[None]], [[1]], {}, "holds null, which is not a whole number"),
            ([[[10**5000]]], [[1]], {}, "holds a list, which is not a whole number"),
            ([[2**62]], [[1]], {}, r"past 2\^62"),
            ([[10**5000]], [[1]], {}, r"past 2\^62"),
            ([1], [[1]], {}, "inputs must be a list of rows"),
            ("12", [[1]], {}, "inputs must be a list of rows"),
            (None, [[1]], {}, "inputs must be a list of rows"),
            (np.array([1, 2]), [[1]], {}, "inputs must be a list of rows"),
            ([[1]], {"0": [1]}, {}, "targets must be a list of rows"),
            ([[1]], [[1]], {"valid": [[1]]}, "Row 0 of valid holds 1; use true and false"),
            ([[1]], [[1]], {"valid": [[True, True]]}, "Row 0 has 1 inputs but 2 entries of valid"),
            ([[1]], [[1]], {"valid": []}, "valid has no rows"),
            ([[1]], [[1]], {"segments": [[0, 1]]}, "Row 0 has 1 inputs but 2 entries of segments"),
            ([[1]], [[1]], {"segments": [["a"]]}, "Row 0 of segments holds 'a'"),
            ([[1, 2, 3]], [[1, 2, 3]], {"segments": [[0, 1, 0]]}, "Segment 0 returns in row 0"),
            ([[0] * 2**20, [0]], [[0] * 2**20, [0]], {}, "2,097,152 positions with padding; the limit is 1,048,576"),
        ],
    )
    def test_no_batch(self, inputs: Any, targets: Any, extra: dict[str, Any], sentence: str) -> None:
        with pytest.raises(BatchError, match=sentence):
            Batch.from_rows(inputs, targets, **extra)

    @pytest.mark.parametrize("valid", [[[False]], [[False, False], [False]]])
    def test_nothing_valid(self, valid: list[list[bool]]) -> None:
        rows = [[1] * len(row) for row in valid]
        with pytest.raises(ObservationError, match="mark at least one position valid"):
            Batch.from_rows(rows, rows, valid)

    @pytest.mark.parametrize("valid", [True, False])
    @pytest.mark.parametrize(("which", "bad"), [("input", 266), ("input", -1), ("target", 266), ("target", -100)])
    def test_every_id_lies_in_the_vocabulary_valid_or_not(self, which: str, bad: int, valid: bool) -> None:
        rows = {"input": [[1, 2], [3]], "target": [[1, 2], [3]]}
        rows[which][0][1] = bad
        batch = Batch.from_rows(rows["input"], rows["target"], [[True, valid], [True]])
        with pytest.raises(BatchError, match=f"The {which} id {bad} in row 0, position 1, is outside the vocabulary"):
            batch.check(DecoderConfig())

    def test_positions_past_the_capacity(self) -> None:
        config = DecoderConfig(positions=3)
        with pytest.raises(BatchError, match="A row needs 4 positions but the decoder has 3"):
            chapter_batch().check(config)
        Batch.from_rows([[0] * 6], [[0] * 6], None, [[0, 0, 0, 1, 1, 1]]).check(config)

    @given(JSON)
    def test_any_document_is_a_batch_or_refused(self, document: Any) -> None:
        sentence = refused(lambda: Batch.from_document(document))
        assert sentence is None or "\n" not in sentence

    @given(inputs=JSON, targets=JSON, valid=JSON, segments=JSON)
    def test_any_members_are_a_batch_or_refused(self, **document: Any) -> None:
        sentence = refused(lambda: Batch.from_document(document))
        if sentence is None:
            assert Batch.from_document(document).document()["inputs"] == document["inputs"]
        else:
            assert "\n" not in sentence

    @pytest.mark.parametrize(
        ("document", "sentence"),
        [
            ([], "A batch is a JSON object"),
            ({"inputs": [[1]]}, "lacks the key targets"),
            ({"targets": [[1]]}, "lacks the key inputs"),
            ({"inputs": [[1]], "targets": [[1]], "mask": [[True]]}, "unknown key 'mask'"),
            ({"inputs": [[math.nan]], "targets": [[1]]}, "holds nan"),
        ],
    )
    def test_documents(self, document: Any, sentence: str) -> None:
        with pytest.raises(BatchError, match=sentence):
            Batch.from_document(document)


def test_batches_are_equal_by_what_they_hold() -> None:
    assert batch_of(ROWS) == batch_of(ROWS)
    assert hash(batch_of(ROWS)) == hash(batch_of(ROWS))
    assert batch_of(ROWS) != batch_of(ROWS[::-1])
    assert batch_of(ROWS) != batch_of(ROWS).document()
