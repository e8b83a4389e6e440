"""What the report says of the stream, of spreads and of profiles: post-norm, truncation, parts, shapes in words."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
import torch
from torch import Tensor

from core.audit.initialization.profile import shape_of
from core.audit.initialization.sign_hash import sign_hash
from core.audit.initialization.slices import slices_of
from core.audit.initialization.weight_stats import shrink, tolerance, weight_stats
from core.audit.run import audit
from tests.audit.drawn import IDS, Drawn, judged, rms


class AfterNorm(Drawn):
    """The residual is taken after the norm: h = N(x); x = h + F(h)."""

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for attention, ffn in zip(self.attention, self.ffn, strict=True):
            h = rms(x)
            x = h + attention(h)
            h = rms(x)
            x = h + ffn(h)
        return self.head(rms(x))


class PostNorm(Drawn):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for attention, ffn in zip(self.attention, self.ffn, strict=True):
            x = rms(x + attention(x))
            x = rms(x + ffn(x))
        return self.head(x)


def test_a_residual_taken_after_the_norm_is_named() -> None:
    model = AfterNorm(lambda at: 1.6 * at.fan_in**-0.5, blocks=12)
    result = audit(model, IDS)
    assert result.identity.verdict == "proved"
    rows = result.document()["additions"]
    assert all(0.9 < row["state_rms"] < 1.5 for row in rows[:-1])
    notes = judged(model).notes
    assert any("no pre-norm" in note and "cosine with the input" in note for note in notes)


def test_post_norm_is_no_norm_on_the_branch_output() -> None:
    """The writer's scale reaches the stream there, so a rule is judged as ever."""
    judgement = judged(PostNorm(lambda at: 0.02), rule="gpt2")
    assert [finding.kind for finding in judgement.findings] == ["absent"]
    assert any("no pre-norm" in note for note in judgement.notes)


@pytest.mark.parametrize("cut", [1.0, 2.0, 3.0])
def test_truncation_is_read_from_the_largest_value(cut: float) -> None:
    """Against the plain integral of x^2 over the cut normal."""
    x = np.linspace(-cut, cut, 200001)
    density = np.exp(-(x**2) / 2)
    exact = math.sqrt(float((x**2 * density).sum() / density.sum()))
    assert shrink(cut) == pytest.approx(exact, rel=1e-4)
    torch.manual_seed(0)
    values = torch.nn.init.trunc_normal_(torch.empty(200, 200), std=0.02, a=-cut * 0.02, b=cut * 0.02)
    found = weight_stats(values)
    assert found.truncation == pytest.approx(cut, rel=0.02)
    assert found.std / found.shrink == pytest.approx(0.02, rel=0.02)
    assert weight_stats(torch.randn(200, 200)).truncation is None
    assert weight_stats(torch.rand(200, 200)).truncation is None


def test_tolerance_holds_the_share_that_it_promises() -> None:
    """At two and three standard errors, where samples can tell; the chance at six is beyond counting."""
    rng = np.random.default_rng(0)
    for count in (16, 256, 4096):
        logs = np.abs(np.log(rng.standard_normal((20000 if count < 4096 else 2000, count)).std(axis=1, ddof=1)))
        for sigmas in (2.0, 3.0):
            outside = float((logs > tolerance(count, sigmas)).mean())
            assert outside <= 2 * (1 - NormalDist().cdf(sigmas)) * 1.1 + 3e-3
            assert sigmas > 2 or count == 16 or outside > 0.02
    assert tolerance(1) == tolerance(4) == math.inf


def test_parts_are_found_along_any_axis_and_never_made_up() -> None:
    torch.manual_seed(0)
    whole = torch.randn(96, 64)
    assert [part.label for part in slices_of(whole)] == [""]
    for _ in range(50):
        assert len(slices_of(torch.randn(96, 64))) == 1
    rows, columns, experts = whole.clone(), whole.clone(), torch.randn(4, 32, 32)
    rows[40:] *= 0.5
    columns[:, :16] *= 2
    experts[1] = 0
    assert [part.label for part in slices_of(rows)] == ["[0:40]", "[40:96]"]
    assert [part.label for part in slices_of(columns)] == ["[:, 0:16]", "[:, 16:64]"]
    assert [part.label for part in slices_of(experts)] == ["[0:1]", "[1:2]", "[2:4]"]
    assert slices_of(rows)[1].of(rows).shape == (56, 64)


def test_a_digest_is_of_the_draw_and_not_of_its_scale() -> None:
    torch.manual_seed(0)
    values = torch.randn(32, 8)
    assert sign_hash(values) == sign_hash(values * 0.35) == sign_hash(values.double() * 1e-9)
    assert sign_hash(values) != sign_hash(-values)
    assert sign_hash(values) != sign_hash(values.T)
    assert sign_hash(torch.ones(100)) is None
    assert sign_hash(torch.zeros(100)) is None
    assert sign_hash(values[:1]) is None


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ([1.0] * 4, "flat 1.00, as declared"),
        ([math.sqrt(2)] * 4, "flat 1.41, sqrt(2)"),
        ([2.0] * 4, "flat 2.00, 2"),
        ([4.0] * 4, "flat 4.00, the rule is not applied"),
        ([2.0, 1.4, 2.0, 1.4], "saw-tooth, again every 2"),
        ([2.0, 2.0, 1.0, 1.0], "step, at 2.00, 1.00"),
        ([math.inf, 3.0, 2.0], "infinite first block"),
        ([4.0, 3.0, 2.0, 1.0], "falling"),
        ([1.0, 2.0, 3.0, 4.0], "rising"),
        ([0.0, 0.0], "zero"),
        ([1.0, math.inf], "irregular"),
        ([1.0, 3.0, 2.0, 7.0, 1.5], "irregular"),
        ([], "no writers"),
    ],
)
def test_shapes_in_words(ratios: list[float], words: str) -> None:
    assert shape_of(ratios, bare=4.0).startswith(words)
