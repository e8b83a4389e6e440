"""The gate and its reports: exit status, JUnit, SARIF and golden files, with whatever text a model brings."""

from __future__ import annotations

import copy
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from jsonschema import Draft4Validator

from core.audit.initialization.findings import MEANING, severity
from core.audit.initialization.judge import judged_document
from core.audit.report.gate import BESIDE, Gate, gate_fails, judged_rows, readable_conformance
from core.audit.report.golden import check_golden
from core.audit.report.junit import junit_report
from core.audit.report.outputs import write_outputs
from core.audit.report.sarif import sarif_log, sarif_report
from core.audit.report.text import legal, relative_uri
from core.audit.run import audit
from core.errors import StorageError
from core.strict_json import read_json
from tests.audit.drawn import IDS, Drawn, Std, gpt2

# Severity of the worst finding, and whether each gate lets it pass.
GATES = [
    ("error", "error", True),
    ("error", "warning", True),
    ("warning", "error", False),
    ("warning", "warning", True),
]
HOSTILE = "bad\x00\x0b\ud800name <&\"'> \U0001f600"


def document_of(std: Std = gpt2, **options: Any) -> dict[str, Any]:
    return judged_document(audit(Drawn(std, blocks=2, width=32, ff=64, **options), IDS), rule="gpt2")


@pytest.fixture(scope="module")
def absent() -> dict[str, Any]:
    return document_of(lambda at: 0.02)


@pytest.fixture(scope="module")
def healthy() -> dict[str, Any]:
    return document_of()


def every_kind(document: dict[str, Any]) -> dict[str, Any]:
    """The same document with a finding of every kind, its text as hostile as text gets."""
    copied = copy.deepcopy(document)
    copied["conformance"]["findings"] = [
        {
            "kind": kind,
            "severity": severity(kind),
            "parameters": [HOSTILE, "blocks.0.weight"],
            "measured": None if severity(kind) == "info" else 2.83,
            "expected": 1.0,
            "sentence": f"{kind}: {HOSTILE}",
        }
        for kind in MEANING
    ]
    return copied


def test_the_document_is_the_contracts(absent: dict[str, Any]) -> None:
    json.dumps(absent, allow_nan=False)
    conformance = absent["conformance"]
    assert (conformance["rule"], conformance["verdict"]) == ("gpt2", "absent")
    finding = conformance["findings"][0]
    assert set(finding) == {"kind", "severity", "parameters", "measured", "expected", "sentence"}
    for row in absent["writers"]:
        assert {"name", "block", "fan_in", "fan_out", "distribution", "std", "declared_std", "ratio"} <= set(row)
        assert row["declared_std"] == pytest.approx(0.01, rel=0.02)
        assert row["ratio"] == pytest.approx(row["std"] / row["declared_std"])
    assert [site["label"] for site in absent["twin"]["sites"]] == [site["label"] for site in absent["health"]["sites"]]
    first, twins = (absent[arm]["contributions"][0]["contribution_rms"] for arm in ("health", "twin"))
    assert twins == pytest.approx(first / 2, rel=1e-6)


def test_a_gate_fails_on_its_severities(absent: dict[str, Any], healthy: dict[str, Any]) -> None:
    assert gate_fails(absent, "error")
    assert not gate_fails(absent, None)
    assert not gate_fails(healthy, "warning")
    assert gate_fails(healthy, "error", changes=["verdict: applied, now absent"])
    for worst, gate, fails in GATES:
        only = every_kind(healthy)
        kept = [f for f in only["conformance"]["findings"] if f["severity"] in (worst, "info")]
        only["conformance"]["findings"] = kept
        assert gate_fails(only, gate) == fails  # type: ignore[arg-type]
    assert any("absent" in line and "multiply" in line for line in readable_conformance(absent))


