"""Residual paths: Jacobians against autograd and central differences, exact expansions, update geometry, the ledger."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from core.decoder.attention import AttentionGeometry, Carry
from core.decoder.forward_pass import step
from core.errors import LabError
from core.lab.decoder_source import DecoderOptions, decoder_tape, decoder_weights
from core.lab.experiment import Result
from core.lab.experiments import experiment
from core.lab.moments import ordered_product
from core.lab.paths.jacobians import path_jacobians
from core.lab.paths.options import JacobianOptions

RECIPES = ["unscaled", "depth-scaled", "post-norm", "parallel", "peri-norm", "deepscalelm", "admin", "ngpt", "dyt"]


def ran(name: str, **given: Any) -> Result:
    entry = experiment(name)
    return entry.run(entry.options(given))


def whole_stack(options: DecoderOptions) -> Any:
    """The stream's map from the input state `[n]` to the last one, as one function of a flat vector."""
    weights = decoder_weights(options)
    graph, start = options.graph(), decoder_tape(options).states[0].detach()
    geometry = AttentionGeometry.of(weights.config, options.batch(), start)

    def run(flat: torch.Tensor) -> torch.Tensor:
        x = flat.view(start.shape)
        for block, additions in enumerate(graph.blocks):
            x, *_ = step(additions, block, x, weights.block(block), Carry(), geometry, 1)
        return x.flatten()

    return run, start.flatten()


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_ordered_product_is_the_whole_stacks_jacobian(recipe: str) -> None:
    options = JacobianOptions(recipe=recipe, blocks=4)
    run, start = whole_stack(options)
    exact = torch.autograd.functional.jacobian(run, start).numpy()
    product = ordered_product(path_jacobians(options).blocks)
    assert product.shape == (16, 16)
    np.testing.assert_allclose(product, exact, rtol=0, atol=1e-10 * np.abs(exact).max())


def test_jacobians_agree_with_central_differences() -> None:
    options = JacobianOptions(blocks=2, width=6, heads=3, kv_heads=1, ff_width=5, text="ab")
    run, start = whole_stack(options)
    moved = 1e-5 * torch.eye(len(start), dtype=torch.float64)
    with torch.no_grad():
        columns = [(run(start + row) - run(start - row)) / 2e-5 for row in moved]
    product = ordered_product(path_jacobians(options).blocks)
    np.testing.assert_allclose(product, torch.stack(columns, dim=1).numpy(), atol=1e-6 * np.abs(product).max())


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_product_experiment(recipe: str) -> None:
    result = ran("jacobian-product", recipe=recipe)
    summary, bound = result.summary, result.tables["bound"]
    assert summary["adjoint_error"] < 1e-10
    assert (bound["norm_bound"] >= bound["product_norm"] * (1 - 1e-12)).all()
    assert summary["bound_over_norm"] > 1.5
    assert summary["reversed_order_distance"] > 0.1
    spectra = result.tables["singular_values"]
    assert list(spectra["factor"].unique()) == [*(f"block {block}" for block in range(8)), "product"]
    norms = spectra[spectra["index"] == 0].set_index("factor")["singular_value"]
    assert summary["norm_bound"] == pytest.approx(math.prod(norms[:8]), rel=1e-12)
    assert summary["product_norm"] == norms["product"]


def test_a_closed_gate_is_the_identity() -> None:
    result = ran("jacobian-product", recipe="rezero")
    assert (result.tables["singular_values"]["singular_value"] == 1.0).all()
    assert (result.summary["product_norm"], result.summary["norm_bound"]) == (1.0, 1.0)


@pytest.mark.parametrize("recipe", ["unscaled", "depth-scaled", "deepscalelm", "peri-norm"])
def test_sequential_minus_parallel_is_the_interaction(recipe: str) -> None:
    result = ran("branch-interaction", recipe=recipe)
    table = result.tables["blocks"]
    assert result.summary["largest_identity_error"] < 1e-12
    assert (table["difference"] <= table["interaction"] + table["shift"] + 1e-12).all()
    assert (table["interaction"] <= table["attention"] * table["feed_forward"] * (1 + 1e-12)).all()
    assert (table["interaction"] > 0).all()


def test_the_parallel_recipe_has_the_parallel_jacobian() -> None:
    # Block 0 of both recipes reads the same state with the same weights.
    sequential = ran("branch-interaction", recipe="unscaled").tables["blocks"].iloc[0]
    paths = path_jacobians(JacobianOptions(recipe="parallel"))
    assert np.linalg.norm(paths.blocks[0], 2) == pytest.approx(sequential["parallel"], rel=1e-10)


