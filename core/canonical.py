"""Canonical JSON, in which equal values have equal text, and the version of the code that computes cells."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

# The number of the engine: it changes whenever a cell's numbers, their order, its status or its reason change, and with
# nothing else. It stands in every key with the libraries' versions, so no result outlives what computed it; the sample
# in tests/golden/cells.json fails where results change and this does not.
ENGINE = 1
LIBRARIES = ("torch", "numpy")


def canonical_json(value: Any) -> str:
    """Return a value as JSON text with sorted keys and no spaces.

    Raises `ValueError` for a number that is not finite.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@lru_cache(maxsize=1)
def engine_version() -> str:
    """Return the version of the code that computes cells, with those of its libraries.

    An example is "engine-1/torch-2.9.0/numpy-2.3.0".
    """
    return "/".join([f"engine-{ENGINE}", *(f"{name}-{found}" for name, found in library_versions().items())])


@lru_cache(maxsize=1)
def library_versions() -> dict[str, str]:
    """Return a dict from the name of each numeric library to its version, "absent" if missing; imports none of them."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found
