"""Experiment: the costs of the residual stream: elements, bytes moved, and bytes saved for the backward pass.

For a batch of B rows, S positions and d features in any dtype. Counts are for whole tensors, as if every operand came
from main memory and went back to it; a fused kernel moves less.
"""

from __future__ import annotations

import pandas as pd

from ..kit import Chart, Experiment, Line, Options, Pictures, Result, TableView, choice, plural, rounded, whole

DTYPE_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8": 1}
MEBIBYTE = 2**20
STATISTIC_BYTES = 4
# Row statistics in float32 that a norm keeps for its backward.
STATISTICS = {"rmsnorm": ("inverse RMS",), "layernorm": ("mean", "inverse deviation")}
PARAMETERS = {"rmsnorm": 1, "layernorm": 2}
# Elements and bytes an element, by item.
Items = dict[str, tuple[int, int]]


class ResidualLedgerOptions(Options):
    """Options: a batch of B rows of S positions with d features, its dtype, and the blocks of the decoder."""

    batch: int = whole(8, 1, 2**40, "Rows B", "Rows B.")
    positions: int = whole(2048, 1, 2**40, "Positions S", "Positions S of a row.")
    width: int = whole(4096, 1, 2**40, "Features d", "Features d.")
    dtype: str = choice("bfloat16", tuple(DTYPE_BYTES), "Floating type", "Type of the residual state.")
    blocks: int = whole(32, 1, 2**20, "Blocks L", "Blocks L.")
    additions: int = whole(2, 1, 3, "Additions a block", "Residual additions a block; 3 with cross-attention.")
    norm: str = choice("rmsnorm", tuple(STATISTICS), "Norm before every branch", "Norm before every branch.")


def residual_ledger(options: ResidualLedgerOptions) -> Result:
    """Return the exact costs of the residual stream as integers.

    Table `ledger` has one row per item, with its elements, bytes and MiB.
    """
    state, size = options.batch * options.positions * options.width, DTYPE_BYTES[options.dtype]
    saved = _saved(options, state, size)
    items = {**_moved(options, state, size), **saved, **_held(options, state, size)}
    table = pd.DataFrame(
        {
            "item": list(items),
            "elements": pd.Series([count for count, _ in items.values()], dtype=object),
            "bytes": pd.Series([count * each for count, each in items.values()], dtype=object),
            "mebibytes": [count * each / MEBIBYTE for count, each in items.values()],
        }
    )
    block_bytes = sum(count * each for count, each in saved.values())
    return Result(
        summary={
            "elements": state,
            "state_bytes": state * size,
            "state_mebibytes": state * size / MEBIBYTE,
            "unfused_addition_mebibytes": 3 * state * size / MEBIBYTE,
            "saved_a_block_mebibytes": block_bytes / MEBIBYTE,
            "saved_in_the_stack_mebibytes": options.blocks * block_bytes / MEBIBYTE,
            "additions_in_the_stack": options.additions * options.blocks,
        },
        tables={"ledger": table},
        notes=(
            "Saved are the tensors that a backward without recomputation may need around its branches; attention "
            "and feed-forward keep more inside.",
        ),
    )


def _moved(options: ResidualLedgerOptions, state: int, size: int) -> Items:
    """Return the items for reading and writing the state."""
    return {
        "residual state": (state, size),
        "one read and one write": (2 * state, size),
        "one unfused addition (two reads, one write)": (3 * state, size),
        "all unfused additions of the stack": (3 * state * options.additions * options.blocks, size),
    }


def _saved(options: ResidualLedgerOptions, state: int, size: int) -> Items:
    """Return the items that one block keeps for its backward."""
    statistics = STATISTICS[options.norm]
    rows = len(statistics) * options.additions * options.batch * options.positions
    return {
        "states kept a block, one an addition": (options.additions * state, size),
        "normalized inputs kept a block": (options.additions * state, size),
        f"row statistics a block ({', '.join(statistics)})": (rows, STATISTIC_BYTES),
    }


def _held(options: ResidualLedgerOptions, state: int, size: int) -> Items:
    """Return the items that all blocks together hold."""
    norms = options.additions * options.blocks + 1
    return {
        "all residual states of the stack": (norms * state, size),
        "norm parameters of the stack, final norm too": (PARAMETERS[options.norm] * options.width * norms, size),
    }


def ledger_view(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table `ledger` for display: numbered items, with integers written in full."""
    return pd.DataFrame(
        {
            "no.": range(1, len(table) + 1),
            "item": table["item"],
            "elements": [f"{count:,}" for count in table["elements"]],
            "bytes": [f"{count:,}" for count in table["bytes"]],
            "MiB": table["mebibytes"],
        }
    )


def _pictures(result: Result) -> Pictures:
    """Return the chart of every item's size as a bar."""
    table = result.tables["ledger"]
    numbers = [str(number) for number in range(1, len(table) + 1)]
    lines = [Line(name="MiB", x=numbers, y=table["mebibytes"].tolist(), look="bars")]
    return {"items": Chart(
        title="The ledger", lines=lines, x_title="item, as numbered below", y_title="MiB",
        names_on_x=True, legend=False,
    )}  # fmt: skip


EXPERIMENT = Experiment(
    title="The residual state's ledger",
    label="Ledger",
    function=residual_ledger,
    presets={"8 x 2048 x 4096 in 2 bytes": {}},
    text=(
        "What the residual stream costs in memory and traffic, counted in whole tensors as if each came from main "
        "memory and went back; a fused kernel moves fewer. No array is made, so any size can be asked for."
    ),
    formulas=(
        r"\text{elements}=B\,S\,d",
        r"\text{two reads, one write}=3\,B\,S\,d\cdot\text{bytes}",
    ),
    subject=lambda options: (
        f"{options.batch} x {options.positions} x {options.width}, {options.dtype}, "
        f"L = {plural(options.blocks, 'block')}"
    ),
    reading=lambda found: (
        f"The residual state has {found['elements']:,} elements, {rounded(found['state_mebibytes'])} MiB; one unfused "
        f"addition moves {rounded(found['unfused_addition_mebibytes'])} MiB, and a block keeps "
        f"{rounded(found['saved_a_block_mebibytes'])} MiB for its backward."
    ),
    draw=_pictures,
    tables={"ledger": TableView(alt="Elements, bytes and MiB of every item, exact.", shape=ledger_view)},
)
