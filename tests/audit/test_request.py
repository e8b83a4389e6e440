"""What an audit is asked for: the request and its task, uploads, families at other widths, and the child's stages."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import pytest

from core.audit.intake.family import family_settings
from core.audit.intake.target import family_task, received
from core.audit.request import STAGES, WIDTHS, AuditRequest, parsed_sigma
from core.audit.sandbox.isolation import Child
from core.errors import AuditError, ConfigError, RecipeError
from tests.audit.families import GPT2

CONFIG = json.dumps({"model_type": "gpt2", **GPT2}).encode()


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (AuditRequest(dtype="float16"), ConfigError),
        (AuditRequest(seed=-1), ConfigError),
        (AuditRequest(seed=2**64), ConfigError),
        (AuditRequest(sigma=0.0), AuditError),
        (AuditRequest(sigma=float("nan")), AuditError),
        (AuditRequest(rule="lns"), AuditError),
        (AuditRequest(rule="nothing"), RecipeError),
    ],
)
def test_a_request_that_nothing_can_be_judged_by_is_refused(request_: AuditRequest, error: type[Exception]) -> None:
    with pytest.raises(error):
        request_.check()


def test_a_sigma_is_typed_or_left_to_the_configuration() -> None:
    assert parsed_sigma(" ") is None
    assert parsed_sigma("2e-2") == 0.02
    for text in ("0", "-1", "inf", "nan", "a", "1e999"):
        with pytest.raises(AuditError, match="not a positive number"):
            parsed_sigma(text)


@pytest.mark.parametrize("name", ["llama", "gpt2", "reformer", "mamba2"])
def test_a_family_keeps_its_proportions_at_every_width(name: str) -> None:
    """A size that is the family's own default at some width is left out of the settings there."""
    small = family_settings(name, 4)
    key = next(key for key in ("hidden_size", "n_embd") if key in small)
    assert small[key] == WIDTHS[0]
    for width in WIDTHS[1:]:
        scale, wider = width // WIDTHS[0], family_settings(name, 4, width)
        assert wider.get(key, width) == width
        for size in (size for size in small if size in wider and wider[size] != small[size]):
            old = small[size]
            assert wider[size] == ([scale * entry for entry in old] if isinstance(old, list) else scale * old)


def test_an_upload_is_written_and_screened(tmp_path: Path) -> None:
    path = received("Config.JSON", io.BytesIO(CONFIG), tmp_path, max_bytes=2**20)
    assert path.read_bytes() == CONFIG
    for name, data in (("model.bin", CONFIG), ("config.json", b"[]"), ("m.zip", b"x"), ("", CONFIG)):
        with pytest.raises(AuditError):
            received(name, io.BytesIO(data), tmp_path, max_bytes=2**20)


def test_a_child_that_is_ended_is_gone() -> None:
    child = Child(AuditRequest().task(family_task("gpt2", 4, 32)), memory=2**31, seconds=60, threads=1)
    child.end()
    with pytest.raises(AuditError):
        child.result()
    assert child.stage is None


@pytest.mark.heavy
def test_a_child_tells_its_stages_in_their_order() -> None:
    import threading

    seen: list[str | None] = []
    child = Child(AuditRequest(rule="gpt2").task(family_task("gpt2", 4, 32)), memory=2**32, seconds=300, threads=1)
    thread = threading.Thread(target=lambda: seen.append(child.result()["conformance"]["verdict"]))
    stages: list[str | None] = []
    thread.start()
    while thread.is_alive():
        stages += [child.stage] if child.stage not in (None, *stages) else []
        time.sleep(0.001)
    assert seen == ["applied"]
    assert stages == [name for name in STAGES if name in stages]
    assert stages[0] == "library"
    assert child.seconds > 0
