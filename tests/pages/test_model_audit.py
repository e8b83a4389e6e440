"""The audit's page shows the core's document, keeps it by its settings, and answers every upload with one sentence."""

from __future__ import annotations

import copy
import io
import json
import math
import struct
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from streamlit.testing.v1 import AppTest

from core.audit.initialization.judge import judged_document
from core.audit.initialization.rebuild import rebuilder_of
from core.audit.intake.several import Given
from core.audit.intake.target import family_task
from core.audit.report import headline_words
from core.audit.run import audit
from core.audit.sandbox.tasks import build_target
from core.errors import AuditError
from pages.common import allowance, audits, model_controls, uploads
from tests.audit.families import GPT2
from tests.pages.conftest import Open
from tests.pages.lab_pages import straight
from tests.pages.support import assert_no_trace, change, figures, sentences

pytestmark = pytest.mark.filterwarnings("ignore")
PAGE = "pages/model_audit/model_audit.py"
CONFIG = json.dumps({"model_type": "gpt2", **GPT2}).encode()
Document = dict[str, Any]


def made(family: str, rule: str) -> Document:
    """The document of a small family by the core, in this process."""
    state = torch.get_rng_state()
    try:
        task = {**family_task(family, 4, 32), "seed": 0, "dtype": "float32", "max_parameters": 2**24}
        target = build_target(task)
        result = audit(target.model, target.batch, facts=target.facts)
        return judged_document(result, rule=rule, source=rebuilder_of(target.model))
    finally:
        torch.set_rng_state(state)


@pytest.fixture(scope="module")
def healthy() -> Document:
    return made("gpt2", "gpt2")


@pytest.fixture(scope="module")
def faulty() -> Document:
    return made("nanochat", "gpt2")


class Answering:
    """A child that gives a document at once, or waits until it is ended where there is none to give."""

    tasks: ClassVar[list[Document]] = []
    document: ClassVar[Document | None] = None

    def __init__(self, task: Document, **limits: Any) -> None:
        self.stage, self.seconds = "stream", 1.0
        self._over = threading.Event()
        Answering.tasks.append(task)
        assert limits["threads"] == 1

    def result(self) -> Document:
        if Answering.document is None:
            self._over.wait(30)
            raise AuditError("The child was ended.")
        return copy.deepcopy(Answering.document)

    def end(self) -> None:
        self._over.set()


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Answering]]:
    """Children that answer with `child.document`; `child.tasks` is what they were given."""
    monkeypatch.setattr(audits, "Child", Answering)
    Answering.tasks, Answering.document = [], None
    yield Answering
    Answering.tasks, Answering.document = [], None


def finished(app: AppTest) -> AppTest:
    """Run the script again and again, as the page's timer does, until no job is running."""
    deadline = time.monotonic() + 30
    while any(button.key == "cancel-run" for button in app.button):
        assert time.monotonic() < deadline
        time.sleep(0.02)
        app.run()
    assert_no_trace(app)
    return app


def opened(open_app: Open, **link: str) -> AppTest:
    return finished(straight(PAGE, **link) if link else open_app(PAGE))


def dropped(open_app: Open, *files: tuple[str, bytes]) -> AppTest:
    """The page after files were dropped in the dialog of the model bar."""
    app = change(opened(open_app), "Drop files")
    app.file_uploader(key="model-files").set_value([(name, data, "application/x") for name, data in files]).run()
    assert_no_trace(app)
    return app


def table(app: AppTest, column: str) -> Any:
    return next(element.value for element in app.dataframe if column in element.value.columns)


def test_a_decoder_that_no_class_draws_says_why_and_offers_models(open_app: Open, child: type[Answering]) -> None:
    app = opened(open_app)
    (sentence,) = sentences(app)
    assert sentence.startswith("This decoder's weights are drawn by Xavier's law, and no class of the transformers")
    assert app.button(key="audit-run").disabled
    assert not figures(app)
    assert child.tasks == []
    assert [button.key for button in app.button if button.key == "audit-own"]


