"""Published constants to their printed digits."""

from __future__ import annotations

import math

import pytest

from core.errors import RecipeError
from core.recipes.catalogue import recipe
from core.recipes.constants import (
    deepnorm_constants,
    deepnorm_encoder_decoder_constants,
    fixup_factor,
    gpt2_writer_std,
    t_fixup_constants,
)


@pytest.mark.parametrize(
    ("blocks", "alpha", "beta"),
    [(12, "2.2134", "0.3195"), (24, "2.6321", "0.2686"), (100, "3.7606", "0.1880"), (1000, "6.6874", "0.1057")],
)
def test_deepnorm_on_one_side(blocks: int, alpha: str, beta: str) -> None:
    found = deepnorm_constants(blocks)
    assert (f"{found['alpha']:.4f}", f"{found['beta']:.4f}") == (alpha, beta)


@pytest.mark.parametrize(("encoder", "decoder"), [(6, 6), (18, 18), (100, 12), (12, 100)])
def test_deepnorm_encoder_decoder(encoder: int, decoder: int) -> None:
    """By logarithms: the paper's exponents, written another way."""
    found = deepnorm_encoder_decoder_constants(encoder, decoder)
    mixed = (4 * math.log(encoder) + math.log(decoder)) / 16
    assert found["encoder alpha"] == pytest.approx(0.81 * math.exp(mixed), rel=1e-14)
    assert found["encoder beta"] == pytest.approx(0.87 * math.exp(-mixed), rel=1e-14)
    assert found["decoder alpha"] ** 4 == pytest.approx(3 * decoder, rel=1e-14)
    assert found["decoder beta"] ** -4 == pytest.approx(12 * decoder, rel=1e-14)


@pytest.mark.parametrize(
    ("blocks", "std"), [(12, "0.0040825"), (24, "0.0028868"), (36, "0.0023570"), (48, "0.0020412")]
)
def test_gpt2_standard_deviations(blocks: int, std: str) -> None:
    assert f"{gpt2_writer_std(blocks):.7f}" == std


@pytest.mark.parametrize(("blocks", "decoder", "encoder"), [(6, "0.36889", "0.42809"), (12, "0.31020", "0.35998")])
def test_t_fixup(blocks: int, decoder: str, encoder: str) -> None:
    found = t_fixup_constants(blocks, 512)
    assert (f"{found['decoder factor']:.5f}", f"{found['encoder factor']:.5f}") == (decoder, encoder)
    assert found["embedding std"] == pytest.approx(512**-0.5, rel=1e-15)


@pytest.mark.parametrize(("branches", "layers", "power"), [(16, 2, 2), (16, 3, 4), (64, 4, 6)])
def test_fixup(branches: int, layers: int, power: int) -> None:
    assert fixup_factor(branches, layers) ** -power == pytest.approx(branches, rel=1e-14)


@pytest.mark.parametrize("blocks", [0, -1, True, 2.0])
def test_depths_that_count_nothing_are_refused(blocks: object) -> None:
    for call in (
        lambda: gpt2_writer_std(blocks),
        lambda: t_fixup_constants(blocks, 4),
        lambda: fixup_factor(4, 1),
        lambda: deepnorm_constants(0),
        lambda: deepnorm_encoder_decoder_constants(4, blocks),
    ):
        with pytest.raises(RecipeError):
            call()


def test_constants_on_cards() -> None:
    assert recipe("deepnorm").constants(12, 4)["alpha"] == pytest.approx(2.2134, abs=5e-5)
    assert recipe("t-fixup").constants(6, 4)["decoder factor"] == pytest.approx(0.36889, abs=5e-6)
    assert set(recipe("deepnorm-encoder-decoder").constants(6, 4)) == {
        "encoder alpha", "encoder beta", "decoder alpha", "decoder beta",
    }  # fmt: skip
    assert recipe("fixup").constants(8, 4)["factor at m = 2"] == pytest.approx(0.25, rel=1e-15)
    assert recipe("peri-norm").constants(8, 4) == {}
