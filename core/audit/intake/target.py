"""Checks what is to be audited: a family, a config, a folder or an archive; on the command line also a callable.

This happens before torch or transformers is imported. A task is the dict that tells the child process what to build.
"""

from __future__ import annotations

import inspect
import os
import pkgutil
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import IO, Any

from ...decoder.config import Budget
from ...errors import AuditError, DepthscopeError, cropped, first_line, shown
from ...strict_json import MAX_BYTES
from ..request import MOST_PARAMETERS
from .archive import unpack_model
from .config_file import read_config, screen_config
from .weight_files import CONFIG, screen_folder

DEPTH_ARGUMENTS = ("depth", "layers", "n_layer", "n_layers", "num_layers", "num_hidden_layers", "blocks", "n_blocks")
BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
# Sizes are checked later, where the budget is known.
UNBOUNDED = Budget(max_parameters=MOST_PARAMETERS)
CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def names_callable(text: str) -> bool:
    """Return True if `text` has the form `package.module:callable` and is not an existing path."""
    return CALLABLE.fullmatch(text) is not None and not os.path.exists(text)


@contextmanager
def screened_task(model: str, budget: Budget, *, shrink: bool) -> Iterator[dict[str, Any]]:
    """A context that gives the checked task for a path; an archive is unpacked to a private folder, deleted on exit.

    Raises `AuditError`, `BudgetError` or `StorageError`.
    """
    path = Path(model)
    if path.suffix.lower() == ".zip" and path.is_file():
        with tempfile.TemporaryDirectory(prefix="depthscope-") as folder:
            yield path_task(unpack_model(path, Path(folder)), budget, shrink=shrink, source=path.name)
    elif path.exists():
        yield path_task(path, budget, shrink=shrink, source=str(path))
    else:
        raise AuditError(
            f"{shown(model)} is neither a config.json, a folder with one, nor package.module:callable; give one of "
            "them."
        )


def path_task(path: Path, budget: Budget, *, shrink: bool, source: str) -> dict[str, Any]:
    """Return the checked task (a dict for the child process) for a config file or a model folder.

    Errors and documents call it `source`; with `shrink` it is built small. Raises `AuditError`, `BudgetError` or
    `StorageError`.
    """
    if not path.is_dir():
        settings = read_config(path, source)
        family = screen_config(settings, budget, shrink=shrink)
        return {"kind": "config", "settings": settings, "family": family, "source": source, "shrink": shrink}
    if not (path / CONFIG).exists():
        raise AuditError(f"{shown(source)} holds no {CONFIG}; give the folder that a model was saved to.")
    if not shrink:
        screen_folder(path, budget, source)
    family = screen_config(read_config(path / CONFIG, f"{source}/{CONFIG}"), budget, shrink=shrink)
    return {"kind": "folder", "folder": str(path), "family": family, "source": source, "shrink": shrink}


def family_task(family: str, blocks: int, width: int) -> dict[str, Any]:
    """Return the task (a dict for the child process) for a small model of a family of the library."""
    return {
        "kind": "family", "family": family, "blocks": blocks, "width": width, "source": family, "shrink": True,
    }  # fmt: skip


def callable_task(name: str) -> dict[str, Any]:
    """Return the task (a dict for the child process) for the user's own `package.module:callable`."""
    return {"kind": "callable", "source": name, "shrink": False}


def received(name: str, stream: IO[bytes], folder: Path, *, max_bytes: int) -> Path:
    """Write an uploaded config.json, or the members of an uploaded zip, into `folder` and screen them.

    Returns the path of the config, or of the model folder in the zip. The sizes are not checked, because the budget is
    not known yet; `path_task` must screen again. `max_bytes` limits what a zip unpacks to. Raises `AuditError` or
    `StorageError`; files written before that are left for the caller to remove.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix == ".zip":
        path = unpack_model(stream, folder, max_bytes=max_bytes)
        screen_folder(path, UNBOUNDED, name)
    elif suffix == ".json":
        path = folder / CONFIG
        path.write_bytes(stream.read(MAX_BYTES + 1))
    else:
        raise AuditError(f"{shown(name)} is neither a config.json nor a zip of a model's folder; upload one of them.")
    path_task(path, UNBOUNDED, shrink=True, source=name)
    return path


def depth_argument(text: str) -> tuple[str | None, bool]:
    """Return (argument that sets the depth of what `package.module:callable` builds, whether it has a default).

    The argument is one named as depths are, such as `n_layer`, whose default is a whole number if it has one; (None,
    True) if there is none.
    """
    try:
        parameters = inspect.signature(_resolved(text)).parameters
    except (Exception, SystemExit):
        # What cannot be imported or has no signature is told when it is called.
        return None, True
    for one in (parameters[name] for name in DEPTH_ARGUMENTS if name in parameters):
        bare = one.default is inspect.Parameter.empty
        whole = isinstance(one.default, int) and not isinstance(one.default, bool)
        if one.kind in BY_NAME and (bare or whole):
            return one.name, not bare
    return None, True


def _resolved(text: str) -> Any:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return pkgutil.resolve_name(text)


def called(text: str, **arguments: int) -> tuple[Any, Any]:
    """Call the user's `package.module:callable` with `arguments`; return (module, example inputs or None).

    Raises `AuditError` if the call fails or returns anything else.
    """
    try:
        built = _resolved(text)(**arguments)
    except DepthscopeError:
        raise
    except (Exception, SystemExit) as error:
        # A script that ends by itself has given no model; its own status would stand for the audit's.
        raise AuditError(f"{shown(text)} cannot be called: {first_line(error)}.") from error
    from torch import nn

    model, example = built if isinstance(built, tuple) and len(built) == 2 else (built, None)
    if not isinstance(model, nn.Module):
        raise AuditError(
            f"{shown(text)} returned a {cropped(type(model).__name__)}; let it return an nn.Module, or a pair of "
            "module and inputs."
        )
    return model, example
