"""The controls of the page Survey. The filter is typed, so it is in the manifest and not in the link."""

from __future__ import annotations

from core.audit.initialization.findings import VERDICTS
from core.audit.survey_table import STATES
from core.tables.survey import EVERY, NOT_JUDGED, OFF_FIRST, ORDERS
from pages.common.widgets import Control

TEXT = Control(
    name="survey_text", label="Find", kind="text", default="", linked=False, placeholder="gemma, Falcon",
    help="Part of a family's or a class's name, of a rule or of a reason.",
)  # fmt: skip
STATE = Control(name="survey_state", label="State", kind="choice", default=EVERY, options=(EVERY, *STATES), width=180)
KIND = Control(
    name="survey_kind", label="Kind of finding", kind="choice", default=EVERY, options=(EVERY, *VERDICTS, NOT_JUDGED),
    width=240,
)  # fmt: skip
ORDER = Control(
    name="survey_order", label="Order", kind="choice", default=OFF_FIRST, options=(OFF_FIRST, *ORDERS),
    width=260, help="A click on a column's head sorts by it too.",
)  # fmt: skip
FAMILY = Control(name="survey_family", label="Family", kind="among", default="", width=260)

CONTROLS = (TEXT, STATE, KIND, ORDER, FAMILY)
