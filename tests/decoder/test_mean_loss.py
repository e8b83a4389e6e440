"""The loss in one pass over tiles of the vocabulary is torch's own of the whole logits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from core.construction.drawn_weights import DrawnWeights
from core.construction.tiled_weights import TiledWeights
from core.decoder.base_draw import BaseDraw
from core.decoder.config import DecoderConfig
from core.decoder.drawn_matrix import DrawnMatrix
from core.decoder.mean_loss import mean_loss
from core.recipes.catalogue import recipe
from tests.support import BATCHES, Rows, batch_of

SEEDS = [5, 2**64 - 1]
CONFIG = DecoderConfig(blocks=1, width=12, heads=2, ff_width=8, vocabulary=131, positions=9, tied=False)
# Logits of 100 are rounded to 4e-6 in float32, which is then the relative error of their exponentials.
LIMITS = {torch.float64: 1e-12, torch.float32: 1e-5}


@pytest.fixture(params=[12 * 3, 2**19], ids=["three columns", "one tile a part"])
def tiles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.decoder.mean_loss.HEAD_TILE", request.param)
    monkeypatch.setattr("core.decoder.mean_loss.LARGE_LOGITS", 0)
    # Fewer rows at once than a batch has, so that blocks of rows do not begin at the first.
    monkeypatch.setattr("core.decoder.mean_loss.ROWS", 5)


def assert_close(found: torch.Tensor, wanted: torch.Tensor, limit: float) -> None:
    scale = float(wanted.abs().max())
    assert float((found - wanted).abs().max()) <= limit * scale


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("rows", [BATCHES["row"], BATCHES["packed"]], ids=["row", "packed"])
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("names", [["unscaled", "gpt2"], ["ngpt"], ["mup"]])
def test_loss_and_adjoint_are_those_of_whole_logits(
    names: list[str], tied: bool, dtype: torch.dtype, rows: Rows
) -> None:
    config, batch, arms = replace(CONFIG, tied=tied), batch_of(rows), [recipe(name) for name in names]
    graph, draw = arms[0].graph(config), BaseDraw(config, SEEDS)
    plain = replace(graph, final_norm=None)
    members = len(SEEDS) * len(arms)
    random = torch.Generator().manual_seed(3)
    # Logits from -100 to 100: sums of their exponentials leave binary32 unless the largest is taken out.
    x = 100 * torch.randn(members, *batch.valid.shape, 12, dtype=torch.float64, generator=random).to(dtype)
    weight = torch.randn(members, generator=random, dtype=torch.float64)
    x.requires_grad_()
    dense = DrawnWeights(draw, arms, dtype)
    stem, tail = dense.stem(), dense.tail()
    head = stem["token_embedding.weight"].mT if tied else tail["head.weight"]  # type: ignore[union-attr]
    assert isinstance(head, torch.Tensor)
    matrices = head.repeat_interleave(members // len(head), dim=0).double()
    logits = torch.einsum("ebtd,edv->ebtv", x.double(), matrices)[:, batch.valid] * graph.logit_factor
    targets = torch.from_numpy(batch.targets[batch.valid])
    wanted = torch.stack([functional.cross_entropy(one, targets) for one in logits])
    (adjoint,) = torch.autograd.grad((wanted * weight).sum(), x)
    for provider in (dense, TiledWeights(draw, arms, dtype)):
        loss = mean_loss(plain, config, x, provider.stem(), provider.tail(), batch)
        assert loss.dtype == torch.float64
        assert_close(loss.detach(), wanted.detach(), LIMITS[dtype])
        (found,) = torch.autograd.grad((loss * weight).sum(), x)
        assert found.dtype == dtype
        assert_close(found, adjoint, LIMITS[dtype])


def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, arms, batch = BaseDraw(CONFIG, SEEDS), [recipe("unscaled"), recipe("gpt2")], batch_of(BATCHES["ragged"])
    weights = TiledWeights(draw, arms, torch.float32)
    x = torch.randn(4, *batch.valid.shape, 12, generator=torch.Generator().manual_seed(3), requires_grad=True)
    found = []
    for cores in (1, 2, 5):
        monkeypatch.setattr("core.decoder.threads.cores", lambda cores=cores: cores)
        loss = mean_loss(arms[0].graph(CONFIG), CONFIG, x, weights.stem(), weights.tail(), batch)
        found.append((loss.detach().numpy().tobytes(), torch.autograd.grad(loss.sum(), x)[0].numpy().tobytes()))
    assert found[0] == found[1] == found[2]


def test_a_large_dense_head_is_read_in_tiles_unless_its_gradient_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, unscaled, batch = BaseDraw(CONFIG, [1]), recipe("unscaled"), batch_of(BATCHES["row"])
    tail = DrawnWeights(draw, [unscaled]).tail()
    head = tail["head.weight"]
    assert isinstance(head, torch.Tensor)
    x = torch.randn(1, *batch.valid.shape, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    monkeypatch.setattr("core.decoder.mean_loss._Pass.run", lambda self: (torch.zeros(1), torch.zeros(self.shape)))
    logits = batch.valid.sum() * CONFIG.vocabulary * 8
    for limit, asked, tiled in ((logits - 1, False, True), (logits, False, False), (0, True, False)):
        monkeypatch.setattr("core.decoder.mean_loss.LARGE_LOGITS", limit)
        chosen = {**tail, "head.weight": head.detach().requires_grad_(asked)}
        loss = mean_loss(unscaled.graph(CONFIG), CONFIG, x, {}, chosen, batch)
        assert (float(loss.detach()[0]) == 0.0) == tiled


def test_a_drawn_head_keeps_no_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a tile needs at most is its own size and a few rows."""
    seen: list[int] = []
    tile = DrawnMatrix.tile

    def watched(self: DrawnMatrix, *given: object) -> torch.Tensor:
        drawn = tile(self, *given)  # type: ignore[arg-type]
        seen.append(drawn.numel())
        return drawn

    monkeypatch.setattr(DrawnMatrix, "tile", watched)
    monkeypatch.setattr("core.decoder.mean_loss.HEAD_TILE", 60)
    weights = TiledWeights(BaseDraw(CONFIG, [1]), [recipe("unscaled")])
    x = torch.ones(1, 1, 4, 12, dtype=torch.float64)
    mean_loss(recipe("unscaled").graph(CONFIG), CONFIG, x, {}, weights.tail(), batch_of(BATCHES["row"]))
    assert max(seen) == 60
    assert sum(seen) == np.prod((12, 131))
