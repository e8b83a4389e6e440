"""One text for one value, and what identifies the code that computes cells."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# The files that decide a cell's bits. Their digest stands in every key, so no result outlives its code.
VALUE_FILES = ("decoder/*.py", "health/arms.py", "health/observe.py", "health/valid_rms.py")
LIBRARIES = ("torch", "numpy")


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces; refuses what is not finite."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@lru_cache(maxsize=1)
def engine_version() -> str:
    """Identity of the engine: a digest of the code that decides values, and the version of torch that runs it."""
    state = hashlib.sha256()
    core = Path(__file__).parent.parent
    for file in sorted(file for pattern in VALUE_FILES for file in core.glob(pattern)):
        state.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return f"{state.hexdigest()[:16]}/torch-{library_versions()['torch']}"


@lru_cache(maxsize=1)
def library_versions() -> dict[str, str]:
    """Versions of the numeric libraries, read without importing them."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found
