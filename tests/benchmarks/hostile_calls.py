"""Hostile calls of every verb but `audit`: options are read off the verbs, good and bad values drawn together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random

import click

from core.cli import VERBS, cli
from core.lab.experiments import EXPERIMENTS, experiment
from core.lab.options import Option, typed
from core.recipes.catalogue import RECIPES as KNOWN_RECIPES
from tests.benchmarks import hostile_values as values
from tests.benchmarks.hostile_files import inputs_of, output
from tests.benchmarks.hostile_forks import Call, Special

# Share of each verb among the calls.
VERB_SHARES = {
    "observe": 30, "trace": 3, "init": 8, "plan": 12, "compare": 10, "sweep": 16, "recipes": 9, "survey": 2, "lab": 18,
    "": 2,
}  # fmt: skip
# What keeps a valid call short; options drawn later may repeat it with another value.
BASE: Mapping[str, tuple[str, ...]] = {
    "observe": ("--blocks", "2"),
    "recipes": ("--blocks", "2"),
    "sweep": ("--blocks", "1,2", "--seeds", "0:2", "--out", "out", "--store", "cells.sqlite", "--workers", "1"),
    # A survey takes minutes, so every call of it holds something to refuse.
    "survey": ("--out", "out", "--workers", "1", "--families", "nope"),
}
GOOD: Mapping[str, tuple[str, ...]] = {
    "--blocks": ("1", "2", "3", "5"), "--width": ("2", "4", "8", "12"), "--heads": ("1", "2", "4"),
    "--kv-heads": ("1", "2"), "--head-dim": ("2", "4", "6"), "--ff-width": ("1", "3", "16"),
    "--vocabulary": ("41", "266", "300"), "--positions": ("4", "9", "64"), "--rope-base": ("10000", "2", "1e-3"),
    "--rms-epsilon": ("1e-6", "1e-300", "1"), "--base-std": ("0.02", "1e-160", "1e160", "1"),
    "--embedding-std": ("0.02", "1e-300", "1e20"), "--truncate": ("2", "3", "1e-3"), "--max-parameters": ("5000",),
    "--max-positions": ("64",), "--fan-in": ("1", "3", "64", "4096"), "--fan-out": ("1", "3", "64"),
    "--tolerance": ("0", "1e-4", "1e308"), "--store-limit": ("1", "4294967296"), "--workers": ("1",),
    "--lengths": ("1", "2,3"), "--rows": ("1", "1,2"), "--max-seconds": ("5",), "--max-memory": ("1000000000",),
    "--ignore": ("version", "config", "sites", "initialized.sites.0.label", "a.b", ".", "*"),
}  # fmt: skip
GOOD_LISTS: Mapping[str, tuple[str, ...]] = {
    "--blocks": ("1", "1,2", "2,1,4", "1,1"), "--width": ("4", "4,8"), "--heads": ("1", "1,2"), "--kv-heads": ("1",),
    "--ff-width": ("4", "4,8"), "--vocabulary": ("266", "266,300"), "--positions": ("4", "4,8"),
    "--dtype": ("float64", "float32,bfloat16", "float16", "float64,float64", ""),
}  # fmt: skip
BAD_TEXT: Mapping[str, tuple[str, ...]] = {
    "--seed": values.SEEDS, "--token-seed": values.SEEDS, "--seeds": values.RANGES, "--band": values.BANDS,
    "--recipe": (*values.RECIPES, *(recipe.name for recipe in KNOWN_RECIPES)), "--against": values.RECIPES,
    "--text": values.TEXTS, "--scheduler": values.SCHEDULERS, "--inputs": values.LISTS, "--targets": values.LISTS,
    "--families": ("", ",", "nope", "gpt2,nope", "ALL", " ", values.NO_TEXT, "x" * 5000),
}  # fmt: skip
# Options that refuse each other, or need each other.
PAIRS: tuple[tuple[str, ...], ...] = (
    ("observe", "--text", "a", "--inputs", "1", "--targets", "1"), ("observe", "--restore", "run", "--blocks", "2"),
    ("observe", "--restore", "run", "--config", "config.json"), ("observe", "--config", "config.json", "--width", "4"),
    ("observe", "--targets", "1"), ("observe", "--restore", "run", "--save", "run"), ("recipes", "--against", "gpt2"),
    ("observe", "--inputs", "1,2;3", "--targets", "2,1;4"), ("plan", "--config", "config.json", "--untied"),
    ("sweep", "--out", "o", "--lengths", "2", "--text", "a"), ("sweep", "--out", "o", "--rows", "2"),
    ("sweep", "--out", "o", "--token-seed", "2"), ("sweep", "--out", "o", "--width", "4,8", "--heads", "1,2,4"),
    ("sweep", "--blocks", "1"), ("sweep", "--out", "o", "--store", "o"), ("compare", "a.json"), ("lab",),
    ("observe", "--csv", "o", "--html", "o"), ("observe", "--save", "o", "--csv", "o"),
    ("plan", "--csv", "o", "--html", "o/x"), ("observe", "--seeds", "0:3", "--seed", "1"), ("observe", "--growth"),
    ("observe", "--seeds", "0:3", "--save", "o"), ("observe", "--gate", "close"), ("observe", "--suggest"),
    ("lab", "--list", "chain"), ("compare", "-", "-"), ("init", "--fan-in", "3", "--fan-in", "4"), ("trace", "trace"),
)  # fmt: skip
TOP = ("", "--help", "-h", "--version", "--json", "-x", "--", "-", "observ", "OBSERVE", "observe ", "x" * 5000, "\n")
OUTPUTS = ("--csv", "--html", "--figures", "--save", "--out")
Words = list[str]
Drawn = tuple[Words, dict[str, bytes | Special]]


def calls(seed: int, numbers: Sequence[int], verbs: Sequence[str]) -> Iterator[Call]:
    """The calls of these numbers, each the same for the same seed and verbs."""
    for number in numbers:
        draw = Random(f"{seed}:{number}")
        verb = draw.choices(verbs, [VERB_SHARES[verb] for verb in verbs])[0]
        yield _call(draw, verb)


def _call(draw: Random, verb: str) -> Call:
    pairs = [pair for pair in PAIRS if pair[0] == verb]
    if not verb:
        return Call(draw.sample([*TOP, *VERBS], draw.randrange(3)))
    if pairs and draw.random() < 0.05:
        words, files = list(draw.choice(pairs)), inputs_of(draw, "run") | inputs_of(draw, "config.json")
    else:
        words, files = _lab(draw) if verb == "lab" else _plain(draw, verb)
    if draw.random() < 0.5:
        words.append("--json")
    if draw.random() < 0.15:
        words = draw.choice(MISTAKES)(draw, words)
    return Call(words, files)


def _plain(draw: Random, verb: str) -> Drawn:
    words, files = [verb, *BASE.get(verb, ())], _standing(draw, verb)
    if verb == "compare":
        words += draw.choices(("a.json", "b.json", "nowhere.json", "pipe", "folder"), (9, 9, 1, 1, 1), k=2)
    for option in draw.choices(_options(verb), k=draw.choice((0, 1, 1, 2, 2, 3, 4))):
        added, beside = _given(draw, verb, option)
        words, files = words + added, files | beside
    if draw.random() < 0.15 and verb in ("observe", "sweep"):
        rows = draw.choice(("1,2", "0;1", "3,1;2,2,2", "300", "0," * 63 + "0"))
        words += ["--inputs", rows, "--targets", draw.choice((rows, rows, "1"))]
    return words, files


def _standing(draw: Random, verb: str) -> dict[str, bytes | Special]:
    """What already lies in the folder: documents to compare, and often a store and results of an earlier sweep."""
    if verb == "compare":
        return inputs_of(draw, "a.json") | inputs_of(draw, "b.json")
    if verb != "sweep":
        return {}
    found: dict[str, bytes | Special] = {}
    for name in ("cells.sqlite", "out"):
        if draw.random() < 0.35:
            found |= inputs_of(draw, name)
    return found


@functools.cache
def _options(verb: str) -> list[click.Option]:
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    found = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    return [option for option in found if option.opts[0] != "--json"]


def _given(draw: Random, verb: str, option: click.Option) -> Drawn:
    """One option with a value, good more often than not."""
    name, kind = draw.choice(option.opts), option.type.name
    first = option.opts[0]
    if option.is_flag:
        return [name], {}
    files: dict[str, bytes | Special] = {}
    if first in OUTPUTS:
        value, files = output(draw)
    elif first in ("--batch", "--config", "--restore", "--store"):
        value = draw.choices(INPUTS[first], (9, *[1] * (len(INPUTS[first]) - 1)))[0]
        files = inputs_of(draw, value)
    else:
        value = _value(draw, verb, first, option, kind)
    return ([f"{name}={value}"] if draw.random() < 0.2 else [name, value]), files


INPUTS = {
    "--batch": ("batch.json", "nowhere.json", "pipe", "folder", "null", "loop", "run", " "),
    "--config": ("config.json", "nowhere.json", "pipe", "folder", "loop", "a.json", "n" * 300),
    "--restore": ("run", "nowhere", "pipe", ".", "batch.json", "loop", "out", "n" * 300),
    "--store": ("cells.sqlite", "new.sqlite", "missing/parent/new", "folder", "pipe", "loop", "null", "full",
                "config.json", "/proc/self/x", "n" * 300, "out/x", ":memory:", "file:x?mode=memory", "é"),
}  # fmt: skip


def _value(draw: Random, verb: str, name: str, option: click.Option, kind: str) -> str:
    good = GOOD_LISTS.get(name, GOOD.get(name)) if verb == "sweep" else GOOD.get(name)
    if isinstance(option.type, click.Choice):
        return draw.choice((*option.type.choices, *option.type.choices, *values.WORDS))
    if good is not None and draw.random() < 0.65:
        return draw.choice(good)
    if kind == "integer":
        return draw.choice(values.WHOLES)
    if kind == "number":
        return draw.choice(values.NUMBERS)
    return draw.choice(BAD_TEXT.get(name, values.LISTS if good is not None else values.WORDS))


def _lab(draw: Random) -> Drawn:
    entry = experiment(draw.choice(list(EXPERIMENTS)))
    words: Words = ["lab", entry.name if draw.random() < 0.97 else draw.choice(values.WORDS)]
    declared, defaults = entry.options_type.declared(), entry.options_type.defaults()
    for name in draw.choices(list(declared), k=draw.choice((0, 1, 1, 2, 3))):
        flag = "--" + name.replace("_", "-")
        if declared[name].kind == "flag":
            words.append(draw.choice((flag, f"--no-{flag[2:]}", f"{flag}=1")))
        else:
            words += [flag, _lab_value(draw, declared[name], typed(defaults[name]))]
    if draw.random() < 0.15:
        words += ["--preset", draw.choice((*entry.presets, *values.WORDS))]
    files: dict[str, bytes | Special] = {}
    if draw.random() < 0.2:
        place, files = output(draw)
        words += [draw.choice(("--csv", "--html")), place]
    return words, files


LAB_VALUES: Mapping[str, tuple[str, ...]] = {
    "whole": values.WHOLES, "number": values.NUMBERS, "seed": values.SEEDS, "numbers": values.VECTORS,
    "rows": values.VECTORS, "wholes": values.LISTS, "choice": values.WORDS, "text": (*values.TEXTS, *values.RECIPES),
}  # fmt: skip


def _lab_value(draw: Random, option: Option, default: str) -> str:
    if draw.random() < 0.4:
        return draw.choice(LAB_VALUES[option.kind])
    if option.kind == "choice":
        return draw.choice(option.choices)
    if option.kind in ("whole", "wholes"):
        # Near the lower limit, for runs grow with these numbers; past the upper one.
        return str(int(draw.choice((option.low - 1, option.low, option.low + 1, option.high + 1))))
    return f"{draw.choice((option.low, option.high)):.17g}" if option.kind == "number" else default


def _repeat(draw: Random, words: Words) -> Words:
    return [*words, *words[draw.randrange(len(words)) :]]


def _drop(draw: Random, words: Words) -> Words:
    place = draw.randrange(len(words))
    return words[:place] + words[place + 1 :]


def _insert(draw: Random, words: Words) -> Words:
    place = draw.randrange(len(words) + 1)
    new = draw.choice(
        ("--nope", "--nope=1", "-z", "--", "-", "extra", "", "=", "--=x", "--json", "--help", values.NO_TEXT)
    )
    return [*words[:place], new, *words[place:]]


def _shorten(draw: Random, words: Words) -> Words:
    return [word[:-1] if word.startswith("--") and draw.random() < 0.5 else word for word in words]


MISTAKES: tuple[Callable[[Random, Words], Words], ...] = (_repeat, _drop, _drop, _insert, _insert, _shorten)
