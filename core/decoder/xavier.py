"""Xavier uniform matrices and named parameters, drawn transactionally from one stream.

Source: X. Glorot and Y. Bengio, AISTATS 2010, proceedings pages 249 to 256, normalized initialization: target
variance 2 / (fan_in + fan_out), uniform on [-a, a) with a = sqrt(6 / (fan_in + fan_out)).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from core.decoder.splitmix64 import MASK, FloatArray, SplitMix64
from core.errors import (
    AllocationFailed,
    DuplicateName,
    EmptyName,
    EmptyNameSegment,
    FanSumOverflow,
    FanTypeError,
    InvalidNameCharacter,
    NonfiniteValues,
    ShapeProductOverflow,
    ZeroFanIn,
    ZeroFanOut,
    shown,
)


@dataclass(frozen=True)
class XavierScale:
    """Scale of one `[fan_in, fan_out]` matrix: variance in squared weight units, the rest in weight units."""

    fan_in: int
    fan_out: int
    target_variance: float
    standard_deviation: float
    uniform_limit: float


def xavier_scale(fan_in: int, fan_out: int) -> XavierScale:
    """Scale of a matrix; refuses, in this order, wrong types, zero fans and a fan sum past 2^64 - 1."""
    fan_in, fan_out = _checked_fans(fan_in, fan_out)
    if fan_in == 0:
        raise ZeroFanIn("fan_in is 0; a matrix needs at least one input.")
    if fan_out == 0:
        raise ZeroFanOut("fan_out is 0; a matrix needs at least one output.")
    if fan_in + fan_out > MASK:
        raise FanSumOverflow(f"fan_in {fan_in} plus fan_out {fan_out} passes 2^64 - 1; choose smaller fans.")
    variance = 2.0 / float(fan_in + fan_out)
    limit = math.sqrt(6.0 / float(fan_in + fan_out))
    return XavierScale(fan_in, fan_out, variance, math.sqrt(variance), limit)


def validate_name(name: str) -> None:
    """Refuse a name that is not dot-separated segments of lowercase ASCII letters, digits and underscores."""
    # Text from outside may hold half a surrogate pair; its bytes are named like any others.
    encoded = name.encode("utf-8", "surrogatepass")
    if not encoded:
        raise EmptyName("The parameter name is empty; give it at least one letter, digit or underscore.")
    after_dot = True
    for index, byte in enumerate(encoded):
        if byte == ord("."):
            if after_dot:
                raise EmptyNameSegment(index)
            after_dot = True
        elif chr(byte) in "abcdefghijklmnopqrstuvwxyz0123456789_":
            after_dot = False
        else:
            raise InvalidNameCharacter(index, byte)
    if after_dot:
        raise EmptyNameSegment(len(encoded))


def uniform_from_units(units: FloatArray, limit: float | FloatArray) -> None:
    """Turn units u in [0, 1) into limit * (2 u - 1) in place, in this order of roundings."""
    units *= 2.0
    units -= 1.0
    units *= limit


def checked_elements(fan_in: int, fan_out: int) -> int:
    """fan_in * fan_out, refused past 2^64 - 1 and then past this machine's memory."""
    elements = fan_in * fan_out
    if elements > MASK:
        raise ShapeProductOverflow(f"The matrix shape [{fan_in}, {fan_out}] passes 2^64 - 1 elements.")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if 8 * elements > memory:
        raise AllocationFailed(
            f"The matrix shape [{fan_in}, {fan_out}] needs {8 * elements:,} bytes; this machine has {memory:,}."
        )
    return elements


@dataclass(frozen=True, eq=False)
class Leaf:
    """The one trainable tensor behind a parameter; equality is identity, values are binary64."""

    values: FloatArray


@dataclass(frozen=True)
class NamedParameter:
    """A stable name paired with one leaf. A clone shares the leaf; a recreated parameter does not."""

    name: str
    leaf: Leaf = field(repr=False)

    @classmethod
    def from_values(cls, name: str, values: npt.ArrayLike) -> NamedParameter:
        """Name finite values given by hand; the values are copied."""
        validate_name(name)
        array = np.array(values, dtype=np.float64)
        if not np.isfinite(array).all():
            raise NonfiniteValues(f"The values of {name} are not all finite; give finite numbers.")
        return cls(name, Leaf(array))

    @classmethod
    def xavier_uniform(cls, name: str, fan_in: int, fan_out: int, generator: SplitMix64) -> NamedParameter:
        """Draw one matrix row by row; `generator` advances only after everything succeeded.

        The first fault in the order type, name, zero fan_in, zero fan_out, fan sum, shape product, allocation is
        the one reported.
        """
        fan_in, fan_out = _checked_fans(fan_in, fan_out)
        validate_name(name)
        scale = xavier_scale(fan_in, fan_out)
        elements = checked_elements(fan_in, fan_out)
        trial = generator.clone()
        try:
            values = trial.next_units(elements)
            uniform_from_units(values, scale.uniform_limit)
        except MemoryError as error:
            raise AllocationFailed(f"No storage for the {elements:,} values of {name}.") from error
        parameter = cls(name, Leaf(values.reshape(fan_in, fan_out)))
        generator.commit(trial)
        return parameter

    @property
    def values(self) -> FloatArray:
        """Stored values, `[fan_in, fan_out]` for a matrix."""
        return self.leaf.values

    def clone(self) -> NamedParameter:
        """The same name on the same leaf."""
        return NamedParameter(self.name, self.leaf)

    def is_same_leaf(self, other: NamedParameter) -> bool:
        """Whether both names read one stored tensor."""
        return self.leaf is other.leaf


class NamedParameters:
    """A collection in declaration order without repeated names; raises `DuplicateName` with both indices."""

    def __init__(self, parameters: Iterable[NamedParameter]) -> None:
        self._parameters: dict[str, NamedParameter] = {}
        for index, parameter in enumerate(parameters):
            if parameter.name in self._parameters:
                raise DuplicateName(parameter.name, list(self._parameters).index(parameter.name), index)
            self._parameters[parameter.name] = parameter

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[NamedParameter]:
        return iter(self._parameters.values())

    def __getitem__(self, name: str) -> NamedParameter:
        return self._parameters[name]

    def __contains__(self, name: object) -> bool:
        return name in self._parameters


def _checked_fans(fan_in: object, fan_out: object) -> tuple[int, int]:
    """Both fans as Python integers, which do not wrap as fixed-width ones would."""
    checked = []
    for label, fan in (("fan_in", fan_in), ("fan_out", fan_out)):
        if isinstance(fan, bool) or not isinstance(fan, int | np.integer):
            raise FanTypeError(f"{label} is {shown(fan)}; it must be a whole number.")
        if not 0 <= int(fan) <= MASK:
            raise FanTypeError(f"{label} lies outside 0 to 2^64 - 1; choose a size that a matrix can have.")
        checked.append(int(fan))
    return checked[0], checked[1]
