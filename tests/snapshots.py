"""Write the documents of every verb for a spread of inputs, or check them byte for byte against a written folder.

    python -m tests.snapshots write FOLDER
    python -m tests.snapshots check FOLDER [PATTERN]

One file per case: exit status, standard output, and the files that the verb wrote; versions and times are left out.
`check` prints the first difference of each document and exits 1 where there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import io
import itertools
import json
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from tests.audit import zoo
from tests.audit.drawn import IDS, At, Drawn, Std, gpt2, judged, rms, two_depths
from tests.audit.families import family

VOLATILE = frozenset({"version", "versions", "engine", "seconds", "library", "elapsed_seconds"})
ZOO_IDS = (torch.arange(2 * 9).reshape(2, 9) * 5) % zoo.VOCABULARY
SIZES = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 3}
CONFIGS = {
    "gpt2": {"model_type": "gpt2", "vocab_size": 96, "n_embd": 32, "n_layer": 4, "n_head": 4, "n_positions": 64},
    "llama": {"model_type": "llama", **SIZES},
    "olmo2": {"model_type": "olmo2", **SIZES},
}
RAGGED = {"inputs": [[0, 5, 6], [0, 7]], "targets": [[5, 6, 1], [7, 1]]}


def additions(at: At) -> float:
    """GPT-2's factor."""
    return (2 * at.blocks) ** -0.5


def on_writers(factor: Callable[[At], float], base: float = 0.02) -> Std:
    """A factor on the writers over a constant base."""
    return lambda at: base * factor(at) if at.writes else base


def on_roles(*roles: str) -> Std:
    """GPT-2's factor on these roles alone."""
    return lambda at: 0.02 * additions(at) if at.role in roles else 0.02


def by_fan_in(at: At) -> float:
    """LeCun's standard deviation."""
    return at.fan_in**-0.5


def drawn(std: Std = gpt2, **options: Any) -> Callable[[], tuple[nn.Module, Tensor]]:
    """A decoder written by hand, each matrix drawn by `std`."""
    return lambda: (Drawn(std, **{"width": 32, "ff": 64, **options}), IDS)


def changed(change: Callable[[Any], object], std: Std = gpt2, **options: Any) -> Callable[[], tuple[nn.Module, Tensor]]:
    """The same with a change to its parameters."""

    def build() -> tuple[nn.Module, Tensor]:
        model = Drawn(std, **{"width": 32, "ff": 64, **options})
        with torch.no_grad():
            change(model)
        return model, IDS

    return build


def shaped(draw: Callable[[Tensor], Tensor]) -> Callable[[tuple[int, ...]], Tensor]:
    """Draw in the shape that is asked for."""
    return lambda shape: draw(torch.empty(shape))


def from_zoo(name: str) -> tuple[nn.Module, Tensor]:
    """A model of the tests' zoo with its ids."""
    return getattr(zoo, name)(), ZOO_IDS


class PostNorm(Drawn):
    """x = N(x + F(x))."""

    def forward(self, ids: Tensor) -> Tensor:
        """The logits."""
        x = self.embed(ids)
        for attention, ffn in zip(self.attention, self.ffn, strict=True):
            x = rms(x + attention(x))
            x = rms(x + ffn(x))
        return self.head(x)


