"""Audits of hostile models: configs, folders, callables and options that nobody would give on purpose.

    python -m tests.benchmarks.hostile_audits 1000 --seed 7           # 1,000 in forked copies of a loaded process
    python -m tests.benchmarks.hostile_audits 100 --processes         # real command lines, several seconds each

`cases` yields command lines with the files that they need; `main` runs them and says which break the command line's
promises: exit 0, 1 or 2, one sentence on standard error where refused, one JSON document where asked for, no traceback,
no internal error, and an end within the granted seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.hostile_code import OWN
from tests.benchmarks.hostile_runs import GRACE, SECONDS, Case, Outcome, granted, preload, run_forked, run_process

SIZES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 128, "max_position_embeddings": 64, "pad_token_id": None,
}  # fmt: skip
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 128, "n_positions": 64, "activation_function": "gelu"}
CONFIGS: Mapping[str, dict[str, Any]] = {
    "gpt2": GPT2,
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 128},
    "opt": {**SIZES, "ffn_dim": 64, "word_embed_proj_dim": 32},
    "gpt_neo": {
        "hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 128, "attention_types": [[["global"], 2]],
    },
    "mamba": {"hidden_size": 32, "state_size": 8, "num_hidden_layers": 2, "vocab_size": 128},
    "mixtral": {**SIZES, "num_local_experts": 4, "num_experts_per_tok": 2},
    "gemma3_text": {**SIZES, "head_dim": 8, "sliding_window": 8},
    "deepseek_v3": {
        **SIZES, "n_routed_experts": 4, "num_experts_per_tok": 2, "q_lora_rank": 8, "kv_lora_rank": 8, "n_group": 1,
        "topk_group": 1, "first_k_dense_replace": 1, "moe_intermediate_size": 16, "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8, "v_head_dim": 8,
    },
    **{
        name: {**SIZES, "rope_theta": 1e4, "initializer_range": 0.02}
        for name in ("llama", "mistral", "qwen2", "qwen3", "olmo2", "gemma2", "phi3", "cohere", "stablelm", "gpt_neox")
    },
}  # fmt: skip
KEYS = (
    "rope_scaling", "rope_theta", "rope_parameters", "hidden_act", "head_dim", "layer_types", "sliding_window",
    "rms_norm_eps", "layer_norm_eps", "initializer_range", "attention_bias", "tie_word_embeddings", "eos_token_id",
    "bos_token_id", "text_config", "quantization_config", "auto_map", "dtype", "torch_dtype", "architectures",
    "attn_implementation", "model_type", "num_local_experts", "attention_dropout", "partial_rotary_factor",
    "id2label", "use_cache", "n_inner", "layer_norm_epsilon", "is_decoder", "add_cross_attention", "unheard_of",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    0, -1, 1, 2, 3, 5, 7, 2**31, 2**31 - 1, 2**40, 2**63, -(2**63), 10**30, 0.0, -0.5, 0.5, 1e-300, 1e300, 1e308,
    True, False, None, "", "x", "32", "gelu", "silu", "nope", "../x", "a/b", "~", "http://x/y", "\x00", "\ud7ff", "😀",
    "x" * 10_000, [], [1], [0, 1, 2, 3], ["full_attention", "x"], [[]], {}, {"a": 1}, {"rope_type": "yarn"},
    {"type": "linear", "factor": -1.0}, {"rope_type": "llama3", "factor": "x"}, {"rope_type": "nope"},
    {"0": {"0": {"0": 0}}}, ["full_attention"] * 2, [None, None], {"": ""},
)  # fmt: skip
CALLABLES = (
    "builtins:breakpoint", "pdb:set_trace", "os:abort", "os:_exit", "sys:exit", "os:fork", "builtins:input",
    "code:interact", "signal:pause", "builtins:int", "builtins:dict", "builtins:object", "builtins:type", "this:s",
    "os:getcwd", "os:getpid", "threading:Thread", "nowhere:x", "torch.nn:Identity", "torch.nn:Linear", "torch:zeros",
    "torch.nn:Module", "torch.nn:ReLU", "collections:OrderedDict", "time:time", "itertools:count", "asyncio:run",
    "builtins:KeyboardInterrupt", "builtins:exit", "gc:collect", "faulthandler:dump_traceback", "faulthandler:_sigabrt",
    "os:nowhere.x", "os:path.join", "unittest:main", "antigravity:x", "sys:_getframe", "sys:settrace", "os:setsid",
)  # fmt: skip
OWN_NAMES = tuple(re.findall(r"^def (\w+)\(\)", OWN, re.M))
# Options with good and bad values, drawn together.
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "--rule": ("auto", "unscaled", "gpt2", "lns", "nope", "", "gpt2+wang", "x" * 5000, "mitchell"),
    "--sigma": ("0.02", "0", "-1", "nan", "inf", "1e308", "1e-308", "x", "", "1_0", "٣"),
    "--seed": ("0", "-1", "18446744073709551615", "18446744073709551616", "1e3", "x", "", "9" * 5000),
    "--dtype": ("float32", "float64", "bfloat16", "float16", "FLOAT32", "", "x" * 5000),
    "--max-parameters": ("0", "-1", "1", "1000", "1000000", "99999999999999999999999", "x"),
    "--max-memory": ("0", "-5", "1", "1000000", "8589934592", "999999999999999999999", "x", ""),
    "--max-seconds": ("0", "-5", "99999999999", "999999999999999999999", "x", "1.5", ""),
    "--batch": ("batch.json", "bad_batch.json", "nowhere.json", ".", "", "x" * 5000),
    "--gate": ("error", "warning", "nope"),
    "--junit": ("o.xml", "/nowhere/o.xml", ".", ""),
    "--sarif": ("o.sarif", "/nowhere/o.sarif", "."),
    "--golden": ("golden.json", "bad_batch.json", ".", "/nowhere/g"),
    "--shrink": (),
    "--nope": ("1",),
}
REFUSED = 2
STATUSES = (0, 1, REFUSED)


def cases(seed: int, count: int) -> Iterator[Case]:
    """`count` hostile audits, the same for the same seed."""
    draw = random.Random(seed)
    kinds = (config_case, config_case, config_case, folder_case, bytes_case, callable_case, options_case)
    for _ in range(count):
        yield _finished(draw.choice(kinds)(draw), draw)


def _finished(case: Case, draw: random.Random) -> Case:
    words = [*case.arguments]
    if not any(word.startswith("--max-seconds") for word in words):
        words += ["--max-seconds", str(SECONDS)]
    return Case([*words, *(["--json"] if draw.random() < 0.5 else [])], case.files)


def config_case(draw: random.Random) -> Case:
    """A small config of some family with one to three keys changed, removed or added."""
    return Case(["audit", "config.json", *_shrink(draw)], {"config.json": _json(_mutated(draw))})


def _mutated(draw: random.Random) -> dict[str, Any]:
    family = draw.choice(list(CONFIGS))
    settings: dict[str, Any] = {"model_type": family, **CONFIGS[family]}
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        key = draw.choice([*settings, *settings, *KEYS])
        if draw.random() < 0.1:
            settings.pop(key, None)
        else:
            settings[key] = draw.choice(VALUES)
    return settings


def _shrink(draw: random.Random) -> list[str]:
    return ["--shrink"] if draw.random() < 0.15 else []


def bytes_case(draw: random.Random) -> Case:
    """A config that is damaged as text: other encodings, cut, doubled keys, deep nesting, no object."""
    text = _json({"model_type": "gpt2", **GPT2})
    damaged = draw.choice(
        (
            text[: draw.randrange(len(text))],
            text.decode().encode("utf-16"),
            text.decode().encode("utf-8-sig"),
            text.replace(b"32", b"\xff\xfe"),
            text.replace(b"}", b', "n_embd": 8}'),
            text.replace(b"32", b"NaN"),
            text.replace(b"32", b"1e999"),
            text.replace(b"32", b"9" * 5000),
            text.replace(b"gpt2", b"\\ud800"),
            b"[" * 100_000,
            b"",
            b"null",
            b"[]",
            b'"gpt2"',
            text + text,
            bytes(draw.randrange(256) for _ in range(200)),
            b'{"model_type": "gpt2", "x": "' + b"y" * 2**21 + b'"}',
        )
    )
    name = draw.choice(("config.json", "c", "model.zip", "é.json", "a b.json"))
    return Case(["audit", name], {name: damaged})


def folder_case(draw: random.Random) -> Case:
    """A model's folder whose safetensors or index is damaged."""
    header = {"transformer.wte.weight": {"dtype": "F32", "shape": [128, 32], "data_offsets": [0, 128 * 32 * 4]}}
    whole = _tensors(header, bytes(128 * 32 * 4))
    entry: dict[str, Any] = {
        "dtype": draw.choice(("F32", "F8_E4M3", "X", 5)),
        "shape": draw.choice(([2, 2], [-1], [2**40, 2**40], "x", [], [0])),
        "data_offsets": draw.choice(([0, 16], [16, 0], [0, 2**60], [0], None)),
    }
    weights = draw.choice(
        (
            whole,
            whole[: draw.randrange(len(whole))],
            _tensors({"x": entry}, bytes(16)),
            (2**63).to_bytes(8, "little") + whole,
            b"",
            b"\x80\x04." * 9,
            _tensors({"__metadata__": {"a": "b"}}, b""),
            _tensors({**header, "y": header["transformer.wte.weight"]}, bytes(128 * 32 * 4)),
        )
    )
    index = draw.choice(
        (
            *({"weight_map": {"x": name}} for name in ("m-1.safetensors", "../m.safetensors", 5)),
            *({"weight_map": {}}, [], {}, {"weight_map": {"transformer.wte.weight": "model.safetensors"}}),
        )
    )
    files = {"m/config.json": _json(draw.choice(({"model_type": "gpt2", **GPT2}, _mutated(draw))))}
    if draw.random() < 0.9:
        files["m/" + draw.choice(("model.safetensors", "model.safetensors", "x.safetensors", "pytorch_model.bin"))] = (
            weights
        )
    if draw.random() < 0.4:
        files["m/model.safetensors.index.json"] = _json(index)
    if draw.random() < 0.1:
        del files["m/config.json"]
        files["m/x"] = b""
    return Case(["audit", "m", *_shrink(draw)], files)


