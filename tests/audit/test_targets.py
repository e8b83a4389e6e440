"""Any module is audited: images, reconstructions, encoders, conditions, caches; and what is not judged is named."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from core.audit import AuditResult, audit
from core.audit.intake import hub
from core.audit.intake.examples import example_inputs
from core.audit.intake.family import family_settings
from core.audit.request import architectures, families
from tests.audit import targets
from tests.audit.targets import BLOCKS, VOCABULARY, WIDTH

IDS = torch.arange(22).reshape(2, 11) * 7 % VOCABULARY
DRAWN = torch.Generator().manual_seed(4)
PIXELS = torch.randn(2, 3, 16, 16, generator=DRAWN)
SERIES = torch.randn(2, 9, 6, generator=DRAWN)
PAIR = ("attention", "feed_forward")

# model: (made, inputs, kinds of one block of its main stream, number of its blocks)
MODELS: dict[str, tuple[Callable[[], nn.Module], Any, tuple[str, ...], int]] = {
    "image, scalar loss": (targets.Picture, (PIXELS,), PAIR, BLOCKS),
    "image, class logits": (lambda: targets.Picture(labelled=False), (PIXELS,), PAIR, BLOCKS),
    "reconstruction": (targets.Reconstruction, (SERIES,), PAIR, BLOCKS),
    "token mixing": (targets.Tokens, (PIXELS,), ("mixer", "feed_forward"), BLOCKS),
    "convolutions": (targets.Convolutions, (PIXELS,), ("mixer",), 2),
    "cache of the file": (targets.Caching, IDS, PAIR, BLOCKS),
    "torch.func": (targets.Inner, IDS, PAIR, BLOCKS),
    "conditioned": (targets.Conditioned, (SERIES, torch.randn(2, 4, generator=DRAWN)), PAIR, BLOCKS),
    "norms written out": (targets.Means, IDS, PAIR, BLOCKS),
    "filled in place": (targets.Filled, IDS, PAIR, BLOCKS),
    "flat list": (targets.Flat, IDS, PAIR, BLOCKS),
    "encoder and decoder": (
        targets.Both,
        {"input_ids": IDS, "features": torch.randn(2, 5, 7, generator=DRAWN)},
        ("attention", "cross_attention", "feed_forward"),
        BLOCKS,
    ),
}


def audited(name: str) -> AuditResult:
    made, inputs, _, _ = MODELS[name]
    targets.kept_bias.cache_clear()
    torch.manual_seed(1)
    return audit(made(), inputs)


@pytest.mark.parametrize("name", MODELS)
def test_the_stream_is_found_and_proved(name: str) -> None:
    _, _, kinds, blocks = MODELS[name]
    result = audited(name)
    assert result.identity.verdict == "proved", result.identity.reason
    assert result.discovery.labels[1:] == [f"block.{block}.after_{kind}" for block in range(blocks) for kind in kinds]
    assert result.document()["health"] is not None, result.health_refusal


def test_states_on_their_own_axes_are_those_of_the_blocks() -> None:
    """The class token is a position of the stream; features after a convolution come last."""
    model = targets.Picture()
    states = audit(model, (PIXELS,)).discovery.states
    x = torch.cat([model.token.expand(2, -1, -1), model.patch(PIXELS).flatten(2).mT], 1)
    torch.testing.assert_close(states[0], x)
    for place, layer in enumerate(model.layers):
        x = layer(x)
        torch.testing.assert_close(states[2 * place + 2], x)
    cells = targets.Convolutions()
    found = audit(cells, (PIXELS,)).discovery
    first = cells.stem(PIXELS)
    assert found.beside[0].states[0].shape == (2, 64, 8)
    torch.testing.assert_close(found.beside[0].states[0], first.flatten(2).mT)
    assert found.states[0].shape == (2, 16, 12)


@pytest.mark.parametrize(
    ("name", "streams", "left"),
    [
        ("encoder and decoder", [("encoder", 2, 4, WIDTH), ("stream", BLOCKS, 3 * BLOCKS, WIDTH)], ["encoder"]),
        ("convolutions", [("stages.0", 2, 2, 8), ("stages.1", 2, 2, 12)], ["stages.0"]),
        ("reconstruction", [("layers", BLOCKS, 2 * BLOCKS, WIDTH)], []),
    ],
)
def test_every_stream_is_a_row_and_what_is_not_judged_is_named(name: str, streams: list[Any], left: list[str]) -> None:
    document = audited(name).document()
    rows = [(row["name"], row["blocks"], row["additions"], row["width"]) for row in document["streams"]]
    assert rows == streams
    assert {row["lanes"] for row in document["streams"]} == {1}
    assert {row["dtype"] for row in document["streams"]} == {"float32"}
    assert document["not_judged"] == left
    told = [note for note in document["model"]["notes"] if note.startswith("Not judged")]
    assert [note.rpartition(": ")[2] for note in told] == [f"{name}." for name in left]


def test_the_difference_of_a_loss_is_no_stream() -> None:
    result = audit(targets.Reconstruction(residual=False), (SERIES,))
    assert result.identity.verdict == "failed"
    assert result.identity.reason == "No residual addition was found between the batch and the output."


def test_a_stream_that_ends_in_every_block_is_not_proved() -> None:
    identity = audit(targets.Lost(), IDS).identity
    assert identity.verdict == "partial"
    assert "is not carried from block to block" in str(identity.reason)


def test_gates_made_from_a_condition_are_no_writers() -> None:
    result = audited("conditioned")
    names = result.discovery.names
    for site in result.discovery.sites:
        assert not any("change" in name for name in names.of(p for use in site.writers for p in use.parameters))
        gates = [p for branch in site.branches for use in branch.gates for p in use.parameters]
        assert names.of(gates) == [f"change.{site.block}.weight"]


@pytest.mark.parametrize("kind", ["sparse", "quantized"])
def test_a_buffer_of_another_layout_is_left_alone(kind: str) -> None:
    torch.manual_seed(1)
    model = targets.Text()
    eye = torch.eye(4)
    if kind == "sparse":
        model.register_buffer("extra", eye.to_sparse(), persistent=False)
    else:
        warnings.simplefilter("ignore", UserWarning)
        model.register_buffer("extra", torch.quantize_per_tensor(eye, 0.1, 0, torch.qint8))
    assert audit(model, IDS).identity.verdict == "proved"


def test_compiled_parts_and_dropout_in_training_mode_are_audited() -> None:
    torch.manual_seed(1)
    model = targets.Text()
    model.layers[0] = torch.compile(model.layers[0], backend="eager")
    model.layers[1].dense = nn.Sequential(model.layers[1].dense, nn.Dropout(0.5))
    result = audit(model.train(), IDS)
    assert result.identity.verdict == "proved", result.identity.reason
    assert model.training


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("family", "streams"),
    [
        ("albert", [2]),
        ("vit", [2]),
        ("wav2vec2", [2]),
        ("t5", [2, 2]),
        ("clip_vision_model", [2]),
        ("convnext", [3, 3, 9, 3]),
    ],
)
def test_an_architecture_of_the_library_is_audited_by_its_configuration(family: str, streams: list[int]) -> None:
    """One of each sort: text, image, sound, encoder beside decoder, a tower, stages of several widths."""
    pytest.importorskip("transformers")
    model_class = hub.model_class_of(family)
    config = hub.built_config(model_class.config_class, family_settings(family, 2))
    model = hub.built_model(model_class, config, seed=0, max_parameters=2**24)
    result = audit(model, example_inputs(model, config.to_dict()))
    assert result.identity.verdict == "proved", result.identity.reason
    assert [row["blocks"] for row in result.document()["streams"]] == streams


def test_every_architecture_has_a_class_and_a_causal_one_comes_first() -> None:
    pytest.importorskip("transformers")
    known, causal = architectures(), families()
    assert len(known) > len(causal)
    assert {family: known[family] for family in causal} == dict(causal)
    assert (known["vit"], known["t5"]) == ("ViTForImageClassification", "T5ForConditionalGeneration")
