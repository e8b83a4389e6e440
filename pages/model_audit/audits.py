"""Audits of the session: what the page asks for, the confined child that answers, and documents kept by what was asked.

A child has no network, opens nothing but the upload's own files, and is bounded in memory and time; it never runs code
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
# What a small audit takes on a quiet core, most of it for the library's import; what a parameter adds.
EXPECTED_SECONDS = 9.0
LEDGER, REFUSAL = "audits computed", "audit refusal"
LIMITS = (
    f"At most {MAX_PARAMETERS / 1e6:.0f} million parameters, {DEFAULT_MEMORY // 2**30} GiB and "
    f"{DEFAULT_SECONDS // 60} minutes in a process without network that runs no code from the model's files."
)


class Child(ChildProcess):
    """A child whose refusals name no way out that the page has not: a model that is small has no widths to shrink."""

    def __init__(self, task: Mapping[str, Any], **limits: Any) -> None:
        super().__init__(task, **limits)
        self._shrunk = bool(task["shrink"])
        self._way = "choose fewer blocks or a smaller width" if task["kind"] == "family" else "give a smaller model"

    def result(self) -> dict[str, Any]:
        """The document, or the refusal with what there is to do here."""
        try:
            return super().result()
        except DepthscopeError as error:
            if self._shrunk and Remedy.SMALL_WIDTHS in error.ways:
                raise AuditError(error.sentence, self._way) from error
            raise


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An audit as the page asks for it: a family of these sizes, or the upload of that digest."""

    request: AuditRequest
    family: str | None = None
    blocks: int = 0
    width: int = 0
    digest: str | None = None
    shrink: bool = False

    def model(self) -> dict[str, Any]:
        """The screened model of the task; raises the refusal of an upload that cannot be built."""
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
    """Keep the document of an audit that has ended, or the sentence why there is none; once a run, before the form."""
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
    """Callback of Audit: start the child, or keep the sentence why not."""
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
