"""One observed document for every test of tables, figures and files."""

from __future__ import annotations

from typing import Any

import pytest

from core.decoder.config import DecoderConfig
from core.health.report import observe_document
from core.health.request import ObserveRequest


@pytest.fixture(scope="session")
def document() -> dict[str, Any]:
    """The chapter's narrow eight-block fixture."""
    return observe_document(ObserveRequest())


@pytest.fixture(scope="session")
def deep_document() -> dict[str, Any]:
    """Thirty-two narrow blocks: the control leaves the band, the scaled arm stays."""
    return observe_document(ObserveRequest(config=DecoderConfig(blocks=32)))
