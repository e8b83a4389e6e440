"""The registry: every experiment runs at its defaults and presets, is deterministic, pure and JSON-safe."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from core.errors import ConfigError, DepthscopeError, LabError
from core.lab.experiment import Result
from core.lab.experiments import EXPERIMENTS, SCHEMA, experiment, listing
from core.lab.norm.row import NormOptions
from core.lab.options import Option
from core.lab.signal.chain import ChainOptions
from core.lab.signal.width_update import WidthUpdateOptions

# Half a minute together, and run by the tests of the published figures.
SLOW_PRESETS = {("stream-growth", "published"), ("stream-growth", "published, scaled")}
PRESETS = [
    (name, preset) for name in EXPERIMENTS for preset in experiment(name).presets if (name, preset) not in SLOW_PRESETS
]


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_every_preset_runs_and_is_json(name: str, preset: str) -> None:
    entry = experiment(name)
    document = entry.document(entry.options(preset=preset))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["schema"] == SCHEMA
    assert (document["experiment"], document["page"]) == (name, EXPERIMENTS[name].name)
    assert document["summary"]
    assert all(document["tables"].values())
    assert set(document["options"]) == set(entry.options_type.declared())
    for note in document["notes"]:
        assert note.endswith(".")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_deterministic_and_leaves_no_trace(name: str) -> None:
    entry = experiment(name)
    np.random.seed(7)  # noqa: NPY002 - the global generator is what must stay untouched
    torch.manual_seed(7)
    state, before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = entry.run(), entry.run(entry.options())
    assert torch.equal(torch.get_rng_state(), state)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert torch.get_default_dtype() == torch.float32
    assert first.document() == second.document()
    for table_name, table in first.tables.items():
        assert isinstance(table, pd.DataFrame)
        pd.testing.assert_frame_equal(table, second.tables[table_name])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_option_says_what_it_takes(name: str) -> None:
    entry = experiment(name)
    defaults = entry.options_type.defaults()
    for option_name, option in entry.options_type.declared().items():
        assert option.help.endswith(".")
        assert len(option.help) < 100
        if option.choices:
            assert defaults[option_name] in option.choices
    # The defaults pass through text unchanged, as they do on the command line and in a link.
    texts = {}
    for option_name, value in defaults.items():
        if isinstance(value, tuple):
            nested = isinstance(value[0], tuple)
            rows = [",".join(map(str, row)) for row in value] if nested else [",".join(map(str, value))]
            texts[option_name] = ";".join(rows)
        elif value is not None:
            texts[option_name] = str(value)
    assert entry.options(texts) == entry.options()


def test_names_and_titles_are_unique() -> None:
    assert len({experiment(name).title for name in EXPERIMENTS}) == len(EXPERIMENTS)
    assert {experiment(name).page for name in EXPERIMENTS} == {"signal_lab", "norm_lab", "residual_paths"}
    assert [experiment(name).name for name in EXPERIMENTS] == list(EXPERIMENTS)
    with pytest.raises(LabError, match="The experiment 'chains' is unknown"):
        experiment("chains")
    with pytest.raises(LabError, match="takes ChainOptions"):
        experiment("chain").run(WidthUpdateOptions())
    with pytest.raises(LabError, match="the presets are published"):
        experiment("relu-chain").options(preset="none")


def test_the_listing_says_without_an_import_what_the_experiments_say() -> None:
    for row in listing():
        entry = experiment(row["name"])
        assert row == {"name": entry.name, "page": entry.page, "title": entry.title, "presets": list(entry.presets)}
    assert [row["name"] for row in listing()] == list(EXPERIMENTS)


def test_every_file_of_an_experiment_is_in_the_registry() -> None:
    files = {path for path in Path("core/lab").rglob("*.py") if "\nEXPERIMENT = " in path.read_text()}
    assert files == {
        Path("core/lab", page.folder, name.replace("-", "_") + ".py") for name, page in EXPERIMENTS.items()
    }


def test_experiments_without_torch_do_not_import_it() -> None:
    names = [name for name in EXPERIMENTS if not experiment(name).torch and name != "linear-chain"]
    program = f"""
import sys
from core.lab.experiments import EXPERIMENTS, experiment, listing
listing()
assert not {{"numpy", "pandas", "plotly", "torch"}} & set(sys.modules)
for name in EXPERIMENTS:
    experiment(name).options()
