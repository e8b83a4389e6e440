"""A control says what it takes, and takes no more, whichever of its limits it has."""

from __future__ import annotations

import math

import pytest

from core.errors import ConfigError, DepthscopeError
from pages.common.widgets import Control, Kind

LIMITS = [(None, None), (2.0, None), (None, 2.0), (-3.0, -1.0), (0.0, 0.0), (None, -1.0)]
WORDS = {
    (None, None): "a number that is finite",
    (2.0, None): "a number of at least 2",
    (None, 2.0): "a number of at most 2",
    (-3.0, -1.0): "a number from -3 to -1",
    (0.0, 0.0): "a number from 0 to 0",
    (None, -1.0): "a number of at most -1",
}


@pytest.mark.parametrize(("lower", "upper"), LIMITS)
@pytest.mark.parametrize("kind", ["number", "slider"])
def test_a_number_is_held_to_the_limits_that_there_are(kind: str, lower: float | None, upper: float | None) -> None:
    control = Control(name="x", label="X", kind=kind, default=1.0, lower=lower, upper=upper)  # type: ignore[arg-type]
    assert control.rule == WORDS[lower, upper]
    for value in (-1e300, -3.5, -3, -2.0, -1, -0.5, 0, 0.0, 1, 2, 2.5, 1e300):
        if (lower is None or value >= lower) and (upper is None or value <= upper):
            assert control.checked(value) == value
        else:
            with pytest.raises(ConfigError, match=r"^x is .*; it must "):
                control.checked(value)


@pytest.mark.parametrize(("lower", "upper"), LIMITS)
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 10**400, -(10**400)])
def test_what_no_control_can_show_is_refused_in_words(lower: float | None, upper: float | None, value: float) -> None:
    control = Control(name="x", label="X", kind="number", default=1.0, lower=lower, upper=upper)
    with pytest.raises(ConfigError) as refused:
        control.checked(value)
    assert "None" not in str(refused.value)
    assert str(refused.value).count(".") <= 2


@pytest.mark.parametrize("value", [3, 10**20])
def test_a_whole_number_without_limits_is_kept_exactly(value: int) -> None:
    control = Control(name="n", label="N", kind="whole", default=1)
    assert control.checked(value) == value
    with pytest.raises(ConfigError, match="whole number"):
        control.checked(float(value))


def taken(control: Control, value: object) -> object:
    """The value as the control takes it, or the sentence why not."""
    try:
        return control.checked(value)
    except DepthscopeError as refused:
        return str(refused)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("text", ["", "x"], [1, None, True, ["x"]]),
        ("toggle", [True, False], [0, 1, "true", None]),
        ("choice", ["a", "b"], ["c", None, ["a"], 1]),
        ("segments", ["a", "b"], ["c", None, {"a": 1}]),
        ("among", ["", "anything"], [None, 3, ["a"]]),
        ("recipe", ["gpt2", "lns+gpt2"], ["no recipe", "", None]),
        ("recipes", [["gpt2", "lns+gpt2"], []], ["gpt2", None, ["no recipe"], ["gpt2"] * 7]),
        ("whole", [1, 5], [0, 6, 2.0, True, "2", None, math.nan]),
        ("slider", [1, 5], [0, 6, 2.5, False, "2", None]),
    ],
)
def test_every_kind_takes_its_own_values_and_refuses_others_in_a_sentence(
    kind: Kind, good: list[object], bad: list[object]
) -> None:
    number = kind in ("whole", "slider")
    default: object = {"toggle": False, "recipes": ()}.get(kind, 1 if number else "a")
    control = Control(
        name="x", label="X", kind=kind, default=default, lower=1 if number else None, upper=5 if number else None,
        options=("a", "b"),
    )  # fmt: skip
    assert [taken(control, value) for value in good] == good
    for value in bad:
        sentence = taken(control, value)
        assert isinstance(sentence, str)
        assert sentence.endswith(".")


def test_a_choice_without_a_default_may_stay_empty() -> None:
    control = Control(name="x", label="X", kind="choice", default=None, options=("a",), takes="one of the letters")
    assert control.checked(None) is None
    with pytest.raises(ConfigError, match=r"^x is 'b'; it must be one of the letters\.$"):
        control.checked("b")
