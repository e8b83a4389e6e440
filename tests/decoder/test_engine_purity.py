"""Nothing global is touched, nothing depends on it, and two threads get their own numbers."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from core.construction.storage import load_run, save_run
from core.decoder.base_draw import BaseDraw
from core.decoder.config import DecoderConfig
from core.health.arms import observe_arms
from core.health.report import built_run, observe_document, restored_document
from core.health.request import ObserveRequest
from core.recipes.catalogue import recipe
from tests.support import PACKED, batch_of

CONFIG = DecoderConfig(blocks=2, width=8, heads=2, kv_heads=1, ff_width=6, vocabulary=110, positions=6)


def request(**changes: Any) -> ObserveRequest:
    return ObserveRequest(**{"config": CONFIG, "batch": batch_of(PACKED), **changes})


def everything(folder: Path) -> None:
    """Every way through the engine: drawn, profiled, built, saved, restored, with parameter gradients."""
    for dtype in ("float64", "float32", "bfloat16"):
        observe_document(request(dtype=dtype, recipe="admin"))
    run = built_run(request(recipe="gpt2"))
    save_run(folder, run.initialized, run.control, run.dtype)
    restored_document(load_run(folder), batch_of(PACKED))


def globals_now() -> dict[str, Any]:
    """Every piece of process-wide state that an engine could be tempted to touch."""
    return {
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "torch rng": torch.random.get_rng_state().numpy().tobytes(),
        "numpy rng": repr(np.random.get_state()),  # noqa: NPY002
        "random": random.getstate(),
        "grad": torch.is_grad_enabled(),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul": torch.get_float32_matmul_precision(),
        "numpy errors": np.geterr(),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
    }


def test_nothing_global_is_touched(tmp_path: Path) -> None:
    before = globals_now()
    everything(tmp_path / "run")
    assert globals_now() == before


@pytest.fixture
def unusual() -> Iterator[None]:
    """A caller's own settings, all away from the defaults."""
    dtype, threads, errors = torch.get_default_dtype(), torch.get_num_threads(), np.geterr()
    torch.set_default_dtype(torch.float16)
    torch.set_num_threads(2)
    torch.manual_seed(5)
    np.seterr(all="raise")
    yield
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)
    np.seterr(**errors)


@pytest.mark.usefixtures("unusual")
def test_unusual_settings_stay_and_change_nothing(tmp_path: Path) -> None:
    before = globals_now()
    found = observe_document(request())
    everything(tmp_path / "run")
    assert globals_now() == before
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(1)
    assert observe_document(request()) == found


@pytest.mark.parametrize(
    "guard",
    [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", dtype=torch.bfloat16)],
    ids=["no_grad", "inference_mode", "autocast"],
)
@pytest.mark.parametrize(("name", "dtype"), [("depth-scaled", "float64"), ("admin", "float64"), ("gpt2", "float32")])
def test_a_callers_autograd_modes_change_nothing(guard: Any, name: str, dtype: str, tmp_path: Path) -> None:
    """An observation needs gradients and its own types, whatever the caller has switched off or on."""
    asked = request(recipe=name, dtype=dtype)
    expected = observe_document(asked)
    with guard():
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
        assert observe_document(asked) == expected
        run = built_run(asked)
        save_run(tmp_path, run.initialized, run.control, run.dtype)
        restored = restored_document(load_run(tmp_path), batch_of(PACKED))
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")) == modes
    for arm in ("initialized", "same_base_unscaled_control"):
        assert restored[arm]["loss_nats"] == pytest.approx(expected[arm]["loss_nats"], rel=1e-12)


def test_two_users_at_once() -> None:
    """Different seeds in different threads give what each gets alone, bit for bit."""
    seeds = list(range(8))
    alone = [observe_document(request(seed=seed)) for seed in seeds]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: observe_document(request(seed=seed)), seeds * 3))
    assert together == alone * 3


def test_the_same_call_gives_the_same_bits() -> None:
    arms = [recipe("depth-scaled"), recipe("unscaled")]
    first, second = (observe_arms(BaseDraw(CONFIG, [3, 4]), arms, batch_of(PACKED))[0].observation for _ in range(2))
    assert np.array_equal(first.adjoint_rms, second.adjoint_rms)
    assert np.array_equal(first.activation_rms, second.activation_rms)
    assert np.array_equal(first.loss_nats, second.loss_nats)
