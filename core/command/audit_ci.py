"""The step of a pipeline that audits a model on every change, as the audit's document and page show it."""

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
    """The steps, in the words of the command line; a file of the visitor's is called config.json whatever its name."""
    source, rule = str(document["model"]["source"]), document["conformance"]["rule"]
    model = source if CALLABLE.fullmatch(source) else CONFIG
    return SNIPPET.format(model=model, rule=f" --rule {rule}" if rule else "")


def with_snippet(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with the steps among its repairs, where it has any."""
    repairs = list(document["repairs"])
    if repairs:
        finding = document["conformance"]["verdict"]
        repairs.append({"finding": finding, "form": CI, "language": YAML, "code": ci_snippet(document)})
    return {**document, "repairs": repairs}
