"""The audit verb's rule, sigma, gate and reports on a user's models."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from core.cli import run

UNSCALED, GPT2 = "tests.audit.drawn:unscaled_model", "tests.audit.drawn:gpt2_model"


def audit(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(["audit", *arguments])
    return status, out.getvalue(), err.getvalue()


def document(*arguments: str) -> tuple[int, dict[str, Any]]:
    status, out, err = audit(*arguments, "--json")
    assert err.startswith("The gate fails.\n") if status == 1 else err == ""
    return status, json.loads(out)


def test_the_gate_is_the_exit_status() -> None:
    assert document(UNSCALED, "--rule", "gpt2")[0] == 0
    status, found = document(UNSCALED, "--rule", "gpt2", "--gate")
    assert (status, found["conformance"]["verdict"]) == (1, "absent")
    assert len(found["writers"]) == 4
    assert found["twin"] is not None
    assert document("--gate", GPT2, "--rule", "gpt2")[0] == 0
    assert document("--gate", "warning", GPT2, "--rule", "gpt2")[0] == 0
    status, found = document(GPT2, "--rule", "gpt2", "--sigma", "0.04", "--gate", "warning")
    assert (status, found["conformance"]["base"]["source"]) == (1, "the declared sigma")
    assert document(GPT2)[1]["conformance"]["rule"] == "gpt2"


@pytest.mark.parametrize("as_json", [["--json"], []])
def test_a_failed_gate_says_in_words_what_it_refuses(as_json: list[str]) -> None:
    findings = document(UNSCALED, "--rule", "gpt2")[1]["conformance"]["findings"]
    refused = [found for found in findings if found["severity"] == "error"]
    status, _, err = audit(UNSCALED, "--rule", "gpt2", "--gate", *as_json)
    assert status == 1
    assert err.splitlines() == ["The gate fails.", *(f"error {f['kind']}: {f['sentence']}" for f in refused)]


def test_verdicts_stand_before_the_tables() -> None:
    lines = audit(UNSCALED, "--rule", "gpt2")[1].splitlines()
    starts = ["identity proved", "conformance absent", "Every ratio of the", "addition", "site"]
    assert starts == sorted(starts, key=lambda start: [line.strip().startswith(start) for line in lines].index(True))


def test_reports_and_golden_files(tmp_path: Path) -> None:
    junit, sarif, golden = (str(tmp_path / name) for name in ("junit.xml", "audit.sarif", "golden.json"))
    reports = ("--junit", junit, "--sarif", sarif, "--golden", golden, "--rule", "gpt2")
    status, out, _ = audit(GPT2, *reports, "--gate")
    assert status == 0
    assert "conformance applied (gpt2)" in out
    assert ET.parse(junit).getroot().get("failures") == "0"
    location = json.loads(Path(sarif).read_text())["runs"][0]["results"][0]["locations"][0]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "tests/audit/drawn.py"
    status, found = document(GPT2, *reports, "--gate")
    assert (status, found["golden"]["changes"]) == (0, [])
    # Another version of the library, as it were, that no longer scales writers.
    status, out, err = audit(UNSCALED, "--golden", golden, "--rule", "gpt2", "--gate")
    assert status == 1
    assert "golden: verdict was 'applied' and is 'absent'" in out
    assert "golden: verdict was 'applied' and is 'absent'" in err
    assert audit(UNSCALED, "--golden", golden, "--rule", "gpt2")[0] == 0


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--rule", "nothing"), "unknown"),
        (("--rule", "lns"), "lns"),
        (("--sigma", "0"), "positive"),
        (("--sigma", "nan"), "finite number"),
        (("--gate", "--junit", ""), "empty"),
        (("--junit", "/nowhere/at/all.xml"), "cannot be written"),
    ],
)
def test_bad_requests_are_one_sentence(options: tuple[str, ...], word: str) -> None:
    status, out, err = audit(GPT2, *options)
    assert (status, out) == (2, "")
    assert word in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("options", [("--rule", "nothing"), ("--sigma", "-1")])
def test_a_bad_rule_is_refused_before_torch(options: tuple[str, ...]) -> None:
    code = (
        "import sys; from core.cli import run; status = run(['audit', 'x.json', *sys.argv[1:]]); "
        "assert status == 2 and 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_a_model_the_argument_is_named() -> None:
    assert audit() == (2, "", "Missing argument 'MODEL'.\n")
    assert audit("--gate") == (2, "", "Missing argument 'MODEL'.\n")


OWN = """
import sys
import torch
from torch import nn
from tests.audit.drawn import IDS, Drawn


class Loud(Drawn):
    def forward(self, ids):
        print("in forward")
        return super().forward(ids)


class Empty(Drawn):
    def forward(self, ids):
        return super().forward(ids)[:, :0]


def loud():
    print("building")
    return Loud(blocks=2, width=32, ff=64), IDS


def empty():
    return Empty(blocks=2, width=32, ff=64), IDS


def lazy():
    return nn.Sequential(nn.Embedding(41, 8), nn.LazyLinear(41)), IDS


def broken():
    model = Drawn(blocks=2, width=32, ff=64)
    with torch.no_grad():
        model.embed.weight.fill_(float("nan"))
    return model, IDS


def ends():
    sys.exit(0)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A user's module, in the working folder."""
    name = "users_odd_models"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_what_a_model_prints_goes_to_standard_error(own: str) -> None:
    status, out, err = audit(f"{own}:loud", "--json")
    assert (status, json.loads(out)["model"]["class"]) == (0, "Loud")
    assert "building" in err
    assert "in forward" in err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ends", "cannot be called: SystemExit: 0."),
        ("lazy", "has no shape yet"),
        ("empty", "returned no floating-point tensor"),
    ],
)
def test_an_odd_model_is_one_sentence(own: str, name: str, words: str) -> None:
    status, out, err = audit(f"{own}:{name}", "--gate", "--json")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert "internal error" not in err


def test_weights_that_are_not_finite_are_a_document(own: str, tmp_path: Path) -> None:
    status, found = document(f"{own}:broken", "--csv", str(tmp_path / "tables"), "--html", str(tmp_path / "page.html"))
    assert (status, found["identity"]["verdict"], found["health"]) == (0, "failed", None)
    assert found["identity"]["worst_relative_error"] is None
    assert [addition["relative_error"] for addition in found["additions"]] == [None] * 4
    assert "is not finite" in found["health_refusal"]


def test_a_base_past_the_range_has_no_twin_factors() -> None:
    found = document(UNSCALED, "--rule", "gpt2", "--sigma", "1e308")[1]
    assert set(found["twin_factors"].values()) <= {None}
