"""Steps for continuous integration (CI) that audit a model on every change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..audit.intake.target import CALLABLE
from ..audit.report.repair_forms import CI, YAML

CONFIG = "config.json"
SNIPPET = """\
# Steps of a GitHub Actions job. The first run writes the golden file: commit it.
- run: python -m core audit {model}{rule} --gate --golden audit.golden.json --sarif audit.sarif
- uses: github/codeql-action/upload-sarif@v4
  if: always()
  with: {{ sarif_file: audit.sarif }}
"""


def ci_snippet(document: Mapping[str, Any]) -> str:
    """Return the steps as YAML text for a GitHub Actions job; an uploaded model is named config.json there."""
    source, rule = str(document["model"]["source"]), document["conformance"]["rule"]
    model = source if CALLABLE.fullmatch(source) else CONFIG
    return SNIPPET.format(model=model, rule=f" --rule {rule}" if rule else "")


def with_snippet(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with the CI steps added to its repairs, if it has any repair."""
    repairs = list(document["repairs"])
    if repairs:
        finding = document["conformance"]["verdict"]
        repairs.append({"finding": finding, "form": CI, "language": YAML, "code": ci_snippet(document)})
    return {**document, "repairs": repairs}
