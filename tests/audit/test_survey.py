"""The survey: one row per family whatever happens, two depths, and the whole mapping of the pinned library."""

from __future__ import annotations

import csv
import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from core import __version__
from core.audit import survey as module
from core.audit.intake.family import family_settings
from core.audit.intake.shrink import small_settings, varied
from core.audit.request import families
from core.audit.survey import COLUMNS, FAMILY_SECONDS, survey, survey_row
from core.audit.survey_table import SHIPPED, shipped_survey, state_counts, survey_counts, survey_manifest
from core.cli import run
from core.command.survey import write_survey
from core.errors import AuditError

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def own_generator() -> Any:
    """Building a model draws from torch's global generator, which belongs to the child."""
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


def test_a_depth_that_is_named_twice_is_set_twice() -> None:
    """xLSTM's number of blocks stands beside the usual key for it, and its writers follow Wang's law in that depth."""
    for blocks in (2, 4):
        settings = family_settings("xlstm", blocks)
        assert (settings["num_hidden_layers"], settings["num_blocks"]) == (blocks, blocks)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bloom", "gemma2", "mamba", "deepseek_v4"])
def test_a_row_tells_both_depths(name: str) -> None:
    row = survey_row(name)
    assert set(row) == set(COLUMNS)
    assert (row["built"], row["identity"], row["reason"]) == (True, "proved", "")
    assert row["worst_relative_error"] < 1e-5
    assert (row["blocks_shallow"], row["blocks_deep"]) == (2, 4)


def test_the_ratio_at_two_depths_shows_a_rule() -> None:
    """GPT-2's writers follow (2L)^(-1/2); LLaMA's follow nothing."""
    gpt2, llama = survey_row("gpt2"), survey_row("llama")
    assert gpt2["ratio_shallow"] == pytest.approx(4**-0.5, rel=0.03)
    assert gpt2["ratio_deep"] == pytest.approx(8**-0.5, rel=0.03)
    assert llama["ratio_shallow"] == pytest.approx(1.0, rel=0.03)
    assert llama["ratio_deep"] == pytest.approx(1.0, rel=0.03)


def test_a_family_that_fails_is_a_row_with_its_reason(monkeypatch: Any) -> None:
    row = survey_row("gemma4_unified_assistant")
    assert row["built"] is True
    assert row["identity"] is None
    assert "shared_kv_states" in row["reason"]
    monkeypatch.setattr(module, "MAX_PARAMETERS", 10)
    row = survey_row("llama")
    assert row["built"] is False
    assert "budget" in row["reason"]


def test_a_layer_that_waits_for_an_image_is_named() -> None:
    row = survey_row("mllama")
    assert row["identity"] == "partial"
    assert "layers.3 never wrote" in row["reason"]


def test_unknown_families_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AuditError, match="vitt"):
        family_settings("vitt", 2)
    for names in ("llama,vit", ",", "../x"):
        assert run(["survey", "--families", names, "--out", str(tmp_path)]) == 2
        assert "model types" in capsys.readouterr().err


def test_lists_of_blocks_keep_every_kind() -> None:
    assert varied(["a"] * 5 + ["b"] + ["a"] * 5 + ["c"], 3) == ["a", "b", "c"]
    assert varied(["a", "b", "a", "b"], 3) == ["a", "b", "a"]
    assert varied(["a", "b", "c"], 2) == ["a", "b"]
    assert varied(["a"], 3) == ["a", "a", "a"]


