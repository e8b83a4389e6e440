"""The current model as what an audit builds: the visitor's own files, a family of the library, or a decoder's class."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core.audit.initialization.request import AUTO
from core.audit.intake.config_file import DEPTH_KEYS
from core.audit.request import DTYPES, WIDTHS, AuditRequest
from core.errors import AuditError
from core.numerals import checked_seed
from core.plan.library_config import differences, library_settings
from core.plan.model_config import NANOGPT
from pages.common import audits, given, model, uploads
from pages.common import model_controls as controls
from pages.common.audits import Wanted
from pages.common.widgets import values_of

MOST_SEEDS = 32


def wanted(rule: str = AUTO, sigma: float | None = None, dtype: str = DTYPES[0]) -> Wanted:
    """Return the audit of the current model. Raises `DepthscopeError` if the library has no class for it."""
    values = values_of(controls.MODEL)
    request = AuditRequest(
        rule=rule, sigma=sigma, dtype=dtype, seed=checked_seed(values["seed64"].strip() or values["seed"]),
        seeds=min(values["seeds"], MOST_SEEDS), rows=values["rows"], context=values["context"],
        max_parameters=audits.MAX_PARAMETERS,
    )  # fmt: skip
    request.check()
    library = given.library()
    if library is None:
        return _decoder(request)
    if library.config is not None:
        return _of_file(request, library.config)
    if library.width not in WIDTHS:
        sizes = ", ".join(map(str, WIDTHS))
        raise AuditError(f"The width is {library.width}; a family of the library is built with a width of {sizes}.")
    return Wanted(
        request=request, name=library.family, family=library.family, blocks=library.blocks, width=library.width
    )


def _of_file(request: AuditRequest, config: given.Config) -> Wanted:
    upload = uploads.room().upload
    if upload is not None and upload.config == controls.FILE.value:
        return Wanted(request=request, name=upload.name, digest=upload.digest)
    return _described(request, config.name, config.document)


def _decoder(request: AuditRequest) -> Wanted:
    """Return the audit of a decoder: of the visitor's file if it describes it, else of a class with its graph."""
    current, own = model.current(), given.given()
    config, distribution = current.config, current.request.distribution
    if own is not None and own.found is not None and own.plan is not None:
        # Rows longer than the file's positions raise those of the decoder, not those of the file.
        positions = own.found.config.positions
        like = replace(own.found.config, blocks=config.blocks, positions=config.positions)
        same = like == config and own.found.distribution == distribution
        request = replace(request, context=min(controls.CONTEXT.value, positions))
        if same and own.found.family != NANOGPT:
            if own.found.config.blocks == config.blocks:
                return _of_file(request, own)
            deeper = {**own.document, **{key: config.blocks for key in DEPTH_KEYS if key in own.document}}
            return _described(request, own.name, deeper)
    known = model.known()
    settings = library_settings(config, distribution, None if known is None else known.family)
    note = (
        f"It is audited as the class {settings['model_type']} of the transformers library with these sizes, whose own "
        f"code draws the weights, whatever recipe is set above. {differences(config, settings)}"
    )
    return _described(request, current.name, settings, note.strip())


def _described(request: AuditRequest, name: str, settings: Mapping[str, Any], note: str = "") -> Wanted:
    return Wanted(request=request, name=name, settings=json.dumps(settings, sort_keys=True), note=note)
