"""The README's example and commands are what they say."""

from __future__ import annotations

import re
from pathlib import Path

from core.cli import VERBS
from core.decoder.config import DecoderConfig
from core.export.json import figure_json
from core.figures.sites import ratio_figure
from core.health.band import Band
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.tables.observe import site_table

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def example() -> str:
    return next(block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "import" in block)


def test_example_makes_the_page_s_figure() -> None:
    names: dict[str, object] = {}
    exec(compile(example(), "README.md", "exec"), names)
    document = observe_document(ObserveRequest(config=DecoderConfig(blocks=32), seed=7, recipe="gpt2"))
    assert names["document"] == document
    assert figure_json(names["figure"]) == figure_json(ratio_figure(site_table(document), Band(), "activation"))


def test_every_verb_has_its_line() -> None:
    for verb in VERBS:
        assert f"| `{verb}` |" in README


def test_every_picture_and_file_named_is_there() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).is_file(), target
    rooms = set(re.findall(r"`(core/\w+)/`", README))
    assert rooms == {f"core/{path.name}" for path in (ROOT / "core").iterdir() if (path / "__init__.py").is_file()}


def test_pinned_packages_have_a_reason() -> None:
    for listing in ("requirements.txt", "tests/requirements.txt"):
        for name in re.findall(r"^([A-Za-z][\w-]*)==", (ROOT / listing).read_text(), re.MULTILINE):
            assert re.search(rf"^\|[^|]*\b{name}\b[^|]*\|", README, re.MULTILINE), name


def test_exactly_two_set_up_commands() -> None:
    commands = [line for line in README.splitlines() if line.startswith("python3 -m venv")]
    assert len(commands) == 2
    assert "streamlit run app.py" in commands[0]
    assert "-m pytest" in commands[1]
