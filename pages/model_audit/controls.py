"""Controls of the page Audit a model alone: what the current model is held against. Their names are the URL's:

/model_audit?family=gpt2&blocks=4&width=32&rule=gpt2&sigma=0.02&audit_dtype=float32
"""

from __future__ import annotations

from core.audit.initialization.request import AUTO, checkable
from core.audit.request import DTYPES
from core.recipes.catalogue import RECIPES
from pages.common.widgets import Control

RULE = Control(
    name="rule", label="Depth rule it should follow", kind="choice", default=AUTO,
    options=(AUTO, *(known.name for known in RECIPES if checkable(known))),
    help="How the matrices that end a branch should shrink with depth; gpt2 divides them by the root of twice the "
    "number of blocks. auto recognizes the rule, if there is one.",
)  # fmt: skip
SIGMA = Control(
    name="sigma", label="Std without depth", kind="text", default="", placeholder="from the configuration",
    help="The standard deviation that matrices are drawn with before any depth factor, such as 0.02. Empty: the "
    "configuration's, else what the matrices that begin a branch have.",
)  # fmt: skip
DTYPE = Control(
    name="audit_dtype", label="Floating type", kind="choice", default=DTYPES[0], options=DTYPES,
    help="The number format that the model is built and run in.",
)  # fmt: skip

CONTROLS = (RULE, SIGMA, DTYPE)
