"""`observe`: every key of the document, exit status, gate, rows, text, saving and restoring."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

from core.decoder.batch import Batch
from core.decoder.config import DecoderConfig
from core.decoder.splitmix64 import INCREMENT, MASK
from core.health.report import observe_document
from core.health.request import ObserveRequest
from tests.support import Outcome, run_cli

SMALL = ["--blocks", "3", "--width", "8", "--heads", "4", "--kv-heads", "2", "--ff-width", "6"]
DOCUMENT_KEYS = {
    "schema", "version", "config", "seed", "dtype", "driver", "recipe", "policy_id", "base_initializer_id", "factor",
    "parameters", "parameter_tensors", "initial_rng_state", "final_rng_state", "transformed_tensors", "selected_names",
    "unselected_tensors_unchanged", "initialized", "same_base_unscaled_control",
}  # fmt: skip
CONFIG_KEYS = {
    "blocks", "width", "heads", "kv_heads", "ff_width", "vocabulary", "positions", "rope_base", "rms_epsilon",
}  # fmt: skip
ARM_KEYS = {
    "loss_nats", "valid_positions", "input_activation_rms", "terminal_adjoint_rms", "within_band", "sites", "branches",
    "contributions", "final_norm_gain", "undefined",
}  # fmt: skip
SITE_KEYS = {
    "site", "label", "activation_rms", "activation_ratio", "activation_band", "adjoint_rms", "adjoint_ratio",
    "adjoint_band",
}  # fmt: skip
BRANCH_KEYS = {
    "block", "attention_output_rms", "feed_forward_output_rms", "attention_norm_gain", "feed_forward_norm_gain",
}  # fmt: skip
CONTRIBUTION_KEYS = {
    "site", "block", "branch", "raw_rms", "contribution_rms", "stream_rms", "contribution_to_stream", "cosine",
}  # fmt: skip
ARMS = ("initialized", "same_base_unscaled_control")
TITLES = dict(zip(("initialized", "control"), ARMS, strict=True))


@pytest.fixture
def observe() -> Any:
    """`observe` with JSON, which must succeed."""

    def call(*arguments: object) -> dict[str, Any]:
        outcome = run_cli("observe", *arguments, "--json")
        assert outcome.status == 0
        # A combination may be warned of; nothing else is said beside a document.
        combined = any("+" in str(argument) for argument in arguments)
        assert [line for line in outcome.err.splitlines() if not (combined and line.startswith("warning: "))] == []
        assert outcome.out.count("\n") == 1
        found: dict[str, Any] = outcome.document()
        return found

    return call


class TestDocument:
    """The keys that users script against."""

    def test_every_key(self, observe: Any) -> None:
        document = observe(*SMALL)
        assert set(document) >= DOCUMENT_KEYS
        assert set(document["config"]) >= CONFIG_KEYS
        for name in ARMS:
            arm = document[name]
            assert set(arm) >= ARM_KEYS
            assert [site["site"] for site in arm["sites"]] == list(range(7))
            assert len(arm["branches"]) == 3
            assert len(arm["contributions"]) == 6
            for rows, keys in ((arm["sites"], SITE_KEYS), (arm["branches"], BRANCH_KEYS)):
                assert all(set(row) >= keys for row in rows)
            assert all(set(row) >= CONTRIBUTION_KEYS for row in arm["contributions"])

    def test_the_command_line_and_the_function_are_one(self, observe: Any) -> None:
        request = ObserveRequest(config=DecoderConfig(blocks=3, width=8, heads=4, kv_heads=2, ff_width=6), seed=11)
        assert observe(*SMALL, "--seed", 11) == json.loads(json.dumps(observe_document(request)))

    def test_the_defaults_are_the_fixed_example(self, observe: Any) -> None:
        written_out = (
            "--blocks 8 --width 4 --heads 1 --kv-heads 1 --ff-width 4 --vocabulary 266 --positions 4 --seed 4701 "
            "--inputs 0,99,100,101 --targets 99,100,101,1 --recipe depth-scaled --dtype float64 --device cpu "
            "--band 0.01,100"
        )
        assert observe() == observe(*written_out.split())

    def test_sites_contributions_and_branches_belong_together(self, observe: Any) -> None:
        arm = observe(*SMALL)["initialized"]
        labels = [site["label"] for site in arm["sites"]]
        assert labels[:3] == ["input", "block.0.after_attention", "block.0.after_feed_forward"]
        assert labels[-1] == "block.2.after_feed_forward"
        for row in arm["contributions"]:
            assert labels[row["site"]] == f"block.{row['block']}.after_{row['branch']}"
            branch = arm["branches"][row["block"]]
            assert branch[f"{row['branch']}_output_rms"] == row["raw_rms"]
            assert row["contribution_to_stream"] == row["contribution_rms"] / row["stream_rms"]
            assert -1 <= row["cosine"] <= 1
            assert row["stream_rms"] == pytest.approx(arm["sites"][row["site"] - 1]["activation_rms"], rel=1e-14)
        for branch in arm["branches"]:
            assert branch["attention_norm_gain"] == branch["feed_forward_norm_gain"] == [1.0] * 8
        assert arm["final_norm_gain"] == [1.0] * 8
        assert arm["input_activation_rms"] == arm["sites"][0]["activation_rms"]
        assert arm["terminal_adjoint_rms"] == arm["sites"][-1]["adjoint_rms"]
        assert arm["valid_positions"] == 4

    def test_every_absolute_adjoint_has_its_reduction_and_count(self, observe: Any) -> None:
        arm = observe()["initialized"]
        assert (arm["loss_reduction"], arm["valid_positions"]) == ("mean over valid targets", 4)
        table = run_cli("observe").out
        for line in (line for line in table.splitlines() if "G_last" in line):
            assert "mean loss" in line
            assert "over 4 valid targets" in line

    def test_counts_and_states(self, observe: Any) -> None:
        document = observe(*SMALL, "--seed", 2**64 - 1)
        drawn = document["parameters"] - 8 * (2 * 3 + 1)
        assert document["parameter_tensors"] == 1 + 3 * 9 + 1
        assert document["seed"] == document["initial_rng_state"] == str(2**64 - 1)
        assert document["final_rng_state"] == str((2**64 - 1 + drawn * INCREMENT) & MASK)
        assert document["transformed_tensors"] == len(document["selected_names"]) == 6
        assert document["unselected_tensors_unchanged"] == 29 - 6
        assert document["factor"] == 1 / math.sqrt(3)
        assert (document["policy_id"], document["dtype"]) == ("depth-scaled/1", "float64")

    @pytest.mark.parametrize(
        ("recipe", "factor", "transformed"),
        [("unscaled", None, 0), ("gpt2", 1 / math.sqrt(6), 6), ("block-indexed", None, 6), ("wang", None, 22),
         ("lns", None, 0), ("fixup", None, 21), ("ngpt", None, 22), ("zero-writer", 0.0, 6)],
    )  # fmt: skip
    def test_what_other_recipes_select(self, observe: Any, recipe: str, factor: float | None, transformed: int) -> None:
        document = observe(*SMALL, "--recipe", recipe)
        assert (document["recipe"], document["factor"]) == (recipe, factor)
        assert document["transformed_tensors"] == transformed
        control = observe(*SMALL)["same_base_unscaled_control"]
        assert document["same_base_unscaled_control"]["loss_nats"] == pytest.approx(control["loss_nats"], rel=1e-12)

    def test_undefined_values_are_null_and_counted(self, observe: Any) -> None:
        arm = observe(*SMALL, "--recipe", "zero-writer")["initialized"]
        assert [row["cosine"] for row in arm["contributions"]] == [None] * 6
        assert arm["undefined"] == 6
        assert {site["activation_ratio"] for site in arm["sites"]} == {1.0}
        assert observe(*SMALL)["initialized"]["undefined"] == 0

    def test_gains_are_null_where_the_graph_has_no_such_norm(self, observe: Any) -> None:
        arm = observe(*SMALL, "--recipe", "ngpt")["initialized"]
        assert arm["final_norm_gain"] is None
        assert {branch["attention_norm_gain"] is None for branch in arm["branches"]} == {True}
        post = observe(*SMALL, "--recipe", "post-norm")["initialized"]
        assert post["final_norm_gain"] is None
        assert post["branches"][0]["feed_forward_norm_gain"] == [1.0] * 8


class TestBandAndGate:
    """Exit 1 where the recipe's arm leaves the band."""

    def test_the_default_band_holds_the_fixture(self) -> None:
        outcome = run_cli("observe", "--gate", "--json")
        assert outcome.status == 0
        assert outcome.document()["band"] == [0.01, 100.0]

    def test_the_gate_judges_the_recipes_arm_alone(self) -> None:
        """At an upper limit of 20 the control leaves (36.3) and the scaled arm stays (10.2)."""
        outcome = run_cli("observe", "--band", "0.01,20", "--gate", "--json")
        document = outcome.document()
        assert [document[arm]["within_band"] for arm in ARMS] == [True, False]
        assert outcome.status == 0
        outcome = run_cli("observe", "--band", "0.01,20", "--recipe", "unscaled", "--gate", "--json")
        assert outcome.status == 1
        assert outcome.document()["initialized"]["within_band"] is False
        assert run_cli("observe", "--band", "0.01,20", "--recipe", "unscaled").status == 0

    @pytest.mark.parametrize("as_json", [["--json"], []])
    def test_a_failed_gate_says_in_words_what_is_off(self, as_json: list[str]) -> None:
        """Arm, ratio, first and worst site, its value and the limit, found anew in the document."""
        given = ["observe", "--blocks", "16", "--recipe", "gpt2", "--band", "0.5,3", "--gate"]
        outcome = run_cli(*given, *as_json)
        assert outcome.status == 1
        sites = run_cli(*given, "--json").document()["initialized"]["sites"]
        outside = [site for site in sites if site["activation_ratio"] > 3]
        worst = max(outside, key=lambda site: site["activation_ratio"])
        assert len(outside) > 1
        first, *sentences = outcome.err.splitlines()
        assert first == "The gate fails."
        assert "gpt2 arm leaves the band [0.5, 3]" in sentences[0]
        (activation,) = (one for one in sentences if one.startswith("The activation ratio"))
        assert (
            f"at {len(outside)} sites, above its upper limit 3: {worst['activation_ratio']:.6g} at site" in activation
        )
        assert f"site {worst['site']} ({worst['label']})" in activation
        assert f"the first is site {outside[0]['site']} ({outside[0]['label']})" in activation

    def test_a_gate_that_holds_says_nothing(self) -> None:
        assert run_cli("observe", "--gate").err == ""

    def test_the_largest_ratio_itself_is_the_limit(self, observe: Any) -> None:
        """Inclusive on the unrounded value, which prints in full."""
        sites = observe()["initialized"]["sites"]
        largest = max(site[f"{kind}_ratio"] for site in sites for kind in ("activation", "adjoint"))
        for upper, status in ((largest, 0), (math.nextafter(largest, 0), 1)):
            outcome = run_cli("observe", "--band", f"0.01,{upper!r}", "--gate", "--json")
            assert outcome.status == status
        sites = outcome.document()["initialized"]["sites"]
        bands = [site[f"{kind}_band"] for site in sites for kind in ("activation", "adjoint")]
        assert bands.count("above") == 1

    def test_below(self, observe: Any) -> None:
        bands = observe("--band", "5,100")["initialized"]["sites"]
        assert bands[0]["activation_band"] == "below"
        assert bands[0]["adjoint_band"] == "within"


