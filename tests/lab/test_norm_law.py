"""Norms against torch, autograd and central differences; ranks and null directions as derived."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core.errors import UndefinedNorm
from core.lab.norm.law import NORMS, STEP, RowNorm, central_difference
from core.lab.norm.norm_jacobian import matrix_rank

X = np.array([4.0, -2.0, 6.0, 4.0, 0.5, -1.25, 3.0])
GAIN, BIAS = np.linspace(0.5, 2.0, 7), np.linspace(-1.0, 1.0, 7)


def torch_norm(law: RowNorm, x: torch.Tensor) -> torch.Tensor:
    """The same norm, written from the papers in torch."""
    d = x.shape[-1]
    if law.kind == "dyt":
        y = torch.tanh(law.alpha * x)
    else:
        z = x - x.mean(-1, keepdim=True) if law.kind == "layernorm" else x
        used = z[..., : math.ceil(law.share * d)] if law.kind == "prmsnorm" else z
        divisor = {"layernorm": d - 1 if law.sample else d, "scalenorm": 1}.get(law.kind, used.shape[-1])
        moment = (used * used).sum(-1, keepdim=True) / divisor
        y = z / (torch.sqrt(moment + law.epsilon) if law.inside else torch.sqrt(moment) + law.epsilon)
    y = y if law.gain is None else y * torch.from_numpy(law.gain)
    return y if law.bias is None else y + torch.from_numpy(law.bias)


def laws() -> list[RowNorm]:
    """Every norm in every form."""
    found = []
    for kind in NORMS:
        for epsilon in (0.0, 1e-5, 0.7):
            for inside in (True, False):
                for affine in (False, True):
                    extra: dict[str, Any] = {"gain": GAIN, "bias": BIAS} if affine else {}
                    samples = (False, True) if kind == "layernorm" else (False,)
                    found += [
                        RowNorm(kind=kind, epsilon=epsilon, inside=inside, sample=sample, share=0.6, alpha=0.3, **extra)
                        for sample in samples
                    ]
    return found


def named(law: RowNorm) -> str:
    return f"{law.kind}-{law.epsilon:g}-{'in' if law.inside else 'out'}-{law.sample}-{law.gain is not None}"


@pytest.mark.parametrize("law", laws(), ids=named)
def test_value_jacobian_and_gradients_are_autograds(law: RowNorm) -> None:
    rows = np.stack([X, X[::-1] * 0.1 + 2.0, -3.0 * X])
    x = torch.from_numpy(rows).requires_grad_()
    y = torch_norm(law, x)
    np.testing.assert_allclose(law(rows), y.detach().numpy(), rtol=1e-13, atol=1e-14)
    for row in rows:
        exact = torch.autograd.functional.jacobian(lambda v: torch_norm(law, v), torch.from_numpy(row))
        np.testing.assert_allclose(law.jacobian(row), exact.numpy(), rtol=0, atol=1e-10)
        numeric = central_difference(law, row, STEP * np.abs(row).max())
        np.testing.assert_allclose(law.jacobian(row), numeric, rtol=0, atol=1e-8)
    upstream = np.random.default_rng(2).standard_normal(rows.shape)
    (gradient,) = torch.autograd.grad((y * torch.from_numpy(upstream)).sum(), x)
    np.testing.assert_allclose(law.input_gradient(rows, upstream), gradient.numpy(), rtol=0, atol=1e-10)
    gain, bias = (torch.ones(7, dtype=torch.float64).requires_grad_() for _ in range(2))
    plain = RowNorm(**{**vars(law), "gain": None, "bias": None})
    loss = ((torch_norm(plain, torch.from_numpy(rows)) * gain + bias) * torch.from_numpy(upstream)).sum()
    expected = torch.autograd.grad(loss, [gain, bias])
    for ours, theirs in zip(law.affine_gradients(rows, upstream), expected, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 1e-5, 0.5])
def test_the_two_norms_are_torchs_own(epsilon: float) -> None:
    x = torch.from_numpy(X)
    layer = torch.nn.functional.layer_norm(x, (7,), torch.from_numpy(GAIN), torch.from_numpy(BIAS), epsilon)
    law = RowNorm(kind="layernorm", epsilon=epsilon, gain=GAIN, bias=BIAS)
    np.testing.assert_allclose(law(X), layer.numpy(), rtol=1e-13, atol=1e-15)
    root = torch.nn.functional.rms_norm(x, (7,), torch.from_numpy(GAIN), epsilon)
    np.testing.assert_allclose(RowNorm(epsilon=epsilon, gain=GAIN)(X), root.numpy(), rtol=1e-13)


@pytest.mark.parametrize("d", [3, 4, 7, 16, 64])
@pytest.mark.parametrize(
    ("kind", "lost"), [("layernorm", 2), ("rmsnorm", 1), ("prmsnorm", 1), ("scalenorm", 1), ("dyt", 0)]
)
def test_ranks_at_epsilon_zero(kind: Any, lost: int, d: int) -> None:
    for seed in range(5):
        x = np.random.default_rng(seed).standard_normal(d) + 0.5
        law = RowNorm(kind=kind, epsilon=0.0, share=0.5)
        values = np.linalg.svd(law.jacobian(x), compute_uv=False)
        assert matrix_rank(values) == d - lost
        # The lost directions: the row itself, or without its mean, and for LayerNorm the constant one.
        if lost:
            assert np.abs(law.jacobian(x) @ law.centered(x)).max() < 1e-12
        if kind == "layernorm":
            assert np.abs(law.jacobian(x) @ np.ones(d)).max() < 1e-12
        # A positive epsilon brings the scale direction back, the shift stays lost.
        kept = np.linalg.svd(RowNorm(kind=kind, epsilon=0.5, share=0.5).jacobian(x), compute_uv=False)
        assert matrix_rank(kept) == d - (kind == "layernorm")


def test_singular_values_of_the_two_norms() -> None:
    for epsilon in (0.0, 0.3):
        for kind, d_lost in (("layernorm", 1), ("rmsnorm", 0)):
            law = RowNorm(kind=kind, epsilon=epsilon)  # type: ignore[arg-type]
            r, s = law.denominator(X).item(), law.moment(X).item()
            # 1/r everywhere but along z, where it is epsilon / r^3; 0 along the shift.
            expected = sorted([1 / r] * (6 - d_lost) + [(r * r - s) / r**3] + [0.0] * d_lost, reverse=True)
            np.testing.assert_allclose(np.linalg.svd(law.jacobian(X), compute_uv=False), expected, atol=1e-15)


@given(st.integers(0, 10**6), st.sampled_from(NORMS), st.floats(0.01, 100), st.floats(-50, 50))
def test_invariances_at_epsilon_zero(seed: int, kind: Any, factor: float, shift: float) -> None:
    x = np.random.default_rng(seed).standard_normal(6)
    law = RowNorm(kind=kind, epsilon=0.0, share=0.5)
    np.testing.assert_allclose(law(-x), -law(x), atol=1e-12)
    if kind != "dyt":
        np.testing.assert_allclose(law(factor * x), law(x), rtol=1e-12, atol=1e-12)
    if kind == "layernorm":
        np.testing.assert_allclose(law(x + shift), law(x), atol=1e-10)


@given(st.integers(0, 10**6), st.floats(1e-3, 1e3), st.floats(-20, 20))
def test_the_denominators_part_by_the_law(seed: int, epsilon: float, mean: float) -> None:
    x = np.random.default_rng(seed).standard_normal(8) + mean
    ratio = RowNorm(epsilon=epsilon).denominator(x) / RowNorm(kind="layernorm", epsilon=epsilon).denominator(x)
    assert ratio.item() == pytest.approx(math.sqrt(1 + x.mean() ** 2 / (x.var() + epsilon)), rel=1e-13)


def test_scalenorm_is_rmsnorm_up_to_root_d() -> None:
    plain = RowNorm(epsilon=1e-3)(X)
    scale = RowNorm(kind="scalenorm", epsilon=7e-3, gain=np.full(7, math.sqrt(7)))(X)
    np.testing.assert_allclose(scale, plain, rtol=1e-14)


def test_the_full_share_of_prmsnorm_is_rmsnorm() -> None:
    np.testing.assert_array_equal(RowNorm(kind="prmsnorm", share=1.0)(X), RowNorm()(X))


@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm", "prmsnorm", "scalenorm"])
def test_a_row_without_a_moment(kind: Any) -> None:
    row = np.full(4, 5.0) if kind == "layernorm" else np.zeros(4)
    with pytest.raises(UndefinedNorm, match="epsilon are both 0"):
        RowNorm(kind=kind, epsilon=0.0)(row)
    for inside in (True, False):
        law = RowNorm(kind=kind, epsilon=1e-5, inside=inside)
        assert (law(row) == 0.0).all()
        # z is 0, so the Jacobian is the projector over epsilon or its root.
        projector = np.eye(4) - (0.25 if kind == "layernorm" else 0.0)
        np.testing.assert_allclose(law.jacobian(row), projector / (math.sqrt(1e-5) if inside else 1e-5), rtol=1e-13)


def test_a_bare_root_without_a_slope_is_refused() -> None:
    law = RowNorm(kind="prmsnorm", share=0.5, inside=False)
    with pytest.raises(UndefinedNorm, match="no slope"):
        law.jacobian(np.array([0.0, 0.0, 1.0, 2.0]))


def test_the_sample_variance_of_one_number_is_refused() -> None:
    with pytest.raises(UndefinedNorm, match="two numbers"):
        RowNorm(kind="layernorm", sample=True)(np.array([1.0]))
    assert RowNorm(kind="layernorm").jacobian(np.array([1.0])) == 0.0
