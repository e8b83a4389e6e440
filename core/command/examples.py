"""The text below the options in the help of every command: examples to copy, and the exit statuses."""

from __future__ import annotations

from ..cli import PROGRAM

EXAMPLES: dict[str, tuple[str, ...]] = {
    "observe": (
        "observe --blocks 32 --recipe gpt2 --seeds 0:32 --gate close",
        "observe --config config.json --twin 256 --text 'Hello'",
        "observe --config config.json --dtype float32 --checkpoint run --max-memory 4G",
    ),
    "trace": ("trace", "trace --json"),
    "init": ("init --fan-in 512 --fan-out 2048 --seed 7", "init --fan-in 2 --fan-out 2 --weights --json"),
    "plan": ("plan", "plan --blocks 32 --width 4096 --heads 32 --ff-width 11008", "plan --config config.json --json"),
    "compare": ("compare a.json b.json", "compare double.json single.json --tolerance 1e-4 --ignore dtype"),
    "sweep": (
        "sweep --blocks 1,2,4,8,16 --seeds 0:32 --out sweep",
        "sweep --blocks 8,64 --recipe unscaled,gpt2,depth-scaled --base-std 0.02 --out gpt2",
    ),
    "recipes": (
        "recipes",
        "recipes --recipe deepnorm --blocks 48",
        "recipes --recipe gpt2 --against depth-scaled",
    ),
    "audit": (
        "audit config.json --rule gpt2 --gate",
        "audit my_package.model:build --json",
        "audit checkpoint --gate warning --sarif audit.sarif",
    ),
    "survey": ("survey --families gpt2,llama --out survey", "survey --families all --out survey --workers 2"),
    "lab": ("lab --list", "lab compounding --help", "lab compounding --json"),
}
STATUS = """\b
Exit status:
  0    done
  1    a gate that was asked for fails, or compared documents differ
  2    refused, with one sentence on standard error
  130  interrupted"""


def epilog(verb: str) -> str:
    """Return the end of a command's help as text: its examples, if it has any, and the exit statuses."""
    lines = [f"  {PROGRAM} {example}" for example in EXAMPLES.get(verb, ())]
    return "\n".join(["\b", "Examples:", *lines, "", STATUS]) if lines else STATUS