@pytest.mark.parametrize(
    "recipe", ["unscaled", "depth-scaled", "parallel", "peri-norm", "deepscalelm", "completep", "rezero"]
)
def test_the_last_state_is_the_sum_of_its_terms(recipe: str) -> None:
    result = ran("stream-expansion", recipe=recipe, text="three words here")
    table = result.tables["terms"]
    assert result.summary["expansion_error"] < 1e-12
    assert table["share"].sum() == pytest.approx(1.0, abs=1e-12)
    shortcut = math.sqrt(1 - 1 / 8) if recipe == "deepscalelm" else 1.0
    assert table["shortcut_product"].iloc[0] == pytest.approx(shortcut**16, rel=1e-12)
    assert table["shortcut_product"].iloc[-1] == 1.0
    if recipe == "rezero":
        assert result.summary["share_of_input"] == 1.0
        assert (table["rms"].iloc[1:] == 0).all()


@pytest.mark.parametrize("recipe", RECIPES)
def test_growth_is_made_of_size_and_angle(recipe: str) -> None:
    result = ran("update-geometry", recipe=recipe)
    assert result.summary["largest_identity_error"] < 1e-12


@pytest.mark.parametrize("recipe", ["unscaled", "depth-scaled", "parallel", "peri-norm", "dyt"])
def test_growth_is_that_of_the_states(recipe: str) -> None:
    # Where the shortcut is 1 and nothing follows the addition, x and x + u are states of the tape.
    states = [state.detach().numpy()[0, 0] for state in decoder_tape(DecoderOptions(recipe=recipe)).states]
    rows = ran("update-geometry", recipe=recipe).tables["rows"].set_index(["addition", "position"])
    for (addition, position), found in rows["growth"].items():
        before, after = (states[addition + index][position] for index in (0, 1))
        assert found == pytest.approx(float(after @ after) / float(before @ before), rel=1e-10)


def test_a_zero_update_has_no_angle() -> None:
    result = ran("update-geometry", recipe="rezero")
    rows = result.tables["rows"]
    assert (rows["rho"] == 0).all()
    assert (rows["growth"] == 1).all()
    assert rows["cosine"].isna().all()
    # 64 rows of tokens, 16 pooled rows, and the two extremes of the summary.
    assert result.document()["undefined"] == 64 + 16 + 2


@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("jacobian-product", {"width": 128, "heads": 4}, "smaller width or a shorter text"),
        ("jacobian-product", {"text": "x" * 70}, "smaller width or a shorter text"),
        ("jacobian-product", {"blocks": 17, "width": 64, "heads": 4}, "up to 16 blocks"),
        ("jacobian-product", {"recipe": "realformer"}, "carries scores"),
        ("branch-interaction", {"recipe": "parallel"}, "parallel already"),
        ("branch-interaction", {"recipe": "post-norm"}, "normalizes after every addition"),
        ("stream-expansion", {"recipe": "ngpt"}, "normalizes after every addition"),
        ("residual-ledger", {"additions": 4}, "from 1 to 3"),
        ("residual-ledger", {"dtype": "int8"}, "choose one of float64"),
    ],
)
def test_paths_that_cannot_be_are_refused(name: str, given: dict[str, Any], text: str) -> None:
    with pytest.raises(LabError, match=text) as caught:
        experiment(name).options(given)
    assert str(caught.value).endswith(".")


def test_the_ledger_is_exact_at_any_size() -> None:
    sizes = {"batch": 2**40, "positions": 2**39 + 1, "width": 2**38 + 3}
    result = ran("residual-ledger", **sizes, dtype="float32", blocks=2, additions=3, norm="layernorm")
    table = result.tables["ledger"].set_index("item")
    state = math.prod(sizes.values())
    assert table.loc["residual state", "elements"] == state
    assert table.loc["residual state", "bytes"] == 4 * state
    assert table.loc["one unfused addition (two reads, one write)", "bytes"] == 12 * state
    assert table.loc["all unfused additions of the stack", "elements"] == 3 * state * 6
    assert table.loc["all residual states of the stack", "elements"] == 7 * state
    statistics = table.loc["row statistics a block (mean, inverse deviation)"]
    assert statistics["bytes"] == 4 * 2 * 3 * sizes["batch"] * sizes["positions"]
    assert table.loc["norm parameters of the stack, final norm too", "elements"] == 7 * 2 * sizes["width"]
    document = result.document()
    assert document["summary"]["elements"] == str(state)
    small = ran("residual-ledger", batch=1, positions=1, width=1, blocks=1, norm="rmsnorm").document()
    assert small["summary"]["elements"] == 1


def test_options_are_values() -> None:
    options = JacobianOptions(blocks=3)
    assert replace(options, blocks=4) == JacobianOptions(blocks=4)
    assert len({options, JacobianOptions(blocks=3)}) == 1
