"""An audit's ratios over seeds, on its reduced twin: those of plain models of the library, judged as decoders are."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from core.audit.initialization.judge import judged_document
from core.audit.report.result import AuditResult
from core.audit.sandbox import health_twin, tasks
from core.audit.sandbox.tasks import build_target, run_audit
from core.audit.seed_arms import seed_arms
from core.health.band import Band
from core.tables.seeds import ribbon_table, verdict_table
from tests.audit.plain_ratios import ratios
from tests.audit.test_build import task
from tests.audit.test_reduced_health import FAMILIES

SEEDS = (4701, 4702, 4703)
SIZES = {"seed": SEEDS[0], "shrink": True, "rows": 1, "context": 24}
Audited = tuple[AuditResult, dict[str, Any]]


@pytest.fixture(scope="module")
def audited() -> Audited:
    """A mixture of experts, whose twin has half its width, over three seeds."""
    pytest.importorskip("transformers")
    state = torch.get_rng_state()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(health_twin, "WIDEST", 64)
        wanted = task({"model_type": "mixtral", **FAMILIES["mixtral"]}, **SIZES)
        target = build_target(wanted)
        result = run_audit(target, wanted)
        document = judged_document(result, rule="gpt2", source=target.source, seeds=SEEDS)
    torch.set_rng_state(state)
    return result, json.loads(json.dumps(document, allow_nan=False))


def test_every_seed_has_the_ratios_of_a_plain_model(audited: Audited) -> None:
    result, document = audited
    assert result.reduced is not None
    arm = seed_arms(document)[0]
    assert (arm.seeds, len(arm.labels)) == (SEEDS, 5)
    settings = {"model_type": "mixtral", **FAMILIES["mixtral"]}
    model_class, given = tasks.model_class_of("mixtral"), tasks._declared("mixtral", settings, shrink=False)[0]
    batch = tasks.batch_of(task(settings, **SIZES), tasks.built_config(model_class.config_class, given), narrow=False)
    assert batch.inputs.shape == (1, 24)
    ids = torch.tensor(np.concatenate([batch.inputs, batch.targets[:, -1:]], axis=1).tolist())
    for row, seed in enumerate(SEEDS):
        model = result.reduced.build(seed)
        plain = ratios(model, model.model.layers, ids)
        assert arm.activation_ratio[row, -1] == pytest.approx(plain["activation"], rel=1e-4)
        assert arm.adjoint_ratio[row, 0] == pytest.approx(plain["adjoint"], rel=1e-4)
    assert len(set(arm.activation_ratio[:, -1].tolist())) == 3


def test_the_verdict_is_the_documents_own_and_the_repair_has_its_arm(audited: Audited) -> None:
    _, document = audited
    plain, mended = seed_arms(document)
    for arm, part in ((plain, "as_it_is"), (mended, "mended")):
        told = document["headline"][part]["verdict"]
        found = arm.verdict.document()
        for key in ("state", "depth_state", "cause", "seeds", "refused", "share_within", "margin", "worst_factor"):
            assert found[key] == pytest.approx(told[key]) if isinstance(told[key], float) else found[key] == told[key]
    assert np.all(mended.activation_ratio[:, -1] < plain.activation_ratio[:, -1])
    assert verdict_table([plain, mended])["recipe"].tolist() == ["model", "repaired twin"]
    ribbon = ribbon_table([plain]).query("quantity == 'activation'")
    assert ribbon["median"].tolist() == pytest.approx(np.median(plain.activation_ratio, axis=0).tolist())


def test_a_seed_without_ratios_is_refused_and_no_health_has_no_arm(audited: Audited) -> None:
    document = json.loads(json.dumps(audited[1]))
    document["over_seeds"]["as_it_is"]["adjoint_rms"][1] = None
    arm = seed_arms(document, Band(0.5, 2.0))[0]
    assert arm.refused.tolist() == [False, True, False]
    assert (arm.verdict.refused, arm.verdict.thresholds.band) == (1, (0.5, 2.0))
    assert seed_arms({**document, "over_seeds": None}) == []
