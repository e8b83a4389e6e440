"""The options of an audit beside its model, and the task that its child process receives.

The options are checked before torch is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..decoder.config import DRIVERS, Budget
from ..errors import AuditError, ConfigError, Remedy, shown
from ..numerals import SPACES, checked_seed, finite_number
from .initialization.request import AUTO, checked_rule, checked_sigma
from .sandbox.confine import DEFAULT_MEMORY, DEFAULT_SECONDS, check_limits

DTYPES = ("float32", "float64", "bfloat16")
# Widths that a family is built with; the first is that of the survey.
WIDTHS = (32, 64, 128, 256)
MISSING = (
    "This needs the transformers library, which is not installed; get it with `pip install transformers==5.24.0` and "
    "try again."
)
MOST_PARAMETERS = 2**62
# Parameters per second of an audit block by block on two cores, each drawn, read and multiplied forward and in reverse.
BLOCK_RATE = 20_000_000
# The audited model's own seed, then that of more models where it can be built again.
SEEDS = (0, 1, 2, 3)
# Where the library keeps the names of its models.
NAMES_FILE = ("models", "auto", "modeling_auto.py")
CAUSAL = "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"
# How it calls the mappings from a model type to a class, the class that is audited first.
MAPPINGS = (
    CAUSAL, "MODEL_FOR_MASKED_LM_MAPPING_NAMES", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES", "MODEL_FOR_CTC_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_MAPPING_NAMES",
)  # fmt: skip
# What a child does one after another, and the share of a small audit's time that each takes.
STAGES: Mapping[str, tuple[str, float]] = {
    "library": ("Loading the transformers library", 0.6),
    "build": ("Building the model", 0.1),
    "stream": ("Finding and proving the residual stream", 0.1),
    "conformance": ("Judging the initialization, at a second depth too", 0.2),
}


@dataclass(frozen=True, kw_only=True)
class AuditRequest:
    """The rule and base standard deviation to judge by, how fresh weights are drawn, and the child's limits.

    `max_memory` is in bytes. None means `DEFAULT_MEMORY`, and no limit where the user's own code is run; where blocks
    may be drawn one at a time, half of what is free if that is more. `driver` is `graph`, which builds the whole model,
    `block`, which draws one block at a time, or `auto`: blocks where the whole exceeds the memory or `max_parameters`.
    `seeds` is how many fresh models, from `seed` on, the ratios are counted over where the model can be built again.
    `rows` and `context` are the size of the random batch that a configuration is observed on; None takes the audit's
    own small one.
    """

    rule: str = AUTO
    sigma: float | None = None
    seed: int = 0
    dtype: str = "float32"
    max_parameters: int = Budget().max_parameters
    max_memory: int | None = None
    max_seconds: int = DEFAULT_SECONDS
    driver: str = "graph"
    seeds: int = len(SEEDS)
    rows: int | None = None
    context: int | None = None

    def check(self) -> None:
        """Check every field. Raises `AuditError`, `ConfigError` or `RecipeError` for the first that is not valid."""
        check_limits(self.max_memory, self.max_seconds)
        if not 1 <= self.max_parameters <= MOST_PARAMETERS:
            raise AuditError(
                f"max_parameters is {shown(self.max_parameters)}; it must lie between 1 and {MOST_PARAMETERS:,}."
            )
        if self.dtype not in DTYPES:
            raise ConfigError(f"The dtype {shown(self.dtype)} is not offered; choose one of {', '.join(DTYPES)}.")
        if self.driver not in DRIVERS:
            raise AuditError(f"The driver {shown(self.driver)} is not offered; choose one of {', '.join(DRIVERS)}.")
        checked_seed(self.seed)
        checked_sigma(self.sigma)
        checked_rule(self.rule)

    @property
    def memory(self) -> int:
        """The memory limit in bytes of a child process that does not run the user's own code."""
        if self.max_memory is not None:
            return self.max_memory
        return DEFAULT_MEMORY if self.driver == "graph" else max(DEFAULT_MEMORY, self.whole_memory)

    @property
    def whole_memory(self) -> int:
        """The bytes that a model built as a whole may take, if its blocks may be drawn one at a time instead."""
        from ..health.estimate import GRAPH_SHARE, available_memory  # needs numpy, which help does not wait for

        return int(GRAPH_SHARE * available_memory()) if self.max_memory is None else self.max_memory

    @property
    def budget(self) -> Budget:
        """The largest number of parameters that a model may have, as a `Budget`.

        That of a model that need not be held whole is what can be drawn, read and multiplied in `max_seconds`.
        """
        whole = Budget(max_parameters=self.max_parameters)
        in_time = Budget(max_parameters=self.max_seconds * BLOCK_RATE, remedy=Remedy.SECONDS)
        return whole if self.driver == "graph" or whole.max_parameters > in_time.max_parameters else in_time

    def task(self, model: Mapping[str, Any], batch: Any = None) -> dict[str, Any]:
        """Return the task that `sandbox.tasks` runs: the keys of `model`, screened already, and those of this request.

        `batch` is the JSON form of a batch; None draws a small random one.
        """
        return {
            **model,
            "seed": self.seed,
            "dtype": self.dtype,
            "batch": batch,
            "max_parameters": self.max_parameters,
            "most_by_block": self.budget.max_parameters,
            "rule": self.rule,
            "sigma": self.sigma,
            "driver": self.driver,
            "whole_memory": None if self.driver == "graph" else self.whole_memory,
            "seeds": [(self.seed + place) % 2**64 for place in range(self.seeds)],
            "rows": self.rows,
            "context": self.context,
        }