assert "plotly" not in sys.modules
for name in {names}:
    experiment(name).document()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_options_are_frozen_and_complete() -> None:
    options = ChainOptions()
    with pytest.raises(FrozenInstanceError):
        options.layers = 3  # type: ignore[misc]
    assert ChainOptions.parse(options.document()) == options
    with pytest.raises(TypeError):
        ChainOptions(colour="red")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("options", "given", "text"),
    [
        (ChainOptions, {"layers": True}, "layers is true"),
        (ChainOptions, {"layers": "5.0"}, "layers is '5.0'"),
        (ChainOptions, {"layers": 10**400}, "layers is a whole number of"),
        (ChainOptions, {"layers": "9" * 50}, "whole number from 1 to 200"),
        (ChainOptions, {"factor": "1e999"}, "factor holds '1e999'"),
        (ChainOptions, {"factor": True}, "factor holds true"),
        (ChainOptions, {"factor": 1e-5}, "number from 0.001 to 100"),
        (ChainOptions, {"factor": 10**400}, "factor holds a whole number of"),
        (ChainOptions, {"seed": "x"}, "seed 'x' is not a whole number"),
        (ChainOptions, {"spread": None}, "spread is null"),
        (ChainOptions, {"spread": "y" * 5000}, "5,000 characters"),
        (WidthUpdateOptions, {"widths": "4,2"}, "in increasing order"),
        (WidthUpdateOptions, {"widths": ""}, "widths is ''"),
        (WidthUpdateOptions, {"widths": "1,2,3,4,5,6,7,8,9,10,11,12,13"}, "1 to 12 whole numbers"),
        (WidthUpdateOptions, {"widths": 5}, "widths is 5"),
        (WidthUpdateOptions, {"seeds": 64, "widths": "16384"}, "exceed the limit"),
        (NormOptions, {"x": ["ab"]}, "holds 'ab'"),
        (NormOptions, {"x": "1e-200,1"}, "0 or numbers of size"),
        (NormOptions, {"text": 5, "source": "decoder"}, "text is 5"),
    ],
)
def test_values_that_no_option_takes_are_one_sentence(options: Any, given: dict[str, Any], text: str) -> None:
    with pytest.raises(DepthscopeError, match=text) as caught:
        options.parse(given)
    assert isinstance(caught.value, LabError | ConfigError)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_flags_take_true_and_false() -> None:
    parse = experiment("stream-growth").options
    assert parse({"scaled": "TRUE"}) == parse({"scaled": True}) != parse({"scaled": "false"})
    with pytest.raises(LabError, match="true or false"):
        parse({"scaled": "maybe"})


def test_a_document_has_no_nonfinite_number() -> None:
    table = pd.DataFrame({"value": [1.0, np.nan, np.inf], "text": ["a", "b", "c"]})
    document = Result(summary={"a": -np.inf, "b": np.int64(3), "c": 2**60}, tables={"t": table}).document()
    assert document["summary"] == {"a": None, "b": 3, "c": str(2**60)}
    assert [row["value"] for row in document["tables"]["t"]] == [1.0, None, None]
    assert document["undefined"] == 3


# Small sizes for the fuzz below, where an option's own limit would take long.
SMALL = {
    "layers": 12, "width": 8, "seeds": 2, "fan_in": 32, "outputs": 16, "inputs": 8, "blocks": 4, "branches": 20,
    "rows": 4, "drawn_width": 40, "ff_width": 8, "heads": 2, "kv_heads": 2, "site": 9, "position": 4, "ranks": 4,
}  # fmt: skip
NUMBERS = (0.0, 1.0, 5.0, -2.5, 1e100, -1e100, 1e-100, 0.3, -0.7)


def any_value(name: str, option: Option, chance: random.Random) -> Any:
    """Some value within an option's limits, its ends among them."""
    if option.kind == "choice":
        return chance.choice(option.choices)
    if option.kind == "number":
        return chance.choice([option.low, option.high, chance.uniform(option.low, option.high)])
    if option.kind in ("whole", "wholes"):
        high = min(int(option.high), SMALL.get(name, 40))
        value = chance.choice([int(option.low), high, chance.randint(int(option.low), high)])
        return (value,) if option.kind == "wholes" else value
    if option.kind in ("numbers", "rows"):
        row = tuple(chance.choice(NUMBERS) for _ in range(chance.choice([1, 2, 4])))
        return row if option.kind == "numbers" else (row, row[::-1])
    return chance.choice({"flag": [True, False], "seed": [0, 2**64 - 1], "text": ["", "a", "\u2603!"]}[option.kind])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_any_options_give_a_document_or_one_sentence(name: str) -> None:
    entry, chance, ran = experiment(name), random.Random(name), 0
    sentences: list[str] = []
    declared = entry.options_type.declared()
    for _ in range(25):
        given = {
            option: any_value(option, kind, chance)
            for option, kind in declared.items()
            if option in SMALL or chance.random() < 0.3
        }
        try:
            json.dumps(entry.document(entry.options(given)), allow_nan=False)
            ran += 1
        except DepthscopeError as error:
            sentences.append(str(error))
    assert all(sentence.endswith(".") for sentence in sentences)
    assert ran > 0
