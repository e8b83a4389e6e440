"""A checkpointed run: kept step by step, resumed to the same bytes, and refused where its folder cannot be trusted."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.decoder import forward_pass
from core.decoder.base_draw import Distribution
from core.decoder.config import Budget, DecoderConfig
from core.errors import StorageError
from core.health import block_driver, checkpoint
from core.health.checkpoint import RECORD, Checkpoint
from core.health.kept_run import identity_of, kept_document
from core.health.report import observe_document
from core.health.request import ObserveRequest
from tests.support import PACKED, RAGGED, batch_of

BLOCKS = 3
CONFIG = DecoderConfig(blocks=BLOCKS, width=8, heads=4, kv_heads=2, ff_width=6, vocabulary=110, positions=6)
# RealFormer's scores and a second pass; Admin's measured shortcuts come before its first block.
REQUESTS = {
    name: ObserveRequest(config=CONFIG, recipe=name, batch=batch_of(PACKED), driver="block")
    for name in ("gpt2", "realformer", "admin")
}
REQUEST = REQUESTS["gpt2"]


class Stop(Exception):
    """Ends a run from within."""


def text(document: dict[str, Any]) -> str:
    return json.dumps(document, allow_nan=False)


def stopped_after(request: ObserveRequest, folder: Path, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin a run in `folder` that ends before the step after `steps` is kept."""
    keep, done = Checkpoint.keep, []

    def limited(self: Checkpoint, file: str, record: Any) -> None:
        if len(done) == steps:
            raise Stop
        done.append(file)
        keep(self, file, record)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "keep", limited)
        with pytest.raises(Stop):
            kept_document(request, folder)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The blocks that `step` has run, forward, in reverse or for a profile."""
    ran: list[int] = []

    def counted(additions: Any, block: int, *rest: Any) -> Any:
        ran.append(block)
        return forward_pass.step(additions, block, *rest)

    monkeypatch.setattr(block_driver, "step", counted)
    monkeypatch.setattr("core.decoder.profile.step", counted)
    return ran


@pytest.mark.heavy
@pytest.mark.parametrize("name", REQUESTS)
def test_a_run_stopped_anywhere_goes_on_to_the_same_bytes(
    name: str, tmp_path: Path, steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After every number of finished steps in turn; what is finished is not computed again."""
    request = REQUESTS[name]
    whole = kept_document(request, tmp_path / "whole")
    assert text(whole) == text(observe_document(request))
    files = len(list((tmp_path / "whole").iterdir())) - 1
    steps.clear()
    kept_document(request, tmp_path / "again")
    needed = len(steps)
    for finished in range(files):
        folder = tmp_path / str(finished)
        steps.clear()
        stopped_after(request, folder, finished, monkeypatch)
        before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
        resumed = kept_document(request, folder)
        assert text(resumed) == text(whole)
        # The step in flight was lost; no other block was run twice.
        assert needed <= len(steps) <= needed + 1
        assert {name: (folder / name).stat().st_mtime_ns for name in before} == before


