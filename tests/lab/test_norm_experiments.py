"""The norm lab's experiments: what they show, on typed rows and on rows of a real decoder."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from core.errors import LabError
from core.lab.decoder_source import DecoderOptions, decoder_tape
from core.lab.experiment import Result
from core.lab.experiments import EXPERIMENTS, experiment

ROW_EXPERIMENTS = [name for name in EXPERIMENTS if "source" in experiment(name).options_type.declared()]


def ran(name: str, **given: Any) -> Result:
    entry = experiment(name)
    return entry.run(entry.options(given))


def test_the_steps_of_layernorm() -> None:
    table = ran("norm-steps", epsilon=0.0, gain=(1, 2, 3, 4), bias=(0, 0, 0, 1)).tables["steps"]
    values = {name: list(group["value"]) for name, group in table.groupby("quantity", sort=False)}
    assert values["mean"] == [3.0]
    assert values["centered"] == [1.0, -5.0, 3.0, 1.0]
    assert values["squares"] == [1.0, 25.0, 9.0, 1.0]
    assert (values["variance"], values["denominator"]) == ([9.0], [3.0])
    assert values["normalized"] == [1 / 3, -5 / 3, 1.0, 1 / 3]
    assert values["gained"] == pytest.approx([1 / 3, -10 / 3, 3.0, 4 / 3])
    assert values["output"] == pytest.approx([1 / 3, -10 / 3, 3.0, 7 / 3])


@pytest.mark.parametrize("site", [0, 3, 16])
@pytest.mark.parametrize("position", [0, 3])
def test_a_decoder_row_is_the_decoders(site: int, position: int) -> None:
    table = ran("norm-steps", source="decoder", site=site, position=position, norm="rmsnorm").tables["steps"]
    state = decoder_tape(DecoderOptions()).states[site].detach()[0, 0, position]
    assert list(table[table["quantity"] == "input"]["value"]) == state.tolist()
    expected = torch.nn.functional.rms_norm(state, (4,), eps=1e-5)
    np.testing.assert_allclose(table[table["quantity"] == "normalized"]["value"], expected.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", ROW_EXPERIMENTS)
def test_every_row_experiment_takes_a_decoder_row(name: str) -> None:
    typed, decoder = ran(name), ran(name, source="decoder", site=5, position=1)
    assert set(typed.tables) == set(decoder.tables)
    assert decoder.document()["summary"] != typed.document()["summary"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"x": "1,2;3"}, "Row 1 of x has 1 numbers"),
        ({"x": ""}, "row 0 of x holds ''"),
        ({"x": "1,nan"}, "holds 'nan'"),
        ({"x": ",".join(["1"] * 65)}, "65 numbers; give 1 to 64"),
        ({"x": ";".join(["1"] * 65)}, "65 rows"),
        ({"x": 3.0}, "give rows of numbers"),
        ({"gain": "1,2"}, "gain has 2 numbers and the row has 4"),
        ({"norm": "prmsnorm", "share": 0}, "share is 0"),
        ({"norm": "batchnorm"}, "choose one of layernorm"),
        ({"source": "decoder", "site": 17}, "sites 0 to 16"),
        ({"source": "decoder", "position": 4}, "positions 0 to 3"),
        ({"source": "decoder", "width": 128, "heads": 4}, "rows of up to 64"),
        ({"colour": "red"}, "'colour' is unknown here"),
    ],
)
def test_rows_that_cannot_be_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(LabError, match=text) as caught:
        experiment("norm-steps").options(given)
    assert str(caught.value).endswith(".")


def test_invariances() -> None:
    exact = ran("norm-invariances", epsilon=0.0, share=0.5)
    assert exact.summary["largest_distance_where_invariant"] < 1e-12
    table = exact.tables["changes"]
    changed = table[table["at_epsilon_0"] == "changed"]
    assert (changed["relative_distance"] > 0.1).all()
    assert set(zip(changed["norm"], changed["change"], strict=True)) == {
        ("rmsnorm", "shift"), ("prmsnorm", "shift"), ("scalenorm", "shift"), ("dyt", "factor"), ("dyt", "shift"),
        ("prmsnorm", "order"),
    }  # fmt: skip
    usual = ran("norm-invariances").summary["largest_distance_where_invariant"]
    assert 1e-8 < usual < 1e-5


def test_epsilon_is_a_floor() -> None:
    for norm, moment in (("layernorm", 9.0), ("rmsnorm", 18.0), ("scalenorm", 72.0)):
        for inside in (True, False):
            placement = "inside" if inside else "outside"
            result = ran("norm-epsilon", norm=norm, epsilon=1e-4, placement=placement, factor=1e-3)
            s = 1e-6 * moment
            share = math.sqrt(s / (s + 1e-4)) if inside else math.sqrt(s) / (math.sqrt(s) + 1e-4)
            assert result.summary["share_of_full_size"] == pytest.approx(share, rel=1e-12)
            scales = result.tables["scales"]
            half = result.summary["half_size_moment"]
            at_half = np.interp(math.log(half) / 2, np.log(scales["root_of_moment"]), scales["share_of_full_size"])
            assert at_half == pytest.approx(0.5, abs=0.01)


def test_epsilon_inside_and_outside() -> None:
    usual, tiny = ran("epsilon-placement"), ran("epsilon-placement", factor=1e-4)
    assert usual.summary["largest_difference"] < 1e-5
    assert tiny.summary["largest_difference"] > 0.5
    table = tiny.tables["scales"]
    root = table["root_of_moment"]
    np.testing.assert_allclose(table["inside"], root / np.sqrt(root**2 + 1e-5), rtol=1e-12)
    np.testing.assert_allclose(table["outside"], root / (root + 1e-5), rtol=1e-12)


def test_population_and_sample_variance() -> None:
    result = ran("variance-divisor", epsilon=0.0)
    assert (result.summary["population_variance"], result.summary["sample_variance"]) == (9.0, 12.0)
    assert result.summary["output_ratio"] == pytest.approx(math.sqrt(3) / 2, rel=1e-12)
    widths = result.tables["widths"].set_index("width")["output_ratio_at_epsilon_0"]
    assert widths[2] == pytest.approx(math.sqrt(0.5))
    assert widths[4096] == pytest.approx(1 - 1 / 8192, abs=1e-7)
    assert ran("variance-divisor", x="5,5,5").summary["output_ratio"] is None


def test_where_the_norms_part() -> None:
    result = ran("norm-divergence")
    assert result.summary["denominator_ratio"] == pytest.approx(math.sqrt((18 + 1e-5) / (9 + 1e-5)), rel=1e-13)
    table = result.tables["means"]
    np.testing.assert_allclose(table["denominator_ratio"], table["by_the_law"], rtol=1e-12)
    middle = table.iloc[len(table) // 2]
    assert middle["mean"] == pytest.approx(0.0, abs=1e-12)
    assert middle["denominator_ratio"] == pytest.approx(1.0, abs=1e-12)
    assert middle["largest_output_difference"] < 1e-12
    assert ran("norm-divergence", x="1,-5,3,1").summary["largest_output_difference"] == 0.0


def test_the_jacobian_experiment() -> None:
    layer = ran("norm-jacobian")
    assert (layer.summary["rank"], layer.summary["width"]) == (2, 4)
    assert layer.summary["largest_difference"] < 1e-9
    assert layer.summary["largest_singular_value"] == pytest.approx(layer.summary["one_over_denominator"], rel=1e-12)
    assert (layer.tables["directions"]["share_of_largest"] < 1e-12).all()
    assert len(layer.tables["jacobian"]) == 16
    root = ran("norm-jacobian", norm="rmsnorm")
    assert root.summary["rank"] == 3
    assert list(root.tables["directions"]["share_of_largest"] < 1e-12) == [False, True]
    # Ten times the row, a tenth of the Jacobian.
    larger = ran("norm-jacobian", x="40,-20,60,40").tables["jacobian"]["exact"]
    np.testing.assert_allclose(10 * larger, layer.tables["jacobian"]["exact"], rtol=1e-12, atol=1e-16)


def test_gradient_terms_sum_to_autograds() -> None:
    result = ran("norm-gradients", upstream="1,2,-1,0.5", gain="1,2,3,4")
    x = torch.tensor([4.0, -2.0, 6.0, 4.0], dtype=torch.float64, requires_grad=True)
    gain = torch.tensor([1.0, 2, 3, 4], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    upstream = torch.tensor([1.0, 2.0, -1.0, 0.5], dtype=torch.float64)
    y = torch.nn.functional.layer_norm(x, (4,), gain, bias, 1e-5)
    expected = torch.autograd.grad((y * upstream).sum(), [x, gain, bias])
    terms = result.tables["input_terms"].pivot_table(index="index", columns="term", values="value")
    np.testing.assert_allclose(terms["incoming"] + terms["mean"] + terms["radial"], terms["total"], atol=1e-15)
    np.testing.assert_allclose(terms["total"], expected[0].numpy(), atol=1e-10)
    np.testing.assert_allclose(terms["finite_difference"], expected[0].numpy(), atol=1e-8)
    np.testing.assert_allclose(result.tables["affine"]["gain_gradient"], expected[1].numpy(), atol=1e-10)
    np.testing.assert_allclose(result.tables["affine"]["bias_gradient"], expected[2].numpy(), atol=1e-10)
    assert abs(result.summary["gradient_along_ones"]) < 1e-14


def test_affine_gradients_sum_over_all_rows() -> None:
    given = {"upstream": "1,2,3,4", "norm": "rmsnorm"}
    parts = [ran("norm-gradients", x=row, **given).tables["affine"] for row in ("4,-2,6,4", "1,0,2,5")]
    both = ran("norm-gradients", x="4,-2,6,4;1,0,2,5", **given)
    assert both.summary["rows"] == 2
    np.testing.assert_allclose(both.tables["affine"], parts[0] + parts[1] - np.array([[i, 0, 0] for i in range(4)]))


def exact_variance(row: list[float]) -> float:
    """Population variance in rational arithmetic."""
    values = [Fraction(value) for value in row]
    mean = sum(values) / len(values)
    return float(sum((value - mean) ** 2 for value in values) / len(values))


def test_one_pass_moments_cancel() -> None:
    result = ran("one-pass-moments", drawn_width=64)
    table = result.tables["variances"].set_index(["dtype", "algorithm", "offset"])
    pattern = torch.from_numpy(np.random.default_rng(4701).standard_normal(64))
    for offset in (0.0, 1e4, 1e8):
        stored = (pattern + offset).float().double().tolist()
        assert table.loc[("float32", "one pass", offset)]["variance_of_stored_row"] == pytest.approx(
            exact_variance(stored), rel=1e-12
        )
    error = table["relative_error"]
    assert error["float64", "two passes", 1e8] < 1e-10
    assert error["float64", "online", 1e8] < 1e-7
    assert error["float64", "one pass", 1e8] > 0.1
    assert error["float32", "one pass", 1e4] > 0.1
    assert error["float32", "two passes", 1e4] < 1e-3
    assert error["float32", "one pass", 0.0] < 1e-5
    # Squares past float16 leave the type.
    assert not math.isfinite(table.loc[("float16", "one pass", 1e4)]["variance"])
    assert result.document()["undefined"] > 0


def test_sums_in_low_precision() -> None:
    result = ran("accumulation", drawn_width=4096)
    table = result.tables["results"].set_index(["row_dtype", "accumulator"])
    assert abs(table.loc[("bfloat16", "bfloat16")]["relative_error"]) > 0.3
    assert table.loc[("bfloat16", "bfloat16")]["rmsnorm_output_rms"] > 1.2
    for stored in ("float16", "bfloat16"):
        assert abs(table.loc[(stored, "float32")]["relative_error"]) < 1e-4
    assert abs(table.loc[("float64", "float64")]["relative_error"]) < 1e-13
    # An independent accumulation of the float16 row, in NumPy's own float16.
    row = np.random.default_rng(4701).standard_normal(4096).astype(np.float16)
    expected = np.add.accumulate(np.square(row), dtype=np.float16)[-1]
    partial = result.tables["partial_sums"].set_index(["row_dtype", "accumulator", "elements"])["sum"]
    assert partial["float16", "float16", 4096] == expected
    assert math.isinf(ran("accumulation", factor=300.0).tables["results"]["mean_square"].max())


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_summed_moments_are_right_and_local_ones_wrong(norm: str, ranks: int) -> None:
    row = "4,-2,6,4,1,0,-3,2.5"
    result = ran("sharded-moments", x=row, norm=norm, ranks=ranks)
    off = {name[len("largest_difference[") : -1]: value for name, value in result.summary.items()}
    assert off["summed moments"] < 1e-14
    values = torch.tensor([float(cell) for cell in row.split(",")], dtype=torch.float64)
    function = torch.nn.functional.layer_norm if norm == "layernorm" else torch.nn.functional.rms_norm
    whole = result.tables["outputs"].set_index("method")["output"]["whole row"]
    np.testing.assert_allclose(whole, function(values, (8,), eps=1e-5).numpy(), rtol=1e-12, atol=1e-15)
    if ranks == 1:
        assert off["local moments"] == 0.0
        return
    assert off["local moments"] > 0.1
    # Averaged mean squares are right where all ranks hold as many features; averaged variances never.
    even = 8 % ranks == 0
    assert (off["averaged local moments"] < 1e-14) == (norm == "rmsnorm" and even)
    with pytest.raises(LabError, match="at least one"):
        experiment("sharded-moments").options({"x": row, "ranks": 9})


def test_a_residual_added_on_every_rank() -> None:
    for ranks in (1, 4, 7):
        result = ran("residual-once", ranks=ranks)
        assert result.summary["shortcut_multiplier"] == pytest.approx(ranks, rel=1e-12)
        states = result.tables["states"].pivot_table(index="index", columns="method", values="value")
        assert (result.summary["relative_error"] > 0.5) == (ranks > 1)
        x = np.random.default_rng(0).standard_normal(64)
        too_much = states["added on every rank"] - states["added once"]
        np.testing.assert_allclose(too_much, (ranks - 1) * x, atol=1e-13)
