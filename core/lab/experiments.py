"""The registry of all experiments, in the order of their pages; the command line and the pages find them here.

Every experiment is one file, `core/lab/<folder>/<name>.py`, that defines a variable `EXPERIMENT`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..errors import LabError, Remedy, unknown_name

if TYPE_CHECKING:
    from .experiment import Experiment

SCHEMA = "depthscope.lab/1"


@dataclass(frozen=True)
class Page:
    """A page of experiments: its name, its title, the folder of the experiments' files, and their names in order."""

    name: str
    title: str
    folder: str
    experiments: tuple[str, ...]


PAGES = (
    Page("signal_lab", "Signal lab", "signal", (
        "linear-layer", "chain", "linear-chain", "relu-chain", "tanh-chain", "compounding", "sigmoid-unit",
        "scaled-residual", "decoder-variance", "stream-growth", "norm-placement", "width-update", "soft-cap",
    )),
    Page("norm_lab", "Norm lab", "norm", (
        "norm-steps", "norm-invariances", "norm-epsilon", "epsilon-placement", "norm-divergence", "norm-jacobian",
        "norm-gradients", "variance-divisor", "one-pass-moments", "accumulation", "sharded-moments", "residual-once",
    )),
    Page("residual_paths", "Residual paths", "paths", (
        "jacobian-product", "branch-interaction", "stream-expansion", "update-geometry", "residual-ledger",
    )),
)  # fmt: skip
EXPERIMENTS: Mapping[str, Page] = MappingProxyType({name: page for page in PAGES for name in page.experiments})


def experiment(name: str) -> Experiment[Any]:
    """Import and return the experiment of that name.

    Raises `LabError`, with the nearest known names, if it is unknown.
    """
    if name not in EXPERIMENTS:
        raise LabError(unknown_name("experiment", name, EXPERIMENTS), Remedy.EXPERIMENTS)
    found: Experiment[Any] = import_module(f".{EXPERIMENTS[name].folder}.{_file(name)}", __package__).EXPERIMENT
    return found


@cache
def listing() -> list[dict[str, Any]]:
    """Return one dict per experiment with `name`, `page`, `title` and `presets` (names), without importing any."""
    return [
        {"name": name, "page": page.name, "title": said["title"], "presets": list(said["presets"])}
        for name, page in EXPERIMENTS.items()
        for said in [_said(Path(__file__).parent / page.folder / f"{_file(name)}.py")]
    ]


def _file(name: str) -> str:
    return name.replace("-", "_")


def _said(path: Path) -> dict[str, Any]:
    """Return the title and presets of a file's `EXPERIMENT`, parsed as text to avoid the import."""
    calls = (node.value for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.Assign))
    keywords = [word for call in calls if isinstance(call, ast.Call) for word in call.keywords]
    return {word.arg or "": ast.literal_eval(word.value) for word in keywords if word.arg in ("title", "presets")}
