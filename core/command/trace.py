"""The verb `trace`: compute all numbers that the chapter prints."""

from __future__ import annotations

from typing import Any

import click

from .. import __version__
from . import options as opt
from .exports import check_exports, emit_with_tables, export_options, trace_tables
from .pictures import trace_figures

SCHEMA = "depthscope.trace/1"


@click.command(name="trace")
@export_options
@opt.json_option
def command(**options: Any) -> None:
    """Compute the worked values, the four fixed decoders, the classified arrays and the laptop plan."""
    check_exports(options)
    opt.use_threads(0)
    document = trace_document()
    emit_with_tables(
        document, readable, "Trace", lambda: trace_tables(document), lambda: trace_figures(document), options
    )


def trace_document() -> dict[str, Any]:
    """Return the worked values, the four fixed decoders, the classified arrays and the laptop plan as a dict for JSON.

    Each fixed decoder is an `observe` document with an `id`.
    """
    from ..decoder.fixtures import FIXTURES
    from ..health.report import observe_document
    from ..health.request import ObserveRequest
    from ..lab.synthetic import synthetic_classifiers
    from ..plan.arithmetic import plan_document
    from ..plan.presets import LAPTOP, PRESETS
    from ..plan.worked_values import worked_values

    return {
        "schema": SCHEMA,
        "version": __version__,
        "worked_values": worked_values(),
        "fixtures": [
            {"id": name, **observe_document(ObserveRequest(config=config))} for name, config in FIXTURES.items()
        ],
        "synthetic_classifiers": synthetic_classifiers(),
        "laptop_plan": plan_document(PRESETS[LAPTOP].request),
    }


def readable(document: dict[str, Any]) -> str:
    """Return the document as text for a terminal: the largest ratios of every fixed decoder, and the other values."""
    lines = [f"{'fixture':<12}{'arm':<10}{'loss (nats)':>18}{'largest A ratio':>18}{'largest G ratio':>18}"]
    for fixture in document["fixtures"]:
        for title, key in (("scaled", "initialized"), ("control", "same_base_unscaled_control")):
            arm = fixture[key]
            largest = [max(site[f"{kind}_ratio"] for site in arm["sites"]) for kind in ("activation", "adjoint")]
            lines.append(
                f"{fixture['id']:<12}{title:<10}{arm['loss_nats']:>18.12f}{largest[0]:>18.6f}{largest[1]:>18.6f}"
            )
    for depth, vector in document["worked_values"]["blocks"].items():
        lines.append(f"worked vector at {depth} blocks: {', '.join(f'{value:.6f}' for value in vector)}")
    for name, arrays in document["synthetic_classifiers"].items():
        cells = ", ".join(f"{r:g} {b}" for r, b in zip(arrays["ratios"], arrays["bands"], strict=True))
        lines.append(f"synthetic {name}: {cells}")
    lines.append(f"laptop plan: {document['laptop_plan']['parameters']:,} parameters, not executed")
    return "\n".join(lines)
