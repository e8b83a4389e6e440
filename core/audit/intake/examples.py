"""Example inputs of a model of the transformers library, by the names of its forward's arguments.

Sizes come from the configuration, nested parts included. Where a kind of input has several usual shapes, all are given,
the likeliest first; the first with which the forward runs is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import torch
from torch import nn

from ...errors import AuditError, first_line
from ..trace.batches import names_of

ROWS, TOKENS, FRAMES, SAMPLES = 2, 13, 64, 4096
Shapes = list[tuple[int, ...]]


def example_inputs(
    model: nn.Module, settings: Mapping[str, Any], avoid: frozenset[int] = frozenset()
) -> dict[str, Any]:
    """Return keyword arguments with which the forward of `model` runs, on its main input and what that asks for.

    `settings` is the configuration as a mapping; ids in `avoid` are not drawn. Raises `AuditError` with the forward's
    last error where none does.
    """
    drawn, dtype = torch.Generator().manual_seed(0), next(model.parameters()).dtype
    names = names_of(model)
    main = str(getattr(model, "main_input_name", "input_ids"))
    wanted = [main] if main in names else [name for name in names if name in SHAPES][:1]
    wanted += [name for name in COMPANIONS if name in names and name not in wanted]
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False) and "decoder_input_ids" in names:
        wanted.append("decoder_input_ids")
    failure = f"{type(model).__name__} takes none of the inputs that are known"
    options = [list(_values(name, settings, avoid, drawn, dtype)) for name in wanted]
    training = model.training
    model.eval()
    for values in product(*options):
        found = dict(zip(wanted, values, strict=True))
        try:
            with torch.no_grad():
                model(**found)
        except Exception as error:
            failure = f"{type(model).__name__} does not run on example inputs ({', '.join(found)}): {first_line(error)}"
            continue
        model.train(training)
        return found
    raise AuditError(f"{failure}; hand in a batch.")


def size_of(settings: Mapping[str, Any], *keys: str, default: int) -> int:
    """Return the first of these sizes that a configuration or a part of it holds, the largest of a list."""
    for key in keys:
        value = settings.get(key)
        if isinstance(value, list | tuple) and value and all(type(entry) is int for entry in value):
            return int(max(value))
        if type(value) is int and value > 0:
            return value
    for inner in settings.values():
        if isinstance(inner, Mapping) and (found := size_of(inner, *keys, default=0)):
            return found
    return default


def _pixels(settings: Mapping[str, Any]) -> Shapes:
    channels = size_of(settings, "num_channels", "in_channels", "in_chans", default=3)
    side = size_of(settings, "image_size", "img_size", "crop_size", default=64)
    frames = size_of(settings, "num_frames", "frames_per_clip", "num_image_frames", default=1)
    patch = size_of(settings, "patch_size", default=8)
    still: Shapes = [(ROWS, channels, side, side), (ROWS, 1, channels, side, side)]
    moving: Shapes = [(ROWS, frames, channels, side, side)] if frames > 1 else []
    return [*moving, *still, (ROWS, 16, channels * patch * patch), (ROWS, channels, 224, 224)]


def _features(settings: Mapping[str, Any]) -> Shapes:
    bins = size_of(
        settings, "num_mel_bins", "feature_projection_input_dim", "input_feat_per_channel", "feature_size",
        "input_size", "n_mels", default=80,
    )  # fmt: skip
    length = 2 * size_of(settings, "max_source_positions", default=FRAMES // 2)
    return [(ROWS, bins, length), (ROWS, FRAMES, bins), (ROWS, length, bins)]


def _sound(settings: Mapping[str, Any]) -> Shapes:
    bins = size_of(settings, "num_mel_bins", "n_mels", default=0)
    pictures: Shapes = [(ROWS, size_of(settings, "max_length", default=FRAMES), bins)] if bins else []
    return [*pictures, (ROWS, SAMPLES), (ROWS, 1, SAMPLES)]


SHAPES: Mapping[str, Callable[[Mapping[str, Any]], Shapes]] = {
    "pixel_values": _pixels,
    "pixel_values_videos": _pixels,
    "input_features": _features,
    "input_values": _sound,
    "audio_values": _sound,
    "past_values": lambda settings: [
        (ROWS, size_of(settings, "context_length", default=32), size_of(settings, "num_input_channels", default=1)),
        (ROWS, size_of(settings, "context_length", default=32)),
    ],
    "inputs_embeds": lambda settings: [(ROWS, TOKENS, size_of(settings, "hidden_size", "d_model", default=32))],
}
# Arguments that many forwards cannot do without beside their main one.
COMPANIONS = ("input_ids", "bbox")


def _values(
    name: str, settings: Mapping[str, Any], avoid: frozenset[int], drawn: torch.Generator, dtype: torch.dtype
) -> Iterator[torch.Tensor]:
    if name in SHAPES:
        for shape in SHAPES[name](settings):
            yield torch.randn(shape, generator=drawn).to(dtype)
    elif name == "bbox":
        yield torch.tensor([1, 2, 5, 7]).expand(ROWS, TOKENS, 4).clone()
    else:
        count = size_of(settings, "vocab_size", "text_vocab_size", "n_vocab", default=32)
        usable = torch.tensor([number for number in range(count) if number not in avoid] or [0])
        length = TOKENS if name != "decoder_input_ids" else TOKENS - 4
        places = torch.randint(0, len(usable), (ROWS, length), generator=drawn)
        yield usable[places]
