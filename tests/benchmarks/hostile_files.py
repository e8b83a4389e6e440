"""What hostile calls read and write: documents, configurations, saved runs and stores, damaged, and bad places."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from tests.benchmarks import hostile_values as values
from tests.benchmarks.hostile_forks import Call, Special, run

Files = dict[str, bytes | Special]
CONFIGS: tuple[Mapping[str, Any], ...] = (
    {"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2, "vocab_size": 266, "n_positions": 16,
     "initializer_range": 0.02, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "n_inner": None},
    *({"model_type": family, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2,
       "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 266, "max_position_embeddings": 16,
       "rms_norm_eps": 1e-6, "rope_theta": 1e4, "initializer_range": 0.02, "tie_word_embeddings": True,
       "hidden_act": "silu", "attention_bias": False, "rope_scaling": None, "head_dim": 4, "sliding_window": None}
      for family in ("llama", "mistral", "qwen2", "qwen3")),
)  # fmt: skip
BATCH = {
    "inputs": [[1, 2, 3], [4, 5]], "targets": [[2, 3, 1], [5, 1]], "valid": [[True, True, False], [True, True]],
    "segments": [[0, 0, 1], [0, 0]],
}  # fmt: skip
SPECIALS: Files = {
    "pipe": Special("pipe"), "folder": Special("folder"), "loop": Special("link", "loop"),
    "null": Special("device", "1:3"), "full": Special("device", "1:7"),
}  # fmt: skip
# Where an output may be asked to go, with what must stand there. Nothing here is a place of the machine's own that a
# program with every right could harm.
PLACES: tuple[tuple[str, Files], ...] = (
    ("new", {}), ("new", {}), ("new", {}), ("missing/parent/new", {}), ("new/", {}), (".", {}), ("..", {}), ("~", {}),
    *((name, {name: special}) for name, special in SPECIALS.items()),
    ("file", {"file": b"mine"}), ("file/below", {"file": b"mine"}), ("folder", {"folder/other.txt": b"mine"}),
    ("dangling", {"dangling": Special("link", "nowhere/x")}),
    ("link", {"file": b"mine", "link": Special("link", "file")}),
    ("stdout", {"stdout": Special("link", "/proc/self/fd/1")}),
    ("closed", {"closed": Special("link", "/proc/self/fd/77")}),
    ("folder-link/x", {"elsewhere": Special("folder"), "folder-link": Special("link", "elsewhere")}),
    ("n" * 255, {}), ("n" * 256, {}), ("n" * 300, {}), ("a/" * 2500 + "b", {}), ("-", {}), (" ", {}), ("", {}),
    ("x\ny", {}), (values.NO_TEXT, {}), ("é😀", {}), ("\x1b[31mred", {}), ("%s{0}", {}), ("--json", {}),
    ("/proc/self/x", {}), ("/sys/x", {}), ("/proc/x/y", {}), ("pipe/x", {"pipe": Special("pipe")}),
    ("new.partial", {"new.partial": b"mine"}), ("new", {"new.partial": b"mine"}),
    ("new", {"new.partial": Special("pipe")}),
)  # fmt: skip
# Calls whose results other calls read.
MAKERS: Mapping[str, tuple[str, ...]] = {
    "observe": ("observe", "--blocks", "2", "--save", "run", "--json"),
    "observe other": ("observe", "--blocks", "3", "--seed", "1", "--dtype", "bfloat16", "--save", "run2", "--json"),
    "observe post": ("observe", "--blocks", "2", "--recipe", "deepscalelm", "--save", "run3", "--json"),
    "plan": ("plan", "--json"), "init": ("init", "--fan-in", "3", "--fan-out", "3", "--weights", "--json"),
    "recipes": ("recipes", "--recipe", "gpt2+wang", "--blocks", "2", "--json"), "trace": ("trace", "--json"),
    "lab": ("lab", "norm-steps", "--json"), "compare": ("compare", "plan", "init", "--json"),
    "sweep": ("sweep", "--blocks", "1,2", "--seeds", "0:2", "--out", "out", "--store", "cells.sqlite", "--json"),
}  # fmt: skip
_MADE: dict[str, bytes] = {}


def make_inputs() -> None:
    """Run the calls of `MAKERS` and keep every file that they leave; once, before any call is drawn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "work")
        folder.mkdir()
        for document, arguments in MAKERS.items():
            outcome = run(Call(list(arguments)), folder, Path(name), forked=True)
            assert outcome.status in (0, 1), (arguments, outcome)
            (folder / document).write_bytes(outcome.out)
        _MADE.update({str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()})


def inputs_of(draw: Random, name: str) -> Files:
    """What stands under the name of an input, whole or damaged; nothing under a name that says so."""
    if name in SPECIALS:
        return {name: SPECIALS[name]}
    return INPUTS[name](draw) if name in INPUTS else {}


def output(draw: Random) -> tuple[str, Files]:
    """A place to write to and what stands there."""
    place, files = draw.choice(PLACES)
    return place, dict(files)