FACTORS: dict[str, Callable[[At], float]] = {
    "unscaled": lambda at: 1.0,
    "gpt2": additions,
    "depth-scaled": lambda at: at.blocks**-0.5,
    "block-indexed": lambda at: (2 * (at.block + 1)) ** -0.5,
    "lingua-global": lambda at: (2 * (at.blocks + 1)) ** -0.5,
    "squared": lambda at: 1 / (2 * at.blocks),
    "from-zero": lambda at: (2 * max(at.block, 1e-12)) ** -0.5,
    "stages": lambda at: (2 * (at.block % 4 + 1)) ** -0.5,
    "stage-depth": lambda at: 8**-0.5,
    "downwards": lambda at: (2 * (at.blocks - at.block)) ** -0.5,
    "fourth-root": lambda at: (2 * at.blocks) ** -0.25,
    "no-root": lambda at: 1 / at.blocks,
    "triple": lambda at: (3 * at.blocks) ** -0.5,
    "odd": lambda at: 0.137,
    "step": lambda at: 8**-0.5 if at.block < 4 else 16**-0.5,
    "last-left-out": lambda at: 1.0 if at.block == at.blocks - 1 else additions(at),
    "mixed": lambda at: additions(at) if at.role == "output" else at.blocks**-0.5,
    "zero": lambda at: 0.0,
    "own-fan": lambda at: additions(at) * (1.0 if at.role == "output" else (32 / at.fan_in) ** 0.5),
}
MODELS: dict[str, Callable[[], Any]] = {
    **{name.replace("-", "_"): drawn(on_writers(factor), blocks=8) for name, factor in FACTORS.items()},
    "wang": drawn(lambda at: 2 / (at.blocks * 32**0.5) if at.writes else (2 / 160) ** 0.5, blocks=5),
    "ds_init": drawn(lambda at: 0.02 * (at.block + 1) ** -0.5, blocks=5),
    "on_up": drawn(on_roles("output", "up"), blocks=8),
    "on_value": drawn(on_roles("value", "down"), blocks=8),
    "on_gate": drawn(on_roles("output", "gate"), blocks=8),
    "on_up_and_down": drawn(on_roles("output", "down", "up"), blocks=8),
    "one_writer": drawn(on_roles("output"), blocks=8),
    "everything": drawn(lambda at: 0.02 * additions(at), blocks=16, embedding=0.02),
    "lecun": drawn(by_fan_in),
    "lecun_gpt2": drawn(lambda at: by_fan_in(at) * (additions(at) if at.writes else 1)),
    "lecun_everything": drawn(lambda at: by_fan_in(at) * additions(at), blocks=16),
    "torch_readers": drawn(lambda at: (0.02 * additions(at)) if at.writes else (3 * at.fan_in) ** -0.5, width=64),
    "by_width": drawn(lambda at: (64 * at.blocks) ** -0.5 if at.writes else by_fan_in(at), width=64, ff=172),
    "by_fan_out": drawn(lambda at: at.fan_out**-0.5, transposed=True, width=64, ff=172),
    "odd_base": drawn(lambda at: 0.73 * by_fan_in(at)),
    "uniform": drawn(draw=shaped(lambda t: (torch.rand_like(t) * 2 - 1) * math.sqrt(3))),
    "truncated": drawn(draw=shaped(lambda t: nn.init.trunc_normal_(t, a=-2, b=2)), width=64),
    "orthogonal": drawn(lambda at: additions(at) if at.writes else 1.0, draw=shaped(nn.init.orthogonal_), width=64),
    "norm_out": drawn(on_writers(lambda at: 0.25, base=0.1), norm_out=True),
    "twice_forward": drawn(forward_factor=lambda block, blocks: (2 * blocks) ** -0.5),
    "forward_gpt2": drawn(on_writers(FACTORS["unscaled"]), forward_factor=lambda b, blocks: (2 * blocks) ** -0.5),
    "forward_completep": drawn(on_writers(FACTORS["unscaled"]), blocks=5, forward_factor=lambda b, blocks: 2 / blocks),
    "forward_constant": drawn(on_writers(FACTORS["unscaled"]), forward_factor=lambda b, blocks: 0.22),
    "dead": drawn(forward_factor=lambda block, blocks: 0.0 if block == 2 else 1.0),
    "tied": drawn(tied=True),
    "copied": changed(lambda m: m.ffn[1].down.weight.copy_(m.ffn[0].down.weight * 0.5)),
    "not_finite": changed(lambda m: m.ffn[1].up.weight[3].fill_(1e30)),
    "infinite_writer": changed(lambda m: m.ffn[0].down.weight.fill_(math.inf)),
    "post_norm": lambda: (PostNorm(on_writers(FACTORS["unscaled"])), IDS),
    "bfloat16": lambda: (Drawn(gpt2, width=32, ff=64).bfloat16(), IDS),
    **{f"zoo_{name}": partial(from_zoo, name) for name in (
        "Decoder", "Parallel", "ScaledSum", "NormOut", "PostNorm", "AfterNorm", "StateSpace", "Mixture", "Zero",
        "Shared", "Fused", "WeightNorm", "TorchLayers", "Gated", "Silent", "NoResidual", "Skips",
    )},
    **{f"hf_{name}": partial(family, name, **more) for name, more in {
        "gpt2": {}, "llama": {}, "olmo2": {}, "gemma2": {"head_dim": 8}, "granite": {"residual_multiplier": 0.22},
        "minicpm3": {"num_key_value_heads": 4, "scale_depth": 1.4}, "gpt_neox": {}, "mixtral": {}, "opt": {},
        "gpt_bigcode": {"n_layer": 4, "n_embd": 32, "n_head": 4}, "bloom": {"n_layer": 4, "n_head": 4},
    }.items()},
}  # fmt: skip
TARGETS = SimpleNamespace(**MODELS)
DEEP: dict[str, tuple[Std, dict[str, Any], dict[str, Any]]] = {
    "written-down": (on_writers(lambda at: 24**-0.5), {"blocks": 12}, {"rule": "gpt2"}),
    "written-down-auto": (on_writers(lambda at: 24**-0.5), {"blocks": 12}, {}),
    "gpt2": (gpt2, {}, {}),
    "everything": (on_roles("query", "key", "value", "gate", "up", "output", "down"), {"blocks": 16}, {}),
    "constant": (by_fan_in, {"forward_factor": lambda b, blocks: 0.22}, {"rule": "gpt2"}),
    "own-fan": (on_writers(FACTORS["own-fan"]), {}, {"rule": "gpt2"}),
    "sigma": (gpt2, {"blocks": 10}, {"rule": "gpt2", "sigma": 0.03}),
    "half-lecun": (lambda at: by_fan_in(at) * 8**-0.5, {}, {}),
}
DECLARED = {
    "gpt2": [name for name in MODELS if not name.startswith("zoo_")],
    "unscaled": ["unscaled", "gpt2", "hf_gpt2", "norm_out"],
    "depth-scaled": ["gpt2", "depth_scaled", "unscaled", "hf_llama"],
    "block-indexed": ["block_indexed", "gpt2", "ds_init"],
    "wang": ["wang", "unscaled"],
    "ds-init": ["ds_init", "unscaled"],
    "completep": ["forward_completep", "unscaled"],
    "deepscalelm": ["unscaled"],
    "deepnorm": ["post_norm"],
    "rezero": ["zoo_Zero", "zoo_Gated", "unscaled"],
    "zero-writer": ["zero", "unscaled"],
    "gpt2+completep": ["unscaled", "forward_completep"],
}
LAB = {"width-update": ("--seeds", "2")}
VERBS: dict[str, tuple[str, ...]] = {
    "observe": ("observe", "--json"),
    "observe-text": ("observe", "--blocks", "3", "--width", "8", "--heads", "2"),
    "observe-batch": ("observe", "--batch", "ragged.json", "--untied", "--bias", "--json", "--csv", "out"),
    "observe-float32": ("observe", "--dtype", "float32", "--norm", "layernorm", "--mlp", "gelu", "--json"),
    "observe-bfloat16": ("observe", "--dtype", "bfloat16", "--blocks", "4", "--learned-positions", "--json"),
    "observe-normal": ("observe", "--base-std", "0.02", "--truncate", "2", "--text", "depth", "--json"),
    "observe-save": ("observe", "--blocks", "2", "--save", "saved", "--json"),
    "observe-seeds": ("observe", "--seeds", "0:6", "--growth", "--suggest", "--recipe", "gpt2", "--json"),
    "observe-seeds-text": ("observe", "--blocks", "32", "--seeds", "0:6", "--recipe", "gpt2"),
    "observe-refused": ("observe", "--recipe", "nothing"),
    **{f"observe-{name}": ("observe", "--recipe", name, "--blocks", "4", "--json") for name in (
        "unscaled", "gpt2", "wang", "lns", "completep", "rezero", "fixup", "deepscalelm", "post-norm", "deepnorm",
        "admin", "peri-norm", "parallel", "normformer", "realformer", "ngpt", "dyt", "mup", "lns+gpt2",
    )},
    "trace": ("trace", "--json"), "trace-text": ("trace",), "init": ("init", "--json", "--weights"),
    "init-text": ("init",), "plan": ("plan", "--json"), "plan-text": ("plan",),
    "plan-config": ("plan", "--config", "llama.json", "--json"),
    "sweep": ("sweep", "--blocks", "1,2,4", "--seeds", "0:3", "--recipe", "gpt2,lns,admin", "--workers", "1",
              "--store", "store", "--out", "out/sweep", "--json"),
    "sweep-sizes": ("sweep", "--blocks", "2", "--seeds", "0:2", "--width", "4,8", "--ff-width", "4,8", "--dtype",
                    "float64,float32", "--lengths", "3,5", "--workers", "1", "--store", "store", "--out", "out/sweep"),
    "recipes": ("recipes", "--json", "--drift"), "recipes-text": ("recipes",),
    "recipes-combined": ("recipes", "--recipe", "lns+gpt2", "--json"),
    "recipes-against": ("recipes", "--recipe", "gpt2", "--against", "deepnorm", "--json"),
    "audit-file": ("audit", "gpt2.json", "--rule", "gpt2", "--gate", "--junit", "out/junit.xml", "--sarif",
                   "out/audit.sarif", "--golden", "out/golden.json", "--csv", "out/tables", "--json"),
    "audit-shrink": ("audit", "llama.json", "--shrink", "--dtype", "float64"),
    "audit-olmo2": ("audit", "olmo2.json", "--rule", "unscaled", "--json"),
    "audit-reports": ("audit", "tests.snapshots:TARGETS.one_writer", "--rule", "gpt2", "--gate", "warning", "--junit",
                      "out/junit.xml", "--sarif", "out/audit.sarif", "--golden", "out/golden.json", "--csv",
                      "out/tables"),
    "audit-sigma": ("audit", "tests.snapshots:TARGETS.gpt2", "--sigma", "0.04", "--rule", "gpt2", "--json"),
    "audit-refused": ("audit", "tests.snapshots:TARGETS.gpt2", "--rule", "ngpt"),
    **{f"audit-{name}": ("audit", f"tests.snapshots:TARGETS.{name}", "--json") for name in MODELS},
    **{f"audit-{name}-{rule}": ("audit", f"tests.snapshots:TARGETS.{name}", "--rule", rule, "--json")
       for rule, names in DECLARED.items() for name in names},
}  # fmt: skip
FAMILIES = ("gpt2", "llama", "nanochat", "granite", "gemma2", "gpt_neox")


