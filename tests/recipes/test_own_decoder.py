"""A decoder of one's own sizes and families, end to end through the command line, against the plain reference."""

from __future__ import annotations

import json

import pytest

from core.cli import run
from core.decoder.config import DecoderConfig
from core.decoder.parameters import layout
from tests.oracles.plain_decoder import observe_plain

SIZES = ["--blocks", "3", "--width", "8", "--heads", "2", "--ff-width", "32", "--vocabulary", "110"]
GPT2_LIKE = ["--norm", "layernorm", "--mlp", "gelu", "--learned-positions", "--untied", "--bias", "--base-std", "0.02"]
OLMO_LIKE = ["--norm", "layernorm", "--untied", "--base-std", "0.35", "--truncate", "3"]
ROW = ([0, 99, 100, 101], [99, 100, 101, 1])
PLAIN = {"blocks": 3, "width": 8, "heads": 2, "ff_width": 32, "vocabulary": 110}
FAMILIES = {
    "gpt2-like": (
        GPT2_LIKE,
        {"norm": "layernorm", "mlp": "gelu", "position_encoding": "learned", "tied": False, "bias": True, "std": 0.02},
    ),
    "olmo-like": (OLMO_LIKE, {"norm": "layernorm", "tied": False, "std": 0.35, "truncate": 3.0}),
}


def observed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    """The observe document of the command line."""
    assert run(["observe", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["gpt2", "block-indexed", "peri-norm", "post-norm", "wang", "dyt", "admin"])
def test_every_site_of_both_arms(capsys: pytest.CaptureFixture[str], family: str, name: str) -> None:
    options, plain = FAMILIES[family]
    document = observed(capsys, *SIZES, *options, "--recipe", name, "--seed", "7")
    for key, recipe in (("initialized", name), ("same_base_unscaled_control", "unscaled")):
        expected = observe_plain(recipe, seed=7, rows=[ROW], **PLAIN, **plain)
        sites = document[key]["sites"]
        assert document[key]["loss_nats"] == pytest.approx(expected["loss"], rel=1e-12)
        assert [s["activation_rms"] for s in sites] == pytest.approx([s[1] for s in expected["sites"]], rel=1e-12)
        assert [s["adjoint_rms"] for s in sites] == pytest.approx([s[2] for s in expected["sites"]], rel=1e-12)


def test_the_document_says_what_was_built(capsys: pytest.CaptureFixture[str]) -> None:
    document = observed(capsys, *SIZES, *GPT2_LIKE, "--recipe", "gpt2")
    config = document["config"]
    assert (config["norm"], config["mlp"], config["position_encoding"]) == ("layernorm", "gelu", "learned")
    assert (config["tied"], config["bias"]) == (False, True)
    assert document["base_initializer_id"] == "normal-0.02-splitmix64"
    assert document["parameters"] == layout(DecoderConfig(**config)).parameters
    assert document["factor"] == pytest.approx(6**-0.5, rel=1e-15)
    assert document["transformed_tensors"] == 6
    assert document["initialized"]["branches"][0]["attention_norm_gain"] == [1.0] * 8


def test_a_recipe_without_definition_on_the_family_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["observe", *SIZES, "--mlp", "gelu", "--recipe", "ngpt"]) == 2
    error = capsys.readouterr().err.strip()
    assert error == "The recipe ngpt is defined with mlp swiglu only; this decoder has gelu."


def test_combinations_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    document = observed(capsys, "--recipe", "depth-scaled+peri-norm")
    assert (document["recipe"], document["policy_id"]) == ("peri-norm+depth-scaled", "peri-norm+depth-scaled/1")
    assert document["factor"] == pytest.approx(8**-0.5, rel=1e-15)
    assert run(["observe", "--recipe", "lns+peri-norm"]) == 2
    assert "both change the graph" in capsys.readouterr().err
