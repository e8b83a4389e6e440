"""The controls of the page Audit a model. Their names are those in the URL:

    /model_audit?family=gpt2&audit_blocks=4&audit_width=32&rule=gpt2&sigma=0.02&audit_seed=0&audit_dtype=float32

`family` is a model type of the survey; with it alone, the page builds a small model of that family and audits it.
`model=uploaded` with `shrink=true` is a model of the visitor's own: the file is not in the link, so the page asks for
it.
"""

from __future__ import annotations

from core.audit.initialization.request import AUTO, checkable
from core.audit.request import DTYPES, WIDTHS
from core.audit.survey_table import shipped_survey
from core.recipes.catalogue import RECIPES
from pages.common.widgets import Control

FROM_FAMILY, UPLOADED = "family", "uploaded"
FAMILIES = tuple(str(row["family"]) for row in shipped_survey()[0])
MODEL = Control(
    name="model", label="Which model", kind="segments", default=FROM_FAMILY, options=(FROM_FAMILY, UPLOADED),
    help="family: one of the transformers library, built small with fresh weights. uploaded: your own config.json, "
    "with its safetensors or without.",
)  # fmt: skip
FAMILY = Control(
    name="family", label="Family", kind="choice", default=None, options=FAMILIES,
    takes="one of the families of the survey",
    placeholder=f"Choose one of {len(FAMILIES)}, or type",
    help="The kind of model, such as gpt2 or llama, as the transformers library names it.",
)  # fmt: skip
BLOCKS = Control(
    name="audit_blocks", label="Depth L, blocks", kind="whole", default=4, lower=1, upper=64, step=1,
    help="How many blocks are built. A second depth is built too, for at one a rule can be met by coincidence.",
)  # fmt: skip
WIDTH = Control(
    name="audit_width", label="Width D", kind="choice", default=str(WIDTHS[0]), options=tuple(map(str, WIDTHS)),
    help="Features of the residual stream. Heads and feed-forward keep their proportion; wider tells more exactly.",
)  # fmt: skip
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
SEED = Control(
    name="audit_seed", label="Seed", kind="whole", default=0, lower=0, upper=2**53 - 1, step=1,
    help="Where the random numbers of the fresh weights begin.",
)  # fmt: skip
DTYPE = Control(
    name="audit_dtype", label="Floating type", kind="choice", default=DTYPES[0], options=DTYPES,
    help="The number format that the model is built and run in.",
)  # fmt: skip
SHRINK = Control(
    name="shrink", label="Small widths", kind="toggle", default=False,
    help="Keep the depth of an uploaded model and make its widths small; its weights are then drawn anew.",
)  # fmt: skip

CONTROLS = (MODEL, FAMILY, BLOCKS, WIDTH, RULE, SIGMA, SEED, DTYPE, SHRINK)
