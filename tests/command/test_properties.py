"""Random sizes, ids and options: a finite result or one sentence, never anything else."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.decoder.batch import Batch
from core.decoder.config import DecoderConfig
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.recipes.catalogue import RECIPES
from tests.support import Outcome, refused, run_cli

NAMES = st.sampled_from([recipe.name for recipe in RECIPES if recipe.refusal is None])
LAWS = st.sampled_from([recipe.name for recipe in RECIPES if not recipe.changes_graph])
SIZE = st.integers(1, 12)
FLAGS = ("--untied", "--bias", "--learned-positions")
# What a decoder can be, though not every combination of it.
GOOD: dict[str, st.SearchStrategy[Any]] = {
    "--blocks": st.integers(1, 6),
    "--width": SIZE.map(lambda half: 2 * half),
    "--heads": st.sampled_from([1, 1, 2, 4]),
    "--kv-heads": st.sampled_from([1, 2]),
    "--head-dim": st.sampled_from([2, 4, 6]),
    "--ff-width": SIZE,
    "--vocabulary": st.integers(41, 60),
    "--positions": st.integers(6, 8),
    "--seed": st.integers(0, 2**64 - 1),
    "--recipe": NAMES | st.tuples(NAMES, LAWS).map("+".join),
    "--dtype": st.sampled_from(["float64", "float32", "bfloat16"]),
    "--norm": st.sampled_from(["rmsnorm", "layernorm"]),
    "--mlp": st.sampled_from(["swiglu", "gelu"]),
    "--base-std": st.sampled_from(["1e-320", "1e-160", "1e-20", "0.02", "1", "1e20", "1e160", "1e300"]),
    "--band": st.sampled_from(["0.01,100", "1,1", "5e-324,1e308"]),
}
BAD: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(
        ("--blocks", "--width", "--heads", "--kv-heads", "--head-dim", "--ff-width", "--vocabulary", "--positions"),
        st.integers(-1, 3) | st.sampled_from([2**31, 2**53, 2**64, 10**30, "x", ""]),
    ),
    "--seed": st.sampled_from([-1, 2**64, "x"]),
    "--recipe": st.sampled_from(["", "t-fixup", "gpt2+gpt2", "lns+ngpt"]),
    "--dtype": st.just("float16"),
    "--norm": st.just("none"),
    "--base-std": st.sampled_from(["0", "-1", "nan", "x"]),
    "--truncate": st.sampled_from(["1e-320", "2", "1e300", "0"]),
    "--band": st.sampled_from(["2,1", "x"]),
    "--max-parameters": st.integers(-1, 3000),
    "--inputs": st.sampled_from(["", "1;", "-1", "41", "60", "x"]),
}
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    rows = [";".join(",".join(str(draw(st.integers(0, 40))) for _ in range(n)) for n in lengths) for _ in range(2)]
    options = {"--inputs": rows[0], "--targets": rows[1]}
    for option in draw(st.lists(st.sampled_from(sorted(GOOD)), unique=True, max_size=9)):
        options[option] = draw(GOOD[option])
    if draw(st.integers(0, 2)) == 0:
        wrong = draw(st.sampled_from(sorted(BAD)))
        options[wrong] = draw(BAD[wrong])
    flags = [flag for flag in FLAGS if draw(st.integers(0, 3)) == 0]
    return ["observe", *flags, *(f"{option}={value}" for option, value in options.items())]


def assert_finite_or_refused(outcome: Outcome) -> None:
    if outcome.status == 2:
        assert outcome.out == ""
        assert outcome.err.count("\n") == 1
        assert "internal error" not in outcome.err
        return
    assert outcome.status == 0
    # A combination of recipes may be warned of.
    assert all(line.startswith("warning: ") for line in outcome.err.splitlines())
    for arm in (outcome.document()[name] for name in ("initialized", "same_base_unscaled_control")):
        assert arm["loss_nats"] > 0
        for site in arm["sites"]:
            assert all(math.isfinite(site[f"{kind}_{value}"]) for kind in KINDS for value in ("rms", "ratio"))
        assert arm["sites"][0]["activation_ratio"] == arm["sites"][-1]["adjoint_ratio"] == 1.0


KINDS = ("activation", "adjoint")


@settings(max_examples=120, **COMMON)
@given(command_lines())
def test_any_command_line(arguments: list[str]) -> None:
    assert_finite_or_refused(run_cli(*arguments, "--json"))


@pytest.mark.heavy
@settings(max_examples=3000, **COMMON)
@given(command_lines())
def test_very_many_command_lines(arguments: list[str]) -> None:
    assert_finite_or_refused(run_cli(*arguments, "--json"))
    assert "Traceback" not in run_cli(*arguments).out


@settings(max_examples=60, **COMMON)
@given(st.lists(st.sampled_from(["observe", "plan", "init", "compare", "trace", "-h", "--json", "--", "-", "="]) |
       st.text(max_size=6), max_size=4))  # fmt: skip
def test_any_words(words: list[str]) -> None:
    outcome = run_cli(*words)
    assert outcome.status in (0, 2)
    assert "internal error" not in outcome.err
    assert outcome.err.count("\n") == (outcome.status == 2)


@settings(max_examples=60, **COMMON)
@given(fan_in=st.integers(-1, 2**65), fan_out=st.integers(-1, 5), seed=st.integers(-1, 2**64), weights=st.booleans())
def test_any_matrix(fan_in: int, fan_out: int, seed: int, weights: bool) -> None:
    for rows in (fan_in, fan_in % 7):
        options = [f"--fan-in={rows}", f"--fan-out={fan_out}", f"--seed={seed}"] + ["--weights"] * weights
        outcome = run_cli("init", *options, "--json")
        assert outcome.status in (0, 2)
        assert outcome.err.count("\n") == (outcome.status == 2)
        assert "internal error" not in outcome.err
        if outcome.status == 0:
            counts = [sum(each["counts"]) for each in outcome.document()["populations"].values()]
            assert counts == [rows * fan_out] * 3


@settings(max_examples=60, **COMMON)
@given(st.dictionaries(
    st.sampled_from(["--vocabulary", "--width", "--blocks", "--heads", "--kv-heads", "--ff-width", "--context"]),
    st.integers(-1, 2**54) | st.integers(1, 8)))  # fmt: skip
def test_any_plan(sizes: dict[str, int]) -> None:
    outcome = run_cli("plan", *(f"{option}={size}" for option, size in sizes.items()), "--json")
    assert outcome.status in (0, 2)
    assert outcome.err.count("\n") == (outcome.status == 2)
    assert "internal error" not in outcome.err
    if outcome.status == 0:
        document = outcome.document()
        assert int(document["parameters"]) == sum(int(row["coordinates"]) for row in document["by_role"])


@st.composite
def requests(draw: st.DrawFn) -> ObserveRequest:
    """Only what a decoder can be."""
    kv_heads = draw(st.integers(1, 2))
    config = DecoderConfig(
        blocks=draw(st.integers(1, 4)),
        width=draw(st.integers(1, 9)),
        heads=kv_heads * draw(st.integers(1, 2)),
        kv_heads=kv_heads,
        head_dim=2 * draw(st.integers(1, 3)),
        ff_width=draw(st.integers(1, 9)),
        vocabulary=draw(st.integers(2, 30)),
        positions=6,
        norm=draw(st.sampled_from(["rmsnorm", "layernorm"])),
        mlp=draw(st.sampled_from(["swiglu", "gelu"])),
        tied=draw(st.booleans()),
        bias=draw(st.booleans()),
    )
    ids = st.integers(0, config.vocabulary - 1)
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    rows, targets = ([draw(st.lists(ids, min_size=n, max_size=n)) for n in lengths] for _ in range(2))
    return ObserveRequest(
        config=config,
        seed=draw(st.integers(0, 2**64 - 1)),
        recipe=draw(NAMES),
        batch=Batch.from_rows(rows, targets),
    )


@settings(max_examples=120, **COMMON)
@given(requests())
def test_a_valid_request_is_observed_or_refused_in_words(request: ObserveRequest) -> None:
    documents: list[dict[str, Any]] = []
    sentence = refused(lambda: documents.append(observe_document(request)))
    if sentence is not None:
        assert sentence.endswith(".")
        assert "\n" not in sentence
        return
    assert json.loads(json.dumps(documents[0], allow_nan=False)) == documents[0]
