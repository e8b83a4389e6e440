"""The verb `plan`: the exact number of parameters and bytes of a decoder, without building it."""

from __future__ import annotations

from typing import Any

import click

from ..errors import ConfigError
from ..plan.arithmetic import plan_document
from ..plan.model_config import read_model_config
from ..plan.presets import LAPTOP, PRESETS
from ..plan.request import PlanRequest
from . import options as opt
from .exports import check_exports, emit_with_tables, export_options, plan_tables
from .pictures import plan_figures

PLAN = PRESETS[LAPTOP].request.config
SIZE_NAMES = (
    "vocabulary", "width", "blocks", "heads", "kv_heads", "ff_width", "positions", "head_dim", "untied", "norm", "bias",
    "learned_positions", "mlp",
)  # fmt: skip


@click.command(name="plan")
@click.option("--vocabulary", type=opt.WHOLE, default=PLAN.vocabulary, show_default=True, help="Vocabulary entries.")
@click.option("--width", type=opt.WHOLE, default=PLAN.width, show_default=True, help="Features d of the stream.")
@click.option("--blocks", type=opt.WHOLE, default=PLAN.blocks, show_default=True, help="Complete blocks L.")
@click.option("--heads", type=opt.WHOLE, default=PLAN.heads, show_default=True, help="Query heads.")
@click.option("--kv-heads", type=opt.WHOLE, help="Key/value heads; the laptop plan's two, or as many as --heads.")
@click.option("--ff-width", type=opt.WHOLE, default=PLAN.ff_width, show_default=True, help="Feed-forward features.")
@click.option(
    "--positions", "--context", "positions", cls=opt.Aliased, type=opt.WHOLE, default=PLAN.positions, show_default=True,
    help="Positions of one row.",
)  # fmt: skip
@click.option("--head-dim", type=opt.WHOLE, help="Features a head; width / heads unless given.")
@opt.family_options
@click.option("--config", "config_file", type=opt.PATH, metavar="config.json", help="Read a model's own configuration.")
@export_options
@opt.json_option
@click.pass_context
def command(context: click.Context, /, config_file: str | None, **options: Any) -> None:
    """Count the parameters and bytes of a decoder exactly; nothing is allocated, whatever the size."""
    check_exports(options)
    beside = opt.given(context, SIZE_NAMES)
    if config_file is not None and beside:
        raise ConfigError(f"--config brings its own sizes; leave {beside[0]} out.")
    request = read_model_config(config_file) if config_file is not None else _request(options, bool(beside))
    document = plan_document(request)
    emit_with_tables(document, readable, "Plan", lambda: plan_tables(document), lambda: plan_figures(document), options)


def _request(options: dict[str, Any], sizes_given: bool) -> PlanRequest:
    kv_heads = options["kv_heads"]
    if kv_heads is None and (not sizes_given or options["heads"] == PLAN.heads):
        kv_heads = PLAN.kv_heads
    return PlanRequest(config=opt.decoder_config({**options, "kv_heads": kv_heads}, PLAN.positions))


def readable(document: dict[str, Any]) -> str:
    """Return the document as text for a terminal: parameters per name pattern, and bytes per dtype."""
    lines = [f"{'pattern':<44}{'tensors':>9}  {'shape':<18}{'coordinates':>22}"]
    for row in document["by_role"]:
        shape = " x ".join(str(size) for size in row["shape"])
        lines.append(f"{row['pattern']:<44}{row['tensors']:>9}  {shape:<18}{int(row['coordinates']):>22,}")
    lines.append(f"parameters: {int(document['parameters']):,} (not executed)")
    lines.append(f"factor L^(-1/2): {document['factor']:.6f}")
    for dtype, counts in document["bytes"].items():
        cells = ", ".join(f"{name.replace('_', ' ')} {int(value):,}" for name, value in counts.items())
        lines.append(f"{dtype} bytes: {cells}")
    return "\n".join(lines)
