"""Figures as PNG, SVG and PDF files, drawn only when they are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import plotly.graph_objects as go

from ..errors import StorageError
from ..files import check_file, check_folder, replacing

# Matplotlib is imported by whoever draws: no page and no verb waits for it.
IMAGES = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf"}


def image(figure: go.Figure, kind: str) -> bytes:
    """Return a figure as bytes of the kind "png", "svg" or "pdf"; the same figure gives the same bytes everywhere."""
    from .printed.drawing import drawing

    return drawing(figure, kind)


def write_figures(folder: str | os.PathLike[str], figures: Mapping[str, go.Figure]) -> list[Path]:
    """Write `{name}.png`, `.svg` and `.pdf` of every figure into `folder`, all or none, and return the paths.

    The folder is made if missing. Raises `StorageError`.
    """
    check_figures(folder, figures)
    files = [(name, kind) for name in figures for kind in IMAGES]
    written = [Path(folder) / f"{name}.{kind}" for name, kind in files]
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with replacing(*written) as asides:
            for aside, (name, kind) in zip(asides, files, strict=True):
                aside.write_bytes(image(figures[name], kind))
    except OSError as error:
        raise StorageError(f"The figures cannot be written to {folder}: {error.strerror or error}.") from error
    return written


def check_figures(folder: str | os.PathLike[str], names: Iterable[str], option: str = "") -> None:
    """Raise `StorageError` if figures of these names cannot be written into the folder.

    `option` is the name of the command's option for the message.
    """
    check_folder(folder, option)
    for name in names:
        for kind in IMAGES:
            check_file(Path(folder) / f"{name}.{kind}", option, [Path(os.path.realpath(folder))])