def test_a_link_opens_the_family_and_shows_the_cores_numbers(
    open_app: Open, child: type[Answering], healthy: Document
) -> None:
    child.document = healthy
    app = opened(open_app, family="gpt2", audit_blocks="6", audit_width="64", rule="gpt2", sigma="0.03", audit_seed="7")
    (task,) = child.tasks
    wanted = {"kind": "family", "family": "gpt2", "blocks": 6, "width": 64, "rule": "gpt2", "sigma": 0.03, "seed": 7}
    assert {key: task[key] for key in wanted} == wanted
    (headline,) = sentences(app, "success")
    assert headline.startswith("**Your 4 layers start healthy: ratios ")
    assert "The rule gpt2, (2L)^(-1/2), is met." in headline.replace("\\", "")
    captions = [str(caption.value).replace("\\", "") for caption in app.caption]
    assert any(f"{healthy['model']['parameters']:,} parameters, 4 blocks and 8 additions" in text for text in captions)
    assert any("Residual stream proved: " in text for text in captions)
    (figure,) = figures(app)
    for row in healthy["conformance"]["profile"]:
        (line,) = [trace for trace in figure["data"] if trace.get("name") == row["group"]]
        assert line["y"] == row["ratios"]
    assert figure["layout"]["yaxis"]["type"] == "log"
    words = " ".join(str(element.value).replace("\\", "") for element in app.markdown)
    assert all(finding["sentence"] in words for finding in healthy["conformance"]["findings"])
    assert not app.metric
    assert not [code for code in app.code if "named_parameters" in code.value]
    assert not [text for text in words.split() if text.strip("*:") in ("applied", "no-rule-declared")]


def test_every_view_is_the_document(open_app: Open, child: type[Answering], faulty: Document) -> None:
    child.document = faulty
    views = {}
    for view in ("Writers and readers", "Additions", "Health", "Absolute RMS", "Contributions"):
        views[view] = opened(open_app, family="nanochat", rule="gpt2", audit_view=view)
    writers = table(views["Writers and readers"], "ratio")
    assert writers["ratio"].tolist() == [row["ratio"] for row in faulty["writers"]]
    assert writers["name"].tolist() == [row["name"] for row in faulty["writers"]]
    additions = table(views["Additions"], "contribution / stream")
    assert additions["contribution / stream"].tolist() == [a["contribution_to_stream"] for a in faulty["additions"]]
    trials = table(views["Additions"], "states before it")
    assert trials.columns.tolist() == ["zeroed writers of", "states before it", "states behind it"]
    assert set(trials["states behind it"]) == {"changed as they should"}
    activation, adjoint = figures(views["Health"])
    for place, arm in enumerate((faulty["health"], faulty["twin"])):
        assert activation["data"][place]["y"] == [site["activation_ratio"] for site in arm["sites"]]
        assert adjoint["data"][place]["y"] == [site["adjoint_ratio"] for site in arm["sites"]]
    assert [trace["name"] for trace in activation["data"][:2]] == ["model", "repaired twin"]
    adjoint = next(trace for trace in figures(views["Absolute RMS"])[1]["data"] if trace["name"] == "model, RMS")
    assert adjoint["y"] == [site["adjoint_rms"] for site in faulty["health"]["sites"]]
    (reduction,) = sentences(views["Absolute RMS"], "info")
    assert f"mean over {faulty['health']['valid_positions']} valid targets" in reduction
    assert table(views["Health"], "reduction")["loss, nats"].tolist() == [
        faulty[arm]["loss_nats"] for arm in ("health", "twin")
    ]
    assert len(figures(views["Contributions"])) == 2


def test_a_fault_is_named_with_its_tensors_and_its_shape(
    open_app: Open, child: type[Answering], faulty: Document
) -> None:
    child.document = faulty
    app = opened(open_app, family="nanochat", rule="gpt2")
    (headline,) = sentences(app, "warning")
    assert headline.startswith("**The feed-forward writers (matrices that end a branch) of all 4 blocks are not")
    assert "At this depth that matters little" in headline
    codes = {repair["form"]: repair["code"] for repair in faulty["repairs"]}
    assert set(codes) == {"loop", "init_weights"}
    assert {code.strip() for code in codes.values()} <= {code.value.strip() for code in app.code}
    (steps,) = [code.value for code in app.code if code.value.startswith("# Steps")]
    assert "audit config.json" in steps
    names = [f"model.layers.{block}.mlp.fc2.weight" for block in range(4)]
    assert "\n".join(names) in [code.value for code in app.code]
    words = [str(element.value).replace("\\", "") for element in app.markdown]
    assert any("the rule is not applied" in text for text in words)


