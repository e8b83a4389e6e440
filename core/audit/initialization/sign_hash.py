"""Identifies the random draw in a tensor by the signs of its values, which no positive factor changes.

Models scaled from one base draw have equal digests; a shifted or repeated draw shows as a difference or an equality.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

# Fewer signs than these can agree by accident.
FEWEST = 64
# The largest number of equal shards that is looked for.
MOST_SHARDS = 16


@dataclass(frozen=True)
class SharedDraws:
    """The comparison of the draws of two models.

    `shared` is the number of equal ones, `first_shifted` the first name whose draws differ, or None; the others are
    names in one model only.
    """

    shared: int
    first_shifted: str | None
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]

    @property
    def all_shared(self) -> bool:
        """True if both models have the same names and the same random draws."""
        return self.first_shifted is None and not self.only_first and not self.only_second

    @property
    def sentence(self) -> str:
        """The comparison as a sentence."""
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
    """Return a digest of the shape and signs of a tensor, 16 hexadecimal digits.

    None if all signs are equal, if there are fewer than `FEWEST` values, or if one is not finite.
    """
    values = tensor.detach()
    if values.numel() < FEWEST or not values.is_floating_point() or not bool(values.isfinite().all()):
        return None
    negative = (values < 0).cpu().numpy()
    if negative.all() or not negative.any():
        return None
    return digest_of(tuple(values.shape), [np.packbits(negative).tobytes()])


def digest_of(shape: tuple[int, ...], bits: Iterable[bytes]) -> str:
    """Return the digest of a shape and of packed signs, in the order of the values."""
    digest = hashlib.sha256(repr(shape).encode())
    for part in bits:
        digest.update(part)
    return digest.hexdigest()[:16]


def sign_hashes(parameters: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Return the digests of parameters by name, in order; those without one are left out."""
    found = {name: sign_hash(parameter) for name, parameter in parameters.items()}
    return {name: digest for name, digest in found.items() if digest is not None}


def compare_digests(first: Mapping[str, str], second: Mapping[str, str]) -> SharedDraws:
    """Compare the digests of two models by name; return the `SharedDraws`.

    All are equal if both models are scaled from one base draw.
    """
    common = [name for name in first if name in second]
    shifted = [name for name in common if first[name] != second[name]]
    return SharedDraws(
        shared=len(common) - len(shifted),
        first_shifted=shifted[0] if shifted else None,
        only_first=tuple(name for name in first if name not in second),
        only_second=tuple(name for name in second if name not in first),
    )


def repeated_draws(parameters: Mapping[str, torch.Tensor]) -> list[tuple[str, ...]]:
    """Return groups of names of parameters that hold the same random draw, up to a positive factor.

    Each matrix of a stacked tensor (as of experts) counts separately, as `name[0]` and so on. Empty if no draw is
    repeated.
    """
    stacked = {
        f"{name}[{place}]": matrix
        for name, parameter in parameters.items()
        if parameter.dim() > 2 and len(parameter) > 1
        for place, matrix in enumerate(parameter)
    }
    return repeated_digests(sign_hashes(parameters) | sign_hashes(stacked))


def repeated_digests(digests: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return groups of names with one digest; `name[0]` is a matrix of the stack `name`."""
    groups: dict[str, list[str]] = {}
    for name, digest in digests.items():
        groups.setdefault(digest, []).append(name)
    # Copies of a stack hold copies of its matrices, which need no separate mention.
    whole = {name for names in groups.values() if len(names) > 1 for name in names if unstacked(name) == name}
    kept = ([name for name in names if unstacked(name) not in whole or name in whole] for names in groups.values())
    return [tuple(names) for names in kept if len(names) > 1]


def equal_parts(tensor: torch.Tensor) -> tuple[int, int, int] | None:
    """Return (parts, axis, number of different draws) where equal parts of a matrix hold the same draw.

    The matrix is cut into 2 to `MOST_SHARDS` parts along an axis; the fewest parts that show a repetition are returned,
    None where none does. Of a stack of matrices the first axis is not cut.
    """
    for axis in range(max(0, tensor.dim() - 2), tensor.dim()) if tensor.dim() >= 2 else ():
        for parts in (count for count in range(2, MOST_SHARDS + 1) if tensor.shape[axis] % count == 0):
            digests = [sign_hash(part) for part in tensor.detach().chunk(parts, axis)]
            if None not in digests and len(set(digests)) < parts:
                return parts, axis, len(set(digests))
    return None


def unstacked(name: str) -> str:
    """Return the name of the parameter that a matrix of a stack is a part of: `name` for `name[0]`."""
    return name.partition("[")[0]
