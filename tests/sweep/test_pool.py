"""Worker processes: what a lost one held is tried again; cells that end every worker stop the sweep in a sentence."""

from __future__ import annotations

import os
from pathlib import Path

from core.sweep.store import Store
from tests.sweep.support import ROOT, files, sweep

GRID = ("--blocks", "1,2", "--seeds", "0:1100")
DYING = """
import os
from core.sweep.engine import Engine
original = Engine.run
def dying(self, chunk):
    path = os.path.join({folder!r}, "deaths")
    deaths = len(open(path).read()) if os.path.exists(path) else 0
    if {doomed} and deaths < {most}:
        open(path, "a").write("x")
        os._exit(9)
    return original(self, chunk)
Engine.run = dying
"""


def dying(folder: Path, doomed: str, most: int) -> dict[str, str]:
    """An environment in which workers end at chunks for which `doomed` holds, `most` times."""
    (folder / "sitecustomize.py").write_text(DYING.format(folder=str(folder), doomed=doomed, most=most))
    return {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}


def test_what_a_lost_worker_held_is_tried_again(tmp_path: Path) -> None:
    arguments = (*GRID, "--workers", "2", "--store", tmp_path / "cells.sqlite")
    done = sweep(*arguments, "--out", tmp_path / "out", env=dying(tmp_path, "True", 2))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "deaths").read_text() == "xx"
    assert sweep(*GRID, "--store", tmp_path / "other.sqlite", "--out", tmp_path / "other").returncode == 0
    assert files(tmp_path / "out") == files(tmp_path / "other")


def test_cells_that_end_every_worker_stop_the_sweep_and_the_others_are_kept(tmp_path: Path) -> None:
    arguments = (*GRID, "--workers", "2", "--store", tmp_path / "cells.sqlite", "--out", tmp_path / "out")
    done = sweep(*arguments, env=dying(tmp_path, "max(chunk.seeds) == 1099", 1000))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("A worker process ended 3 times over the same cells")
    with Store.open(tmp_path / "cells.sqlite") as store:
        assert 0 < store.count() < 4400
