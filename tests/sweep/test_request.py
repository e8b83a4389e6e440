"""What is typed is the grid that it says."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest

from core.command.sweep import command, grid_from
from core.decoder.base_draw import Distribution
from core.decoder.config import Budget, DecoderConfig
from core.errors import DepthscopeError
from core.sweep.grid import SweepGrid
from core.sweep.request import SweepRequest, side_by_side, uniform_batch


def test_a_grid_of_everything_is_that_of_the_command_line() -> None:
    words = shlex.split(
        "--blocks 2,3 --width 8,12 --heads 2 --kv-heads 1 --head-dim 4 --positions 9 --lengths 3,5 --rows 2 "
        "--token-seed 7 --norm layernorm --mlp gelu --untied --bias --rope-base 500 --base-std 0.02 --truncate 2 "
        "--max-positions 64 --out x"
    )
    context = command.make_context("sweep", words)
    shared = DecoderConfig(norm="layernorm", mlp="gelu", tied=False, bias=True, rope_base=500.0)
    sizes = [replace(shared, blocks=1, width=width, heads=2, kv_heads=1, head_dim=4, positions=9) for width in (8, 12)]
    grid = SweepGrid(
        blocks=(2, 3),
        sizes=tuple(sizes),
        batches=tuple(uniform_batch(2, length, sizes[0].vocabulary, 7) for length in (3, 5)),
        distribution=Distribution(0.02, 2.0),
        budget=Budget(max_positions=64),
    )
    assert grid_from(context, context.params).digest == grid.digest


def test_the_defaults_are_the_verbs() -> None:
    assert SweepRequest().grid().digest == SweepGrid().digest


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"blocks": "1,,2"}, "Depths is '1,,2', with an empty place"),
        ({"blocks": "two"}, "Depths holds 'two', which is not a whole number"),
        ({"blocks": "0"}, "blocks is 0; it must lie between 1"),
        ({"blocks": ""}, "Depths is '', with an empty place"),
        ({"seeds": "0:32:64"}, "no end"),
        ({"seeds": "5:5"}, "is empty"),
        ({"seeds": "0:1001"}, "more than 1,000; give fewer"),
        ({"seeds": "0:18446744073709551615"}, "more than 1,000; give fewer"),
        ({"recipes": ()}, "no recipes"),
        ({"recipes": ("<img src=x>",)}, "is unknown"),
        ({"width": "4,8", "heads": "1,1,1"}, "lists of sizes go side by side"),
        ({"width": "6", "heads": "4"}, "width 6 is not a multiple of heads 4"),
        ({"dtype": "float8"}, "float8' is not offered"),
        ({"input": "text"}, "The text is empty"),
        ({"input": "random tokens", "lengths": "65536", "rows": "512"}, "33,554,432 positions together"),
        ({"band_lower": 2.0, "band_upper": 1.0}, "lower limit 2 is above"),
    ],
)
def test_what_makes_no_grid_is_one_sentence(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DepthscopeError) as refusal:
        SweepRequest(**fields).grid(most_seeds=1000)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_lists_go_side_by_side_and_single_entries_with_all() -> None:
    found = list(side_by_side({"width": (4, 8), "heads": (1,), "ff_width": (5, 6)}))
    assert found == [{"width": 4, "heads": 1, "ff_width": 5}, {"width": 8, "heads": 1, "ff_width": 6}]
