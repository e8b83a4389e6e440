"""The audit's page in a real browser: links to a fresh server, uploads, files, themes and screens."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from core.audit.intake.target import family_task
from core.audit.request import AuditRequest
from core.audit.sandbox.isolation import run_isolated
from core.command.audit_ci import with_snippet
from core.export.audit import gate_file
from core.export.csv import csv_text
from core.tables.audit import matrix_table
from pages.model_audit.tabs import TABS
from tests.audit.families import GPT2
from tests.browser.conftest import Visit, assert_clean_log
from tests.browser.harness import BACKGROUNDS, Visitor, running_server, visit

NARROW = {"width": 390, "height": 844}
TITLE = "Audit a model"
CONFIG = {"model_type": "gpt2", **GPT2}
# A child and a browser share the cores with whatever else the machine does.
PATIENCE = 300_000


def opened(tab: Visitor, query: str) -> Visitor:
    tab.page.set_default_timeout(PATIENCE)
    return tab.open(f"/model_audit?{query}", TITLE)


def audited(tab: Visitor) -> Visitor:
    """Wait until the running audit is shown."""
    tab.page.get_by_text("Residual stream proved").wait_for()
    tab.settle()
    return tab


def upload(tab: Visitor, name: str, data: bytes) -> None:
    """Drop a file in the dialog of the model bar."""
    tab.change("Drop files")
    tab.page.locator(".st-key-model-files input[type=file]").set_input_files(
        {"name": name, "mimeType": "application/octet-stream", "buffer": data}
    )


def core_document(family: str, rule: str) -> dict[str, Any]:
    """The same audit by the core alone, in a child of its own."""
    request = AuditRequest(rule=rule, seed=4701, seeds=32, rows=1, context=32)
    return run_isolated(request.task(family_task(family, 4, 32)), threads=1)


def test_a_hostile_zip_is_one_sentence_and_a_link_to_an_upload_asks_for_it(visitor: Visit) -> None:
    tab = opened(visitor(), "family=mixtral&file=0123456789abcdef")
    tab.page.get_by_text("press Change and drop the file again").first.wait_for()
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", json.dumps(CONFIG))
        archive.writestr("![x](http://example.invalid/a.png).bin", "x")
    upload(tab, "model.zip", target.getvalue())
    tab.page.get_by_text("would be written outside its folder").wait_for()
    tab.settle()
    assert tab.page.locator("[data-testid=stMain] img").count() == 0
    assert tab.page.locator(".st-key-audit-run button").is_disabled()
    assert "example" not in tab.page.url


def test_the_first_link_to_a_fresh_server_audits_the_family(chromium: Any, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with running_server(log=log) as address, visit(chromium, address) as tab:
        audited(opened(tab, "family=gpt2&audit_blocks=4&rule=gpt2&audit_view=Writers+and+readers"))
        assert tab.page.get_by_text("Residual stream proved").count() == 1
        assert tab.page.get_by_text("Your 4 layers start healthy: ratios ").count() == 1
        assert " --" not in tab.page.inner_text("body")
        tab.page.get_by_text("For continuous integration").click()
        text = tab.download("download-writers-csv").read_text()
        document = json.loads(tab.download("download-audit-json").read_text())
        assert text == csv_text(matrix_table(document).query("side == 'writer'"))
        assert [float(row["std"]) for row in csv.DictReader(io.StringIO(text))] == [
            w["std"] for w in document["writers"]
        ]
        assert document["model"]["family"] == "gpt2"
        assert tab.outside == []
    assert_clean_log(log)


@pytest.mark.heavy
def test_the_exports_are_the_cores(visitor: Visit) -> None:
    tab = audited(opened(visitor(), "family=nanochat&rule=gpt2"))
    expected = with_snippet(core_document("nanochat", "gpt2"))
    tab.page.get_by_text("For continuous integration").click()
    for button, name in (("audit-json", "audit.json"), ("audit-sarif", "audit.sarif")):
        assert tab.download(f"download-{button}").read_bytes() == gate_file(expected, name)
    first = tab.download("download-model-audit-zip").read_bytes()
    assert tab.download("download-model-audit-zip").read_bytes() == first
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        names = set(archive.namelist())
        assert {"report.html", "audit.junit.xml", "tables/matrices.csv", "figures/profile.html"} <= names
        assert json.loads(archive.read("manifest.json"))["record"]["verdict"] == "partial"
        assert json.loads(archive.read("audit.json")) == expected


@pytest.mark.heavy
def test_an_uploaded_config_is_audited(visitor: Visit) -> None:
    tab = opened(visitor(), "rule=gpt2")
    upload(tab, "config.json", json.dumps(CONFIG).encode())
    tab.page.locator(".st-key-model-line").get_by_text("Your config.json").wait_for()
    tab.page.locator(".st-key-change-done button").click()
    tab.settle()
    tab.page.locator(".st-key-audit-run button").click()
    audited(tab)
    assert tab.page.get_by_text("layers start healthy: ratios ").count() == 1


@pytest.mark.heavy
def test_a_running_audit_can_be_cancelled(visitor: Visit) -> None:
    tab = visitor()
    # Not `open`, which waits for a page at rest: this one runs until Cancel is clicked.
    tab.page.goto(f"{tab.address}/model_audit?family=mixtral&audit_blocks=32&audit_width=256")
    tab.page.locator(".st-key-cancel-run button").click()
    tab.page.get_by_text("The run was cancelled").wait_for()


@pytest.mark.heavy
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_accessible_and_fits_a_narrow_screen(visitor: Visit, scheme: str) -> None:
    tab = audited(opened(visitor(viewport=NARROW, color_scheme=scheme), "family=nanochat&rule=gpt2"))
    for view in TABS:
        tab.page.get_by_role("tab", name=view, exact=True).click()
        tab.settle()
        assert tab.overflowing() == [], view
        assert tab.violations() == [], view
    assert tab.background() == BACKGROUNDS[scheme]
