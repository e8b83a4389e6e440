"""The verb `init`: one Xavier matrix beside its target variance, the same weights doubled, and zeros."""

from __future__ import annotations

from typing import Any

import click

from . import options as opt
from .exports import check_exports, emit_with_tables, export_options, init_tables
from .pictures import init_figures


@click.command(name="init")
@click.option("--fan-in", type=opt.WHOLE, default=64, show_default=True, help="Input rows.")
@click.option("--fan-out", type=opt.WHOLE, default=64, show_default=True, help="Output columns.")
@click.option("--seed", type=str, default="17", show_default=True, help="Any unsigned 64-bit seed.")
@click.option("--weights", is_flag=True, help="Add the weights, row by row.")
@export_options
@opt.json_option
def command(fan_in: int, fan_out: int, seed: str, weights: bool, **options: Any) -> None:
    """Draw one Xavier matrix and compare its variance with the target variance."""
    check_exports(options)
    from ..lab.initializer import init_document

    document = init_document(fan_in, fan_out, opt.seed(seed), include_weights=weights)
    emit_with_tables(
        document, readable, "One Xavier matrix", lambda: init_tables(document), lambda: init_figures(document), options
    )


def readable(document: dict[str, Any]) -> str:
    """Return the document as text for a terminal: the target variance, then three histograms side by side."""
    lines = [
        f"target variance {document['target_variance']:.12f}, standard deviation "
        f"{document['standard_deviation']:.12f}, uniform limit {document['uniform_limit']:.12f}",
        f"generator state {document['initial_rng_state']} -> {document['final_rng_state']}",
    ]
    edges, populations = document["edges"], document["populations"]
    lines.append(f"{'bin':<18}" + "".join(f"{name:>18}" for name in populations))
    for index in range(len(edges) - 1):
        cells = (f"{p['counts'][index]} ({p['percent'][index]:.2f}%)" for p in populations.values())
        lines.append(f"[{edges[index]:.2f}, {edges[index + 1]:.2f})".ljust(18) + "".join(f"{c:>18}" for c in cells))
    lines += [
        f"{statistic:<18}" + "".join(f"{p[statistic]:>18.9f}" for p in populations.values())
        for statistic in ("mean", "variance")
    ]
    if "weights" in document:
        lines.append("weights: " + ", ".join(f"{value:.12f}" for value in document["weights"]))
    return "\n".join(lines)
