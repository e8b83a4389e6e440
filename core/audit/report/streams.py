"""The streams of a model as rows of the document, and the parts of it that were not judged."""

from __future__ import annotations

from typing import Any

from ..trace.coverage import left_out
from ..trace.discovery import Discovery


def stream_rows(discovery: Discovery) -> list[dict[str, Any]]:
    """Return one row per stream in forward order: its name, blocks, additions, lanes and type, and its additions."""
    streams = [discovery, *discovery.beside] if discovery.sites else []
    streams.sort(key=lambda one: one.chain.additions[0].sum[0])
    return [_row(one) for one in streams]


def _row(discovery: Discovery) -> dict[str, Any]:
    flow, base = discovery.chain.flow, discovery.chain.base
    return {
        "name": discovery.name,
        "blocks": len({site.block for site in discovery.sites}),
        "additions": len(discovery.sites),
        "lanes": 1,
        "dtype": str(flow.node(base).dtype).removeprefix("torch."),
        "width": discovery.width,
        "main": discovery.chain.main,
        "sites": [site.label for site in discovery.sites],
    }


def not_judged(discovery: Discovery) -> list[str]:
    """Return the names of the streams beside the main one and of the blocks that belong to no stream."""
    return [*(one.name for one in discovery.beside), *left_out(discovery)[0]]
