"""Health of a family that the decoder has not: the audit's document gives the verdict, tower, curves and repair."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
import torch

from core.audit.initialization.judge import judged_document
from core.audit.sandbox import health_twin
from core.audit.sandbox.tasks import build_target, run_audit
from pages.common import audits, navigation
from tests.audit.test_build import task
from tests.audit.test_reduced_health import FAMILIES
from tests.pages.conftest import ROOT, Open
from tests.pages.lab_pages import straight
from tests.pages.support import assert_no_trace, change, figures, sentences
from tests.pages.test_model_audit import Answering, child, finished

pytestmark = pytest.mark.filterwarnings("ignore")
MIXTRAL = {"model_type": "mixtral", **FAMILIES["mixtral"], "torch_dtype": "float16"}
__all__ = ["child"]
Document = dict[str, Any]


@pytest.fixture(scope="module")
def twin() -> Document:
    """The document of a reduced twin over three seeds, by the core in this process."""
    pytest.importorskip("transformers")
    state = torch.get_rng_state()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(health_twin, "WIDEST", 64)
        settings = {key: value for key, value in MIXTRAL.items() if key != "torch_dtype"}
        wanted = task(settings, shrink=True, seed=4701, rows=1, context=24)
        target = build_target(wanted)
        document = judged_document(run_audit(target, wanted), rule="gpt2", source=target.source, seeds=(4701, 1, 2))
    torch.set_rng_state(state)
    return document


def dropped(open_app: Open, config: Document) -> Any:
    app = open_app(seeds="3")
    data = json.dumps(config).encode()
    app.file_uploader(key="landing-files").set_value([("mine.json", data, "application/json")]).run()
    return finished(app)


def test_a_dropped_config_of_experts_is_built_by_its_own_code_and_judged_over_seeds(
    open_app: Open, child: type[Answering], twin: Document
) -> None:
    child.document = copy.deepcopy(twin)
    app = dropped(open_app, MIXTRAL)
    (wanted,) = child.tasks
    assert (wanted["kind"], wanted["family"], wanted["shrink"]) == ("config", "mixtral", False)
    assert wanted["seeds"] == [*range(4701, 4733)]
    assert (wanted["context"], "torch_dtype" in wanted["settings"]) == (32, False)
    told = " ".join(str(one.value).replace("\\", "") for one in (*app.caption, *app.markdown, *app.success, *app.error))
    assert "3 of 3 seeds of MixtralForCausalLM keep every ratio within [0.01, 100]" in told
    assert "Of the 32 seeds 3 are counted" in told
    assert "the family's own code in the transformers library" in told
    assert "Reduced: vocab_size 1,200 to 1,000, hidden_size 128 to 64" in told
    activation, adjoint = figures(app)
    for name, key in (("model", "health"), ("repaired twin", "twin")):
        (curve,) = [trace["y"] for trace in activation["data"] if trace.get("name") == name]
        assert curve == [site["activation_ratio"] for site in twin[key]["sites"]]
    assert any("5 to 95 % of 3 seeds" in str(trace.get("name")) for trace in adjoint["data"])
    rms = np.array(twin["over_seeds"]["as_it_is"]["activation_rms"])
    table = next(one.value for one in app.dataframe if "median worst ratio" in one.value.columns)
    assert table["arm"].tolist() == ["model", "repaired twin"]
    assert table["median worst ratio"].iloc[0] >= np.median((rms / rms[:, :1]).max(axis=1)) * (1 - 1e-12)
    codes = {repair["code"].strip() for repair in twin["repairs"]}
    assert codes
    assert codes <= {code.value.strip() for code in app.code}
    # The Audit page shows the same document, and nothing is built again.
    app.switch_page(str(ROOT / "pages/model_audit/model_audit.py")).run()
    assert_no_trace(app)
    assert len(child.tasks) == 1
    assert [one.value for one in app.subheader] == ["MixtralForCausalLM"]


def test_a_refused_build_is_one_sentence_and_is_not_begun_again_by_itself(
    open_app: Open, child: type[Answering]
) -> None:
    app = open_app(seeds="3")
    data = json.dumps(MIXTRAL).encode()
    app.file_uploader(key="landing-files").set_value([("mine.json", data, "application/json")]).run()
    finished(app.button(key="cancel-run").click().run())
    assert sentences(app)[0] == "'mine.json': The run was cancelled."
    app.run()
    assert len(child.tasks) == 1
    assert app.button(key="build-it")


@pytest.mark.parametrize("name", ["recipes", "depth_sweep", "laptop_plan"])
def test_pages_of_the_decoder_say_where_such_a_model_is_answered(name: str) -> None:
    app = straight(f"pages/{name}/{name}.py", family="mixtral")
    assert_no_trace(app)
    (sentence,) = sentences(app)
    assert sentence.startswith("The model is a mixtral, whose graph this app's own decoder does not have")
    assert "0 parameters" not in str(app.markdown[0].value)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({**MIXTRAL, "auto_map": {"AutoModel": "x.Y"}}, "custom code, which is never run"),
        ({**MIXTRAL, "model_type": "no-such"}, "is not among the"),
        ({**MIXTRAL, "num_hidden_layers": 5000}, "5,000 blocks"),
        ({"model_type": "llama", "auto_map": {"a": "b"}}, "custom code, which is never run"),
    ],
)
def test_a_config_that_no_code_builds_is_one_sentence(
    open_app: Open, child: type[Answering], config: Document, words: str
) -> None:
    app = dropped(open_app, config)
    assert [one for one in sentences(app) if words in one and "mine.json" in one]
    assert "family" not in app.query_params
    assert child.tasks == []


def test_a_family_is_chosen_in_the_dialog(open_app: Open, child: type[Answering], twin: Document) -> None:
    child.document = twin
    app = change(open_app("pages/bands/bands.py"), "Library family")
    app.selectbox(key="choose-family").set_value("gemma2").run()
    assert_no_trace(app)
    assert "gemma2 of the library, built small** · 4 × 32" in str(app.markdown[0].value).replace("\\", "")
    app.switch_page(str(navigation.ENTRIES["residual_health"].script)).run()
    finished(app)
    assert sentences(app) == []
    assert (child.tasks[0]["kind"], child.tasks[0]["blocks"], child.tasks[0]["width"]) == ("family", 4, 32)
    assert audits.LEDGER in app.session_state
