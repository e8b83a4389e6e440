"""Tables, words and figures of an audit are its document's own numbers, names escaped."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd
import pytest

from core.export.audit import FILES, audit_contents, audit_report, gate_file
from core.figures.audit import writer_profile_figure
from core.health.columns import TOKEN_STATISTICS
from core.tables.audit import audit_tables, matrix_view
from core.tables.audit_words import audit_paragraphs, health_sentences

GROUP = "layers.#.<b>down</b>.weight"


def tokens(rms: float) -> dict[str, float]:
    return dict.fromkeys(TOKEN_STATISTICS, rms)


def arm(factor: float) -> dict[str, Any]:
    sites = [
        {
            "site": site, "label": "input" if site == 0 else f"block.0.{site}", "activation_rms": factor * (1 + site),
            "activation_ratio": 1.0 + site, "activation_band": "within",
            "activation_tokens": tokens(factor * (1 + site)), "adjoint_rms": 2e-4 * (3 - site),
            "adjoint_tokens": tokens(2e-4 * (3 - site)), "adjoint_ratio": factor * (3.0 - site),
            "adjoint_band": "within",
        }
        for site in range(3)
    ]  # fmt: skip
    contributions = [
        {
            "site": site, "block": 0, "branch": branch, "raw_rms": 0.1, "contribution_rms": 0.1, "stream_rms": 1.0,
            "contribution_to_stream": 0.1, "cosine": None,
        }
        for site, branch in ((1, "attention"), (2, "feed_forward"))
    ]  # fmt: skip
    return {
        "loss_nats": 4.5, "valid_positions": 26, "loss_reduction": "mean over valid targets", "within_band": True,
        "input_activation_rms": factor, "terminal_adjoint_rms": 2e-4, "sites": sites, "contributions": contributions,
    }  # fmt: skip


def matrix(name: str, block: int, ratio: float) -> dict[str, Any]:
    return {
        "name": name, "part": "", "block": block, "branch": "feed_forward", "fan_in": 64, "fan_out": 32,
        "distribution": "normal", "truncation": None, "std": 0.02 * ratio, "declared_std": 0.02, "ratio": ratio,
        "tolerance": 0.1, "base_std": 0.04, "base_ratio": ratio / 2, "forward": 1.0, "effective_ratio": ratio,
        "coordinates": 2048, "draw": "aa",
    }  # fmt: skip


@pytest.fixture
def document() -> dict[str, Any]:
    """An audit by hand: two blocks, an infinite first writer."""
    writers = [matrix(GROUP.replace("#", str(block)), block, 2.0) for block in range(2)]
    finding = {
        "kind": "depth-convention", "severity": "error", "parameters": [w["name"] for w in writers], "measured": 2.0,
        "expected": 1.0, "sentence": "Blocks are counted from 0; count them from 1.",
    }  # fmt: skip
    profile = {
        "group": GROUP, "blocks": [0, 1], "ratios": [None, 2.0], "tolerances": [0.1, 0.1], "unscaled": [2.0, 2.0],
        "shape": "infinite first block",
    }  # fmt: skip
    base = {
        "law": "constant", "constant": 0.04, "source": "initializer_range", "readers_agreeing": 1, "readers": 1,
        "truncation_shrink": 1.0,
    }  # fmt: skip
    addition = {
        "index": 0, "block": 0, "label": "block.0.after_attention", "writers": ["w"], "readers": ["r", "q"],
        "coefficient": 0.22, "norm_after": False, "state_rms": 1.0, "contribution_rms": 0.1,
        "contribution_to_stream": 0.1, "shortcut": {"value": 1.0}, "branches": [{"branch": "attention"}],
        "relative_error": 1e-8,
    }  # fmt: skip
    return {
        "model": {
            "class": "M", "family": None, "source": "config.json", "blocks": 2, "parameters": 1234, "trained": False,
            "shrunk": False, "topology": "pre-norm stream", "notes": ["a note"],
        },
        "identity": {
            "verdict": "proved", "worst_relative_error": 1e-8, "interventions": 2, "reason": None,
            "trials": [{"label": "x", "earlier_states_equal": True, "difference": 0.0, "passed": True}],
        },
        "additions": [addition],
        "writers": writers,
        "readers": [],
        "conformance": {
            "rule": "block-indexed", "formula": "(2(l+1))^(-1/2)", "verdict": "depth-convention", "base": base,
            "depths": [{"blocks": 2, "base_std": 0.04, "ratios": {GROUP: None}}], "findings": [finding],
            "profile": [profile], "notes": [],
        },
        "health": arm(1.0),
        "health_refusal": None,
        "twin": arm(0.5),
        "twin_refusal": None,
        "twin_factors": {writers[1]["name"]: 0.5},
        "twin_draws": "Both arms hold the same 2 base draws.",
    }  # fmt: skip


def test_tables_are_the_documents_numbers(document: dict[str, Any]) -> None:
    tables = audit_tables(document)
    assert tables["matrices"]["ratio"].tolist() == [2.0, 2.0]
    factors = tables["matrices"]["twin_factor"].tolist()
    assert math.isnan(factors[0])
    assert factors[1] == 0.5
    assert tables["sites"]["arm"].tolist() == ["model"] * 3 + ["repaired twin"] * 3
    assert tables["sites"]["adjoint_ratio"].tolist() == [3.0, 2.0, 1.0, 1.5, 1.0, 0.5]
    assert tables["arms"]["largest_activation_ratio"].tolist() == [3.0, 3.0]
    assert tables["additions"]["readers"].tolist() == ["r; q"]
    assert tables["additions"]["coefficient"].tolist() == [0.22]
    assert math.isnan(tables["profile"]["ratio"][0])
    assert writer_profile_figure.chart(tables["profile"], "gpt2").undrawn == [f"{GROUP} at 0, nan"]
    assert "part" not in matrix_view(tables["matrices"]).columns


def test_the_profile_draws_ratios_tolerance_and_the_unscaled_level(document: dict[str, Any]) -> None:
    profile = audit_tables(document)["profile"]
    figure = writer_profile_figure(profile, "block-indexed")
    line = figure.data[0]
    (bare,) = (trace for trace in figure.data if trace.name == "a writer left at the base")
    assert list(line.y) == [None, 2.0]
    assert line.name == "layers.#.&lt;b&gt;down&lt;/b&gt;.weight"
    assert list(bare.y) == [2.0, 2.0]
    strip = figure.layout.shapes[0]
    assert (strip.y0, strip.y1) == pytest.approx((1 / 1.1, 1.1))
    low, high = (10**exponent for exponent in figure.layout.yaxis.range)
    assert low < 1 / 1.1
    assert high > 2.0
    plain = writer_profile_figure(profile.assign(unscaled=float("nan")), None)
    assert "a writer left at the base" not in [trace.name for trace in plain.data]
    assert plain.layout.yaxis.title.text == "ratio to the base"


def test_words_say_verdicts_numbers_and_reduction(document: dict[str, Any]) -> None:
    text = " ".join(audit_paragraphs(document))
    for part in (
        "Residual stream proved",
        "Writers are scaled by another depth than the declared one",
        "Blocks are counted from 0",
        "26 valid targets",
        "a note",
    ):
        assert part in text
    assert health_sentences(document)[-1].endswith(
        "the model has the same largest activation ratio and a largest adjoint ratio 2 times larger."
    )
    document["model"]["trained"] = True
    assert "nothing is claimed about their initialization" in " ".join(audit_paragraphs(document))


def test_the_report_and_the_files_hold_everything_escaped(document: dict[str, Any]) -> None:
    contents = audit_contents(document)
    assert set(contents.files) == set(FILES)
    assert json.loads(gate_file(document, "audit.json")) == document
    assert len(contents.figures) == 7
    assert "<b>down" not in audit_report(document)


def test_a_document_that_was_not_judged_has_empty_tables(document: dict[str, Any]) -> None:
    document["conformance"] |= {"base": None, "depths": [], "profile": []}
    document |= {"health": None, "health_refusal": "No loss.", "twin": None, "twin_factors": {}}
    contents = audit_contents(document)
    assert contents.figures == {}
    assert isinstance(contents.tables["profile"], pd.DataFrame)
    assert not len(contents.tables["sites"])
    assert "No health: No loss." in contents.paragraphs