def test_a_finished_run_is_read_and_not_computed(tmp_path: Path, steps: list[int]) -> None:
    whole = kept_document(REQUEST, tmp_path)
    steps.clear()
    assert text(kept_document(REQUEST, tmp_path)) == text(whole)
    assert steps == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_narrow_types_are_kept_bit_for_bit(dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = replace(REQUEST, dtype=dtype)
    stopped_after(request, tmp_path, 6, monkeypatch)
    assert text(kept_document(request, tmp_path)) == text(observe_document(request))


def test_the_partial_profile_grows_in_every_pass(tmp_path: Path) -> None:
    """What a page draws: the curve so far, after every block of every pass."""
    seen: list[tuple[tuple[str, ...], int, int]] = []

    def look(recipes: Sequence[Any], activation: np.ndarray, adjoint: np.ndarray) -> None:
        names = tuple(recipe.name for recipe in recipes)
        assert activation.shape == adjoint.shape == (len(names), 2 * BLOCKS + 1)
        seen.append((names, *(int(np.isfinite(values).all(axis=0).sum()) for values in (activation, adjoint))))

    told: list[tuple[str, int, int]] = []
    kept_document(REQUESTS["realformer"], tmp_path, seen=look, told=lambda *step: told.append(step))
    curve = [(3, 0), (5, 0), (7, 0), (7, 3), (7, 5), (7, 7)]
    assert seen == [((name,), *reached) for name in ("realformer", "unscaled") for reached in curve]
    what = "blocks, forward and in reverse"
    assert told == [(f"pass {n} of 2, {what}", done, 6) for n in (1, 2) for done in range(1, 7)]


OTHERS: dict[str, ObserveRequest] = {
    "blocks": replace(REQUEST, config=replace(CONFIG, blocks=4)),
    "seed": replace(REQUEST, seed=5),
    "recipe": replace(REQUEST, recipe="wang"),
    "base draw": replace(REQUEST, distribution=Distribution(0.02)),
    "batch": replace(REQUEST, batch=batch_of(RAGGED)),
    "dtype": replace(REQUEST, dtype="float32"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_run_of_another_setting_is_refused_and_left_as_it_is(name: str, tmp_path: Path) -> None:
    kept_document(REQUEST, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(StorageError, match=f"is of another run: {name} is .* there and .* here"):
        kept_document(OTHERS[name], tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("what", ["engine", "threads"])
def test_another_engine_or_thread_count_is_refused(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_document(REQUEST, tmp_path)
    name = "engine_version" if what == "engine" else "torch.get_num_threads"
    monkeypatch.setattr(f"core.health.kept_run.{name}", lambda: 97)
    with pytest.raises(StorageError, match=f"{what} is .* there and 97 here"):
        kept_document(REQUEST, tmp_path)


def test_the_identity_names_every_setting_but_those_that_decide_no_bit() -> None:
    """Band and budget judge and limit; the driver is `block`, and memory only decides what is computed twice."""
    changed = {"band": (0.1, 10.0), "budget": Budget(max_parameters=10**9), "max_memory": 10**12, "driver": "auto"}
    for field, value in changed.items():
        assert identity_of(replace(REQUEST, **{field: value})) == identity_of(REQUEST)


Damage = Callable[[Path], None]


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def flipped_digest(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def of_another_run(path: Path) -> None:
    """The same step of the same sizes, of another seed."""
    other = path.parent.with_name("other")
    kept_document(OTHERS["seed"], other)
    shutil.copy(other / path.name, path)


DAMAGES: list[Damage] = [truncated, emptied, flipped, flipped_digest, of_another_run]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_last_block_is_computed_again_and_said(
    damage: Damage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    stopped_after(REQUEST, folder, 6, monkeypatch)
    last = folder / f"pass-1.reverse-{BLOCKS - 1:05}.step"
    damage(last)
    said: list[str] = []
    assert text(kept_document(REQUEST, folder, say=said.append)) == text(observe_document(REQUEST))
    assert len(said) == 1
    assert last.name in said[0]


@pytest.mark.parametrize("damage", [*DAMAGES, Path.unlink])
@pytest.mark.parametrize("file", ["input", "forward-00001", "loss", "reverse-00002"])
def test_damage_below_later_blocks_is_refused(damage: Damage, file: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    kept_document(REQUEST, folder)
    damage(folder / f"pass-1.{file}.step")
    with pytest.raises(StorageError, match=rf"has lost pass-1\.{file}\.step, missing or damaged") as caught:
        kept_document(REQUEST, folder)
    assert "\n" not in str(caught.value)


def test_every_flipped_bit_of_a_file_is_noticed(tmp_path: Path) -> None:
    kept_document(REQUEST, tmp_path)
    path = tmp_path / "pass-1.loss.step"
    whole = path.read_bytes()
    with Checkpoint.opened(tmp_path, identity_of(REQUEST)) as kept:
        assert kept._read(path.name) is not None
        for bit in range(0, 8 * len(whole), 7):
            data = bytearray(whole)
            data[bit // 8] ^= 1 << bit % 8
            path.write_bytes(data)
            assert kept._read(path.name) is None


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("notes.txt", "mine", "holds 'notes.txt', which no checkpoint put there"),
        ("pass-1.input.step", "x", f"holds steps of a run without its {RECORD}"),
        (RECORD, "{}", f"The {RECORD} in .* is not a checkpoint's"),
        (RECORD, "[1", f"{RECORD}' is not JSON"),
    ],
)
def test_a_folder_of_something_else_is_refused(name: str, content: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(StorageError, match=sentence):
        kept_document(REQUEST, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_two_processes_do_not_write_to_one_folder(tmp_path: Path) -> None:
    with (
        Checkpoint.opened(tmp_path, identity_of(REQUEST)),
        pytest.raises(StorageError, match="Another process keeps its run"),
    ):
        kept_document(REQUEST, tmp_path)
    kept_document(REQUEST, tmp_path)


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_after(REQUEST, tmp_path, 2, monkeypatch)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "replacing", full)
        with pytest.raises(StorageError, match="No space left on device; finished blocks are kept"):
            kept_document(REQUEST, tmp_path)
    assert text(kept_document(REQUEST, tmp_path)) == text(observe_document(REQUEST))
