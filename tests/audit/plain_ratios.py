"""Ratios at the ends of blocks of a plain model of the library, by hooks alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def ratios(model: nn.Module, layers: Any, ids: torch.Tensor) -> dict[str, float]:
    """Activation and gradient ratios from the first block's input, and from its end, to the end of the last block."""
    states: list[torch.Tensor] = []

    def keep(state: Any) -> None:
        state = state[0] if isinstance(state, tuple) else state
        state.retain_grad()
        states.append(state)

    hooks = [layers[0].register_forward_pre_hook(lambda _, read: keep(read[0]))]
    hooks += [layer.register_forward_hook(lambda _, __, made: keep(made)) for layer in layers]
    logits = model.eval()(ids[:, :-1]).logits
    nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
    for hook in hooks:
        hook.remove()
    sizes = [float(state.detach().double().square().mean().sqrt()) for state in states]
    slopes = [float(state.grad.double().square().mean().sqrt()) for state in states if state.grad is not None]
    return {
        "activation": sizes[-1] / sizes[0], "adjoint": slopes[0] / slopes[-1],
        "activation from block 1": sizes[-1] / sizes[1], "adjoint from block 1": slopes[1] / slopes[-1],
    }  # fmt: skip