def cases() -> dict[str, Callable[[], str]]:
    """Every document by name; a call makes it in the working folder, which is empty but for the inputs."""
    from core.lab.experiments import EXPERIMENTS

    return {
        **{name: partial(verb, *arguments) for name, arguments in VERBS.items()},
        **{f"lab-{name}": partial(verb, "lab", name, *LAB.get(name, ()), "--json") for name in EXPERIMENTS},
        **{f"survey-{name}": partial(survey, name) for name in FAMILIES},
        **{f"deep-{name}": partial(deep, *case) for name, case in DEEP.items()},
    }


def deep(std: Std, options: dict[str, Any], call: dict[str, Any]) -> str:
    """The judgement of a model that can be built at a second depth."""
    torch.manual_seed(0)
    model, source = two_depths(std, **{"width": 32, "ff": 64, **options})
    return stable(judged(model, source=source, **call).document())


def survey(name: str) -> str:
    """The row of one family, in this process."""
    from core.audit.survey import survey_row

    return stable(survey_row(name))


def verb(*arguments: str) -> str:
    """Exit status, output and written files of one run of the command line in this process."""
    from core.cli import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(list(arguments))
    parts = [f"exit {status}", without_volatile(out.getvalue()), err.getvalue() if status == 2 else ""]
    for path in sorted(Path().rglob("out/**/*")):
        if path.is_file():
            parts += [f"file {path}", without_volatile(path.read_text(encoding="utf-8"))]
    return "\n".join(parts)


