"""Where nothing that was found judges a writer, the verdict says so, in every form, and no gate fails."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft4Validator

from core.audit.initialization.findings import MEANING, NO_VERDICT, NOTHING, VERDICTS, Finding, severity, verdict_of
from core.audit.initialization.judge import judge, judged_document
from core.audit.report.gate import findings_of, gate_fails, readable_conformance
from core.audit.report.golden import check_golden, golden_document
from core.audit.report.junit import junit_report
from core.audit.report.sarif import sarif_log
from core.audit.run import audit
from core.export.audit import audit_report
from core.tables.audit_words import audit_paragraphs, conformance_sentence, conformance_title
from core.tables.survey import kind_table, rule_view
from tests.audit.drawn import IDS, Drawn
from tests.audit.families import family

pytestmark = pytest.mark.filterwarnings("ignore")
SCHEMA = json.loads((Path(__file__).parents[1] / "golden" / "sarif-2.1.0.schema.json").read_text())


@pytest.fixture(scope="module")
def untied() -> dict[str, Any]:
    """Every writer stands behind a norm, no parameter has two names, and nothing is declared but the control."""
    return judged_document(audit(family("olmo2"), IDS), rule="unscaled")


@pytest.fixture(scope="module")
def tied() -> dict[str, Any]:
    return judged_document(audit(family("gemma2", head_dim=8), IDS), rule="unscaled")


def test_no_finding_is_a_verdict_of_its_own(untied: dict[str, Any]) -> None:
    assert (untied["conformance"]["verdict"], untied["conformance"]["findings"]) == (NOTHING, [])


def test_a_parameter_with_two_names_is_a_finding_and_no_verdict(tied: dict[str, Any]) -> None:
    assert [finding["kind"] for finding in findings_of(tied)] == ["tied"]
    assert tied["conformance"]["verdict"] == NOTHING
    applied = judge(audit(Drawn(blocks=2, width=32, ff=64, tied=True), IDS), rule="gpt2")
    assert (applied.verdict, [finding.kind for finding in applied.findings][-1]) == ("applied", "tied")


@pytest.mark.parametrize("kind", [kind for kind in MEANING if kind not in NO_VERDICT])
def test_every_other_kind_is_a_verdict_beside_it(kind: str) -> None:
    found = [Finding(kind=name, sentence="") for name in ("tied", kind)]
    assert verdict_of(found) == verdict_of(found[::-1]) == kind
    assert verdict_of([]) == verdict_of(found[:1]) == NOTHING


@pytest.mark.parametrize("document", ["tied", "untied"])
def test_no_gate_fails_and_every_report_says_why(document: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    found, words = request.getfixturevalue(document), VERDICTS[NOTHING]
    assert severity(NOTHING) == "info"
    assert not gate_fails(found, "error")
    assert not gate_fails(found, "warning")
    assert any(words in line for line in readable_conformance(found))
    suite = ET.fromstring(junit_report(found, "warning"))
    case = suite.find(f".//testcase[@name='{NOTHING}']/system-out")
    assert suite.get("failures") == "0"
    assert case is not None
    assert case.text == words
    log = sarif_log(found)
    Draft4Validator(SCHEMA).validate(log)
    (told,) = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert words in told["message"]["text"]
    assert len(log["runs"][0]["results"]) == len(findings_of(found))
    assert golden_document(found)["verdict"] == NOTHING
    assert check_golden(tmp_path / "golden.json", found) is None
    assert check_golden(tmp_path / "golden.json", found) == []
    assert words in conformance_title(found)
    assert "No gate fails" in conformance_sentence(found)
    assert any(words in paragraph for paragraph in audit_paragraphs(found))
    assert words in audit_report(found)


def test_a_judged_audit_tells_no_such_thing() -> None:
    found = judged_document(audit(Drawn(blocks=2, width=32, ff=64), IDS), rule="gpt2")
    assert sarif_log(found)["runs"][0]["invocations"][0]["toolExecutionNotifications"] == []
    assert NOTHING not in junit_report(found)
    assert not any(VERDICTS[NOTHING] in line for line in readable_conformance(found))


def test_the_survey_counts_such_a_family_and_shows_no_rule_of_it() -> None:
    row = {
        "family": "olmo2", "class": "X", "built": True, "identity": "proved", "worst_relative_error": 0.0, "writers": 4,
        "rule": None, "blocks_shallow": 2, "blocks_deep": 4, "ratio_shallow": 1.0, "ratio_deep": 1.0, "kind": NOTHING,
        "seconds": 1.0, "reason": "",
    }  # fmt: skip
    assert VERDICTS[NOTHING] in kind_table([row])["meaning"].tolist()
    assert not len(rule_view([row]))
