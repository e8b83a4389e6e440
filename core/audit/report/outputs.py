"""Write the reports that were requested, and decide whether the gate fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...files import write_text
from .gate import Gate, gate_fails, judged_rows
from .golden import check_golden
from .junit import junit_report
from .sarif import sarif_report


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of an audit's gate.

    `fails` says whether the gate fails. `changes` are those against the golden file, None if there was none to compare.
    """

    fails: bool
    changes: tuple[str, ...] | None

    def lines(self) -> list[str]:
        """Return the changes as lines for a terminal; empty where there was no golden file."""
        if self.changes is None:
            return []
        return [f"golden: {change}" for change in self.changes] or ["golden: nothing changed"]


def write_outputs(
    document: Mapping[str, Any],
    *,
    gate: Gate | None = None,
    junit: str | None = None,
    sarif: str | None = None,
    golden: str | None = None,
    allow_unproved: bool = False,
) -> Outcome:
    """Write JUnit and SARIF reports to the given paths, compare with the golden file or write it; return the `Outcome`.

    With a `gate`, a change against the golden file fails it too, and so does a stream that is not proved unless
    `allow_unproved`. Raises `StorageError`.
    """
    changes = None if golden is None else check_golden(golden, document)
    if junit is not None:
        rows = judged_rows(document, changes=changes or (), allow_unproved=allow_unproved)
        write_text(junit, junit_report(document, gate or "error", rows))
    if sarif is not None:
        rows = judged_rows(document, changes=changes or (), allow_unproved=allow_unproved)
        write_text(sarif, sarif_report(document, rows))
    return _outcome(document, gate, changes, allow_unproved=allow_unproved)


def judge_outputs(
    document: Mapping[str, Any], *, gate: Gate | None = None, golden: str | None = None, allow_unproved: bool = False
) -> Outcome:
    """Return the outcome that `write_outputs` returns, without writing anything. Raises `StorageError`."""
    changes = None if golden is None else check_golden(golden, document, write=False)
    return _outcome(document, gate, changes, allow_unproved=allow_unproved)


def _outcome(
    document: Mapping[str, Any], gate: Gate | None, changes: list[str] | None, *, allow_unproved: bool
) -> Outcome:
    kept = None if changes is None else tuple(changes)
    fails = gate_fails(document, gate, changes=kept or (), allow_unproved=allow_unproved)
    return Outcome(fails=fails, changes=kept)