class TestCombinations:
    """What `recipes` says of a combination is said where it is observed."""

    @pytest.mark.parametrize("as_json", [["--json"], []])
    def test_warnings_are_those_of_recipes(self, as_json: list[str]) -> None:
        wanted = run_cli("recipes", "--recipe", "lns+gpt2", "--json").document()["warnings"]
        assert "damped-twice" in [warning["code"] for warning in wanted]
        outcome = run_cli("observe", "--recipe", "lns+gpt2", *as_json)
        assert outcome.status == 0
        assert outcome.err.splitlines() == [f"warning: {warning['sentence']}" for warning in wanted]

    def test_one_recipe_has_none(self) -> None:
        assert run_cli("observe", "--recipe", "lns").err == ""

    def test_a_long_run_says_where_they_are_measured(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("core.command.observe.SECONDS_FOR_WARNINGS", 0.0)
        outcome = run_cli("observe", "--recipe", "lns+gpt2")
        assert outcome.err.count("\n") == 1
        assert "`recipes --recipe lns+gpt2`" in outcome.err


class TestRows:
    """Ids, text and files."""

    def test_shorter_rows_are_padded_and_masked(self, observe: Any) -> None:
        two = observe("--inputs", "0,99,100,101;0,50", "--targets", "99,100,101,1;50,1")
        assert two["initialized"]["valid_positions"] == 6
        assert two["config"]["positions"] == 4

    def test_positions_default_to_the_longest_row(self, observe: Any) -> None:
        ids = ",".join("7" * 9)
        assert observe("--inputs", ids, "--targets", ids)["config"]["positions"] == 9
        assert observe("--inputs", "1", "--targets", "2")["config"]["positions"] == 4
        assert observe("--inputs", ids, "--targets", ids, "--positions", 12)["config"]["positions"] == 12

    def test_key_value_heads_default_to_heads(self, observe: Any) -> None:
        assert observe("--width", 8, "--heads", 2)["config"]["kv_heads"] == 2

    @pytest.mark.parametrize("text", ["e", "Tiefe: 8 Blöcke", "深さ😀", " ", "-1"])
    def test_text_is_bytes_plus_ten(self, observe: Any, text: str) -> None:
        ids = [byte + 10 for byte in text.encode()]
        joined = ",".join(map(str, ids))
        assert observe(f"--text={text}") == observe("--inputs", f"0,{joined}", "--targets", f"{joined},1")

    def test_a_batch_file(self, observe: Any, tmp_path: Path) -> None:
        document = {
            "inputs": [[0, 99, 100, 101], [7, 8]],
            "targets": [[99, 100, 101, 1], [8, 1]],
            "valid": [[True, False, True, True], [False, True]],
            "segments": [[3, 3, 0, 0], [1, 1]],
        }
        path = tmp_path / "batch.json"
        path.write_text(json.dumps(document))
        batch = Batch.from_document(document)
        found = observe("--batch", path)
        assert found["initialized"]["valid_positions"] == 4
        assert found == json.loads(json.dumps(observe_document(ObserveRequest(batch=batch))))

    def test_an_id_at_either_end_of_the_vocabulary(self, observe: Any) -> None:
        observe("--inputs", "0,265", "--targets", "265,0")


class TestTable:
    """Without `--json`, for people."""

    def test_it_shows_both_arms_and_says_the_verdict(self) -> None:
        outcome = run_cli("observe", "--band", "0.01,20")
        assert (outcome.status, outcome.err) == (0, "")
        assert "8 blocks, width 4, seed 4701, float64, recipe depth-scaled, factor 0.353553" in outcome.out
        assert "every ratio within the band [0.01, 20]" in outcome.out
        assert "a ratio leaves the band [0.01, 20]" in outcome.out
        assert "36.296841+" not in outcome.out
        assert "33.368741+" in outcome.out
        assert max(map(len, outcome.out.splitlines())) <= 150

    def test_the_verdict_on_each_arm_stands_before_the_table(self) -> None:
        lines = run_cli("observe", "--band", "0.01,20").out.splitlines()
        assert lines[0] == "Every ratio of the depth-scaled arm lies within the band [0.01, 20]."
        table = next(index for index, line in enumerate(lines) if line.startswith("site"))
        summary = " ".join(" ".join(lines[:table]).split())
        assert "The unscaled arm leaves the band [0.01, 20] in its activation and adjoint ratios." in summary
        assert "above its upper limit 20: 33.3687 at site" in summary
        assert "G_last" in summary
        assert len(lines[table + 1 :]) == 17

    def test_a_limit_is_shown_in_full(self) -> None:
        outcome = run_cli("observe", "--band", "0.123456789,3", "--gate")
        assert "[0.123456789, 3]" in outcome.out
        assert "[0.123456789, 3]" in outcome.err

    def test_arms_with_different_sites(self) -> None:
        """Parallel branches have L + 1 sites; the control's 2L + 1 stand beside them."""
        outcome = run_cli("observe", "--recipe", "parallel", "--blocks", "2")
        assert outcome.status == 0
        assert "after_parallel" in outcome.out


class TestExports:
    """`--csv` and `--html`: what a page would export."""

    def test_the_site_table_reads_back_to_the_bit(self, observe: Any, tmp_path: Path) -> None:
        document = observe(*SMALL, "--csv", tmp_path / "out", "--html", tmp_path / "report.html")
        with open(tmp_path / "out" / "sites.csv", newline="") as stream:
            rows = list(csv.DictReader(stream))
        sites = [(arm, site) for arm in ("initialized", "control") for site in document[TITLES[arm]]["sites"]]
        for row, (arm, site) in zip(rows, sites, strict=True):
            assert (row["arm"], int(row["site"]), row["label"]) == (arm, site["site"], site["label"])
            for kind in ("activation", "adjoint"):
                assert float(row[f"{kind}_rms"]) == site[f"{kind}_rms"]
                assert float(row[f"{kind}_ratio"]) == site[f"{kind}_ratio"]
                assert row[f"{kind}_band"] == site[f"{kind}_band"]
        assert (tmp_path / "report.html").read_text().lstrip().lower().startswith("<!doctype html>")

    @pytest.mark.parametrize("option", ["--csv", "--html"])
    def test_a_place_that_cannot_be_written(self, tmp_path: Path, option: str) -> None:
        taken = tmp_path / "taken"
        taken.write_text("mine")
        place = taken if option == "--csv" else tmp_path
        assert_refused(run_cli("observe", option, place), "cannot be written")
        assert taken.read_text() == "mine"


class TestSaveAndRestore:
    """`--save` writes what `--restore` observes, bit for bit."""

    @pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
    @pytest.mark.parametrize(
        "recipe", ["depth-scaled", "unscaled", "wang", "zero-writer", "admin", "ngpt", "parallel", "gpt2+peri-norm"]
    )
    def test_every_type_and_several_recipes(self, observe: Any, tmp_path: Path, dtype: str, recipe: str) -> None:
        options = [*SMALL, "--recipe", recipe, "--dtype", dtype, "--inputs", "1,2,3;4,5", "--targets", "2,3,4;5,6"]
        saved = observe(*options, "--save", tmp_path / "run")
        assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
            "control.safetensors", "initialized.safetensors", "record.json",
        ]  # fmt: skip
        restored = observe("--restore", tmp_path / "run", "--inputs", "1,2,3;4,5", "--targets", "2,3,4;5,6")
        assert restored.pop("construction") == "restored"
        assert saved.pop("construction") == "initialized"
        assert restored == saved

    def test_other_rows_may_be_observed(self, observe: Any, tmp_path: Path) -> None:
        observe(*SMALL, "--save", tmp_path / "run")
        again = observe("--restore", tmp_path / "run", "--text", "abc")
        fresh = observe(*SMALL, "--text", "abc", "--positions", 4)
        assert again["initialized"]["sites"] == fresh["initialized"]["sites"]

    def test_the_gate_and_the_band_apply(self, observe: Any, tmp_path: Path) -> None:
        observe("--recipe", "unscaled", "--save", tmp_path / "run")
        assert run_cli("observe", "--restore", tmp_path / "run", "--gate").status == 0
        assert run_cli("observe", "--restore", tmp_path / "run", "--gate", "--band", "0.01,9").status == 1

    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            (["--max-parameters", "100"], "exceed the budget of 100"),
            (["--max-positions", "3"], "4 positions exceed the budget of 3"),
            (["--text", "a long text"], "A row needs 12 positions but the decoder has 4"),
            (["--inputs", "266", "--targets", "0"], "outside the vocabulary of 266"),
            (["--device", "tpu"], "'tpu' is not one of 'cpu', 'cuda'."),
        ],
    )
    def test_refusals_beside_a_whole_run(self, observe: Any, tmp_path: Path, options: list[str], sentence: str) -> None:
        observe(*SMALL, "--save", tmp_path / "run")
        assert_refused(run_cli("observe", "--restore", tmp_path / "run", *options), sentence)

    def test_broken_folders(self, observe: Any, tmp_path: Path) -> None:
        run = tmp_path / "run"
        assert_refused(run_cli("observe", "--restore", run), "is not a folder")
        run.mkdir()
        assert_refused(run_cli("observe", "--restore", run), "has no record.json")
        observe(*SMALL, "--save", run)
        weights = (run / "control.safetensors").read_bytes()
        (run / "control.safetensors").write_bytes(weights[:-8])
        assert_refused(run_cli("observe", "--restore", run), "control.safetensors cannot be read")
        (run / "notes.txt").write_text("mine")
        assert_refused(run_cli("observe", *SMALL, "--save", run), "holds 'notes.txt'")

    def test_weights_that_are_not_finite(self, observe: Any, tmp_path: Path) -> None:
        from safetensors.torch import load_file, save_file

        observe(*SMALL, "--save", tmp_path / "run")
        path = tmp_path / "run" / "initialized.safetensors"
        tensors = load_file(path)
        tensors["blocks.1.attention.key.weight"][0, 0] = math.nan
        save_file(tensors, path)
        outcome = run_cli("observe", "--restore", tmp_path / "run", "--json")
        assert_refused(outcome, "blocks.1.attention.key.weight are not all finite")


