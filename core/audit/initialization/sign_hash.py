"""Which draws tensors hold, whatever they were multiplied by: the signs of their values, hashed.

A positive factor leaves signs alone, so arms of one base draw have equal digests and a shifted or repeated draw shows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

# Fewer signs than these can agree by accident.
FEWEST = 64


@dataclass(frozen=True)
class SharedDraws:
    """How two models' draws compare: names with equal draws, the first name whose draw moved, names in one alone."""

    shared: int
    first_shifted: str | None
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]

    @property
    def all_shared(self) -> bool:
        """Whether both hold the same names and draws."""
        return self.first_shifted is None and not self.only_first and not self.only_second

    @property
    def sentence(self) -> str:
        """The comparison for a person."""
        if self.all_shared:
            return f"Both arms hold the same {self.shared} base draws."
        parts = []
        if self.first_shifted is not None:
            parts.append(f"the first draw that differs is {self.first_shifted}")
        if self.only_first or self.only_second:
            names = [*self.only_first, *self.only_second]
            parts.append(
                f"{names[0]} stands in one of them alone" + (f" with {len(names) - 1} more" if names[1:] else "")
            )
        return (
            f"The arms share {self.shared} base draws, but {' and '.join(parts)}; draw both from one generator in the "
            "same order, or scale a copy."
        )


def sign_hash(tensor: torch.Tensor) -> str | None:
    """Shape and signs of a drawn tensor as 16 hexadecimal digits; None for constants and for too few values."""
    values = tensor.detach()
    if values.numel() < FEWEST or not values.is_floating_point() or not bool(values.isfinite().all()):
        return None
    negative = (values < 0).cpu().numpy()
    if negative.all() or not negative.any():
        return None
    digest = hashlib.sha256(repr(tuple(values.shape)).encode())
    digest.update(np.packbits(negative).tobytes())
    return digest.hexdigest()[:16]


def sign_hashes(parameters: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """The digests of all drawn parameters, by name, in order."""
    found = {name: sign_hash(parameter) for name, parameter in parameters.items()}
    return {name: digest for name, digest in found.items() if digest is not None}


def compare_digests(first: Mapping[str, str], second: Mapping[str, str]) -> SharedDraws:
    """Whether two models' digests are those of arms of one base draw, apart by a positive factor per tensor."""
    common = [name for name in first if name in second]
    shifted = [name for name in common if first[name] != second[name]]
    return SharedDraws(
        shared=len(common) - len(shifted),
        first_shifted=shifted[0] if shifted else None,
        only_first=tuple(name for name in first if name not in second),
        only_second=tuple(name for name in second if name not in first),
    )


def repeated_draws(parameters: Mapping[str, torch.Tensor]) -> list[tuple[str, ...]]:
    """Names of what holds one and the same draw, up to a positive factor, as groups.

    Matrices stacked in one tensor, as experts are, count each by itself, `name[0]` and so on.
    """
    stacked = {
        f"{name}[{place}]": matrix
        for name, parameter in parameters.items()
        if parameter.dim() > 2 and len(parameter) > 1
        for place, matrix in enumerate(parameter)
    }
    groups: dict[str, list[str]] = {}
    for found in (sign_hashes(parameters), sign_hashes(stacked)):
        for name, digest in found.items():
            groups.setdefault(digest, []).append(name)
    # Copies of a stack hold copies of its matrices, which need no separate mention.
    whole = {name for names in groups.values() if len(names) > 1 for name in names if name in parameters}
    kept = ([name for name in names if unstacked(name) not in whole or name in whole] for names in groups.values())
    return [tuple(names) for names in kept if len(names) > 1]


def unstacked(name: str) -> str:
    """The parameter that a matrix of a stack stands in."""
    return name.partition("[")[0]