def test_names_from_a_model_are_shown_literally(open_app: Open, child: type[Answering], faulty: Document) -> None:
    evil = "![x](http://example.invalid/a.png)"
    child.document = json.loads(json.dumps(faulty).replace("mlp.fc2", evil).replace("NanoChatForCausalLM", evil))
    app = opened(open_app, family="nanochat", rule="gpt2")
    for kind in ("markdown", "error", "success", "info", "warning", "caption", "subheader"):
        assert not [text for text in getattr(app, kind) if "![x](http" in str(text.value)]
    spec = json.dumps(figures(app))
    assert "<img" not in spec


def test_trained_weights_claim_nothing(open_app: Open, child: type[Answering], healthy: Document) -> None:
    child.document = copy.deepcopy(healthy)
    child.document["model"]["trained"] = True
    child.document["conformance"] |= {"base": None, "depths": [], "profile": [], "verdict": "no-rule-declared"}
    child.document["conformance"]["findings"] = [
        {
            "kind": "no-rule-declared", "severity": "info", "parameters": [], "measured": None, "expected": None,
            "sentence": "The weights are trained, so they say nothing of their initialization.",
        }
    ]  # fmt: skip
    headline = child.document["headline"]
    headline["sentences"] = headline_words.sentences(child.document, headline)
    app = opened(open_app, family="gpt2")
    assert any("nothing is said of their initialization" in sentence for sentence in sentences(app, "info"))
    assert not figures(app)


def test_a_model_without_health_says_why(open_app: Open, child: type[Answering], healthy: Document) -> None:
    child.document = {**copy.deepcopy(healthy), "health": None, "health_refusal": "The loss moves no state."}
    child.document["identity"] |= {"verdict": "failed", "reason": "No addition was found", "worst_relative_error": None}
    app = opened(open_app, family="gpt2", audit_view="Health")
    assert sentences(app)[0].startswith("**Residual stream not proved**")
    assert "No health: The loss moves no state." in sentences(app, "info")


def test_results_are_kept_by_their_settings(open_app: Open, child: type[Answering], healthy: Document) -> None:
    child.document = healthy
    app = opened(open_app, family="gpt2", rule="gpt2")
    app.number_input(key="seed").set_value(5).run()
    assert sentences(app, "info")[0].startswith("Press Audit")
    assert len(child.tasks) == 1
    finished(app.button(key="audit-run").click().run())
    assert len(child.tasks) == 2
    app.number_input(key="seed").set_value(4701).run()
    assert len(figures(app)) == 1
    assert len(child.tasks) == 2


def test_a_running_audit_shows_its_stage_and_can_be_cancelled(open_app: Open, child: type[Answering]) -> None:
    app = straight(PAGE, family="gpt2")
    assert_no_trace(app)
    assert app.button(key="audit-run").disabled
    (bar,) = app.get("progress")
    assert bar.proto.text.startswith("Finding and proving the residual stream")
    app.button(key="cancel-run").click().run()
    finished(app)
    assert sentences(app) == ["The run was cancelled."]
    assert not app.button(key="audit-run").disabled


def test_a_session_that_used_its_share_waits(
    open_app: Open, child: type[Answering], healthy: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    child.document = healthy
    app = opened(open_app, family="gpt2")
    monkeypatch.setattr(allowance, "ALLOWED_SECONDS", 0.5)
    app.number_input(key="seed").set_value(5).run()
    app.button(key="audit-run").click().run()
    assert "then press Audit again" in sentences(app)[0]
    assert len(child.tasks) == 1


def test_without_the_library_the_page_says_how_to_get_it(
    open_app: Open, child: type[Answering], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    app = opened(open_app, family="gpt2")
    (sentence,) = sentences(app)
    assert "pip install transformers==" in sentence
    assert child.tasks == []


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ({"sigma": "wide"}, "The base std 'wide' is not a positive number"),
        ({"sigma": "-1"}, "is not a positive number"),
        ({"sigma": "inf"}, "is not a positive number"),
        ({"sigma": "nan"}, "is not a positive number"),
    ],
)
def test_a_setting_that_nothing_can_be_judged_by_is_one_sentence(
    open_app: Open, child: type[Answering], link: dict[str, str], sentence: str
) -> None:
    app = opened(open_app, family="gpt2", **link)
    assert sentence in sentences(app)[0]
    assert child.tasks == []


@pytest.mark.parametrize(("name", "value"), [("family", "os.system:exit"), ("rule", "lns"), ("audit_dtype", "float8")])
def test_a_link_that_no_control_can_take_is_named(
    open_app: Open, child: type[Answering], name: str, value: str
) -> None:
    app = straight(PAGE, **{"family": "gpt2", name: value})
    assert_no_trace(app)
    assert any(f"The link asks for {name} = " in sentence for sentence in sentences(app, "info"))
    assert all(task["kind"] == "family" and task["family"] in model_controls.FAMILIES for task in child.tasks)
    for button in app.button:
        if button.key == "cancel-run":
            button.click().run()
    finished(app)


