"""What the survey says of an initialization: the rule that writers meet, and the kind of the worst finding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from core.audit.conformance.judge import judge
from core.audit.conformance.source import Source
from core.audit.result import AuditResult


def conformance_columns(
    result: AuditResult, build: Callable[[int | None], nn.Module], settings: dict[str, Any]
) -> dict[str, Any]:
    """The columns `rule` (None where no rule is met) and `kind`, judged at the audited depth and twice it."""
    source = Source(build=build, deep=True, settings=settings)
    judgement = judge(result, source=source, with_twin=False)
    return {"rule": judgement.rule, "kind": judgement.verdict}
