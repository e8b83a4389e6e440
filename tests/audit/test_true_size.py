"""The audit block by block: the same findings and ratios as of the whole model with the same weights."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from core.audit.initialization.judge import document_of, judged_document
from core.audit.initialization.rebuild import rebuilder_of
from core.audit.initialization.sign_hash import sign_hash
from core.audit.initialization.slices import slices_of
from core.audit.report.result import ModelFacts
from core.audit.run import audit
from core.audit.true_size.deferred import deferred
from core.audit.true_size.drawing import Drawing
from core.audit.true_size.judging import judged_at_true_size
from core.audit.true_size.streaming import Hollow
from core.audit.true_size.task import LargeModel, _configured, _drawing, audit_at_true_size
from core.cli import run
from core.errors import AuditError

pytestmark = pytest.mark.filterwarnings("ignore")
SIZES = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 600, "head_dim": 16, "pad_token_id": 1,
}  # fmt: skip
GPT2 = {"n_embd": 64, "n_layer": 4, "n_head": 4, "vocab_size": 600, "n_positions": 64, "bos_token_id": 0}
FAMILIES = {
    "llama": SIZES,
    "gpt2": GPT2 | {"eos_token_id": 1},
    "qwen3": SIZES,
    "mistral": SIZES,
    "gemma2": SIZES | {"query_pre_attn_scalar": 16},
    "olmo2": {key: value for key, value in SIZES.items() if key != "head_dim"},
}
CASES = [("mistral", False), ("gpt2", True), ("qwen3", True), ("llama", True), ("gemma2", True), ("olmo2", False)]


@pytest.fixture(autouse=True)
def own_generator() -> Any:
    """Building a model draws from torch's global generator."""
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


def task(settings: dict[str, Any], **changes: Any) -> dict[str, Any]:
    base = {"kind": "config", "settings": settings, "source": "config.json", "shrink": False, "seed": 3}
    return {**base, "dtype": "float32", "batch": None, "max_parameters": 2**24, "driver": "block", **changes}


def whole(large: LargeModel, given: dict[str, Any]) -> nn.Module:
    """Build the model as the library does, and give it the weights that were drawn block by block."""
    kind, config = type(large.model), large.model.config
    made: nn.Module = kind._from_config(config, attn_implementation="eager", dtype=torch.float32)  # type: ignore[operator, attr-defined]
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name in large.programs:
                parameter.copy_(large.programs[name].value().view(parameter.shape))
    return made


