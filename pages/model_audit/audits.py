"""The audits of a session: the request of the page, the child process that audits, and the stored documents.

A child process has no network, opens only the uploaded files, and is limited in memory and time. It never runs code
that came with a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from core.audit.intake.target import family_task, path_task
from core.audit.request import STAGES, AuditRequest, require_library
from core.audit.sandbox.confine import DEFAULT_MEMORY, DEFAULT_SECONDS
from core.audit.sandbox.isolation import Child as ChildProcess
from core.decoder.config import Budget
from core.errors import AuditError, DepthscopeError, Remedy
from pages.common import allowance, jobs, panels
from pages.model_audit import uploads

MAX_PARAMETERS = 2**27
BUDGET = Budget(max_parameters=MAX_PARAMETERS)
# Seconds of a small audit on an idle core, most of them for the library's import.
EXPECTED_SECONDS = 9.0
LEDGER, REFUSAL = "audits computed", "audit refusal"
LIMITS = (
    f"At most {MAX_PARAMETERS / 1e6:.0f} million parameters, {DEFAULT_MEMORY // 2**30} GiB and "
    f"{DEFAULT_SECONDS // 60} minutes in a process without network that runs no code from the model's files."
)


class Child(ChildProcess):
    """The child process of an audit; if widths are small already, its errors do not suggest small widths."""

    def __init__(self, task: Mapping[str, Any], **limits: Any) -> None:
        super().__init__(task, **limits)
        self._shrunk = bool(task["shrink"])
        self._way = "choose fewer blocks or a smaller width" if task["kind"] == "family" else "give a smaller model"

    def result(self) -> dict[str, Any]:
        """Wait for the audit document and return it. Raises the error of the child, with what to do on this page."""
        try:
            return super().result()
        except DepthscopeError as error:
            if self._shrunk and Remedy.SMALL_WIDTHS in error.ways:
                raise AuditError(error.sentence, self._way) from error
            raise


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The audit that the page asks for: of a model family with given sizes, or of the upload with a given digest."""

    request: AuditRequest
    family: str | None = None
    blocks: int = 0
    width: int = 0
    digest: str | None = None
    shrink: bool = False

    def model(self) -> dict[str, Any]:
        """Return the description of the model for the child process.

        Raises `AuditError` if an upload cannot be built or is gone.
        """
        if self.family is not None:
            return family_task(self.family, self.blocks, self.width)
        upload = uploads.room().upload
        if upload is None or upload.digest != self.digest:
            raise AuditError("The uploaded model is gone; upload it again.")
        try:
            return path_task(upload.path, self.request.budget, shrink=self.shrink, source=upload.name)
        except DepthscopeError as error:
            raise AuditError(panels.of_file(upload.name, error)) from error


def collect() -> None:
    """Store the document of an audit that has ended, or the sentence of its error.

    Call it once per run, before the form is drawn.
    """
    ended = jobs.collect()
    if ended is None or not ended.ended:
        return
    if isinstance(ended.work, Child):
        allowance.charge(ended.work.seconds, LEDGER)
    upload = uploads.room().upload
    if ended.refusal is not None and upload and upload.digest == getattr(ended.key, "digest", None):
        ended.refusal = panels.of_file(upload.name, AuditError(ended.refusal))
    st.session_state[REFUSAL] = ended.refusal


def start(wanted: Wanted) -> None:
    """Callback of the button Audit: start the child process, or store the sentence that says why it cannot start."""
    st.session_state[REFUSAL] = None
    try:
        require_library()
        wanted.request.check()
        task = wanted.request.task(wanted.model())
        allowance.check(LEDGER, "press Audit again")
        child = partial(Child, task, memory=DEFAULT_MEMORY, seconds=DEFAULT_SECONDS, threads=1)
        jobs.begin(wanted, EXPECTED_SECONDS, child, STAGES)
    except DepthscopeError as error:
        st.session_state[REFUSAL] = panels.told(error)