def _tensors(header: Any, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def callable_case(draw: random.Random) -> Case:
    """A name that is no builder of a model, or the user's own code that misbehaves."""
    name = draw.choice(
        (draw.choice(CALLABLES), f"own_code:{draw.choice(OWN_NAMES)}", f"own_code:{draw.choice(OWN_NAMES)}")
    )
    return Case(["audit", name, "--max-seconds", "6"], {"own_code.py": OWN.encode()})


def options_case(draw: random.Random) -> Case:
    """A good config under options of every kind."""
    words: list[str] = []
    for name in draw.sample(list(OPTIONS), draw.randrange(1, 4)):
        values = OPTIONS[name]
        words += [name, draw.choice(values)] if values else [name]
    model = draw.choice(
        ("config.json", "config.json", "config.json", "nowhere", "", ".", "x" * 5000, "\n", "a:b:c", "-", "é")
    )
    batch = {"inputs": [[1, 2, 3]], "targets": [[2, 3, 4]]}
    bad = draw.choice(
        ({"inputs": [[999]], "targets": [[1]]}, {"inputs": []}, [], {"inputs": [[1], [2, 3]], "targets": "x"})
    )
    files = {
        "config.json": _json({"model_type": "gpt2", **GPT2}),
        "batch.json": _json(batch),
        "bad_batch.json": _json(bad),
    }
    return Case(["audit", model, *words], files)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def broken(case: Case, outcome: Outcome) -> list[str]:
    """The promises of the command line that a run broke, none where it kept them all."""
    lines = [line for line in outcome.err.splitlines() if line.strip()]
    found = []
    if outcome.status is None:
        found.append(f"no end within {granted(case) + GRACE} s")
    elif outcome.status not in STATUSES:
        found.append(f"exit status {outcome.status}")
    if "Traceback (most recent" in outcome.err and "own_code:lines" not in case.arguments:
        found.append("a traceback")
    if "internal error" in outcome.err.lower():
        found.append("an internal error")
    if outcome.status == REFUSED and (not lines if case.prints else len(lines) != 1):
        found.append(f"{len(lines)} lines on standard error")
    if lines and outcome.status == REFUSED and len(lines[-1]) > 600:
        found.append(f"a sentence of {len(lines[-1])} characters")
    if "--json" in case.arguments and outcome.status in (0, 1):
        with contextlib.suppress(ValueError):
            json.loads(outcome.out)
            return found
        found.append("no JSON on standard output")
    return found


def main() -> int:
    """Run the cases, print every broken promise with its command, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--keep", help="folder that receives the files of every case that broke a promise")
    options = parser.parse_args()
    if not options.processes:
        preload(CONFIGS)
    run = run_process if options.processes else run_forked
    statuses, failed, slowest, began = Counter[int | None](), 0, 0.0, Path.cwd()
    for number, case in enumerate(cases(options.seed, options.count)):
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
            for name, content in case.files.items():
                path = Path(folder, name)
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
            os.chdir(folder)
            outcome = run(case)
            os.chdir(began)
            statuses[outcome.status] += 1
            slowest = max(slowest, outcome.seconds)
            if found := broken(case, outcome):
                failed += 1
                words = " ".join(word if len(word) < 60 else f"{word[:57]}..." for word in case.arguments)
                print(f"{number} {words!r}: {', '.join(found)}; {outcome.err[-300:]!r}", flush=True)
                if options.keep:
                    shutil.copytree(folder, Path(options.keep, str(number)), dirs_exist_ok=True)
    print(f"{options.count} audits, {failed} broke a promise; statuses {dict(statuses)}; slowest {slowest:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