def without_volatile(text: str) -> str:
    """JSON one value per line without times and versions; any other text as it is."""
    try:
        return stable(json.loads(text))
    except ValueError:
        return text


def stable(document: Any) -> str:
    """A document as lines, volatile keys left out."""
    return json.dumps(_kept(document), indent=1, ensure_ascii=False, default=str)


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _kept(entry) for key, entry in value.items() if key not in VOLATILE}
    return [_kept(entry) for entry in value] if isinstance(value, list) else value


def documents(pattern: str) -> Iterator[tuple[str, str]]:
    """(name, document) of every case that the pattern names, each in a folder of its own."""
    home = Path.cwd()
    os.environ["PYTHONPATH"] = str(home)
    for name, make in cases().items():
        if not fnmatch.fnmatch(name, pattern):
            continue
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            os.chdir(folder)
            try:
                Path("out/tables").mkdir(parents=True)
                Path("ragged.json").write_text(json.dumps(RAGGED))
                for config, settings in CONFIGS.items():
                    Path(f"{config}.json").write_text(json.dumps(settings))
                yield name, make()
            finally:
                os.chdir(home)


def difference(before: str, after: str) -> str:
    """The first line in which two documents differ, with the lines before it."""
    pairs = itertools.zip_longest(before.splitlines(), after.splitlines(), fillvalue="<end>")
    lines = list(pairs)
    place = next((i for i, (one, two) in enumerate(lines) if one != two), len(lines) - 1)
    context = "".join(f"    {one}\n" for one, _ in lines[max(0, place - 3) : place])
    return f"  line {place + 1}\n{context}  - {lines[place][0]}\n  + {lines[place][1]}"


def main() -> int:
    """Write or check; 1 where a document differs or is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["write", "check"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("pattern", nargs="?", default="*")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    differing, count = 0, 0
    for name, text in documents(options.pattern):
        count += 1
        path = folder / f"{name.replace('/', '_')}.txt"
        if options.action == "write":
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            differing += 1
            print(name, difference(path.read_text(encoding="utf-8") if path.exists() else "", text), sep="\n")
    print(f"{count} documents, {differing} differ" if options.action == "check" else f"{count} documents written")
    return 1 if differing else 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
