"""The command line that computes the same as a page's form."""

from __future__ import annotations

import shlex

from ..cli import PROGRAM
from ..sweep.request import LISTS, RANDOM, TEXT, SweepRequest


def sweep_line(request: SweepRequest, folder: str = "sweep") -> str:
    """Return the command line that computes the same cells into the same store and writes its tables to `folder`."""
    default = SweepRequest()
    words = [*PROGRAM.split(), "sweep"]
    for name in LISTS:
        if getattr(request, name) != getattr(default, name):
            words += ["--" + name.replace("_", "-"), getattr(request, name)]
    if request.recipes != default.recipes:
        words += ["--recipe", ",".join(request.recipes)]
    if request.input == TEXT:
        words += ["--text", request.text]
    elif request.input == RANDOM:
        words += ["--lengths", request.lengths, "--rows", request.rows]
        words += ["--token-seed", str(request.token_seed)] if request.token_seed else []
    if (request.band_lower, request.band_upper) != (default.band_lower, default.band_upper):
        words += ["--band", f"{request.band_lower!r},{request.band_upper!r}"]
    return shlex.join([*words, "--out", folder])