def test_a_width_that_no_family_is_built_with_is_one_sentence(open_app: Open, child: type[Answering]) -> None:
    app = opened(open_app, family="gpt2", width="31")
    assert sentences(app) == ["The width is 31; a family of the library is built with a width of 32, 64, 128, 256."]
    assert child.tasks == []


def test_a_link_to_a_config_of_ones_own_asks_for_it(open_app: Open, child: type[Answering]) -> None:
    app = opened(open_app, family="mixtral", file="0123456789abcdef")
    (sentence,) = sentences(app)
    assert sentence.endswith("a link does not carry; press Change and drop the file again.")
    assert child.tasks == []


def test_a_dropped_config_is_audited_by_its_own_code(open_app: Open, child: type[Answering], healthy: Document) -> None:
    child.document = healthy
    app = dropped(open_app, ("config.json", CONFIG))
    finished(app.button(key="audit-run").click().run())
    (task,) = child.tasks
    assert (task["kind"], task["settings"], task["shrink"]) == ("config", json.loads(CONFIG), False)
    assert (len(task["seeds"]), task["context"]) == (32, 32)
    assert len(figures(app)) == 1


@pytest.mark.parametrize(
    ("link", "settings"),
    [
        ({"model": "gpt2"}, {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024}),
        ({"model": "qwen2-7b"}, {"model_type": "qwen2", "hidden_size": 3584, "num_key_value_heads": 4}),
        (
            {"base_std": "0.05", "width": "64", "heads": "4", "kv_heads": "2", "ff_width": "96"},
            {"model_type": "llama", "hidden_size": 64, "num_key_value_heads": 2, "initializer_range": 0.05},
        ),
    ],
)
def test_a_decoder_is_audited_as_the_class_that_has_its_graph(
    open_app: Open, child: type[Answering], link: dict[str, str], settings: Document
) -> None:
    app = opened(open_app, **link)
    assert any(f"audited as the class {settings['model_type']} of" in str(one.value) for one in app.caption)
    app.button(key="audit-run").click().run()
    (task,) = child.tasks
    assert settings.items() <= task["settings"].items()
    assert task["shrink"] is ("model" in link)
    finished(app.button(key="cancel-run").click().run())


def test_settings_of_nanogpt_are_audited_as_gpt2(open_app: Open, child: type[Answering]) -> None:
    nano = {"n_layer": 6, "n_head": 4, "n_embd": 64, "block_size": 32, "vocab_size": 99, "bias": False}
    app = dropped(open_app, ("mine.json", json.dumps(nano).encode()))
    app.run()
    told = [str(one.value).replace("\\", "") for one in app.caption]
    assert any("as the class gpt2 of" in one and one.endswith("begin at zero.") for one in told)
    app.button(key="audit-run").click().run()
    (task,) = child.tasks
    wanted = {"model_type": "gpt2", "n_layer": 6, "n_embd": 64, "n_inner": 256, "n_positions": 32, "vocab_size": 99}
    assert wanted.items() <= task["settings"].items()
    finished(app.button(key="cancel-run").click().run())


def zipped(members: dict[str, bytes], **info: int) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            for key, value in info.items():
                setattr(entry, key, value)
            archive.writestr(entry, data)
    return target.getvalue()


def config(**changes: Any) -> bytes:
    return json.dumps({"model_type": "gpt2", **GPT2, **changes}).encode()


