"""float32 and bfloat16 beside float64, in units of their roundoff, and what is computed wider than the run."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from core.construction.drawn_weights import DrawnWeights
from core.decoder.attention import AttentionGeometry, Carry, attend, rotate
from core.decoder.base_draw import BaseDraw
from core.decoder.batch import Batch
from core.decoder.config import DecoderConfig
from core.decoder.forward_pass import forward
from core.decoder.graph import Norm
from core.decoder.operations import apply_norm
from core.health.arms import observe_arms
from core.health.observation import Observation
from core.recipes.catalogue import recipe
from tests.support import MASKED, ROW, batch_of

ROUNDOFF = {"float32": 2.0**-24, "bfloat16": 2.0**-8}
ARMS = [recipe("depth-scaled"), recipe("unscaled")]
# Wide enough to be well conditioned: at width 4 a row of small embeddings amplifies any rounding.
CONFIG = DecoderConfig(blocks=8, width=64, heads=4, kv_heads=2, ff_width=96, vocabulary=110, positions=6)


def observed(dtype: str) -> Observation:
    """Eight seeds of both arms in one pass."""
    return observe_arms(BaseDraw(CONFIG, range(8)), ARMS, batch_of(MASKED), dtype=dtype)[0].observation


@pytest.fixture(scope="module")
def exact() -> Observation:
    return observed("float64")


@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_rounding_is_all_that_differs(dtype: str, exact: Observation) -> None:
    """Errors of independent roundings add as their root; the bounds are a few times what 16 additions can gather."""
    found, unit = observed(dtype), ROUNDOFF[dtype]
    np.testing.assert_allclose(found.loss_nats, exact.loss_nats, rtol=4 * unit)
    np.testing.assert_allclose(found.activation_rms, exact.activation_rms, rtol=8 * unit)
    np.testing.assert_allclose(found.adjoint_rms, exact.adjoint_rms, rtol=64 * unit)
    for ours, theirs in zip(found.contributions, exact.contributions, strict=True):
        np.testing.assert_allclose(ours.raw_rms, theirs.raw_rms, rtol=32 * unit)
        np.testing.assert_allclose(ours.stream_rms, theirs.stream_rms, rtol=8 * unit)
        np.testing.assert_allclose(ours.cosine, theirs.cosine, rtol=0, atol=16 * unit)
    # It is a run of this type and not float64 in disguise.
    assert np.abs(found.activation_rms / exact.activation_rms - 1).max() > unit / 8


@pytest.mark.parametrize("dtype", ["float64", *ROUNDOFF])
def test_states_have_the_type_of_the_run_and_statistics_are_float64(dtype: str) -> None:
    kind = getattr(torch, dtype)
    weights = DrawnWeights(BaseDraw(CONFIG, [1]), ARMS, kind)
    tape = forward(ARMS[0].graph(CONFIG), weights, batch_of(ROW))
    assert {state.dtype for state in tape.states} == {kind}
    assert {part.raw.dtype for part in tape.contributions} == {kind}
    assert tape.loss.dtype == torch.float64
    found = observed(dtype)
    assert {found.activation_rms.dtype, found.adjoint_rms.dtype, found.loss_nats.dtype} == {np.dtype(np.float64)}


def test_weights_are_drawn_in_float64_and_rounded_once() -> None:
    draw = BaseDraw(CONFIG, [3])
    wide = DrawnWeights(draw, ARMS).block(2)
    for dtype in (torch.float32, torch.bfloat16):
        narrow = DrawnWeights(draw, ARMS, dtype).block(2)
        for key, values in wide.items():
            if values is not None:
                assert torch.equal(narrow[key], values.to(dtype))


@pytest.mark.parametrize("kind", ["rmsnorm", "layernorm"])
def test_the_mean_square_of_bfloat16_rows_is_float32(kind: str) -> None:
    """Each output is within one rounding of the float64 norm of the same inputs; a bfloat16 sum of 4096 stalls."""
    rows = torch.from_numpy(np.random.default_rng(0).normal(0.3, 2, (1, 1, 5, 4096))).to(torch.bfloat16)
    out = apply_norm(Norm(kind), rows, {}, 1e-6).to(torch.float64)
    wide = apply_norm(Norm(kind), rows.to(torch.float64), {}, 1e-6)
    # Centring leaves a float32 error on rows of magnitude 2, which shows on outputs near zero.
    assert (out - wide).abs().le(wide.abs() * 2.0**-8 + 4 * 2.0**-24).all()


def test_the_loss_of_bfloat16_logits_is_float32() -> None:
    """Nats of the very logits, recomputed in float64, agree far below a bfloat16 rounding of 6 nats (0.02)."""
    batch = batch_of(ROW)
    tape = forward(ARMS[1].graph(CONFIG), DrawnWeights(BaseDraw(CONFIG, [1]), ARMS[1:], torch.bfloat16), batch)
    table = DrawnWeights(BaseDraw(CONFIG, [1]), ARMS[1:], torch.bfloat16).stem()["token_embedding.weight"]
    last = apply_norm(Norm("rmsnorm"), tape.states[-1], {}, CONFIG.rms_epsilon)
    logits = torch.matmul(last[0], table[0].mT).to(torch.float64)[0]
    nats = torch.logsumexp(logits, dim=-1) - logits[range(4), batch.targets[0]]
    assert tape.loss.item() == pytest.approx(nats.mean().item(), rel=4 * 2.0**-24)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rotary_angles_are_computed_in_float64(dtype: torch.dtype) -> None:
    """At position 60,000 an angle taken in float32 is off by 4e-3; here the turned pair is right to one rounding."""
    config = DecoderConfig(blocks=1, width=8, heads=1, positions=2**16)
    length = 60_001
    one = Batch.from_rows([[0]], [[1]])
    last = Batch(**{**vars(one), "positions": np.array([[length - 1]])})
    like = torch.ones(1, 1, 1, 1, dtype=dtype)
    rotation = AttentionGeometry.of(config, last, like).rotation
    turned = rotate(torch.tensor([1.0, 0.0] * 4, dtype=dtype).view(1, 1, 1, 1, 8), rotation).flatten()
    for pair in range(4):
        angle = (length - 1) * 10000.0 ** (-2 * pair / 8)
        wanted = torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)
        got = turned[2 * pair : 2 * pair + 2].to(torch.float64)
        assert (got - wanted).abs().max() <= ROUNDOFF["float32" if dtype == torch.float32 else "bfloat16"]


def test_scores_and_softmax_of_bfloat16_products_are_float32() -> None:
    """Attention weights of exactly representable products: in bfloat16 a score of 12.7 would be off by 1/32."""
    config = DecoderConfig(
        blocks=1, width=4, heads=1, head_dim=2, ff_width=1, vocabulary=2, position_encoding="learned"
    )
    branch = ARMS[1].graph(config).blocks[0][0].branches[0]
    # A query is (1, 0), a key (17 or 18, 0), and a value says which row it is.
    rows = torch.tensor([[1.0, 17.0, 1.0, 0.0], [1.0, 18.0, 0.0, 1.0]]).bfloat16().view(1, 1, 2, 4)
    places = {"query": [(0, 0)], "key": [(1, 0)], "value": [(2, 0), (3, 1)], "output": [(0, 0), (1, 1)]}
    weights = {}
    for role, ones in places.items():
        matrix = torch.zeros(1, 2, 4) if role == "output" else torch.zeros(1, 4, 2)
        for place in ones:
            matrix[0][place] = 1.0
        weights[f"attention.{role}.weight"] = matrix.bfloat16()
    geometry = AttentionGeometry.of(config, batch_of([([0, 0], [0, 0])]), rows)
    out, _ = attend(branch, rows, weights, Carry(), geometry)
    wanted = torch.softmax(torch.tensor([17.0, 18.0], dtype=torch.float64) / math.sqrt(2), dim=0)
    np.testing.assert_allclose(out[0, 0, 1, :2].double(), wanted, rtol=2.0**-8)
    assert out[0, 0, 0, :2].tolist() == [1.0, 0.0]
