"""The 144 published six-decimal observations and the published losses, from the document and from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.command.trace import trace_document
from core.decoder.fixtures import FIXTURES
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.recipes.law import depth_factor
from tests.support import run_cli

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "chapter06.json").read_text())
PUBLISHED = {fixture["id"]: fixture for fixture in GOLDEN["fixtures"]}
# Nats, (scaled, control).
LOSSES = {
    "narrow-1": (5.602732628157, 5.602732628157),
    "narrow-2": (5.660351086085, 5.664364307023),
    "narrow-8": (5.623782373309, 5.635288510179),
    "cpu-bridge": (6.015127875247, 6.014106060724),
}
SITE_VALUES = ("activation_rms", "activation_ratio", "adjoint_rms", "adjoint_ratio")


def size_options(name: str) -> list[object]:
    """The command line that asks for a fixture."""
    config = FIXTURES[name]
    sizes = ("blocks", "width", "heads", "kv_heads", "ff_width", "vocabulary", "positions")
    return [part for size in sizes for part in (f"--{size.replace('_', '-')}", getattr(config, size))]


@pytest.fixture(scope="module")
def documents() -> dict[str, dict[str, Any]]:
    return {name: observe_document(ObserveRequest(config=config)) for name, config in FIXTURES.items()}


def compared(document: dict[str, Any], published: dict[str, Any]) -> Iterator[tuple[float, float]]:
    """(computed, published) of every published number of both arms."""
    for site in published["sites"]:
        for value in SITE_VALUES:
            yield document["initialized"]["sites"][site["site"]][value], site[value]
    control, sites = published["unscaled_control"], document["same_base_unscaled_control"]["sites"]
    yield sites[0]["activation_rms"], control["A0"]
    yield sites[-1]["adjoint_rms"], control["G_terminal"]
    for ratio in ("activation_ratio", "adjoint_ratio"):
        yield min(site[ratio] for site in sites), control[f"{ratio}_min"]
        yield max(site[ratio] for site in sites), control[f"{ratio}_max"]


def assert_published(name: str, document: dict[str, Any]) -> int:
    """Every value at six decimals, both losses, bands and counts; the number of compared values."""
    published = PUBLISHED[name]
    pairs = list(compared(document, published))
    assert [f"{ours:.6f}" for ours, _ in pairs] == [f"{theirs:.6f}" for _, theirs in pairs]
    arms = document["initialized"], document["same_base_unscaled_control"]
    assert [arm["loss_nats"] for arm in arms] == pytest.approx(LOSSES[name], rel=0, abs=1e-11)
    assert f"{arms[0]['input_activation_rms']:.6f}" == f"{published['A0']:.6f}"
    assert f"{arms[0]['terminal_adjoint_rms']:.6f}" == f"{published['G_terminal']:.6f}"
    for site, wanted in zip(arms[0]["sites"], published["sites"], strict=True):
        assert (site["activation_band"], site["adjoint_band"]) == (wanted["activation_band"], wanted["adjoint_band"])
    assert arms[1]["within_band"] is published["unscaled_control"]["all_within"]
    assert document["parameters"] == published["parameters"]
    assert document["factor"] == depth_factor(published["blocks"]) == pytest.approx(published["factor"], abs=5e-7)
    return len(pairs)


def test_all_144_values_from_the_document(documents: dict[str, dict[str, Any]]) -> None:
    assert sum(assert_published(name, documents[name]) for name in PUBLISHED) == 144
    assert set(PUBLISHED) == set(documents) == set(LOSSES)


def test_all_144_values_from_the_command_line() -> None:
    total = 0
    for name in PUBLISHED:
        outcome = run_cli("observe", *size_options(name), "--seed", GOLDEN["seed"], "--json")
        assert (outcome.status, outcome.err) == (0, "")
        total += assert_published(name, outcome.document())
    assert total == 144


def test_all_144_values_from_the_trace() -> None:
    fixtures = trace_document()["fixtures"]
    assert [fixture["id"] for fixture in fixtures] == list(PUBLISHED)
    assert sum(assert_published(fixture["id"], fixture) for fixture in fixtures) == 144


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_six_decimal_table(name: str) -> None:
    """What a person reads in the terminal: every ratio of the scaled arm, and the control's extremes."""
    outcome = run_cli("observe", *size_options(name))
    assert (outcome.status, outcome.err) == (0, "")
    rows = [line.split() for line in outcome.out.splitlines() if line.strip() and line.split()[0].isdigit()]
    rows = [row for row in rows if "|" in row]
    published = PUBLISHED[name]
    for row, site in zip(rows, published["sites"], strict=True):
        ours = [int(row[0]), float(row[2].rstrip("+-")), float(row[3].rstrip("+-"))]
        assert ours == [site["site"], site["activation_ratio"], site["adjoint_ratio"]]
    control = [[float(cell.rstrip("+-")) for cell in row[-2:]] for row in rows]
    for part, ratio in enumerate(("activation_ratio", "adjoint_ratio")):
        column = [row[part] for row in control]
        wanted = [published["unscaled_control"][f"{ratio}_{end}"] for end in ("min", "max")]
        assert [min(column), max(column)] == wanted
    assert f"{LOSSES[name][0]:.6f} nats" in outcome.out
    assert f"{LOSSES[name][1]:.6f} nats" in outcome.out


def test_one_block_is_its_own_control(documents: dict[str, dict[str, Any]]) -> None:
    """At one block the factor is 1 and both arms are one decoder, bit for bit; both writers are still named."""
    document = documents["narrow-1"]
    assert document["initialized"] == document["same_base_unscaled_control"]
    assert document["transformed_tensors"] == 0
    assert document["selected_names"] == ["blocks.0.attention.output.weight", "blocks.0.ffn.down.weight"]
    assert documents["narrow-2"]["initialized"] != documents["narrow-2"]["same_base_unscaled_control"]
    assert documents["narrow-2"]["transformed_tensors"] == 4
    # Both arms read the same untouched embedding.
    eight = documents["narrow-8"]
    assert (
        eight["initialized"]["sites"][0]["activation_rms"]
        == (eight["same_base_unscaled_control"]["sites"][0]["activation_rms"])
    )
