"""Packages whose public names load their module only when first read."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any


class LazyPackage(ModuleType):
    """A package with public names from its own and other modules; none of them is imported before it is read.

    A public name wins over a submodule of the same name, whichever is imported first.
    """

    _homes: Mapping[str, str]

    def __getattr__(self, name: str) -> Any:
        if name not in self._homes:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(self._homes[name]), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system binds a submodule as an attribute of its package after loading it.
        if not (isinstance(value, ModuleType) and name in self._homes):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._homes})


def expose(package: str, names: Mapping[str, Sequence[str]]) -> list[str]:
    """Make `package` lazy: `names` lists the public names of each module. Returns all of them, for `__all__`."""
    homes = {name: module for module, group in names.items() for name in group}
    module = sys.modules[package]
    module.__class__ = LazyPackage
    vars(module)["_homes"] = homes
    return list(homes)