@pytest.mark.parametrize(("gate", "failures"), [("error", 13), ("warning", 22)])
def test_junit_is_xml_with_a_case_a_kind(healthy: dict[str, Any], gate: Any, failures: int) -> None:
    hostile = every_kind(healthy)
    hostile["model"]["class"] = HOSTILE
    root = ET.fromstring(junit_report(hostile, gate).encode())
    (suite,) = root.findall("testsuite")
    cases = suite.findall("testcase")
    assert root.get("failures") == suite.get("failures") == str(failures) == str(len(suite.findall("*/failure")))
    assert suite.get("tests") == str(len(cases)) == "26"
    assert [case.get("name") for case in cases] == list(MEANING)
    text = cases[0].findtext("failure") or ""
    assert "bad���name <&\"'> \U0001f600" in text
    assert "2.83" in text
    quiet = ET.fromstring(junit_report(healthy, gate).encode())
    assert quiet.get("failures") == "0"
    assert not quiet.findall(".//failure")


@pytest.fixture(scope="module")
def sarif_schema() -> Draft4Validator:
    """The standard's own schema, which closes its objects: an unknown property is an error."""
    path = Path(__file__).parents[1] / "golden" / "sarif-2.1.0.schema.json"
    return Draft4Validator(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("source", ["/somewhere else/models/config.json", "a.b:c", "../up", "/", HOSTILE])
def test_sarif_holds_to_the_standard(healthy: dict[str, Any], sarif_schema: Draft4Validator, source: str) -> None:
    hostile = every_kind(healthy)
    hostile["model"]["source"] = source
    log = json.loads(sarif_report(hostile))
    assert [error.message for error in sarif_schema.iter_errors(log)] == []
    (run,) = log["runs"]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert ids == [*MEANING, *BESIDE]
    assert len(set(ids)) == len(ids)
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["message"]["text"].isprintable()
        (location,) = result["locations"]
        artifact = location["physicalLocation"]["artifactLocation"]
        assert artifact["uriBaseId"] == "%SRCROOT%"
        assert not urlsplit(artifact["uri"]).scheme
        assert not artifact["uri"].startswith(("/", ".."))
        assert len({entry["fullyQualifiedName"] for entry in location["logicalLocations"]}) == 2
    levels = {severity(kind): level for kind, level in zip(MEANING, (r["level"] for r in run["results"]), strict=True)}
    assert levels == {"error": "error", "warning": "warning", "info": "note"}
    assert sarif_log(healthy)["runs"][0]["results"][0]["ruleId"] == "applied"


def test_the_schema_refuses_what_the_standard_does_not_know(
    healthy: dict[str, Any], sarif_schema: Draft4Validator
) -> None:
    for change in ({"level": "info"}, {"severity": "error"}, {"message": "text"}, {"ruleIndex": "0"}):
        log = sarif_log(healthy)
        log["runs"][0]["results"][0] |= change
        assert not sarif_schema.is_valid(log)


@pytest.mark.parametrize(
    ("source", "uri"),
    [
        ("config.json", "config.json"),
        ("./models/a b/config.json", "models/a%20b/config.json"),
        ("/work/repo/models/config.json", "models/config.json"),
        ("/elsewhere/secret/config.json", "config.json"),
        ("../up/config.json", "config.json"),
        ("package.module:callable", "package/module.py"),
        ("object", "object"),
        ("/", "model"),
        ("a\x00b?#%.json", "a%EF%BF%BDb%3F%23%25.json"),
    ],
)
def test_locations_are_relative(source: str, uri: str) -> None:
    assert relative_uri(source, "/work/repo") == uri


def test_characters_that_xml_forbids_are_replaced() -> None:
    for code in range(0x20):
        assert legal(chr(code)) == (chr(code) if chr(code) in "\t\n\r" else "\ufffd")
    assert legal("\ud800\udfff\ufffe\uffff\U0010ffff\ue000") == "\ufffd\ufffd\ufffd\ufffd\U0010ffff\ue000"


def test_a_golden_file_shows_what_changed(tmp_path: Path, healthy: dict[str, Any], absent: dict[str, Any]) -> None:
    path = tmp_path / "golden.json"
    assert check_golden(path, healthy) is None
    assert check_golden(path, healthy) == []
    changes = check_golden(path, absent)
    assert changes is not None
    assert changes[0] == "verdict was 'applied' and is 'absent'"
    assert "finding absent on ffn.0.down.weight is new" in changes
    assert any(change.startswith("the std of ffn.0.down.weight was 0.0") and "2 times" in change for change in changes)
    assert not any("base draws" in change for change in changes)
    other = check_golden(path, document_of(seed=1))
    assert other is not None
    assert any("base draws differ from attention.0.output.weight on" in change for change in other)
    deeper = check_golden(path, {**healthy, "additions": healthy["additions"][:-1]})
    assert deeper == ["4 additions are 3 now"]


def test_reports_are_written_and_what_cannot_be_is_refused(tmp_path: Path, absent: dict[str, Any]) -> None:
    junit, sarif, golden = (str(tmp_path / name) for name in ("junit.xml", "audit.sarif", "golden.json"))
    outcome = write_outputs(absent, gate="error", junit=junit, sarif=sarif, golden=golden)
    assert outcome.fails
    assert outcome.changes is None
    assert ET.parse(junit).getroot().get("failures") == "1"
    assert read_json(sarif)["version"] == "2.1.0"  # type: ignore[index,call-overload]
    again = write_outputs(absent, golden=golden)
    assert again.changes == ()
    assert not again.fails
    assert again.lines() == ["golden: nothing changed"]
    with pytest.raises(StorageError, match="cannot be written"):
        write_outputs(absent, junit=str(tmp_path / "none" / "junit.xml"))
    whole = json.loads(Path(golden).read_text())
    broken: list[dict[str, Any]] = [{}]
    broken += [{**whole, "findings": found} for found in (None, {}, [1], [{"parameters": []}], [{"kind": "absent"}])]
    broken += [{**whole, "additions": 1}, {**whole, "matrices": []}, {**whole, "matrices": {"a": {}}}]
    broken += [{**whole, "matrices": {"a": {"std": "1", "distribution": "normal"}}}]
    for document in broken:
        (tmp_path / "other.json").write_text(json.dumps(document))
        with pytest.raises(StorageError, match="no golden file"):
            write_outputs(absent, golden=str(tmp_path / "other.json"))


@pytest.mark.parametrize("allow_unproved", [False, True])
@pytest.mark.parametrize("gate", ["error", "warning"])
@pytest.mark.parametrize("identity", ["proved", "partial", "failed"])
@pytest.mark.parametrize("golden", [False, True])
@pytest.mark.parametrize("which", ["healthy", "absent", "judges_nothing"])
def test_exit_status_text_junit_and_sarif_agree(
    which: str, golden: bool, identity: str, gate: Gate, allow_unproved: bool, request: Any, tmp_path: Path
) -> None:
    found = copy.deepcopy(request.getfixturevalue("healthy" if which == "judges_nothing" else which))
    if which == "judges_nothing":
        found["conformance"] |= {"findings": [], "verdict": "nothing-to-judge"}
    found["identity"] |= {"verdict": identity, "reason": None if identity == "proved" else "Block 1 is not proved."}
    if golden:
        # The golden file is of a model with another verdict.
        check_golden(tmp_path / "golden.json", request.getfixturevalue("absent" if which != "absent" else "healthy"))
    outcome = write_outputs(
        found,
        gate=gate,
        golden=str(tmp_path / "golden.json") if golden else None,
        junit=str(tmp_path / "junit.xml"),
        sarif=str(tmp_path / "found.sarif"),
        allow_unproved=allow_unproved,
    )
    fails = golden or which == "absent" or (identity != "proved" and not allow_unproved)
    failures = int(ET.parse(tmp_path / "junit.xml").getroot().get("failures") or 0)
    levels = [row["level"] for row in read_json(tmp_path / "found.sarif")["runs"][0]["results"]]
    assert (outcome.fails, failures > 0, "error" in levels) == (fails, fails, fails)
    rows = judged_rows(found, changes=outcome.changes or (), allow_unproved=allow_unproved)
    assert any(row["severity"] == "error" for row in rows) == fails
    assert any("Block 1" in row["sentence"] for row in rows) == (identity != "proved")
