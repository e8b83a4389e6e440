"""Packages whose public names load their module only when they are first read (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def public(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return three values for the module level of `package`: `__getattr__`, `__dir__` and `__all__`.

    `names` maps the relative name of each module, such as ".band", to the public names that it defines. A public name
    must differ from the name of every submodule, because importing a submodule replaces the name.
    """
    homes = {name: module for module, group in names.items() for name in group}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name], package), name)

    return load, lambda: sorted(homes), list(homes)
