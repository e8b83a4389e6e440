"""The control of the page Published fixtures."""

from __future__ import annotations

from core.decoder.fixtures import FIXTURES
from pages.common.widgets import Control

FIXTURE = Control(name="fixture", label="Fixture", kind="segments", default="narrow-8", options=tuple(FIXTURES))

CONTROLS = (FIXTURE,)
