"""One block drawn with what was observed there: the document's numbers, each beside its state or branch."""

from __future__ import annotations

import plotly.graph_objects as go
import pytest

from core.compare.drawing import drawing
from core.decoder.config import DecoderConfig
from core.figures.block import Block, Observed
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.recipes.catalogue import recipe
from core.tables.observe import contribution_table, site_table
from core.tables.writers import writer_table

CONFIG = DecoderConfig(blocks=3)


@pytest.mark.parametrize("name", ["depth-scaled", "parallel", "zero-writer"])
def test_a_block_has_what_was_observed_there_written_on_it(name: str) -> None:
    document = observe_document(ObserveRequest(config=CONFIG, recipe=name))
    arm = document["initialized"]
    tables = (site_table(document), contribution_table(document))
    observed = Observed(*(table[table["arm"] == "initialized"] for table in tables))
    nodes, edges = drawing(recipe(name).graph(CONFIG), 1)
    block = Block(nodes, edges, writer_table(CONFIG, name, 1), name, observed)
    go.Figure(block().to_dict())
    written = [note.text for note in block().layout.annotations]
    for site in nodes["site"].dropna():
        state = arm["sites"][site]
        (text,) = (one for one in written if f"<b>site {site}</b>" in one)
        assert f">RMS {state['activation_rms']:.4g}<" in text
        assert f">A {state['activation_ratio']:.4g}, G {state['adjoint_ratio']:.4g}<" in text
    added = [one for one in arm["contributions"] if one["block"] == 1]
    boxes = [one for one in written if "output RMS" in one]
    assert len(boxes) == len(added) == 2
    for one, text in zip(added, boxes, strict=True):
        angle = "undefined" if one["cosine"] is None else f"{one['cosine']:.4g}"
        assert f"<b>{one['branch'].replace('_', '-')}</b>" in text
        assert f">output RMS {one['raw_rms']:.4g}<" in text
        assert f">{one['contribution_to_stream']:.4g} of the stream, cosine {angle}<" in text
        assert f"output RMS {one['raw_rms']:.4g}, " in block.alt