def test_small_settings_keep_depth_unless_told() -> None:
    large = {"hidden_size": 4096, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8}
    assert small_settings(large) == {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
    assert small_settings(large, 3)["num_hidden_layers"] == 3
    nested = {"text_config": {**large, "layer_types": ["x"] * 79 + ["y"], "model_type": "t"}}
    assert small_settings(nested, 2)["text_config"]["layer_types"] == ["x", "y"]


def test_the_table_is_written_and_defused(tmp_path: Path) -> None:
    row = {**dict.fromkeys(COLUMNS), "family": "b", "built": True, "worst_relative_error": 1.3e-8, "reason": "=1+1"}
    path = write_survey(str(tmp_path / "out"), [{**row, "family": "a", "reason": "-x"}, row], {"torch": "1"})
    with open(path, newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [r["family"] for r in rows] == ["a", "b"]
    assert rows[1]["worst_relative_error"] == "1.3e-08"
    assert [r["reason"] for r in rows] == ["'-x", "'=1+1"]
    assert list(rows[0]) == list(COLUMNS)
    manifest = json.loads((path.parent / "manifest.json").read_text())
    assert (manifest["families"], manifest["built"], manifest["proved"]) == (2, 2, 0)


class TestShipped:
    """The table that ships: of the pinned library, whole, and as good as was asked."""

    def test_it_covers_exactly_the_mapping_of_the_pinned_library(self) -> None:
        rows, manifest = shipped_survey()
        assert {row["family"]: row["class"] for row in rows} == dict(families())
        assert [row["family"] for row in rows] == sorted(families())
        for name in ("transformers", "torch"):
            assert manifest["versions"][name] == importlib.metadata.version(name)

    def test_nine_tenths_are_built_and_nine_tenths_proved_to_a_hundred_thousandth(self) -> None:
        rows, _ = shipped_survey()
        counts = survey_counts(rows)
        proved = [row for row in rows if row["identity"] == "proved"]
        assert counts["families"] == len(families()) == 196
        assert counts["built"] >= 0.9 * len(rows)
        assert len(proved) >= 0.9 * len(rows)
        assert all(row["built"] and row["worst_relative_error"] <= 1e-5 for row in proved)
        assert all(row["reason"] for row in rows if row["identity"] != "proved")
        assert not any(row["reason"] for row in proved)

    def test_no_family_took_longer_than_its_time(self) -> None:
        rows, _ = shipped_survey()
        assert max(row["seconds"] for row in rows) <= FAMILY_SECONDS
        assert not [row["family"] for row in rows if "Not finished" in row["reason"] or "killed" in row["reason"]]

    def test_the_manifest_counts_its_table(self) -> None:
        rows, manifest = shipped_survey()
        fresh = survey_manifest(rows, manifest["versions"])
        assert manifest | {"date": None, "version": None} == fresh | {"date": None, "version": None}
        assert sum(state_counts(rows).values()) == len(rows)

    def test_writing_what_was_read_gives_the_same_bytes(self, tmp_path: Path) -> None:
        rows, manifest = shipped_survey()
        path = write_survey(str(tmp_path), rows, manifest["versions"])
        assert path.read_bytes() == (SHIPPED / "survey.csv").read_bytes()


@pytest.mark.heavy
def test_children_are_bounded_and_leave_a_row() -> None:
    rows = {row["family"]: row for row in survey(["llama", "xlnet"], workers=2, seconds=300)}
    assert {row["identity"] for row in rows.values()} == {"proved"}
    (late,) = survey(["hrm_text"], workers=1, seconds=1)
    assert late["reason"] == "Not finished within 1 seconds."
    # In a separate process: a child also has what this long one freed and kept.
    starve = (
        "import json; from core.audit.survey import survey; print(json.dumps(list(survey(['moshi'], memory=2**20))))"
    )
    ended = subprocess.run([sys.executable, "-c", starve], capture_output=True, check=True, timeout=200)
    (starved,) = json.loads(ended.stdout.splitlines()[-1])
    assert starved["identity"] is None
    assert starved["reason"]


def test_the_document_says_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("core.command.survey.survey", lambda *_, **__: iter(()))
    assert run(["survey", "--families", "gpt2", "--out", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["version"]) == ("depthscope.survey/1", __version__)


@pytest.mark.parametrize("workers", ["0", "-1"])
def test_a_survey_without_a_process_is_refused(
    workers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["survey", "--families", "gpt2", "--workers", workers, "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"--workers is {workers}; a survey needs at least one process.\n"