def _config(draw: Random) -> Files:
    return {"config.json": values.json_bytes(draw, draw.choice(CONFIGS))}


def _batch(draw: Random) -> Files:
    return {"batch.json": values.json_bytes(draw, BATCH)}


def _document(name: str) -> Callable[[Random], Files]:
    def make(draw: Random) -> Files:
        text = _MADE[draw.choice(("observe", "observe", "observe other", *MAKERS))]
        return {name: values.json_bytes(draw, json.loads(text)) if draw.random() < 0.7 else text}

    return make


def _run(draw: Random) -> Files:
    """A saved run of which one file is another's, damaged, gone or no file."""
    source = draw.choice(("run", "run2", "run3"))
    files: Files = {f"run/{name.split('/')[1]}": data for name, data in _MADE.items() if name.startswith(source + "/")}
    name = draw.choice(list(files))
    data = files[name]
    assert isinstance(data, bytes)
    kind = draw.random()
    if kind < 0.15:
        files[name] = _MADE[name.replace("run/", draw.choice(("run2/", "run3/")))]
    elif kind < 0.2:
        del files[name]
    elif kind < 0.25:
        files[name] = draw.choice(list(SPECIALS.values()))
    elif kind < 0.9:
        files[name] = values.json_bytes(draw, json.loads(data)) if name.endswith("json") else _weights(draw, data)
    return files


def _weights(draw: Random, data: bytes) -> bytes:
    """A safetensors file with another header or damaged bytes."""
    if draw.random() < 0.5:
        return values.damaged(draw, data)
    length = int.from_bytes(data[:8], "little")
    header = values.json_bytes(draw, json.loads(data[8 : 8 + length]))
    size = draw.choice((len(header), len(header), len(header), 0, 2**63, 2**40, length))
    return size.to_bytes(8, "little") + header + data[8 + length :]


STATEMENTS = (
    "DROP TABLE cells", "DELETE FROM cells", "UPDATE cells SET numbers = NULL", "UPDATE cells SET numbers = 'text'",
    "UPDATE cells SET numbers = x'00'", "UPDATE cells SET numbers = zeroblob(length(numbers))",
    "UPDATE cells SET blocks = 'x'",
    "UPDATE cells SET numbers = zeroblob(length(numbers) - 8)", "UPDATE cells SET numbers = x''",
    "UPDATE cells SET seed = -1",
    "UPDATE cells SET status = 'nope'", "UPDATE cells SET reason = 'because'", "UPDATE cells SET key = upper(hex(key))",
    "UPDATE cells SET recipe = x'ff'", "PRAGMA user_version = 99", "PRAGMA user_version = -1",
    "PRAGMA application_id = 5",
    "ALTER TABLE cells ADD COLUMN more TEXT", "ALTER TABLE cells DROP COLUMN reason", "CREATE TABLE other (x)",
    "ALTER TABLE cells RENAME TO gone", "CREATE VIEW v AS SELECT * FROM cells", "PRAGMA journal_mode = WAL",
    "CREATE TRIGGER t BEFORE INSERT ON cells BEGIN SELECT RAISE(ABORT, 'no'); END",
)  # fmt: skip


def _store(draw: Random) -> Files:
    """A store whose cells, schema or bytes are not as they were written."""
    data = _MADE["cells.sqlite"]
    kind = draw.random()
    if kind < 0.45:
        with tempfile.NamedTemporaryFile() as stream:
            stream.write(data)
            stream.flush()
            connection = sqlite3.connect(stream.name, isolation_level=None)
            try:
                connection.execute("PRAGMA ignore_check_constraints = ON")
                connection.execute(draw.choice(STATEMENTS))
            except sqlite3.Error:
                pass  # A constraint that holds is no fault of the generator's.
            connection.close()
            data = Path(stream.name).read_bytes()
    elif kind < 0.8:
        data = values.damaged(draw, data)
    files: Files = {"cells.sqlite": data}
    if draw.random() < 0.1:
        files[draw.choice(("cells.sqlite-journal", "cells.sqlite-wal"))] = draw.randbytes(600)
    return files


def _finished(draw: Random) -> Files:
    """A finished sweep's folder of which one file is damaged, gone or joined by a stranger."""
    files: Files = {name: data for name, data in _MADE.items() if name.startswith("out/")}
    name = draw.choice(list(files))
    data, kind = files[name], draw.random()
    assert isinstance(data, bytes)
    if kind < 0.2:
        del files[name]
    elif kind < 0.3:
        files["out/" + draw.choice(("mine.txt", "sweep.csv.partial", ".x"))] = b"mine"
    elif kind < 0.4:
        files[name] = draw.choice(list(SPECIALS.values()))
    elif kind < 0.9:
        files[name] = values.json_bytes(draw, json.loads(data)) if name.endswith("json") else values.damaged(draw, data)
    return files


INPUTS: Mapping[str, Callable[[Random], Files]] = {
    "config.json": _config, "batch.json": _batch, "a.json": _document("a.json"), "b.json": _document("b.json"),
    "run": _run, "cells.sqlite": _store, "out": _finished,
}  # fmt: skip
