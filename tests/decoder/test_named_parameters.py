"""Parameter names, shared leaves and collections: the published rejections and the grammar written apart."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.decoder.splitmix64 import INCREMENT, MASK, SplitMix64
from core.decoder.xavier import NamedParameter, NamedParameters, validate_name
from core.errors import InitializationError

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "chapter17.json").read_text())
NAME = "decoder.block.0.attention.query.weight"


def draw(fan_in: int, fan_out: int, state: int = 17) -> NamedParameter:
    return NamedParameter.xavier_uniform(NAME, fan_in, fan_out, SplitMix64(state))


def test_the_published_collection_continues_one_stream() -> None:
    generator = SplitMix64(17)
    query = NamedParameter.xavier_uniform(NAME, 2, 2, generator)
    table = NamedParameter.xavier_uniform("token_embedding.weight", 4, 2, generator)
    collection = NamedParameters([query, table])
    listed = [f"{parameter.name} [{','.join(map(str, parameter.values.shape))}]" for parameter in collection.values()]
    assert listed == [entry.split(", drawn")[0] for entry in GOLDEN["collection"]]
    assert np.array_equal(table.values, draw(4, 2, (17 + 4 * INCREMENT) & MASK).values)
    assert len(collection) == 2
    assert collection[NAME] is query
    assert "token_embedding.weight" in collection
    assert "absent" not in collection


def test_a_clone_shares_the_leaf_and_a_recreation_does_not() -> None:
    first, again = draw(2, 2), draw(2, 2)
    clone = first.clone()
    assert clone.is_same_leaf(first)
    assert clone.name == first.name
    assert not again.is_same_leaf(first)
    assert np.array_equal(again.values, first.values)
    clone.values[0, 0] = 9.0
    assert first.values[0, 0] == 9.0
    assert again.values[0, 0] != 9.0


def test_the_published_name_rejections() -> None:
    with pytest.raises(InitializationError) as invalid:
        validate_name("Decoder.weight")
    assert (invalid.value.fault, invalid.value.facts) == ("invalid byte", {"index": 0, "byte": 0x44})
    assert GOLDEN["rejections"]["Decoder.weight"] == "uppercase byte 0x44 at byte 0"
    with pytest.raises(InitializationError) as nothing:
        validate_name("")
    assert nothing.value.fault == "empty name"
    for name, index in [(".a", 0), ("a..b", 2), ("a.", 2), (".", 0), ("..", 0)]:
        with pytest.raises(InitializationError) as empty:
            validate_name(name)
        assert (empty.value.fault, empty.value.facts) == ("empty segment", {"index": index})


@pytest.mark.parametrize(
    ("name", "index", "byte"),
    [("a-b", 1, 0x2D), ("a b", 1, 0x20), ("é", 0, 0xC3), ("a\x00", 1, 0), ("a.ß", 2, 0xC3), ("\ud800", 0, 0xED)],
    ids=ascii,
)
def test_the_first_byte_outside_the_grammar_is_named(name: str, index: int, byte: int) -> None:
    with pytest.raises(InitializationError) as caught:
        validate_name(name)
    assert (caught.value.fault, caught.value.facts) == ("invalid byte", {"index": index, "byte": byte})


def name_oracle(name: str) -> bool:
    """The grammar in one line: nonempty segments of the allowed characters."""
    allowed = set("abcdefghijklmnopqrstuvwxyz0123456789_")
    return all(segment and set(segment) <= allowed for segment in name.split("."))


@given(name=st.text("ab0_.", max_size=8) | st.text(max_size=6))
def test_any_name_is_valid_by_the_grammar_or_refused(name: str) -> None:
    if name_oracle(name):
        validate_name(name)
    else:
        with pytest.raises(InitializationError, match=r"\.$"):
            validate_name(name)


def test_the_published_duplicate() -> None:
    projection = draw(2, 2)
    with pytest.raises(InitializationError) as caught:
        NamedParameters([projection, projection.clone()])
    assert caught.value.fault == "duplicate name"
    assert caught.value.facts == {"first": 0, "repeated": 1, "name": NAME}
    assert GOLDEN["rejections"]["the same projection twice"] == "duplicate name, first 0, repeated 1"


@given(names=st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=6))
def test_the_earliest_repetition_is_reported(names: list[str]) -> None:
    parameters = [NamedParameter.from_values(name, [1.0]) for name in names]
    repeated = next((index for index, name in enumerate(names) if name in names[:index]), None)
    if repeated is None:
        assert [parameter.name for parameter in NamedParameters(parameters).values()] == names
        return
    with pytest.raises(InitializationError) as caught:
        NamedParameters(parameters)
    found = {"first": names.index(names[repeated]), "repeated": repeated, "name": names[repeated]}
    assert caught.value.facts == found


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nonfinite_values_by_hand_are_refused_after_the_name(value: float) -> None:
    for name, fault in (("a", "nonfinite"), ("A", "invalid byte")):
        with pytest.raises(InitializationError) as caught:
            NamedParameter.from_values(name, [0.0, value])
        assert caught.value.fault == fault


def test_values_by_hand_are_copied() -> None:
    given_values = np.array([[1.0, 2.0]])
    parameter = NamedParameter.from_values("a", given_values)
    given_values[0, 0] = 5.0
    assert parameter.values.tolist() == [[1.0, 2.0]]