def parsed_sigma(text: str) -> float | None:
    """Return the base standard deviation written in `text`, None where the text is blank.

    Raises `AuditError` where it is not a positive number.
    """
    if not text.strip(SPACES):
        return None
    value = finite_number(text)
    if value is None or value <= 0:
        raise AuditError(f"The base std {shown(text)} is not a positive number; type one such as 0.02, or nothing.")
    return value


def require_library() -> None:
    """Raise `AuditError` where the transformers library is not installed, without importing it."""
    if find_spec("transformers") is None:
        raise AuditError(MISSING)


@lru_cache(maxsize=1)
def families() -> Mapping[str, str]:
    """Return the class name of every causal language model by model type, in the library's order.

    They are read from the library's source, because importing it takes seconds. Raises `AuditError` where it is not
    installed.
    """
    return _classes()[CAUSAL]


@lru_cache(maxsize=1)
def architectures() -> Mapping[str, str]:
    """Return the class name that is audited for every model type: a causal language model where there is one."""
    found: dict[str, str] = {}
    for name in MAPPINGS:
        for family, chosen in _classes()[name].items():
            found.setdefault(family, chosen)
    return found


@lru_cache(maxsize=1)
def _classes() -> Mapping[str, Mapping[str, str]]:
    require_library()
    spec = find_spec("transformers")
    assert spec is not None
    for place in spec.submodule_search_locations or ():
        found = _written_in(Path(place).joinpath(*NAMES_FILE))
        if found:
            return found
    module = import_module("transformers.models.auto.modeling_auto")
    return {name: _first_classes(dict(getattr(module, name, {}))) for name in MAPPINGS}


def _written_in(path: Path) -> dict[str, dict[str, str]]:
    """Return the pairs of every mapping of `MAPPINGS` in a source file.

    Empty where the file does not write the first as literals.
    """
    try:
        body = ast.parse(path.read_text(encoding="utf-8")).body
    except (OSError, ValueError, SyntaxError):
        return {}
    values = {ast.unparse(node.targets[0]): node.value for node in body if isinstance(node, ast.Assign)}
    found = {name: _pairs(values.get(name)) for name in MAPPINGS}
    return found if found[CAUSAL] else {}


def _pairs(value: ast.expr | None) -> dict[str, str]:
    try:
        assert isinstance(value, ast.Call)
        return _first_classes(dict(ast.literal_eval(value.args[0])))
    except (ValueError, AssertionError, IndexError):
        return {}


def _first_classes(pairs: Mapping[str, Any]) -> dict[str, str]:
    """Return the first class of every model type; some have several."""
    return {family: chosen if isinstance(chosen, str) else chosen[0] for family, chosen in pairs.items()}


def checked_family(family: str) -> str:
    """Return `family`, unchanged, without importing the library.

    Raises `AuditError` where the installed library has no model of that type.
    """
    if family not in architectures():
        raise AuditError(
            f"The model_type {shown(family)} is not among the {len(architectures())} architectures of the installed "
            "transformers",
            Remedy.FAMILIES,
        )
    return family
