"""A comparison asked for from one observation's settings."""

from __future__ import annotations

from core.compare.request import comparison_of
from core.decoder.batch import Batch
from core.decoder.config import DecoderConfig
from core.health.band import Band
from core.health.request import ObserveRequest


def test_a_comparison_keeps_the_settings_of_its_observation() -> None:
    base = ObserveRequest(
        config=DecoderConfig(blocks=3), seed=7, dtype="float32", band=Band(0.5, 2), batch=Batch.from_text("abc")
    )
    request = comparison_of(base, ["gpt2", "lns+gpt2"], 3)
    assert request.recipes == ("gpt2", "lns+gpt2")
    assert request.seeds == (7, 8, 9)
    assert (request.config, request.dtype, request.band) == (base.config, base.dtype, base.band)
    assert request.batch is base.batch
    assert [config.blocks for config in request.configs] == [3]


def test_seeds_go_on_from_zero_after_the_largest() -> None:
    request = comparison_of(ObserveRequest(seed=2**64 - 1), ["gpt2"], 3)
    assert request.seeds == (2**64 - 1, 0, 1)
    request.check()
