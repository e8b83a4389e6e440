"""The record of a forward pass: labelled states, branch contributions, valid positions and every member's loss."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch


@contextmanager
def recording(device: str = "cpu") -> Iterator[None]:
    """A context in which a tape can be recorded: gradients on, inference mode and autocast off."""
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device, enabled=False):
        yield


@dataclass(frozen=True)
class Contribution:
    """What one branch adds to the stream: tensors `[E, B, T, D]` of members (models), rows, positions, features.

    `site` is the index of the state after the addition; `branch` is `attention` or `feed_forward`. `raw` is the
    branch's own output, `contribution` is what is added, after coefficient and output norm, and `stream` is the state
    that it is added to, after the shortcut coefficient. `owns_gain` is True if the branch's norm has a gain; `gain`
    `[G, D]` holds it for G groups of members, None while it is all ones.
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
    """The record of a forward pass of E members (models): B rows of T positions with D features.

    `states[s]` is the residual stream `[E, B, T, D]` at site s, attached to the autograd graph, and `labels[s]` its
    name. `loss` `[E]` is the mean cross entropy over valid targets, in nats; `valid` is `[B, T]`. `parameters` holds
    the autograd leaves by name if gradients of parameters were requested. `final_gain` is the gain of the final norm,
    None while it is all ones. Decoders of this project and users' models give the same kind of tape.
    """

    labels: list[str]
    states: list[torch.Tensor]
    loss: torch.Tensor
    valid: npt.NDArray[np.bool_]
    contributions: list[Contribution] = field(default_factory=list)
    owns_final_gain: bool = False
    final_gain: torch.Tensor | None = None
    parameters: dict[str, torch.Tensor] = field(default_factory=dict)
