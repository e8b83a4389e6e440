"""Every published figure of the signal-propagation texts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from core.lab.experiment import Result
from core.lab.experiments import experiment

FIGURES = json.loads((Path(__file__).parents[1] / "golden" / "signals.json").read_text())


def ran(name: str, preset: str | None = None, **given: Any) -> Result:
    entry = experiment(name)
    return entry.run(entry.options(given, preset))


def measured(result: Result, **where: object) -> pd.Series:
    """RMS by layer of one measured pass."""
    table = result.tables["sizes"]
    for column, value in {"kind": "measured", **where}.items():
        table = table[table[column] == value]
    return table.set_index("layer")["rms"]


def printed(values: Any) -> list[str]:
    """Three significant digits, as the texts print them."""
    return [f"{value:.3g}" for value in values]


def test_the_linear_chain_prints_the_published_digits() -> None:
    result = ran("linear-chain", "published")
    for spread, figures in FIGURES["linear_chain"]["rms_at_layers_1_2_10_50"].items():
        sizes = measured(result, spread=spread, **{"pass": "forward"})
        assert printed(sizes[[1, 2, 10, 50]]) == figures


def test_the_relu_chain_prints_the_published_digits() -> None:
    result = ran("relu-chain", "published")
    for variance in ("1/d", "2/d"):
        figures = FIGURES["relu_chain"][variance]
        assert (
            printed(measured(result, variance=variance, **{"pass": "forward"})[[1, 10, 50]])
            == figures["forward_1_10_50"]
        )
        assert printed([result.summary[f"input_gradient_rms[{variance}]"]]) == [figures["gradient_at_input"]]


@pytest.mark.parametrize("case", ["plain", "residual"])
def test_the_tanh_chain_prints_the_published_digits(case: str) -> None:
    summary, figures = ran("tanh-chain", "published").summary, FIGURES["tanh_chain"][case]
    found = [summary[f"output_rms[{case}]"], summary[f"input_gradient_rms[{case}]"]]
    assert printed(found) == [figures["output"], figures["gradient"]]


def test_a_norm_after_every_layer_leaves_size_one_and_a_level_gradient() -> None:
    summary = ran("linear-chain", "norm after every layer").summary
    for spread in FIGURES["linear_chain"]["rms_at_layers_1_2_10_50"]:
        assert f"{summary[f'output_rms[{spread}]']:.3f}" == "1.000"
        assert 0.3 <= summary[f"input_gradient_rms[{spread}]"] <= 2.0


def test_a_default_linear_relu_stack_falls_by_the_root_of_six() -> None:
    result = ran("chain", "default linear with ReLU")
    assert len(set(result.tables["sizes"]["seed"]) - {""}) == 20
    assert result.summary["output_rms"] == pytest.approx(6.0**-5, rel=0.05)
    assert result.summary["output_rms_predicted"] == pytest.approx(6.0**-5, rel=1e-12)
    assert f"{6.0**-5:.6f}" == f"{FIGURES['default_linear_relu']['rms']:.6f}"


@pytest.fixture(scope="module")
def growth() -> Result:
    return ran("stream-growth", "published")


def test_the_stream_grows_as_published(growth: Result) -> None:
    figures = FIGURES["stream_growth_toy"]
    options = experiment("stream-growth").options(preset="published")
    assert (options.blocks, options.width, options.seeds, options.rows) == (48, 256, 20, 64)  # type: ignore[attr-defined]
    mean = growth.tables["mean"].set_index("block")
    np.testing.assert_allclose(mean["rms"][[1, 12, 24, 48]], figures["rms_after_1_12_24_48"], rtol=0.015)
    np.testing.assert_allclose(mean["rms"], 0.111 * np.sqrt(mean.index), rtol=0.015)
    # The law without a constant: embeddings' variance plus l branches.
    np.testing.assert_allclose(mean["rms"], mean["expected_rms"], rtol=0.015)


def test_scaled_branches_keep_the_stream_at_one_branch() -> None:
    figures, result = FIGURES["stream_growth_toy"], ran("stream-growth", "published, scaled")
    assert result.summary["final_rms"] == pytest.approx(
        figures["with_branch_output_scaled_by_1_over_sqrt_48"], rel=0.015
    )


@pytest.mark.parametrize("preset", ["quick", "wide"])
def test_the_last_gradient_falls_in_pre_norm_alone(preset: str) -> None:
    result = ran("norm-placement", preset)
    options = experiment("norm-placement").options(preset=preset)
    assert list(options.depths) == FIGURES["norm_placement_toy"]["blocks"]  # type: ignore[attr-defined]
    assert result.summary["slope[pre-norm]"] == pytest.approx(-0.38, abs=0.05)
    assert result.summary["slope[post-norm]"] == pytest.approx(0.0, abs=0.03)
    mean = result.tables["mean"].set_index(["placement", "blocks"])["gradient_norm"]
    # The texts' own falls over depth, whatever the absolute size.
    published = FIGURES["norm_placement_toy"]
    for placement, name in (("pre-norm", "pre_norm"), ("post-norm", "post_norm")):
        fall = mean[placement, 48] / mean[placement, 6]
        assert fall == pytest.approx(published[name][-1] / published[name][0], rel=0.1)


def test_an_aligned_update_grows_with_width() -> None:
    figures, result = FIGURES["width_update_toy"], ran("width-update", "published")
    law = result.tables["law"].set_index("width")
    assert list(law.index) == figures["widths"]
    # The text's law takes sqrt(2/pi) as 0.7979, which moves the last digit at 4096 from 3.2681 to 3.2682.
    published = [float(figure) for figure in figures["law"].split(" = ")[1].split(", ")]
    assert published == [round(0.001 * width * 0.7979, 4) for width in law.index]
    np.testing.assert_allclose(law["update_effect"], published, atol=7e-5)
    np.testing.assert_allclose(law["measured_mean"], law["update_effect"], rtol=0.01)
    scatter = 3 * law["standard_error_of_one_draw"]
    np.testing.assert_allclose(scatter / 3, 0.6028 / np.sqrt(law.index) * 0.001 * law.index, rtol=1e-4)
    assert (np.abs(np.array(figures["effect_on_output"]) - law["update_effect"]) < scatter).all()
    # A random layer's size is 1 up to the scatter of 50 means over 128 outputs: five of them.
    random = result.tables["effects"].groupby("width")["random_layer_rms"].mean()
    np.testing.assert_allclose(random, 1.0, atol=5 / math.sqrt(2 * 128 * 50))


def test_the_compounding_table() -> None:
    table = ran("compounding").tables["published"]
    found = {(round(gain, 1), layers): product for gain, layers, product in table.itertuples(index=False)}
    figures = FIGURES["compounding"]
    assert round(found[1.1, 56]) == figures["gain 1.1 over 56 layers"]
    assert round(found[1.1, 50]) == figures["gain 1.1 over 50"]
    assert round(found[0.9, 50], 3) == figures["gain 0.9 over 50"]
    assert f"{found[22.6, 50]:.0e}" == "5e+67"
    assert f"{found[0.5, 50]:.1e}" == "8.9e-16"
    # Published as 0.25^50 = 8e-31; one digit of 7.9e-31.
    assert f"{found[0.2, 50]:.0e}" == "8e-31"


def norm_output(**given: Any) -> list[float]:
    table = ran("norm-steps", **given).tables["steps"]
    last = table[table["step"] == table["step"].max()]
    return list(last["value"])


def test_the_norms_by_hand() -> None:
    hand = FIGURES["norms_by_hand"]
    x = (tuple(float(value) for value in hand["x"]),)
    summary = ran("norm-steps", x=x).summary
    assert (summary["mean"], summary["variance"], summary["mean_square"]) == (3.0, 9.0, 18.0)
    for kind, key in (("layernorm", "layer_norm"), ("rmsnorm", "rms_norm")):
        for factor in (1.0, 100.0):
            scaled = (tuple(factor * value for value in x[0]),)
            assert [round(value, 3) for value in norm_output(x=scaled, norm=kind)] == hand[key]


def epsilon_output(**given: Any) -> list[float]:
    return list(ran("norm-epsilon", epsilon=1e-5, **given).tables["output"]["output"])


def test_the_norms_by_hand_with_epsilon() -> None:
    figures: Mapping[str, Any] = FIGURES["norms_by_hand"]["epsilon_1e-5"]
    small = figures["x*0.01"]
    assert [round(v, 3) for v in epsilon_output(norm="layernorm", factor=0.01)] == small["layer_norm"]
    assert [round(v, 2) for v in epsilon_output(norm="rmsnorm", factor=0.01)] == small["rms_norm"]
    tiny = ran("norm-epsilon", "a tiny row")
    assert [round(v, 3) for v in tiny.tables["output"]["output"]] == figures["x*0.0001 rms_norm"]
    assert round(tiny.summary["share_of_full_size"], 2) == 0.13
    constant = ran("norm-epsilon", norm="layernorm", epsilon=1e-5).tables["constant_row"]
    assert list(constant["output"]) == figures["constant [5,5,5,5] layer_norm"]
    refused = ran("norm-epsilon", "no epsilon")
    assert "divides 0 by 0" in refused.summary["constant_row_refusal"]
    assert refused.document()["tables"]["constant_row"][0]["output"] is None


def test_the_sigmoid_unit() -> None:
    figures = FIGURES["sigmoid_unit"]
    assert experiment("sigmoid-unit").options().bias == figures["bias"]  # type: ignore[attr-defined]
    reset, saturated = ran("sigmoid-unit", "reset").summary, ran("sigmoid-unit", "saturated").summary
    assert (reset["logit"], round(reset["slope"], 3)) == (figures["x=1,w=1"]["logit"], figures["x=1,w=1"]["slope"])
    assert (saturated["logit"], round(saturated["slope"], 7)) == tuple(figures["x=3,w=3"].values())


def test_one_over_root_l_adds_variance_one() -> None:
    for branches in (1, 2, 8, 48, 200):
        summary = ran("scaled-residual", branches=branches).summary
        assert summary["added_variance"] == pytest.approx(1.0, abs=1e-12)


def test_the_residual_state_of_the_ledger() -> None:
    summary = ran("residual-ledger", "8 x 2048 x 4096 in 2 bytes").summary
    assert summary["elements"] == 67_108_864
    assert (summary["state_mebibytes"], summary["unfused_addition_mebibytes"]) == (128, 384)
