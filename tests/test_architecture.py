"""The house: imports run in one direction, importing does no work, and every public name is there."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

import pytest

from core.recipes.catalogue import RECIPES

ROOT = Path(__file__).parents[1]
# From the ground up; a package imports its own floor and the ones below it, and no two packages each other.
FLOORS = (
    {
        "core", "core.canonical", "core.errors", "core.files", "core.lazy", "core.locks", "core.numerals",
        "core.strict_json",
    },
    {"core.decoder"},
    {"core.recipes"},
    {"core.construction"},
    {"core.health"},
    {"core.figures", "core.plan"},
    {"core.lab", "core.compare", "core.sweep", "core.audit"},
    {"core.tables"},
    {"core.export"},
    {"core.command", "core.cli", "core.__main__"},
    {"pages"},
    {"app"},
)  # fmt: skip
# The public names that the contract gives these packages although they are defined higher up; read when asked for.
FACADES = {"core.decoder": {"core.recipes", "core.construction"}, "core.health": {"core.audit"}}
SHOWING = ("figures", "tables", "export")
FLOOR = {package: index for index, packages in enumerate(FLOORS) for package in packages}
# What a refusal may not wait for; the exact draws, recipes and requests stand on numpy alone.
WITHOUT_TORCH = [
    "core.cli", "core.files", "core.strict_json", "core.decoder", "core.decoder.config", "core.decoder.parameters",
    "core.decoder.splitmix64", "core.decoder.xavier", "core.decoder.base_draw", "core.decoder.batch",
    "core.decoder.graph", "core.recipes.catalogue", "core.decoder.fixtures", "core.health", "core.health.band",
    "core.health.request", "core.plan.arithmetic", "core.lab.initializer", "core.plan.worked_values",
    "core.export.compare",
]  # fmt: skip


def sources() -> list[Path]:
    return sorted([*(ROOT / "core").rglob("*.py"), *(ROOT / "pages").rglob("*.py"), *ROOT.glob("app.py")])


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def home_of(path: Path) -> str:
    """The package that a file's relative names start from."""
    return ".".join(path.relative_to(ROOT).parts[:-1])


def imported(path: Path) -> Iterator[str]:
    """Every module that a file names in an import, inside functions too, or in a string such as `core.plan.request`."""
    facade = FACADES.get(module_of(path), set()) if path.name == "__init__.py" else set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            # The constant part of f".command.{verb}" ends in a dot.
            module = absolute(node.value.removesuffix("."), path)
            if module in MODULES and package_of(module) not in facade:
                yield module
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from imported_from(node, path)


def imported_from(node: ast.ImportFrom, path: Path) -> Iterator[str]:
    """The module that `from ... import` reads, and each name of it that is a module too."""
    module = absolute("." * node.level + (node.module or ""), path)
    yield module
    yield from (name for name in (f"{module}.{alias.name}" for alias in node.names) if name in MODULES)


def absolute(name: str, path: Path) -> str:
    """A module's name, relative as a file writes it or not, from the top."""
    try:
        return resolve_name(name, home_of(path)) if name.startswith(".") else name
    except ImportError:
        return ""


MODULES = {module_of(path) for path in sources()} - {"core", "app"}


def package_of(module: str) -> str:
    """The package that a module of this project belongs to, as `FLOORS` names it."""
    parts = module.split(".")
    named = ".".join(parts[:2])
    # The command line is one room: the group names its verbs, and the verbs use its exit codes.
    if named in ("core.cli", "core.__main__"):
        return "core.command"
    return named if parts[0] == "core" and named in FLOOR else parts[0]


def test_every_package_has_its_floor() -> None:
    packages = {".".join(module_of(path).split(".")[:2]) for path in sources() if module_of(path).startswith("core")}
    assert packages <= set(FLOOR)


