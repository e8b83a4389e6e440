"""What a forward records for an observer: labelled states, contributions, valid positions and every member's loss."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch


@contextmanager
def recording(device: str = "cpu") -> Iterator[None]:
    """Set autograd as a tape needs it, whatever the caller has set: gradients on, autocast off."""
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device, enabled=False):
        yield


@dataclass(frozen=True)
class Contribution:
    """One branch of one addition, as tensors `[E, B, T, D]`.

    `site` is the index of the state after the addition. `raw` is the branch's own output, `contribution` what is added
    to the stream after coefficient and output norm, `stream` the shortcut term it is added to. `owns_gain` is whether
    the branch's norm has a gain; `gain` is that gain `[G, D]`, None while it is still all ones.
    """

    site: int
    block: int
    branch: str
    raw: torch.Tensor
    contribution: torch.Tensor
    stream: torch.Tensor
    owns_gain: bool = False
    gain: torch.Tensor | None = None


@dataclass(frozen=True)
class Tape:
    """A recorded forward of E members.

    `states[s]` is the residual stream `[E, B, T, D]` at site s, still attached to the autograd graph; `loss` is `[E]`,
    the mean cross entropy over valid targets in nats; `valid` is `[B, T]`. Decoders of this project and users' models
    give the same kind of tape.
    """

    labels: list[str]
    states: list[torch.Tensor]
    loss: torch.Tensor
    valid: npt.NDArray[np.bool_]
    contributions: list[Contribution] = field(default_factory=list)
    owns_final_gain: bool = False
    final_gain: torch.Tensor | None = None
    parameters: dict[str, torch.Tensor] = field(default_factory=dict)