class TestRefusalsOfTheObserver:
    """Only a run can tell; still one sentence and exit 2."""

    def test_an_activation_that_overflows(self) -> None:
        outcome = run_cli("observe", "--recipe", "skipinit", "--base-std", "1e200", "--json")
        assert_refused(outcome, "is not finite")

    def test_a_zero_input(self) -> None:
        """Weights of std 1e-320 are zeros in float32."""
        outcome = run_cli("observe", "--base-std", "1e-320", "--dtype", "float32", "--json")
        assert_refused(outcome, "input activation RMS at site 0 (input) is 0")

    def test_no_such_device(self) -> None:
        import torch

        if torch.cuda.is_available():
            pytest.skip("this machine has a CUDA device")
        assert_refused(run_cli("observe", "--device", "cuda"), "No CUDA device is present")


def assert_refused(outcome: Outcome, sentence: str) -> None:
    assert outcome.status == 2
    assert outcome.out == ""
    assert sentence in outcome.err
    assert outcome.err.count("\n") == 1
    assert "internal error" not in outcome.err


@pytest.mark.parametrize("option", ["--base-std", "--embedding-std"])
def test_weights_too_large_for_binary64_are_refused_without_a_warning(option: str) -> None:
    outcome = run_cli("observe", "--blocks", 2, option, "1.7e308")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("The activation at site 0 (input) is not finite;")
    assert outcome.err.count("\n") == 1
