"""RMS relative to a chosen reference site, in addition to the ratios A_s / A_0 and G_s / G_last.

A very small embedding makes every later state look large, and an embedding of unit scale can hide growth. A second
reference site separates these two cases. The band does not judge these ratios.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from ..errors import ConfigError, shown
from .sites import first_block_site

Reference = Literal["input", "first block", "previous site"]
REFERENCES: tuple[Reference, ...] = get_args(Reference)


def relative_rms(arm: Mapping[str, Any], quantity: str, reference: Reference) -> list[float | None]:
    """Return the RMS of `quantity` (activation or adjoint) at every site, divided by that at the reference site.

    `arm` is what `arm_document` returns for one seed of one recipe. `reference` is `input`, `first block` (the last
    site of the first block) or `previous site`. An entry is None if there is no reference (the input has no previous
    site) or the reference is 0. Raises `ConfigError` for an unknown reference.
    """
    values: Sequence[float] = [site[f"{quantity}_rms"] for site in arm["sites"]]
    if reference == "previous site":
        references: Sequence[float | None] = [None, *values[:-1]]
    elif reference == "input":
        references = [values[0]] * len(values)
    elif reference == "first block":
        first = first_block_site([site["label"] for site in arm["sites"]])
        references = [values[first]] * len(values)
    else:
        raise ConfigError(f"The reference {shown(reference)} is not one of {', '.join(REFERENCES)}.")
    return [value / base if base else None for value, base in zip(values, references, strict=True)]
