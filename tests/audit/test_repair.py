"""Repairs as code: pasted and run, they leave nothing to mend; names from a visitor's model are literals in them."""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from core.audit.initialization.judge import judged_document
from core.audit.initialization.rebuild import rebuilder_of
from core.audit.intake.family import family_settings
from core.audit.intake.hub import built_config, model_class_of
from core.audit.intake.target import callable_task, family_task
from core.audit.report.repair_forms import LOOP, OVERRIDE
from core.audit.request import AuditRequest
from core.audit.run import audit
from core.audit.sandbox.isolation import run_isolated
from core.audit.sandbox.tasks import build_target
from core.audit.trace.inputs import random_batch
from core.command.audit_ci import ci_snippet, with_snippet
from tests.audit.drawn import IDS, At, Drawn, Std, gpt2

SIGMA = 0.02
HOSTILE = "it's \"quoted\"\n{0} %s #x\\'); raise SystemExit('ran') #"


def additions(at: At) -> float:
    return (2 * at.blocks) ** -0.5


def on_writers(factor: Callable[[At], float], base: float = SIGMA) -> Std:
    return lambda at: base * factor(at) if at.writes else base


def on_roles(*roles: str) -> Std:
    return lambda at: SIGMA * additions(at) if at.role in roles else SIGMA


def plain(std: Std, **options: Any) -> Callable[[], nn.Module]:
    return lambda: Drawn(std, **{"width": 32, "ff": 64, **options})


def copied() -> nn.Module:
    """Every feed-forward part is a copy of the first."""
    model = Drawn(gpt2, width=32, ff=64)
    for block in range(1, 4):
        model.ffn[block] = copy.deepcopy(model.ffn[0])
    return model


def dead() -> nn.Module:
    """Reader and writer of one branch are zeros."""
    model = Drawn(gpt2, width=32, ff=64)
    nn.init.zeros_(model.ffn[0].down.weight)
    nn.init.zeros_(model.ffn[0].up.weight)
    return model


def blank() -> nn.Module:
    """One matrix holds what no initializer draws."""
    model = Drawn(gpt2, width=32, ff=64)
    with torch.no_grad():
        model.ffn[1].up.weight[3, 4] = math.nan
    return model


def one_fan(at: At) -> float:
    """Every writer by the width, the readers by the usual law."""
    return (96 * at.blocks) ** -0.5 if at.writes else at.fan_in**-0.5


@dataclass(frozen=True)
class Fault:
    """A model with a planted fault, how it is judged, the kind found, and the verdict once it is mended."""

    build: Callable[[], nn.Module]
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    mended: str = "applied"


FAULTS = {
    "absent": Fault(plain(lambda at: SIGMA), "absent"),
    "partial": Fault(plain(on_roles("output")), "partial"),
    "blocks": Fault(plain(on_writers(lambda at: 1.0 if at.block in (3, 4) else additions(at)), blocks=8), "partial"),
    "reader": Fault(plain(on_roles("output", "up"), blocks=8), "on-reader"),
    "both": Fault(plain(on_roles("output", "down", "up"), blocks=8), "on-reader"),
    "everything": Fault(plain(lambda at: at.fan_in**-0.5 * additions(at), blocks=8), "on-everything"),
    "twice": Fault(plain(on_writers(lambda at: 1 / (2 * at.blocks))), "twice"),
    "forward": Fault(plain(gpt2, forward_factor=lambda block, depth: (2 * depth) ** -0.5), "twice"),
    "convention": Fault(plain(on_writers(lambda at: at.blocks**-0.5), blocks=8), "depth-convention"),
    "from zero": Fault(
        plain(on_writers(lambda at: (2 * at.block) ** -0.5 if at.block else math.inf), blocks=8), "depth-convention"
    ),
    "fan": Fault(plain(one_fan, width=96, ff=264), "wrong-fan-in", {"rule": "depth-scaled"}),
    "range": Fault(plain(lambda at: 0.1 * additions(at) if at.writes else SIGMA), "range-ignored", {"sigma": 0.1}),
    "written down": Fault(
        plain(lambda at: SIGMA * additions(at) if at.writes else 0.1), "range-ignored", {"sigma": 0.1}
    ),
    "mixed": Fault(
        plain(on_writers(lambda at: additions(at) if at.role == "output" else at.blocks**-0.5), blocks=8),
        "mixed-depth",
    ),
    "blank": Fault(blank, "never-initialised"),
    "copied": Fault(copied, "duplicated"),
    "dead": Fault(dead, "dead-branch"),
    "no scale": Fault(plain(lambda at: SIGMA), "absent", {"rule": "block-indexed"}),
}  # fmt: skip


def documented(model: nn.Module, **options: Any) -> dict[str, Any]:
    return judged_document(audit(model, IDS), **{"rule": "gpt2", **options})


def loops(document: dict[str, Any]) -> list[str]:
    return [repair["code"] for repair in document["repairs"] if repair["form"] == LOOP]


def mended(model: nn.Module, document: dict[str, Any]) -> nn.Module:
    """The model after every loop was pasted and run."""
    for code in loops(document):
        exec(code, {"model": model})
    return model


def verdict(document: dict[str, Any]) -> str:
    return str(document["conformance"]["verdict"])


@pytest.mark.parametrize("name", FAULTS)
def test_what_the_code_mends_is_mended(name: str) -> None:
    fault = FAULTS[name]
    model = fault.build()
    found = documented(model, **fault.options)
    assert fault.kind in {finding["kind"] for finding in found["conformance"]["findings"]}
    assert fault.kind in {repair["finding"] for repair in found["repairs"]}
    again = documented(mended(model, found), **fault.options)
    assert verdict(again) == fault.mended, again["conformance"]["findings"]
    assert all(finding["severity"] == "info" for finding in again["conformance"]["findings"])
    assert loops(again) == []


