"""Xavier uniform matrices and named parameters; if a draw fails, the generator keeps its state.

Source: X. Glorot and Y. Bengio, AISTATS 2010, pages 249 to 256: normalized initialization with variance 2 / (fan_in +
fan_out), uniform on [-a, a) with a = sqrt(6 / (fan_in + fan_out)).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..errors import InitializationError, shown
from .splitmix64 import MASK, FloatArray, SplitMix64

# The first byte outside the grammar, or the place of an empty segment.
NAME_FAULT = re.compile(rb"[^a-z0-9_.]|(?:\A|(?<=\.))(?:\.|\Z)")


@dataclass(frozen=True)
class XavierScale:
    """The Xavier scale of a `[fan_in, fan_out]` matrix: entries are uniform on [-uniform_limit, uniform_limit).

    `standard_deviation` and `uniform_limit` are in weight units, `target_variance` is the square of the former.
    """

    fan_in: int
    fan_out: int
    target_variance: float
    standard_deviation: float
    uniform_limit: float


def xavier_scale(fan_in: int, fan_out: int) -> XavierScale:
    """Return the `XavierScale` of a `[fan_in, fan_out]` matrix.

    Raises `InitializationError` for a fan that is not a whole number from 0 to 2^64 - 1, then for a fan of 0, then for
    a sum of fans above 2^64 - 1.
    """
    fan_in, fan_out = _checked_fans(fan_in, fan_out)
    if fan_in == 0:
        raise InitializationError("fan_in is 0; a matrix needs at least one input.", "zero fan_in")
    if fan_out == 0:
        raise InitializationError("fan_out is 0; a matrix needs at least one output.", "zero fan_out")
    if fan_in + fan_out > MASK:
        raise InitializationError(
            f"fan_in {fan_in} plus fan_out {fan_out} passes 2^64 - 1; choose smaller fans.", "fan sum overflow"
        )
    variance = 2.0 / float(fan_in + fan_out)
    limit = math.sqrt(6.0 / float(fan_in + fan_out))
    return XavierScale(fan_in, fan_out, variance, math.sqrt(variance), limit)


def validate_name(name: str) -> None:
    """Raise `InitializationError` unless `name` is segments of `a-z`, `0-9` and `_`, separated by single dots."""
    # Text from outside may hold half a surrogate pair; its bytes are named like any others.
    encoded = name.encode("utf-8", "surrogatepass")
    if not encoded:
        raise InitializationError(
            "The parameter name is empty; give it at least one letter, digit or underscore.", "empty name"
        )
    found = NAME_FAULT.search(encoded)
    if found is None:
        return
    index = found.start()
    if found.group() in (b"", b"."):
        raise InitializationError(
            f"The parameter name has an empty segment at byte {index}; put a letter, digit or underscore "
            "on both sides of every dot.",
            "empty segment",
            index=index,
        )
    raise InitializationError(
        f"The parameter name has byte 0x{encoded[index]:02x} at byte {index}; use lowercase ASCII letters, digits, "
        "underscores and dots.",
        "invalid byte",
        index=index,
        byte=encoded[index],
    )


def uniform_from_units(units: FloatArray, limit: float | FloatArray) -> None:
    """Replace every u in [0, 1) of `units` by limit * (2 u - 1), in place; the operations are rounded in this order."""
    units *= 2.0
    units -= 1.0
    units *= limit


def checked_elements(fan_in: int, fan_out: int) -> int:
    """Return fan_in * fan_out.

    Raises `InitializationError` if it exceeds 2^64 - 1, or if so many float64 numbers exceed this machine's memory.
    """
    elements = fan_in * fan_out
    if elements > MASK:
        raise InitializationError(
            f"The matrix shape [{fan_in}, {fan_out}] passes 2^64 - 1 elements.", "shape product overflow"
        )
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if 8 * elements > memory:
        raise InitializationError(
            f"The matrix shape [{fan_in}, {fan_out}] needs {8 * elements:,} bytes; this machine has {memory:,}.",
            "allocation",
        )
    return elements


@dataclass(frozen=True, eq=False)
class NamedParameter:
    """A parameter: a name and one float64 array of values, `[fan_in, fan_out]` for a matrix.

    Copies made by `clone` share the array; a parameter that is created again has its own.
    """

    name: str
    values: FloatArray = field(repr=False)

    @classmethod
    def from_values(cls, name: str, values: npt.ArrayLike) -> NamedParameter:
        """Return a parameter with a copy of `values`.

        Raises `InitializationError` for an invalid name or values not finite.
        """
        validate_name(name)
        array = np.array(values, dtype=np.float64)
        if not np.isfinite(array).all():
            raise InitializationError(f"The values of {name} are not all finite; give finite numbers.", "nonfinite")
        return cls(name, array)

    @classmethod
    def xavier_uniform(cls, name: str, fan_in: int, fan_out: int, generator: SplitMix64) -> NamedParameter:
        """Return a parameter drawn from the Xavier uniform distribution, row by row.

        `generator` advances by fan_in * fan_out draws, and only if everything succeeded. Raises `InitializationError`
        for the first error in this order: type, name, fan_in of 0, fan_out of 0, sum of fans, number of elements,
        memory.
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
            raise InitializationError(f"No storage for the {elements:,} values of {name}.", "allocation") from error
        generator.commit(trial)
        return cls(name, values.reshape(fan_in, fan_out))

    def clone(self) -> NamedParameter:
        """Return a parameter with the same name that shares this one's array."""
        return NamedParameter(self.name, self.values)

    def is_same_leaf(self, other: NamedParameter) -> bool:
        """Return True if both parameters share one array in memory."""
        return self.values is other.values


class NamedParameters(dict[str, NamedParameter]):
    """A dict of parameters by name, in order of declaration.

    Raises `InitializationError`, with both indices, if a name is repeated.
    """

    def __init__(self, parameters: Iterable[NamedParameter]) -> None:
        for index, parameter in enumerate(parameters):
            name = parameter.name
            if name in self:
                first = list(self).index(name)
                raise InitializationError(
                    f"The parameter name {name!r} stands first at index {first} and again at index {index}; "
                    "give each parameter its own name.",
                    "duplicate name",
                    name=name,
                    first=first,
                    repeated=index,
                )
            self[name] = parameter


def _checked_fans(fan_in: object, fan_out: object) -> tuple[int, int]:
    """Return both fans as Python integers, which do not overflow as fixed-width ones would."""
    checked = []
    for label, fan in (("fan_in", fan_in), ("fan_out", fan_out)):
        if isinstance(fan, bool) or not isinstance(fan, int | np.integer):
            raise InitializationError(f"{label} is {shown(fan)}; it must be a whole number.", "type")
        if not 0 <= int(fan) <= MASK:
            raise InitializationError(
                f"{label} lies outside 0 to 2^64 - 1; choose a size that a matrix can have.", "type"
            )
        checked.append(int(fan))
    return checked[0], checked[1]
