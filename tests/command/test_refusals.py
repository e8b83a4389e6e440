"""Bad input on the command line: one sentence on standard error, exit 2, and nothing heavy imported to find out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("refusal_driver.py")
PAST = str(2**64)
DIGITS = "9" * 5000

# File name and content; a command line names a file as @name.
FILES: dict[str, bytes] = {
    "empty": b"",
    "broken": b'{"inputs": [[1',
    "repeated": b'{"inputs": [[1]], "inputs": [[2]], "targets": [[1]]}',
    "nan": b'{"inputs": [[NaN]], "targets": [[1]]}',
    "infinity": b'{"inputs": [[1]], "targets": [[Infinity]]}',
    "overflow": b'{"inputs": [[1e400]], "targets": [[1]]}',
    "latin": b'{"inputs": [["\xff"]], "targets": [[1]]}',
    "deep": b"[" * 100_000,
    "surrogate": b'{"inputs": [["\\ud800"]], "targets": [[1]]}',
    "long": b'{"inputs": [[' + b"9" * 90 + b']], "targets": [[1]]}',
    "longer": b'{"inputs": [[' + b"9" * 5000 + b']], "targets": [[1]]}',
    "list": b"[1]",
    "no targets": b'{"inputs": [[1]]}',
    "unknown": b'{"inputs": [[1]], "targets": [[1]], "mask": [[true]]}',
    "no rows": b'{"inputs": [], "targets": []}',
    "empty row": b'{"inputs": [[1], []], "targets": [[1], []]}',
    "unequal": b'{"inputs": [[1, 2]], "targets": [[1]]}',
    "float": b'{"inputs": [[1.0]], "targets": [[1]]}',
    "text": b'{"inputs": [["1"]], "targets": [[1]]}',
    "integer validity": b'{"inputs": [[1]], "targets": [[1]], "valid": [[1]]}',
    "invalid": b'{"inputs": [[1, 2], [3]], "targets": [[1, 2], [3]], "valid": [[false, false], [false]]}',
    "masked id": b'{"inputs": [[1, 300]], "targets": [[1, 1]], "valid": [[true, false]]}',
    "returning": b'{"inputs": [[1, 2, 3]], "targets": [[1, 2, 3]], "segments": [[0, 1, 0]]}',
    "null segments": b'{"inputs": [[1]], "targets": [[1]], "segments": null}',
    "null valid": b'{"inputs": [[1]], "targets": [[1]], "valid": null}',
    "record.json": b"{}",
    "good": b'{"inputs": [[1]], "targets": [[1]]}',
    "bert": b'{"model_type": "bert"}',
    "llama": b'{"model_type": "llama", "hidden_size": -4}',
}

# What Python's int and float read and no option does: underscores, other scripts' digits, a no-break space, a plus.
NO_WHOLE_NUMBERS = ("1_0", "١", "1\xa0", "\u20091", "+1")
NO_NUMBERS = (*NO_WHOLE_NUMBERS, "1.0_0", "١.٥", "1.5\xa0", "infinity")
# Command line, a part of its sentence.
OBSERVE: list[tuple[list[str], str]] = [
    *(
        ([option, value], f"{option[2:].replace('-', '_')} is {value}; it must lie between 1 and 2^53.")
        for option in ("--blocks", "--width", "--heads", "--kv-heads", "--head-dim", "--ff-width", "--vocabulary")
        for value in ("0", "-1", str(2**53 + 1))
    ),
    *(
        ([option, value], f"{option} is '{value}'; it must be a whole number.")
        for option in ("--blocks", "--kv-heads", "--positions", "--max-parameters", "--max-positions")
        for value in ("", "abc", "1e3", "2.5", "nan", "0x10", "1_000", "٣")
    ),
    (["--width", DIGITS], "it must be a whole number."),
    (["--positions", "0"], "positions is 0;"),
    (["--blocks", "4097"], "4097 blocks exceed the limit of 4096"),
    (["--width", "10", "--heads", "4"], "width 10 is not a multiple of heads 4"),
    (["--width", "6", "--heads", "2"], "head_dim 3 is odd"),
    (["--head-dim", "3"], "head_dim 3 is odd"),
    (["--width", "16", "--heads", "4", "--kv-heads", "3"], "heads 4 is not a multiple of kv_heads 3"),
    (["--width", "16", "--heads", "4", "--kv-heads", "8"], "heads 4 is not a multiple of kv_heads 8"),
    (["--seed", "-1"], "The seed -1 is outside 0 to 2^64 - 1."),
    (["--seed", PAST], f"The seed {PAST} is outside 0 to 2^64 - 1."),
    *((["--seed", value], "is not a whole number; give one from 0 to 2^64 - 1.") for value in ("", "x", "1.5", "0x1")),
    (["--seed", DIGITS], "is not a whole number"),
    (["--recipe", "depth-scald"], "The recipe 'depth-scald' is unknown; did you mean depth-scaled"),
    (["--recipe", "gpt"], "The recipe 'gpt' is unknown; did you mean ngpt or gpt2? All are listed"),
    (["--recipe", "zzzz"], "The recipe 'zzzz' is unknown; all are listed by the page and the verb recipes."),
    (["--recipe", ""], "The recipe '' is unknown"),
    *(
        (["--recipe", value], "has an empty part; put one + between two names.")
        for value in ("gpt2++wang", "gpt2+", "+gpt2", "gpt2 + + wang", "gpt2  wang")
    ),
    (["--recipe", "gpt2\xa0"], "is unknown; did you mean gpt2"),
    (["--recipe", "t-fixup"], "T-Fixup sets encoder-decoder weights"),
    (["--recipe", "gpt2+gpt2"], "names a part twice"),
    (["--recipe", "post-norm+peri-norm"], "both change the graph"),
    (["--recipe", "deepscalelm", "--blocks", "1"], "needs at least 2 blocks; this decoder has 1."),
    (["--recipe", "ngpt", "--mlp", "gelu"], "is defined with mlp swiglu only"),
    (["--dtype", "float16"], "'--dtype': 'float16' is not one of 'float64', 'float32', 'bfloat16'."),
    (["--device", "tpu"], "'--device': 'tpu' is not one of 'cpu', 'cuda'."),
    *(
        (["--band", value], "write it as 0.01,100.")
        for value in ("", "1", "1,2,3", "a,b", "1;2", "nan,1", "1,inf", "1,1e999", *(f"{x},9" for x in NO_NUMBERS))
    ),
    *((["--band", value], "is not a positive finite number.") for value in ("0,1", "-1,1")),
    (["--band", "2,1"], "The band's lower limit 2 is above its upper limit 1."),
    (["--inputs", "1"], "--inputs and --targets belong together"),
    (["--targets", "1"], "--inputs and --targets belong together"),
    (["--inputs", "", "--targets", ""], "Row 0 of inputs is empty"),
    (["--inputs", "1;;2", "--targets", "1;;2"], "Row 1 of inputs is empty"),
    (["--inputs", "1,2", "--targets", "1"], "Row 0 has 2 inputs but 1 entries of targets"),
    (["--inputs", "1;2", "--targets", "1"], "There are 2 rows of inputs but 1 of targets"),
    (["--inputs", "1,a", "--targets", "1,2"], "Row 0 of --inputs holds 'a', which is not a whole number"),
    (["--inputs", "266", "--targets", "1"], "The input id 266 in row 0, position 0, is outside the vocabulary of 266"),
    (["--inputs", "1", "--targets", "-1"], "The target id -1 in row 0, position 0, is outside the vocabulary of 266"),
    (["--vocabulary", "100"], "The input id 100 in row 0, position 2, is outside the vocabulary of 100"),
    (["--positions", "3"], "A row needs 4 positions but the decoder has 3"),
    (["--text", ""], "The text is empty"),
    (["--text", "a", "--inputs", "1", "--targets", "1"], "exclude each other"),
    (["--text", "a", "--batch", "@good"], "exclude each other"),
    (["--batch", "@good", "--inputs", "1", "--targets", "1"], "exclude each other"),
    (["--vocabulary", "100", "--text", "zebra"], "outside the vocabulary of 100"),
    (["--driver", "graph", "--max-parameters", "10"], "2,028 parameters exceed the budget of 10"),
    (["--save", "run", "--max-parameters", "-1"], "2,028 parameters exceed the budget of -1"),
    (["--max-positions", "2"], "4 positions exceed the budget of 2"),
    (["--width", "1048576", "--ff-width", "4", "--save", "run"], "parameters exceed the budget of 268,435,456"),
    (["--width", str(2**40), "--ff-width", "4"], "make the decoder smaller."),
    (["--max-memory", "1k"], "0.0 GiB may be used; make the decoder smaller, or raise --max-memory."),
    (["--driver", "graph", "--max-memory", "1k"], "0.0 GiB may be used; make the decoder smaller, or raise"),
    *(
        (["--max-memory", value], "it must be a number of bytes, such as 500M or 2G.")
        for value in ("", "0", "-1", "G", "1Q", "2GG", "nan", "1e999", "1e308T", "0.1")
    ),
    (["--driver", "blocks"], "'--driver': 'blocks' is not one of 'auto', 'graph', 'block'."),
    (["--checkpoint", "run", "--driver", "graph"], "keeps a run block by block; leave --driver graph out."),
    (["--checkpoint", "run", "--seeds", "0:2"], "--checkpoint keeps the run of one fresh seed; leave --seeds out."),
    (["--checkpoint", "run", "--restore", "run"], "--checkpoint keeps the run of one fresh seed; leave --restore out."),
    (["--checkpoint", ""], "--checkpoint is empty; give a path."),
    *((["--base-std", value], "it must be a positive finite number.") for value in ("0", "-1")),
    *((["--embedding-std", value], "it must be a positive finite number.") for value in ("0", "-1")),
    *((["--rope-base", value], "rope_base is") for value in ("0", "-1")),
    *((["--rms-epsilon", value], "rms_epsilon is") for value in ("0", "-1")),
    *(
        ([option, value], f"{option} is {value!r}; it must be a finite number, such as 0.02 or 1e-5.")
        for option in ("--base-std", "--embedding-std", "--truncate", "--rope-base", "--rms-epsilon")
        for value in ("abc", "", "nan", "inf", "1e999", *NO_NUMBERS)
    ),
    *(([option, value], "a whole number") for option in ("--blocks", "--seed") for value in NO_WHOLE_NUMBERS),
    *((["--inputs", value, "--targets", "1"], "not a whole number") for value in NO_WHOLE_NUMBERS),
    (["--truncate", "2"], "Only a normal base draw can be truncated"),
    (["--base-std", "1", "--truncate", "0"], "The base draw's truncation is 0.0"),
    (["--norm", "batchnorm"], "'--norm': 'batchnorm' is not one of 'rmsnorm', 'layernorm'."),
    (["--mlp", ""], "'--mlp': '' is not one of 'swiglu', 'gelu'."),
    *(
        (["--config", "@llama", *beside], f"--config brings its own sizes and spreads; leave {beside[0]} out.")
        for beside in (
            ["--blocks", "8"], ["--positions", "4"], ["--norm", "rmsnorm"], ["--untied"], ["--rope-base", "5"],
            ["--rms-epsilon", "1"], ["--base-std", "1"], ["--truncate", "1"],
        )
    ),
    (["--config", "@bert"], "The model_type 'bert' is not observed here, only gpt2, llama, mistral, qwen2, "
     "qwen3, nanogpt are; give"),
    (["--config", "absent"], "cannot be read: No such file or directory."),
    (["--config", "@list"], "it must hold one object of settings."),
    *(
        (["--restore", ".", *beside], f"--restore brings its own sizes and weights; leave {beside[0]} out.")
        for beside in (
            ["--blocks", "8"], ["--width", "4"], ["--heads", "1"], ["--kv-heads", "1"], ["--head-dim", "4"],
            ["--ff-width", "4"], ["--vocabulary", "266"], ["--positions", "4"], ["--seed", "4701"],
            ["--recipe", "gpt2"], ["--dtype", "float64"], ["--norm", "rmsnorm"], ["--mlp", "gelu"], ["--untied"],
            ["--bias"], ["--learned-positions"], ["--base-std", "1"], ["--save", "x"], ["--embedding-std", "1"],
            ["--rope-base", "5"], ["--rms-epsilon", "1"], ["--config", "x"],
        )
    ),
    (["--restore", ".", "--batch", "@invalid"], "No position is valid"),
    *(([option, value], f"{option} is empty; give a path.")
      for option in ("--batch", "--save", "--restore", "--csv", "--html") for value in ("", " ")),
    (["--restore", "absent"], "absent is not a folder; give the folder that --save wrote."),
    (["--restore", "."], "record.json is not a whole record ('schema'); restore a folder that --save wrote."),
    (["--restore", ".", "--device", "tpu"], "'--device': 'tpu' is not one of"),
    (["--batch", "absent"], "cannot be read: No such file or directory."),
    (["--batch", "/dev/zero"], "is not a regular file"),
    (["--batch", "."], "is not a regular file"),
    (["--batch", "\0"], "cannot be read"),
    (["--batch", "@empty"], "is not JSON at line 1"),
    (["--batch", "@broken"], "is not JSON at line 1"),
    (["--batch", "@repeated"], "gives the key 'inputs' twice"),
    (["--batch", "@nan"], "holds the literal NaN"),
    (["--batch", "@infinity"], "holds the literal Infinity"),
    (["--batch", "@overflow"], "too large for binary64"),
    (["--batch", "@latin"], "is not UTF-8 at byte"),
    (["--batch", "@deep"], "nests deeper than"),
    (["--batch", "@surrogate"], "half of a surrogate pair"),
    (["--batch", "@long"], "past 2^62"),
    (["--batch", "@longer"], "5000 digits"),
    (["--batch", "@list"], "A batch is a JSON object"),
    (["--batch", "@no targets"], "lacks the key targets"),
    (["--batch", "@unknown"], "unknown key 'mask'"),
    (["--batch", "@no rows"], "inputs has no rows"),
    (["--batch", "@empty row"], "Row 1 of inputs is empty"),
    (["--batch", "@unequal"], "Row 0 has 2 inputs but 1 entries of targets"),
    (["--batch", "@float"], "holds 1.0, which is not a whole number"),
    (["--batch", "@text"], "holds '1', which is not a whole number"),
    (["--batch", "@integer validity"], "use true and false"),
    (["--batch", "@invalid"], "No position is valid"),
    (["--batch", "@masked id"], "The input id 300 in row 0, position 1, is outside the vocabulary"),
    (["--batch", "@returning"], "Segment 0 returns in row 0"),
    (["--batch", "@null segments"], "The batch's segments is null; give one row of segments for each row of ids"),
    (["--batch", "@null valid"], "The batch's valid is null"),
    (["--nope"], "No such option '--nope'."),
    (["--blocks"], "Option '--blocks' requires an argument."),
    (["more"], "unexpected extra argument"),
    (["--json=yes"], "does not take a value."),
]  # fmt: skip
OTHERS: list[tuple[list[str], str]] = [
    (["observ"], "The verb 'observ' is unknown; did you mean observe? All are listed by python -m core --help."),
    (["zzzz"], "The verb 'zzzz' is unknown; all are listed by python -m core --help."),
    (
        ["lab", "compound"],
        "The experiment 'compound' is unknown; did you mean compounding? All are listed by lab --list.",
    ),
    *((["init", "--seed", value], "is not a whole number") for value in NO_WHOLE_NUMBERS),
    (["sweep", "--out", "o", "--blocks", "1\xa0"], "which is not a whole number"),
    (["sweep", "--out", "o", "--seed", "1_0"], "is not a whole number"),
    (["sweep", "--out", "o", "--base-std", "1_0"], "it must be a finite number"),
    (["sweep", "--out", "o", "--device", "tpu"], "'--device': 'tpu' is not one of"),
    (["audit", "absent", "--sigma", "1_0"], "--sigma is '1_0'; it must be a finite number"),
    (["audit", "absent", "--dtype", "float16"], "'--dtype': 'float16' is not one of"),
    (["trace", "more"], "unexpected extra argument"),
    (["init", "--fan-in", "0"], "fan_in is 0; a matrix needs at least one input."),
    (["init", "--fan-out", "0"], "fan_out is 0; a matrix needs at least one output."),
    (["init", "--fan-in", "-1"], "fan_in lies outside 0 to 2^64 - 1"),
    (["init", "--fan-in", PAST], "fan_in lies outside 0 to 2^64 - 1"),
    (["init", "--fan-in", str(2**64 - 1)], "passes 2^64 - 1"),
    (["init", "--fan-in", str(2**32), "--fan-out", str(2**32)], "passes 2^64 - 1 elements."),
    (["init", "--fan-in", str(2**31), "--fan-out", str(2**31)], "this machine has"),
    (["init", "--fan-in", "x"], "--fan-in is 'x'; it must be a whole number."),
    (["init", "--seed", "-1"], "The seed -1 is outside"),
    (["plan", "--blocks", "0"], "blocks is 0;"),
    (["plan", "--context", "0"], "positions is 0;"),
    (["plan", "--heads", "3"], "width 512 is not a multiple of heads 3"),
    (["plan", "--width", "x"], "--width is 'x'; it must be a whole number."),
    (["plan", "--positions", "0"], "positions is 0;"),
    (["plan", "--config", "@llama", "--context", "4"], "--config brings its own sizes; leave --positions out."),
    (["plan", "--norm", "x"], "'--norm': 'x' is not one of"),
    (["plan", "--config", "@bert"], "The model_type 'bert' is not read here; the plan reads gpt2, llama,"),
    (["plan", "--config", "@empty"], "is not JSON"),
    (["plan", "--config", "@llama"], "."),
    (["plan", "--config", "@llama", "--width", "4"], "--config brings its own sizes; leave --width out."),
    (["compare", "@good"], "Missing argument 'B.json'."),
    (["compare", "@good", "absent"], "cannot be read: No such file or directory."),
    (["compare", "@good", "@nan"], "holds the literal NaN"),
    (["compare", "@good", "@good", "--tolerance", "nan"], "--tolerance is 'nan'; it must be a finite number"),
    (["compare", "@good", "@good", "--tolerance", "1_0"], "--tolerance is '1_0'; it must be a finite number"),
    (["compare", "@good", "@good", "--ignore", ""], "--ignore is empty"),
    (["compare", "@good", "@good", "--tolerance", "-1"], "is not a finite number of at least 0."),
]
CASES = [(["observe", *arguments], sentence) for arguments, sentence in OBSERVE] + OTHERS


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Every case, run one after another in one fresh process."""
    folder = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    lines = [[str(folder / part[1:]) if part.startswith("@") else part for part in arguments] for arguments, _ in CASES]
    process = subprocess.run(
        [sys.executable, str(DRIVER)],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    assert process.stderr == ""
    found: list[dict[str, Any]] = json.loads(process.stdout)
    return found


@pytest.mark.parametrize("index", range(len(CASES)), ids=[" ".join(arguments)[:60] for arguments, _ in CASES])
def test_one_sentence_and_exit_2_without_torch(index: int, outcomes: list[dict[str, Any]]) -> None:
    sentence, outcome = CASES[index][1], outcomes[index]
    assert outcome["status"] == 2
    assert outcome["out"] == ""
    assert sentence in outcome["err"]
    assert outcome["err"].count("\n") == 1
    assert outcome["err"].endswith(".\n")
    assert len(outcome["err"]) < 600
    assert "internal error" not in outcome["err"]
    assert outcome["imported"] == []
