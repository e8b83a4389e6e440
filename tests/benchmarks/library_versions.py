"""What versions of transformers do to writers: the same two audits under each, in private folders beside this torch.

    python -m tests.benchmarks.library_versions 5.14.1 5.24.0

GPT-2 of 4 blocks is absent in 5.14.1, its writers at 2.83 times the rule, and applied in 5.24.0; NanoChat is partial.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SIZES = {"vocab_size": 128, "hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 64}
GPT2 = {"model_type": "gpt2", "n_layer": 4, "n_embd": 64, "n_head": 4, "n_positions": 64, "vocab_size": 128}
NANOCHAT = {"model_type": "nanochat", "num_key_value_heads": 2, "intermediate_size": 172, **SIZES}
MODELS = {
    "GPT-2, 4 blocks": {**GPT2, "bos_token_id": 0, "eos_token_id": 0},
    "NanoChat, 2 blocks": {**NANOCHAT, "num_hidden_layers": 2},
    "NanoChat, 8 blocks": {**NANOCHAT, "num_hidden_layers": 8},
}


def audited(settings: dict[str, Any], folder: Path, library: Path) -> dict[str, Any]:
    """The audit document of a configuration under the library in that folder, with GPT-2's rule."""
    path = folder / "config.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "core", "audit", str(path), "--rule", "gpt2", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(library)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="+")
    with tempfile.TemporaryDirectory() as name:
        for version in parser.parse_args().versions:
            library = Path(name) / version
            pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(library)]
            subprocess.run([*pip, f"transformers=={version}"], check=True)
            for title, settings in MODELS.items():
                conformance = audited(settings, Path(name), library)["conformance"]
                ratios = ", ".join(
                    f"{group.split('.', 3)[-1]} {ratio:.2f}"
                    for group, ratio in conformance["depths"][0]["ratios"].items()
                )
                print(f"transformers {version}  {title}: {conformance['verdict']}; {ratios}", flush=True)


if __name__ == "__main__":
    main()
