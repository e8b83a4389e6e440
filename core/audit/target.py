"""What the command line may be given to audit: a config, a folder, an archive, or a callable of the user's own.

Everything is screened here, before torch or transformers is imported.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.audit.archive import unpack_model
from core.audit.config_file import read_config, screen_config
from core.audit.weight_files import CONFIG, screen_folder
from core.decoder.config import Budget
from core.errors import AuditError, ModelFileError, shown

CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def names_callable(text: str) -> bool:
    """Whether the argument is `package.module:callable` and not a path."""
    return CALLABLE.fullmatch(text) is not None and not os.path.exists(text)


@contextmanager
def screened_task(model: str, budget: Budget, *, shrink: bool) -> Iterator[dict[str, Any]]:
    """The task that a path describes; an archive is unpacked to a private folder that is gone afterwards."""
    path = Path(model)
    if path.suffix.lower() == ".zip" and path.is_file():
        with tempfile.TemporaryDirectory(prefix="depthscope-") as folder:
            yield _folder_task(unpack_model(path, Path(folder)), budget, shrink=shrink, source=path.name)
    elif path.is_dir():
        yield _folder_task(path, budget, shrink=shrink, source=str(path))
    elif path.is_file():
        settings = read_config(path)
        screen_config(settings, budget, shrink=shrink)
        yield {"kind": "config", "settings": settings, "source": str(path), "shrink": shrink}
    else:
        raise ModelFileError(
            f"{shown(model)} is neither a config.json, a folder with one, nor package.module:callable; give one of "
            "them."
        )


def _folder_task(folder: Path, budget: Budget, *, shrink: bool, source: str) -> dict[str, Any]:
    if not (folder / CONFIG).exists():
        raise ModelFileError(f"{folder} holds no {CONFIG}; give the folder that a model was saved to.")
    if not shrink:
        screen_folder(folder, budget)
    screen_config(read_config(folder / CONFIG), budget, shrink=shrink)
    return {"kind": "folder", "folder": str(folder), "source": source, "shrink": shrink}


def called(text: str) -> tuple[Any, Any]:
    """(module, example inputs or None) from calling the user's own `package.module:callable` without arguments."""
    module_name, _, name = text.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
        built = found()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".strip().splitlines()[0][:160].rstrip(".: ")
        raise AuditError(f"{shown(text)} cannot be called: {reason}.") from error
    from torch import nn

    model, example = built if isinstance(built, tuple) and len(built) == 2 else (built, None)
    if not isinstance(model, nn.Module):
        raise AuditError(
            f"{shown(text)} returned a {type(model).__name__}; let it return an nn.Module, or a pair of module and "
            "inputs."
        )
    return model, example
