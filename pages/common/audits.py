"""Audits of the session: what is audited, the child process that audits, and the stored documents.

A child has no network, opens only the upload's own files, and is limited in memory and time; it never runs code that
came with a model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import streamlit as st

from core.audit.intake.config_file import screen_config
from core.audit.intake.target import family_task, path_task
from core.audit.request import STAGES, AuditRequest, require_library
from core.audit.sandbox.confine import DEFAULT_MEMORY, DEFAULT_SECONDS
from core.audit.sandbox.isolation import Child
from core.decoder.config import Budget
from core.errors import AuditError, BudgetError, DepthscopeError
from pages.common import allowance, jobs, panels, uploads

MAX_PARAMETERS = 2**27
BUDGET = Budget(max_parameters=MAX_PARAMETERS)
# Fresh weights of more parameters are drawn at small widths, and health is told by a reduced twin over seeds.
SMALL = Budget(max_parameters=2**22)
# Seconds of an audit on an idle core: of a small model, most of them for the library's import, and with a twin.
EXPECTED_SECONDS, EXPECTED_WITH_TWIN = 9.0, 25.0
LEDGER, REFUSAL = "audits computed", "audit refusal"
LIMITS = (
    f"At most {MAX_PARAMETERS / 1e6:.0f} million parameters, {DEFAULT_MEMORY // 2**30} GiB and "
    f"{DEFAULT_SECONDS // 60} minutes in a process without network that runs no code from the model's files. Larger "
    "models are audited with small widths, and their health is that of a reduced twin."
)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An audit of a family with the given sizes, of the upload with this digest, or of settings as JSON text.

    `name` is what the visitor calls the model; `note` is a sentence on how it is audited.
    """

    request: AuditRequest
    name: str
    family: str | None = None
    blocks: int = 0
    width: int = 0
    digest: str | None = None
    settings: str = ""
    note: str = field(default="", compare=False)

    def model(self) -> dict[str, Any]:
        """Return the screened model of the task. Raises `AuditError` if it cannot be built or its files are gone."""
        if self.family is not None:
            return family_task(self.family, self.blocks, self.width)
        try:
            return self._uploaded() if self.digest is not None else self._described()
        except DepthscopeError as error:
            raise AuditError(panels.of_file(self.name, error)) from error

    def _uploaded(self) -> dict[str, Any]:
        upload = uploads.room().upload
        if upload is None or upload.digest != self.digest:
            raise AuditError("The uploaded model is gone; upload it again.")
        try:
            return path_task(upload.path, self.request.budget, shrink=False, source=upload.name)
        except BudgetError:
            return path_task(upload.path, self.request.budget, shrink=True, source=upload.name)

    def _described(self) -> dict[str, Any]:
        settings = json.loads(self.settings)
        try:
            family, shrink = screen_config(settings, SMALL), False
        except BudgetError:
            family, shrink = screen_config(settings, self.request.budget, shrink=True), True
        return {"kind": "config", "settings": settings, "family": family, "source": self.name, "shrink": shrink}


def collect() -> None:
    """Store the document of an audit that has ended, or the sentence that explains its error; once per run."""
    ended = jobs.AUDITS.collect()
    if ended is None or not ended.ended:
        return
    if isinstance(ended.work, Child):
        allowance.charge(ended.work.seconds, LEDGER)
    if ended.refusal is not None and isinstance(ended.key, Wanted) and ended.key.family is None:
        ended.refusal = panels.of_file(ended.key.name, AuditError(ended.refusal))
    st.session_state[REFUSAL] = ended.refusal


def start(wanted: Wanted) -> None:
    """Start the child process, or store the sentence that explains why it cannot."""
    st.session_state[REFUSAL] = None
    try:
        require_library()
        wanted.request.check()
        model = wanted.model()
        allowance.check(LEDGER, "press Audit again")
        child = partial(
            Child, wanted.request.task(model), memory=DEFAULT_MEMORY, seconds=DEFAULT_SECONDS, threads=1
        )  # fmt: skip
        twin = model["shrink"] and model["kind"] != "family"
        expected = EXPECTED_WITH_TWIN if twin else EXPECTED_SECONDS
        jobs.AUDITS.begin(lambda: jobs.Job(wanted, expected, child(), STAGES))
    except DepthscopeError as error:
        st.session_state[REFUSAL] = panels.told(error)


def state(wanted: Wanted, document: Mapping[str, Any] | None) -> None:
    """Draw why the last audit was refused, or the progress of the present one; what was left out of a model is said."""
    if (sentence := st.session_state.pop(REFUSAL, None)) is not None:
        panels.refusal(sentence)
    elif (running := jobs.AUDITS.running()) is not None:
        if running.key != wanted:
            panels.notice("Another long run of this session is under way; cancel it, or wait for its end.")
        jobs.progress(running)
    elif document is None:
        panels.notice("Press Audit; nothing was run for these settings yet.")