LYING = struct.pack("<Q", 2**40) + b"{}"
HOSTILE: dict[str, tuple[str, bytes, str]] = {
    "code": ("config.json", config(auto_map={"AutoModel": "evil.Model"}), "auto_map"),
    "kernels": ("config.json", config(attn_implementation="evil/kernel"), "attention from a repository"),
    "no object": ("config.json", b"[1]", "one object"),
    "no JSON": ("config.json", b"\x80\x04cos\nsystem\n.", "UTF-8"),
    "deep": ("config.json", b'{"a":' * 10**5, "nests deeper"),
    "long": ("config.json", b" " * (2**20 + 5), "larger than"),
    "markup": ("config.json", config(model_type="![x](http://example.invalid/a.png)"), "model_type"),
    "bomb": ("m.zip", zipped({"config.json": b" " * 3 * 10**7}), "unpacks from"),
    "outside": ("m.zip", zipped({"../config.json": CONFIG}), "outside its folder"),
    "absolute": ("m.zip", zipped({"/etc/config.json": CONFIG}), "outside its folder"),
    "link": ("m.zip", zipped({"config.json": b"/etc/passwd"}, external_attr=0o120777 << 16, create_system=3), "a link"),
    "pickle": ("m.zip", zipped({"config.json": CONFIG, "pytorch_model.bin": b"x"}), "not a file of a safetensors"),
    "code in it": ("m.zip", zipped({"config.json": CONFIG, "modeling.py": b"x"}), "not a file of a safetensors"),
    "lying header": ("m.zip", zipped({"config.json": CONFIG, "model.safetensors": LYING}), "gives its header"),
    "index": (
        "m.zip",
        zipped(
            {
                "config.json": CONFIG,
                "model.safetensors.index.json": json.dumps({"weight_map": {"w": "../x.safetensors"}}).encode(),
            }
        ),
        "a shard is a",
    ),
    "no weights": ("m.zip", zipped({"config.json": CONFIG}), "no safetensors file"),
    "no zip": ("m.zip", b"PK\x03\x04 nothing", "cannot be read"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_upload_is_one_sentence_at_once(open_app: Open, child: type[Answering], name: str) -> None:
    file, data, words = HOSTILE[name]
    before = set(Path(tempfile.gettempdir()).glob("depthscope-upload-*"))
    app = change(opened(open_app), "Drop files")
    app.file_uploader(key="model-files").set_value([(file, data, "application/x")])
    start = time.thread_time()
    app.run()
    assert time.thread_time() - start < 2
    assert_no_trace(app)
    change(app, "Drop files")
    assert [sentence for sentence in sentences(app) if words in sentence]
    assert app.button(key="audit-run").disabled
    assert set(Path(tempfile.gettempdir()).glob("depthscope-upload-*")) == before
    assert child.tasks == []


def test_a_large_model_is_audited_with_small_widths(open_app: Open, child: type[Answering]) -> None:
    large = {
        "model_type": "llama", "hidden_size": 16384, "num_hidden_layers": 126, "num_attention_heads": 128,
        "num_key_value_heads": 8, "intermediate_size": 53248, "vocab_size": 128256, "torch_dtype": "float16",
    }  # fmt: skip
    app = dropped(open_app, ("config.json", json.dumps(large).encode()))
    app.button(key="audit-run").click().run()
    assert child.tasks[0]["shrink"] is True
    assert "torch_dtype" not in child.tasks[0]["settings"]
    finished(app.button(key="cancel-run").click().run())


def given(name: str, data: bytes) -> Given:
    return Given(name, io.BytesIO(data), len(data))


def weights(**tensors: list[int]) -> bytes:
    """A safetensors file of zeros."""
    header, start = {}, 0
    for name, shape in tensors.items():
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, start + size]}
        start += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(start)


def test_a_config_and_its_weights_are_dropped_together_and_deleted_with_the_next_model(
    open_app: Open, child: type[Answering]
) -> None:
    app = dropped(open_app, ("model.safetensors", weights(w=[2, 3])), ("config.json", CONFIG))
    assert not [sentence for sentence in sentences(app) if "Xavier" not in sentence]
    (folder,) = Path(tempfile.gettempdir()).glob("depthscope-upload-*")
    assert folder.stat().st_mode & 0o077 == 0
    app.run()
    app.button(key="audit-run").click().run()
    (task,) = child.tasks
    assert (task["kind"], task["family"], task["source"]) == ("folder", "gpt2", "model.safetensors and 1 more file")
    assert sorted(path.name for path in Path(task["folder"]).iterdir()) == ["config.json", "model.safetensors"]
    finished(app.button(key="cancel-run").click().run())
    change(app, "Choose").selectbox(key="choose-model").set_value("gpt2").run()
    assert not folder.exists()


def test_a_room_deletes_its_upload(tmp_path: Path) -> None:
    room = uploads.Room()
    first, second = [
        [given("config.json", data), given("model.safetensors", weights(w=[2]))] for data in (CONFIG, config(n_layer=3))
    ]
    assert room.take(first) == CONFIG
    assert room.upload is not None
    before = room.upload.path
    assert (before / "config.json").read_bytes() == CONFIG
    room.take(second)
    assert not before.exists()
    after = room.upload.path
    room.clear()
    assert not after.exists()