@pytest.mark.parametrize("path", sources(), ids=module_of)
def test_the_core_names_itself_relatively(path: Path) -> None:
    """Installed, it has another name, and beside it there may be a package `core` that is not this one."""
    for node in ast.walk(ast.parse(path.read_text())):
        if module_of(path).startswith("core"):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            names += [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
            assert not [name for name in names if re.match(r"core(\.\w+)*$", name)], (path, node.lineno)


@pytest.mark.parametrize("path", sources(), ids=module_of)
def test_imports_run_downwards(path: Path) -> None:
    own = package_of(module_of(path))
    for module in imported(path):
        package = package_of(module)
        if package in FLOOR:
            assert FLOOR[package] <= FLOOR[own], f"{own} imports {module}"
        if own.startswith("core"):
            assert module.split(".")[0] not in ("streamlit", "pages", "app", "tests")


def test_no_two_packages_import_each_other() -> None:
    graph: dict[str, set[str]] = {}
    for path in sources():
        own = package_of(module_of(path))
        found = {package_of(module) for module in imported(path)} & set(FLOOR)
        graph.setdefault(own, set()).update(found - {own})
    assert list(TopologicalSorter(graph).static_order())


def test_no_two_modules_import_each_other() -> None:
    """At import; an import inside a function may close a circle."""
    graph: dict[str, set[str]] = {}
    names = {module_of(path) for path in sources()}
    for path in sources():
        top = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        found = {name for node in top if isinstance(node, ast.ImportFrom) for name in imported_from(node, path)}
        found |= {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
        # A package imports its own modules' names; that it does so lazily is another test's.
        found.discard(module_of(path))
        graph[module_of(path)] = {name for name in found if name in names}
    assert list(TopologicalSorter(graph).static_order())


def test_the_engine_knows_no_recipe_by_name() -> None:
    """A new recipe is one entry of the catalogue: what draws, transforms and runs a decoder reads its data alone."""
    names = {known.name for known in RECIPES}
    for folder in ("decoder", "construction"):
        for path in (ROOT / "core" / folder).rglob("*.py"):
            constants = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
            assert not names & constants, path


@pytest.mark.parametrize("path", sources(), ids=module_of)
def test_only_the_command_line_names_its_options(path: Path) -> None:
    """A refusal has a `Remedy`, and whoever shows it says where that is found."""
    if package_of(module_of(path)) == "core.command":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert not re.search(r"(?<![\w-])--[a-z]|python -m core\b", node.value), (node.lineno, node.value)


def test_what_shows_reads_tables_and_holds_no_tensor() -> None:
    for path in (path for folder in SHOWING for path in (ROOT / "core" / folder).rglob("*.py")):
        assert not {"torch", "core.decoder.forward_pass", "core.health.observation"} & set(imported(path)), path


PROBE = """
import json, os, random, sys, threading
import click, numpy, pandas, plotly.graph_objects, safetensors.torch, torch
def state():
    return {
        "environment": dict(os.environ), "folder": os.getcwd(), "threads": threading.active_count(),
        "random": repr(random.getstate()), "numpy": repr(numpy.random.get_state()),
        "torch": torch.random.get_rng_state().tolist(), "dtype": str(torch.get_default_dtype()),
        "torch threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "grad": torch.is_grad_enabled(), "numpy errors": numpy.geterr(), "files": sorted(os.listdir(".")),
        "digits": sys.get_int_max_str_digits(), "recursion": sys.getrecursionlimit(),
    }
before = state()
for module in json.load(sys.stdin):
    __import__(module)
after = state()
print(json.dumps([[key, str(before[key])[:300], str(after[key])[:300]] for key in before if before[key] != after[key]]))
"""


def run_python(code: str, given: Any, folder: Path) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_importing_all_of_core_does_no_work(tmp_path: Path) -> None:
    """No draw, no thread, no file, no setting: generators, environment and switches are as they were."""
    modules = [
        module_of(path) for path in sources() if module_of(path).startswith("core") and "__main__" not in path.name
    ]
    assert run_python(PROBE, modules, tmp_path) == []


def test_what_needs_no_torch_imports_none(tmp_path: Path) -> None:
    verbs = [module_of(path) for path in (ROOT / "core" / "command").glob("*.py")]
    code = """
import json, sys
found = []
for module in json.load(sys.stdin):
    __import__(module)
    found += [[module, name] for name in ("torch", "plotly", "streamlit", "transformers")
              if name in sys.modules and not any(name == seen[1] for seen in found)]
print(json.dumps(found))
"""
    assert run_python(code, [*WITHOUT_TORCH, *verbs], tmp_path) == []


class TestPublicNames:
    """`from core.decoder import ...`, `from core.health import ...`."""

    @pytest.mark.parametrize("package", ["core.decoder", "core.health", "core.audit"])
    def test_every_public_name_is_there(self, package: str) -> None:
        module = importlib.import_module(package)
        assert len(set(module.__all__)) == len(module.__all__)
        for name in module.__all__:
            value = getattr(module, name)
            assert value.__doc__ if callable(value) else value is not None
            assert name in dir(module)
        with pytest.raises(AttributeError, match="has no attribute 'absent'"):
            _ = module.absent

    @pytest.mark.parametrize("package", ["core.decoder", "core.health", "core.sweep", "core.audit"])
    def test_no_public_name_is_that_of_a_submodule(self, package: str) -> None:
        """Importing the submodule would put it in the name's place."""
        modules = {path.stem for path in (ROOT / package.replace(".", "/")).glob("*.py")}
        assert not modules & set(importlib.import_module(package).__all__)

    def test_the_documented_way_through(self) -> None:
        """The example of `core.health`'s own documentation."""
        health = importlib.import_module("core.health")
        example = [line[4:] for line in (health.__doc__ or "").splitlines() if line.startswith("    ")]
        scope: dict[str, Any] = {}
        exec("\n".join(example), scope)
        assert scope["scaled"].observation.activation_ratio.shape == (8, 33)
        assert scope["control"].recipe.name == "unscaled"

    def test_observing_a_tape(self) -> None:
        decoder, health = importlib.import_module("core.decoder"), importlib.import_module("core.health")
        config = decoder.DecoderConfig(blocks=2)
        recipe = decoder.recipe("depth-scaled")
        weights = decoder.DrawnWeights(decoder.BaseDraw(config, [4701]), [recipe])
        observation = health.observe(decoder.forward(recipe.graph(config), weights, decoder.chapter_batch()))
        assert f"{observation.activation_ratio.max():.6f}" == "7.412484"
