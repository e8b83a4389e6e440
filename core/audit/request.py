"""What an audit is asked for beside its model, and the task that its child process is given; checked before torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from core.audit.initialization.request import AUTO, checked_rule, checked_sigma
from core.decoder.config import Budget
from core.decoder.splitmix64 import checked_seed
from core.errors import AuditError, DtypeError, MissingExtra, shown

DTYPES = ("float32", "float64", "bfloat16")
# Widths that a family is built with; the first is that of the survey.
WIDTHS = (32, 64, 128, 256)
MISSING = (
    "This needs the transformers library, which is not installed; get it with `pip install transformers==5.24.0` and "
    "try again."
)
# What a child does one after another, and the share of a small audit's time that each takes.
STAGES: Mapping[str, tuple[str, float]] = {
    "library": ("Loading the transformers library", 0.6),
    "build": ("Building the model", 0.1),
    "stream": ("Finding and proving the residual stream", 0.1),
    "conformance": ("Judging the initialization, at a second depth too", 0.2),
}


@dataclass(frozen=True, kw_only=True)
class AuditRequest:
    """The rule and base that a model is judged by, and how its fresh weights are drawn."""

    rule: str = AUTO
    sigma: float | None = None
    seed: int = 0
    dtype: str = "float32"
    max_parameters: int = Budget().max_parameters

    def check(self) -> None:
        """Refuse what no model can be judged by: raises `DtypeError`, `SeedError`, `AuditError` or `RecipeError`."""
        if self.dtype not in DTYPES:
            raise DtypeError(f"The dtype {shown(self.dtype)} is not offered; choose one of {', '.join(DTYPES)}.")
        checked_seed(self.seed)
        checked_sigma(self.sigma)
        checked_rule(self.rule)

    @property
    def budget(self) -> Budget:
        """What a model may take."""
        return Budget(max_parameters=self.max_parameters)

    def task(self, model: Mapping[str, Any], batch: Any = None) -> dict[str, Any]:
        """The task of `core.audit.tasks` for a screened model and a batch's document, None for a small random one."""
        return {
            **model,
            "seed": self.seed,
            "dtype": self.dtype,
            "batch": batch,
            "max_parameters": self.max_parameters,
            "rule": self.rule,
            "sigma": self.sigma,
        }


def parsed_sigma(text: str) -> float | None:
    """A base standard deviation as typed, None where nothing was; raises `AuditError`."""
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise AuditError(f"The base std {shown(text)} is not a positive number; type one such as 0.02, or nothing.")
    return value


def require_library() -> None:
    """Raise `MissingExtra` where the transformers library is not installed, without importing it."""
    if find_spec("transformers") is None:
        raise MissingExtra(MISSING)