def findings(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    found = document["conformance"]["findings"]
    return [(f["kind"], f["severity"], f["parameters"], f["sentence"]) for f in found]


@pytest.mark.heavy
@pytest.mark.parametrize(("family", "tied"), CASES)
def test_blocks_one_at_a_time_give_the_audit_of_the_whole_model(family: str, tied: bool) -> None:
    given = task({"model_type": family, **FAMILIES[family], "tie_word_embeddings": tied})
    large = _configured(given)
    with _drawing(large, given) as drawing:
        result, small = audit_at_true_size(large, drawing)
        arguments = {"rule": "auto", "sigma": None, "deep": True}
        judgement = judged_at_true_size(result, small, drawing, large.source, **arguments)
        document = document_of(result, judgement, large.source)
    model = whole(large, given)
    expected = judged_document(
        audit(model, large.batch, facts=ModelFacts(class_name=type(model).__name__, trained=False)),
        source=rebuilder_of(model),
    )
    assert document["driver"] == "block"
    assert document["identity"]["verdict"] == expected["identity"]["verdict"] == "proved"
    assert document["conformance"]["verdict"] == expected["conformance"]["verdict"]
    assert findings(document) == findings(expected)
    assert document["model"]["parameters"] == expected["model"]["parameters"]
    for key in ("activation_rms", "adjoint_rms"):
        mine, other = ([site[key] for site in d["health"]["sites"]] for d in (document, expected))
        np.testing.assert_allclose(mine, other, rtol=1e-5)
    for key in ("writers", "readers"):
        names = [(m["name"], m["part"], m["fan_in"], m["fan_out"], m["distribution"]) for m in document[key]]
        assert names == [(m["name"], m["part"], m["fan_in"], m["fan_out"], m["distribution"]) for m in expected[key]]
        np.testing.assert_allclose(
            [m["std"] for m in document[key]], [m["std"] for m in expected[key]], rtol=1e-9, atol=0
        )
    rows = [[(b["raw_rms"], b["contribution_rms"]) for b in a["branches"]] for a in document["additions"]]
    others = [[(b["raw_rms"], b["contribution_rms"]) for b in a["branches"]] for a in expected["additions"]]
    np.testing.assert_allclose(np.concatenate(rows), np.concatenate(others), rtol=1e-5)


def test_one_block_at_a_time_has_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    given = task({"model_type": "llama", **SIZES})
    large = _configured(given)
    block = sum(p.size for name, p in large.programs.items() if ".layers.0." in name)
    held: list[int] = []
    require = Hollow.require

    def measured(self: Hollow, names: Any) -> None:
        require(self, names)
        tensors = self._parameters.items()
        held.append(sum(p.untyped_storage().nbytes() // 4 for name, p in tensors if not self.table(name)))

    monkeypatch.setattr(Hollow, "require", measured)
    with _drawing(large, given) as drawing:
        audit_at_true_size(large, drawing)
    assert set(held) == {block}


def inits() -> nn.Module:
    model = nn.ModuleDict({name: nn.Linear(120, 260) for name in ("cut", "wide", "sliced", "twice", "scaled")})
    model["table"] = nn.Embedding(501, 33, padding_idx=3)
    model["turned"] = nn.Linear(96, 64)
    nn.init.trunc_normal_(model["cut"].weight, std=0.02, a=-0.04, b=0.04)
    nn.init.xavier_normal_(model["wide"].weight)
    nn.init.orthogonal_(model["turned"].weight)
    with torch.no_grad():
        model["sliced"].weight[:100].mul_(0.25)
        model["twice"].weight.copy_(model["wide"].weight)
        model["scaled"].weight = nn.Parameter(torch.randn(260, 120) * 0.5)
    model.register_parameter("blank", nn.Parameter(torch.empty(40, 50)))
    model.register_parameter("stack", nn.Parameter(torch.ones(4, 50, 60)))
    return model


@pytest.fixture
def drawn() -> Any:
    model, programs = deferred(inits, 5)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters() if name in programs}
    with Drawing(programs, shapes, dtype=torch.float32, threads=2) as drawing:
        values = {name: torch.empty(shape) for name, shape in shapes.items()}
        drawing.fill(values)
        yield model, drawing, values


def test_any_initializer_is_run_later_and_gives_the_same_values_again(drawn: Any) -> None:
    model, drawing, values = drawn
    assert all(p.is_meta for p in model.parameters() if p.dim() > 1)
    again = {name: torch.empty_like(value) for name, value in values.items()}
    drawing.fill(again)
    assert all(torch.equal(values[name], again[name]) for name in values if name != "blank")
    expected = {
        "wide.weight": math.sqrt(2 / (120 + 260)), "table.weight": math.sqrt(1 - 1 / 501), "scaled.weight": 0.5,
        "turned.weight": 1 / math.sqrt(96), "cut.weight": 0.02 * 0.8796,
    }  # fmt: skip
    for name, std in expected.items():
        assert float(values[name].std()) == pytest.approx(std, rel=0.03), name
    assert float(values["cut.weight"].abs().max()) <= 0.04
    assert not values["table.weight"][3].any()
    assert torch.equal(values["twice.weight"], values["wide.weight"])
    square = values["turned.weight"] @ values["turned.weight"].T
    torch.testing.assert_close(square, torch.eye(64), atol=1e-5, rtol=0)
    assert values["blank"].isnan().all()
    assert (values["stack"] == 1).all()
    ratio = values["sliced.weight"][:100].std() / values["sliced.weight"][100:].std()
    assert float(ratio) == pytest.approx(0.25, rel=0.03)


def test_statistics_by_tiles_are_those_of_the_whole(drawn: Any) -> None:
    _, drawing, values = drawn
    for name, value in values.items():
        reading, flat = drawing.readings[name], value.double().numpy()
        assert reading.blank == (name == "blank")
        if reading.blank:
            continue
        assert reading.weights.std == pytest.approx(flat.std(), rel=1e-12, abs=1e-15), name
        assert reading.weights.mean == pytest.approx(flat.mean(), rel=1e-12, abs=1e-15), name
        assert reading.weights.largest == np.abs(flat).max()
        assert reading.digest == sign_hash(value)
        assert [part.label for part in reading.slices] == [part.label for part in slices_of(value)]
    assert [part.label for part, _ in drawing.parts["sliced.weight"]] == ["[0:100]", "[100:260]"]
    assert drawing.digests["twice.weight"] == drawing.digests["wide.weight"]
    assert drawing.readings["turned.weight"].weights.distribution == "orthogonal"
    assert drawing.readings["cut.weight"].weights.truncation == pytest.approx(2.0, abs=0.05)


def test_rows_and_stripes_of_a_table_are_its_rows(drawn: Any) -> None:
    _, drawing, values = drawn
    wanted = torch.tensor([0, 3, 77, 500])
    assert torch.equal(drawing.rows("table.weight", wanted), values["table.weight"][wanted])
    stripes = torch.cat([rows.clone() for _, rows in drawing.stripes("table.weight")])
    assert torch.equal(stripes, values["table.weight"])


PLANTED = """
import math
import torch
from transformers import GPT2Config, GPT2LMHeadModel

def build():
    return GPT2LMHeadModel(GPT2Config(n_layer=8, n_embd=128, n_head=4, vocab_size=600, n_positions=64))

def unscaled():
    model = build()
    with torch.no_grad():
        for block in (1, 4, 6):
            model.transformer.h[block].attn.c_proj.weight.mul_(4.0)
            model.transformer.h[block].mlp.c_proj.weight.mul_(4.0)
    return model

def reader():
    model = build()
    with torch.no_grad():
        model.transformer.h[5].mlp.c_fc.weight.mul_(0.25)
    return model

def on_meta():
    with torch.device("meta"):
        return build()

def plain():
    return torch.nn.Sequential(torch.nn.Embedding(10, 8), torch.nn.Linear(8, 10))
"""


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "planted.py").write_text(PLANTED)
    monkeypatch.chdir(tmp_path)


def audited(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(["audit", *arguments, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.heavy
@pytest.mark.usefixtures("planted")
def test_planted_faults_are_named_at_the_true_size(capsys: pytest.CaptureFixture[str]) -> None:
    document = audited(["planted:unscaled", "--driver", "block"], capsys)
    (found,) = (f for f in document["conformance"]["findings"] if f["severity"] != "info")
    assert found["kind"] == "partial"
    assert sorted(found["parameters"]) == sorted(
        f"transformer.h.{block}.{part}.c_proj.weight" for block in (1, 4, 6) for part in ("attn", "mlp")
    )
    document = audited(["planted:reader", "--driver", "block"], capsys)
    found = next(f for f in document["conformance"]["findings"] if f["kind"] == "on-reader")
    assert found["parameters"] == ["transformer.h.5.mlp.c_fc.weight"]
    document = audited(["planted:on_meta", "--driver", "block"], capsys)
    assert document["conformance"]["verdict"] == "applied"
    assert document["driver"] == "block"


@pytest.mark.heavy
@pytest.mark.usefixtures("planted")
def test_what_cannot_be_drawn_block_by_block_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "planted:plain", "--driver", "block"]) == 2
    assert "no configuration of transformers" in capsys.readouterr().err
    Path("config.json").write_text(json.dumps({"model_type": "llama", **SIZES}))
    assert run(["audit", "config.json", "--driver", "block", "--shrink"]) == 2
    assert "leave one out" in capsys.readouterr().err


@pytest.mark.heavy
def test_auto_draws_blocks_where_the_whole_is_too_large(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llama", **SIZES}))
    assert audited([str(path)], capsys)["driver"] == "graph"
    assert audited([str(path), "--max-parameters", "100000"], capsys)["driver"] == "block"


def test_another_forward_at_the_true_size_is_refused() -> None:
    given = task({"model_type": "llama", **SIZES})
    large, other = _configured(given), _configured(task({"model_type": "llama", **SIZES, "hidden_act": "gelu"}))
    with _drawing(large, given) as drawing, pytest.raises(AuditError, match="another way"):
        audit_at_true_size(replace(large, small=other.small), drawing)
