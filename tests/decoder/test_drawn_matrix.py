"""A matrix that is drawn inside its product: the bits of its tiles, its adjoint, its threads and its memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest
import torch

from core.decoder.base_draw import BaseDraw, Distribution
from core.decoder.config import DecoderConfig
from core.decoder.drawn_matrix import DrawnMatrix, Scaling
from core.decoder.matrix_draws import MatrixDraws
from core.decoder.twin import reduced_twin

SEEDS = [7, 2**63 + 5]
CONFIG = DecoderConfig(blocks=2, width=40, heads=4, ff_width=57, vocabulary=101, tied=False)
LAWS = [Distribution(), Distribution(0.02), Distribution(0.5, 1.25), Distribution(embedding_std=0.02)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize("config", [CONFIG, reduced_twin(CONFIG, 20)], ids=["full", "twin"])
def test_tiles_have_the_bits_of_the_base_draw(config: DecoderConfig, law: Distribution, dtype: npt.DTypeLike) -> None:
    draw = BaseDraw(config, SEEDS, law)
    start = draw.layout.block_start(1)
    parts = [(spec, 0, draw.stem()) for spec in draw.layout.stem]
    parts += [(spec, start, draw.block(1)) for spec in draw.layout.block_template if spec.draws]
    parts += [(spec, 0, draw.tail()) for spec in draw.layout.tail if spec.draws]
    assert len(parts) == 9
    for spec, before, whole in parts:
        draws = MatrixDraws(SEEDS, spec, before + spec.offset, law)
        height, width = spec.shape
        for rows, columns in [
            (slice(0, height), slice(0, width)),
            (slice(3, 11), slice(5, 6)),
            (slice(7, 8), slice(1, 19)),
        ]:
            for seed in range(len(SEEDS)):
                wanted = whole[spec.key][seed, rows, columns].astype(dtype)
                tile = np.empty(wanted.shape, dtype)
                draws.into(tile, seed, rows, columns)
                assert tile.tobytes() == wanted.tobytes()


def matrix(arms: list[Scaling], dtype: torch.dtype = torch.float64, seeds: list[int] = SEEDS) -> DrawnMatrix:
    spec = BaseDraw(CONFIG, seeds).layout.block(1)[-1]
    assert spec.shape == (57, 40)
    return DrawnMatrix(MatrixDraws(seeds, spec, spec.offset, Distribution()), arms, dtype)


ARMS = [Scaling(), Scaling(0.25), Scaling(2.0, "rows"), Scaling(3.0, "columns"), Scaling(0.0)]


def plain(seed: int, arm: Scaling) -> torch.Tensor:
    """The matrix by its definition."""
    base = BaseDraw(CONFIG, [seed]).block(1)["ffn.down.weight"][0]
    if arm.unit == "rows":
        base = np.array([row / np.sqrt((row * row).sum()) for row in base])
    if arm.unit == "columns":
        base = np.array([column / np.sqrt((column * column).sum()) for column in base.T]).T
    return torch.from_numpy(base * arm.coefficient)


@pytest.mark.parametrize("tile", [8, 512])
@pytest.mark.parametrize("transposed", [False, True])
def test_products_and_adjoints_are_those_of_the_plain_matrices(
    tile: int, transposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.decoder.drawn_matrix.TILE", tile)
    drawn = matrix(ARMS).mT if transposed else matrix(ARMS)
    fan_in, fan_out = (40, 57) if transposed else (57, 40)
    assert drawn.shape == (10, fan_in, fan_out)
    assert matrix([Scaling(2.0)] * 3).shape == (2, 57, 40)
    random = torch.Generator().manual_seed(1)
    x = torch.randn(10, 2, 3, fan_in, dtype=torch.float64, generator=random, requires_grad=True)
    y = drawn.product(x)
    g = torch.randn(y.shape, dtype=torch.float64, generator=random)
    y.backward(g)
    x, y, grad = x.detach(), y.detach(), x.grad
    assert grad is not None
    for member, (seed, arm) in enumerate((seed, arm) for seed in SEEDS for arm in ARMS):
        weight = plain(seed, arm).mT if transposed else plain(seed, arm)
        for found, wanted in ((y[member], x[member] @ weight), (grad[member], g[member] @ weight.mT)):
            scale = max(1e-300, float(wanted.abs().max()))
            assert float((found - wanted).abs().max()) <= 1e-14 * scale


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_bits_do_not_depend_on_the_number_of_threads(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.decoder.drawn_matrix.TILE", 8)
    x = torch.randn(10, 3, 57, generator=torch.Generator().manual_seed(2)).to(dtype)
    found = []
    for cores in (1, 2, 5):
        monkeypatch.setattr("core.decoder.threads.cores", lambda cores=cores: cores)
        found.append(matrix(ARMS, dtype).product(x))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_a_product_of_a_large_matrix_stands_in_tiles() -> None:
    """Of 64 MB of weights there are never more than a few tiles, nor are any kept for the reverse pass."""
    config = DecoderConfig(blocks=1, width=1024, heads=8, ff_width=8192)
    spec = BaseDraw(config, [1]).layout.block(0)[-1]
    drawn = DrawnMatrix(MatrixDraws([1], spec, spec.offset, Distribution()), [Scaling()], torch.float64)
    x = torch.ones(1, 2, spec.shape[0], dtype=torch.float64, requires_grad=True)
    tracemalloc.start()
    drawn.product(x).sum().backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert spec.coordinates * 8 == 2**26
    assert peak < 2**24