SCRIPT = """\
import torch
from tests.audit.test_repair import FAULTS, IDS

CODES = {codes!r}


def {name}():
    model = FAULTS[{fault!r}].build()
    for code in CODES:
        exec(code, {{"model": model}})
    return model, (IDS,)
"""


@pytest.mark.heavy
@pytest.mark.parametrize("name", FAULTS)
def test_the_code_holds_in_the_audits_child(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[name]
    codes = loops(documented(fault.build(), **fault.options))
    (tmp_path / "pasted.py").write_text(SCRIPT.format(codes=codes, name="built", fault=name))
    monkeypatch.syspath_prepend(tmp_path)
    request = AuditRequest(**{"rule": "gpt2", **fault.options})
    document = run_isolated(request.task(callable_task("pasted:built")), memory=None, seconds=300, threads=1)
    assert verdict(document) == fault.mended


def test_numbers_of_one_depth_are_refused_at_another() -> None:
    (code,) = loops(documented(plain(lambda at: SIGMA)()))
    for blocks, error in ((3, KeyError), (5, ValueError)):
        with pytest.raises(error):
            exec(code, {"model": plain(lambda at: SIGMA, blocks=blocks)()})


def test_a_repair_may_run_twice() -> None:
    model = plain(lambda at: SIGMA)()
    found = documented(model)
    assert verdict(documented(mended(mended(model, found), found))) == "applied"


def test_blocks_are_loops_and_not_lines() -> None:
    short, long = (loops(documented(plain(lambda at: SIGMA, blocks=blocks)())) for blocks in (4, 32))
    assert short[0].count("\n") == long[0].count("\n") < 14
    assert "range(32)" in long[0]


class Named(nn.Module):
    """A decoder whose parameters stand under any names, in one flat dictionary."""

    def __init__(self, inner: nn.Module, rename: Callable[[str], str]) -> None:
        super().__init__()
        self.calls = [inner]
        for name, parameter in inner.named_parameters():
            self._parameters[rename(name)] = parameter

    def forward(self, ids: Tensor) -> Tensor:
        return self.calls[0](ids)


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: HOSTILE + name,
        lambda name: name + HOSTILE,
        lambda name: name.replace(".weight", f".{HOSTILE}.weight"),
        lambda name: name.replace("ffn.", "ffn.007.").replace("attention.", "attention.٣."),
        lambda name: "\u202e\ud7ff{block}" + name,
    ],
)
def test_a_name_is_a_quoted_literal_and_nothing_else(rename: Callable[[str], str]) -> None:
    model = Named(plain(lambda at: SIGMA)(), rename)
    document = documented(model)
    for code in loops(document):
        tree = ast.parse(code)
        literals = "".join(n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert rename("x.weight").replace("x", "", 1)[:5] in literals or "ffn" in literals
        assert names <= {
            "parameters",
            "model",
            "dict",
            "torch",
            "block",
            "part",
            "range",
            "str",
            "parameter",
            "std",
            "ValueError",
        }
        assert not [line for line in code.splitlines() if line.lstrip().startswith("#") and "ran" in line]
        assert code.isascii() or all(character.isprintable() or character == "\n" for character in code)
    assert verdict(documented(mended(model, document))) == "applied"


@pytest.mark.parametrize(("family", "rule"), [("nanochat", "gpt2"), ("llama", "block-indexed")])
def test_an_override_of_the_librarys_initialization(family: str, rule: str) -> None:
    state = torch.get_rng_state()
    task = {**family_task(family, 3, 32), "seed": 0, "dtype": "float32", "max_parameters": 2**24}
    target = build_target(task)
    source = rebuilder_of(target.model)
    document = judged_document(audit(target.model, target.batch, facts=target.facts), rule=rule, source=source)
    (code,) = [repair["code"] for repair in document["repairs"] if repair["form"] == OVERRIDE]
    space: dict[str, Any] = {}
    exec(code, space)
    repaired = next(value for name, value in space.items() if name.startswith("Repaired"))
    config = built_config(model_class_of(family).config_class, family_settings(family, 3, 32))
    torch.manual_seed(0)
    model = repaired._from_config(config, attn_implementation="eager", dtype=torch.float32)
    torch.set_rng_state(state)
    again = judged_document(audit(model, random_batch(64, 0)), rule=rule)
    assert verdict(again) == "applied"
    # What a checkpoint brings stays: the class only draws what is new.
    with torch.no_grad():
        model.get_parameter(document["writers"][0]["name"]).fill_(0.5)
    kept = repaired.from_pretrained(None, config=config, state_dict=model.state_dict())
    assert all(torch.equal(value, kept.state_dict()[name]) for name, value in model.state_dict().items())


def test_the_steps_of_a_pipeline_stand_among_the_repairs() -> None:
    document = documented(plain(lambda at: SIGMA)())
    document["model"]["source"] = "my config.json; rm -rf *"
    *_, last = with_snippet(document)["repairs"]
    assert (last["language"], last["finding"], last["code"]) == ("yaml", "absent", ci_snippet(document))
    assert "audit config.json --rule gpt2 --gate" in last["code"]
    assert "rm" not in last["code"]
    healthy = documented(plain(gpt2)())
    assert healthy["repairs"] == with_snippet(healthy)["repairs"] == []
