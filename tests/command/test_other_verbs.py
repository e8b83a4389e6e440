"""`trace`, `init`, `plan` and `compare`: every key of their documents, and what a person reads."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from core import __version__
from core.lab.initializer import init_document
from core.plan.arithmetic import plan_document
from core.plan.presets import LAPTOP, PRESETS
from tests.support import run_cli


def succeed(*arguments: object) -> dict[str, Any]:
    outcome = run_cli(*arguments, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.count("\n") == 1
    document: dict[str, Any] = outcome.document()
    assert document["schema"] == f"depthscope.{arguments[0]}/1"
    assert document["version"]
    return document


def as_json(document: dict[str, Any]) -> dict[str, Any]:
    """A document as it reads after JSON."""
    again: dict[str, Any] = json.loads(json.dumps(document))
    return again


class TestTrace:
    """Everything the chapter prints."""

    @pytest.fixture(scope="class")
    def document(self) -> dict[str, Any]:
        return succeed("trace")

    def test_worked_values(self, document: dict[str, Any]) -> None:
        worked = document["worked_values"]
        assert worked["base"] == [0.2, -0.4, 0.0, 0.1]
        assert worked["unselected"] == worked["base"]
        assert worked["blocks"]["1"] == worked["base"]
        assert [round(value, 6) for value in worked["blocks"]["2"]] == [0.141421, -0.282843, 0, 0.070711]
        assert [round(value, 6) for value in worked["blocks"]["8"]] == [0.070711, -0.141421, 0, 0.035355]
        for depth, (half_bound, variance) in {"1": (3 / 4, 1 / 4), "2": (3 / 8, 1 / 8), "8": (3 / 32, 1 / 32)}.items():
            assert worked["ideal"][depth]["half_bound"] == pytest.approx(math.sqrt(half_bound), rel=1e-15)
            assert worked["ideal"][depth]["variance"] == pytest.approx(variance, rel=1e-15)
        assert set(worked["derivatives"]["base"]) == set(worked["toy_variance"]) == {"1", "2", "8"}
        assert isinstance(worked["derivatives"]["stored"], float)
        assert all_numbers(worked)

    def test_fixtures_classifiers_and_plan(self, document: dict[str, Any]) -> None:
        assert [f["id"] for f in document["fixtures"]] == ["narrow-1", "narrow-2", "narrow-8", "cpu-bridge"]
        narrow = {key: value for key, value in document["fixtures"][2].items() if key != "id"}
        assert narrow == succeed("observe")
        assert document["synthetic_classifiers"]["activation"] == {
            "ratios": [1.0, 1.2, 8.0, 101.0], "bands": ["within", "within", "within", "above"],
        }  # fmt: skip
        assert document["synthetic_classifiers"]["adjoint"]["bands"] == ["below", "within", "within", "within"]
        assert document["synthetic_classifiers"]["boundary"]["bands"] == ["within"] * 3
        assert document["laptop_plan"] == succeed("plan")

    def test_for_people(self) -> None:
        outcome = run_cli("trace")
        assert (outcome.status, outcome.err) == (0, "")
        for text in ("5.602732628157", "33.368741", "0.070711", "101 above", "32,514,560 parameters, not executed"):
            assert text in outcome.out


class TestInit:
    """One matrix beside its target."""

    def test_every_key(self) -> None:
        document = succeed("init")
        assert document == as_json(init_document(64, 64, 17))
        assert (document["target_variance"], document["standard_deviation"]) == (0.015625, 0.125)
        assert document["uniform_limit"] == math.sqrt(6 / 128)
        assert (document["initial_rng_state"], document["final_rng_state"]) == ("17", "8618649388945854481")
        assert len(document["edges"]) == 11
        assert document["edges"][5] == 0.0
        assert set(document["populations"]) == {"zero", "oversized", "xavier"}
        for population in document["populations"].values():
            assert sum(population["counts"]) == 4096
            assert sum(population["percent"]) == pytest.approx(100.0, rel=1e-12)
            assert {"mean", "variance"} <= set(population)
        assert "weights" not in document

    def test_weights_on_request(self) -> None:
        document = succeed("init", "--fan-in", 2, "--fan-out", 3, "--seed", 2**64 - 1, "--weights")
        assert document["initial_rng_state"] == str(2**64 - 1)
        assert len(document["weights"]) == 6
        assert all(abs(value) <= document["uniform_limit"] for value in document["weights"])

    def test_for_people(self) -> None:
        outcome = run_cli("init", "--fan-in", 4, "--fan-out", 4, "--weights")
        assert (outcome.status, outcome.err) == (0, "")
        for text in ("target variance 0.25", "generator state 17 ->", "[0.00, ", "oversized", "weights: "):
            assert text in outcome.out


class TestPlan:
    """Counts without a model."""

    def test_every_key(self) -> None:
        document = succeed("plan")
        assert document == as_json(plan_document(PRESETS[LAPTOP].request))
        assert (document["parameters"], document["executed"], document["tied"]) == (32_514_560, False, True)
        assert sum(row["coordinates"] for row in document["by_role"]) == document["parameters"]
        assert all({"pattern", "tensors", "shape", "coordinates"} <= set(row) for row in document["by_role"])
        assert document["factor"] == 1 / math.sqrt(8)
        assert {"float64", "float32", "bfloat16"} <= set(document["bytes"])

    def test_counts_past_2_to_the_53_are_text(self) -> None:
        document = succeed("plan", "--width", 2**40, "--heads", 2**20, "--ff-width", 2**40, "--blocks", 2**40)
        assert isinstance(document["parameters"], str)
        assert int(document["parameters"]) > 2**120
        assert sum(int(row["coordinates"]) for row in document["by_role"]) == int(document["parameters"])

    def test_options(self) -> None:
        sizes = ["--width", 8, "--heads", 2, "--ff-width", 6, "--vocabulary", 10, "--blocks", 2, "--context", 5]
        plain = succeed("plan", *sizes)["parameters"]
        assert plain == 10 * 8 + 2 * (4 * 64 + 3 * 48 + 2 * 8) + 8
        assert succeed("plan", *sizes, "--untied")["parameters"] == plain + 80
        assert succeed("plan", *sizes, "--norm", "layernorm")["parameters"] == plain + 5 * 8
        assert succeed("plan", *sizes, "--bias")["parameters"] == plain + 2 * (4 * 8 + 6 + 6 + 8)
        assert succeed("plan", *sizes, "--mlp", "gelu")["parameters"] == plain - 2 * 48
        assert succeed("plan", *sizes, "--learned-positions")["parameters"] == plain + 40
        assert succeed("plan", *sizes, "--kv-heads", 1)["parameters"] == plain - 2 * 2 * 8 * 4
        assert succeed("plan", *sizes, "--head-dim", 2)["parameters"] == plain - 2 * 4 * 8 * 4

    def test_a_config_file(self, tmp_path: Path) -> None:
        path = tmp_path / "config.json"
        path.write_text(
            json.dumps({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257})
        )
        assert succeed("plan", "--config", path)["parameters"] == 124_439_808

    def test_for_people(self) -> None:
        outcome = run_cli("plan")
        assert (outcome.status, outcome.err) == (0, "")
        for text in ("parameters: 32,514,560 (not executed)", "blocks.{b}.ffn.down.weight", "0.353553", "bfloat16"):
            assert text in outcome.out


class TestCompare:
    """The first value in which two documents differ."""

    @pytest.fixture
    def files(self, tmp_path: Path) -> Any:
        def write(name: str, document: Any) -> Path:
            path = tmp_path / name
            path.write_text(json.dumps(document))
            return path

        return write

    def compared(self, first: Path, second: Path, *options: object) -> tuple[int, dict[str, Any]]:
        outcome = run_cli("compare", first, second, *options, "--json")
        assert outcome.err == ""
        return outcome.status, outcome.document()

    def test_equal_runs(self, files: Any) -> None:
        first, second = (files(name, run_cli("observe", "--json").document()) for name in ("a.json", "b.json"))
        status, found = self.compared(first, second)
        assert (status, found.pop("version")) == (0, __version__)
        nothing = {"first_difference": None, "differences": 0, "differing_sites": 0, "largest": None, "causes": []}
        assert found == {"schema": "depthscope.compare/1", "equal": True, **nothing}
        outcome = run_cli("compare", first, second)
        assert (outcome.status, outcome.out) == (0, "The documents are equal.\n")

    def test_the_first_site_that_differs(self, files: Any) -> None:
        document = run_cli("observe", "--json").document()
        a = files("a.json", document)
        document["parameters"] += 1
        site = document["initialized"]["sites"][4]
        site["adjoint_rms"] *= 1 + 1e-6
        document["same_base_unscaled_control"]["sites"][1]["activation_rms"] = 0.0
        status, found = self.compared(a, files("b.json", document))
        assert (status, found["equal"]) == (1, False)
        difference = found["first_difference"]
        assert difference["path"] == "initialized.sites[block.1.after_feed_forward].adjoint_rms"
        assert difference["b"] == site["adjoint_rms"]
        assert difference["relative"] == pytest.approx(1e-6, rel=1e-5)
        text = run_cli("compare", a, files("b.json", document))
        assert text.status == 1
        assert text.out.startswith("First difference at initialized.sites[block.1.after_feed_forward].adjoint_rms: ")
        assert "(relative difference 1e-06)" in text.out

    def test_the_tolerance_is_relative_and_inclusive(self, files: Any) -> None:
        a, b = files("a.json", {"x": 100.0, "y": 0.0}), files("b.json", {"x": 101.0, "y": 0.0})
        gap = 1.0 / 101.0
        assert self.compared(a, b, "--tolerance", repr(gap))[0] == 0
        assert self.compared(a, b, "--tolerance", repr(math.nextafter(gap, 0)))[0] == 1
        assert self.compared(b, a, "--tolerance", repr(gap))[0] == 0

    @pytest.mark.parametrize(
        ("a", "b", "path"),
        [
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}, None),
            ({"a": 1}, {"a": 1.0}, None),
            ({"a": 0.0}, {"a": -0.0}, None),
            ({"version": "1", "a": 1}, {"version": "2", "a": 1}, None),
            ({"inner": {"version": "1"}}, {"inner": {"version": "2"}}, "inner.version"),
            ({"a": 1}, {"a": True}, "a"),
            ({"a": 1}, {"a": "1"}, "a"),
            ({"a": None}, {"a": 0}, "a"),
            ({"a": None}, {}, "a"),
            ({}, {"a": None}, "a"),
            ({"a": "(absent)"}, {}, "a"),
            ({"a": [1, 2]}, {"a": [1]}, "a[1]"),
            ({"a": [1]}, {"a": [1, [2]]}, "a[1]"),
            ({"a": [[1, 2], [3, 4]]}, {"a": [[1, 2], [3, 5]]}, "a[1][1]"),
            ({"a": {}}, {"a": []}, "a"),
            ([1], {"0": 1}, ""),
            (5, 6, ""),
            ("x", "x", None),
        ],
    )
    def test_what_counts_as_a_difference(self, files: Any, a: Any, b: Any, path: str | None) -> None:
        status, found = self.compared(files("a.json", a), files("b.json", b))
        assert status == (0 if path is None else 1)
        assert found["equal"] is (path is None)
        assert (found["first_difference"] or {}).get("path") == path

    def test_huge_integers_are_compared_exactly(self, files: Any) -> None:
        a, b = files("a.json", {"seed": 2**63}), files("b.json", {"seed": 2**63 + 1})
        assert self.compared(a, b)[0] == 1
        c, d = files("c.json", {"seed": 2**53 + 1}), files("d.json", {"seed": 2.0**53})
        assert self.compared(c, d)[0] == 1

    def test_documents_that_differ_as_a_whole(self, files: Any) -> None:
        outcome = run_cli("compare", files("a.json", 1), files("b.json", 2))
        assert outcome.out == "First difference at the top: 1 against 2 (relative difference 0.5).\n"

    @pytest.mark.parametrize("value", [10**98, 1.7e308, 5e-324])
    def test_a_relative_difference_at_either_end_of_the_range(self, files: Any, value: float) -> None:
        status, found = self.compared(files("a.json", {"x": value}), files("b.json", {"x": -value}))
        assert (status, found["first_difference"]["relative"]) == (1, 2.0)
        assert self.compared(files("a.json", {"x": value}), files("b.json", {"x": -value}), "--tolerance", 2.01)[0] == 0


def all_numbers(value: Any) -> bool:
    if isinstance(value, dict):
        return all(all_numbers(inner) for inner in value.values())
    if isinstance(value, list):
        return all(all_numbers(inner) for inner in value)
    return isinstance(value, float) and math.isfinite(value)
