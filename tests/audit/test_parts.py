"""The audit's small parts against independent laws: names, layouts, distributions, batches, public names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import core.health
from core.audit import audit, observe_module
from core.audit.initialization.weight_stats import distribution, standard_deviation
from core.audit.report.result import topology
from core.audit.trace.inputs import model_inputs, random_batch, vocabulary_of
from core.audit.trace.layout import Layout
from core.audit.trace.names import ParameterNames, block_numbers, common_prefix, numbered
from core.decoder.batch import Batch
from core.errors import BatchError, BudgetError, ObservationError
from tests.audit import zoo


@pytest.mark.parametrize(
    ("names", "blocks"),
    [
        # Blocks in one container.
        ([["l.0.a.w"], ["l.0.b.w"], ["l.1.a.w"], ["l.1.b.w"]], [0, 0, 1, 1]),
        # Containers side by side, one a kind.
        ([["a.0.w"], ["b.0.w"], ["a.1.w"], ["b.1.w"]], [0, 0, 1, 1]),
        # One container after the other.
        ([["enc.0.w"], ["enc.1.w"], ["dec.0.w"], ["dec.1.w"], ["dec.2.w"]], [0, 1, 2, 3, 4]),
        # One block used again and again.
        ([["a.w"], ["b.w"], ["a.w"], ["b.w"]], [0, 0, 1, 1]),
        # A loop over two blocks.
        ([["l.0.w"], ["l.1.w"], ["l.0.w"], ["l.1.w"]], [0, 1, 2, 3]),
        # Experts have numbers too; the block's number changes more.
        ([["l.0.e.0.w", "l.0.e.1.w"], ["l.1.e.0.w", "l.1.e.1.w"]], [0, 1]),
        # Additions without parameters, before and behind those with.
        ([[], ["l.0.w"], [], ["l.1.w"]], [0, 0, 1, 1]),
        ([["l.0.w"], [], ["l.1.w"], []], [0, 0, 1, 1]),
        ([[], []], [0, 0]),
    ],
)
def test_blocks_are_read_from_where_names_differ(names: list[list[str]], blocks: list[int]) -> None:
    assert block_numbers(names, names, [["mixer", "feed_forward"]] * len(names)) == blocks


@pytest.mark.parametrize(
    ("kinds", "blocks"),
    [
        (["attention", "feed_forward"] * 3, [0, 0, 1, 1, 2, 2]),
        (["attention", "cross_attention", "feed_forward"] * 2, [0, 0, 0, 1, 1, 1]),
        (["feed_forward", "attention", "feed_forward"] * 2, [0, 0, 0, 1, 1, 1]),
        # No period: entries are blocks.
        (["mixer", "feed_forward", "mixer", "attention", "feed_forward"], [0, 1, 2, 3, 4]),
        (["mixer"] * 4, [0, 1, 2, 3]),
        (["feed_forward"] * 4, [0, 1, 2, 3]),
    ],
)
def test_a_block_of_a_flat_list_is_one_period_of_kinds(kinds: list[str], blocks: list[int]) -> None:
    names = [[f"layers.{entry}.w"] for entry in range(len(kinds))]
    assert block_numbers(names, names, [[kind] for kind in kinds]) == blocks


def test_names_of_tied_parameters_stand_once() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    names = ParameterNames(model)
    assert names.of([model[1].weight, model[0].weight, torch.ones(1)]) == ["0.weight"]
    assert names.aliases == {"0.weight": ["1.weight"]}


def test_prefixes_and_numbers() -> None:
    assert common_prefix(["a.b.c", "a.b.d"]) == "a.b"
    assert common_prefix(["a.bc", "a.bd"]) == "a"
    assert common_prefix([]) == ""
    assert numbered("model.layers.3.experts.12.w") == [("model.layers", 3), ("model.layers.3.experts", 12)]
    assert numbered("0.w") == [("", 0)]


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((2, 3, 5), (0, 1, 2)), ((3, 2, 5), (1, 0, 2)), ((2, 5, 3), (0, 2, 1))],
)
def test_layouts_of_three_axes(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    tensor = torch.arange(30.0).reshape(shape)
    found = Layout(2, 3).normalized(tensor)
    assert found is not None
    assert torch.equal(found, tensor.permute(axes))


def test_layouts_that_are_flattened_or_hold_streams() -> None:
    whole = torch.arange(30.0).reshape(2, 3, 5)
    layout = Layout(2, 3)
    for tensor, reading in (
        (whole.reshape(6, 5), layout),
        (whole.transpose(0, 1).reshape(6, 5), Layout(2, 3, positions_first=True)),
    ):
        found = reading.normalized(tensor)
        assert found is not None
        assert torch.equal(found, whole)
    streams = torch.arange(120.0).reshape(4, 2, 3, 5)
    found = layout.normalized(streams)
    assert found is not None
    assert torch.equal(found, streams.permute(1, 2, 0, 3).flatten(2))
    assert layout.normalized(torch.zeros(7, 5)) is None
    picked = Layout(2, 5, picked=(4, 1)).normalized(torch.arange(20.0).reshape(2, 5, 2))
    assert picked is not None
    assert picked[0].tolist() == [[8, 9], [2, 3]]


def test_distributions_are_told_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(64, 64, generator=generator)
    truncated = torch.randn(2 * 64 * 64, generator=generator)
    truncated = truncated[truncated.abs() < 2][: 64 * 64]
    assert distribution(normal * 0.02) == "normal"
    assert distribution(torch.rand(64, 64, generator=generator)) == "uniform"
    assert distribution(truncated) == "truncated normal"
    assert distribution(torch.zeros(9)) == "zeros"
    assert distribution(torch.ones(9)) == "constant"
    assert distribution(normal[0]) == "unclear"
    assert distribution(torch.tensor([math.nan, 1.0])) == "unclear"
    assert standard_deviation(truncated) == pytest.approx(0.8796, rel=0.03)


def test_the_default_batch_is_the_same_everywhere() -> None:
    first, second = random_batch(37, 0), random_batch(37, 0)
    assert first.digest() == second.digest() != random_batch(37, 1).digest()
    assert first.inputs.max() < 37
    # Targets are the next ids of the same row.
    assert np.array_equal(first.inputs[:, 1:], first.targets[:, :-1])
    avoided = random_batch(5, 0, avoid=frozenset({0, 1, 2, 9}))
    assert set(avoided.inputs.flatten().tolist()) <= {3, 4}


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        ("text", BatchError),
        (5, BatchError),
        ({"x": 5}, BatchError),
        (torch.tensor([[1]]), ObservationError),
        (torch.tensor([[1, 99]]), BatchError),
        (Batch.from_rows([[1, 2]], [[2, 3]], None, [[0, 1]]), BatchError),
    ],
)
def test_batches_that_cannot_be_used_are_refused(batch: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        audit(zoo.Decoder(1), batch)


def test_left_padding_needs_a_mask_that_the_model_takes() -> None:
    batch = Batch.from_rows([[1, 2, 3], [4, 5]], [[2, 3, 4], [5, 6]])
    flipped = Batch(*(np.ascontiguousarray(array[:, ::-1]) for array in vars(batch).values()))
    with pytest.raises(BatchError, match="left"):
        model_inputs(zoo.Decoder(1), flipped)


def test_a_vocabulary_is_the_smallest_table() -> None:
    assert vocabulary_of(nn.Sequential(nn.Embedding(9, 2), nn.Embedding(5, 2))) == 5
    with pytest.raises(BatchError, match=r"no nn\.Embedding"):
        vocabulary_of(nn.Linear(2, 2))


def test_memory_is_bounded_by_a_budget() -> None:
    with pytest.raises(BudgetError, match="1,000 bytes"):
        audit(zoo.Decoder(1), max_bytes=1000)


def test_the_observer_stands_where_the_contract_says() -> None:
    assert core.health.observe_module is observe_module
    torch.manual_seed(0)
    observation = core.health.observe_module(zoo.Decoder(2), torch.arange(10).reshape(2, 5))
    assert observation.labels[0] == "input"
    assert observation.activation_ratio.shape == (1, 5)


def test_the_topology_is_said_in_words() -> None:
    torch.manual_seed(0)
    words = {name: topology(audit(getattr(zoo, name)(2)).discovery) for name in ("Decoder", "PostNorm", "NormOut")}
    assert words["Decoder"] == "pre-norm stream"
    assert words["NormOut"] == "pre-norm stream with norms on branch outputs"
    assert "not pre-norm" in str(words["PostNorm"])
