"""Audit block by block at full size: `python -m tests.benchmarks.true_size [llama-8b] [medium]`.

`llama-8b` runs the command on the configuration of Llama-3-8B and prints wall time, processor time and peak memory of
its processes. `medium` compares three models of 1.3 B parameters with the same models built whole, at every site.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LLAMA_8B = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False, "bos_token_id": 128000,
    "eos_token_id": 128001,
}  # fmt: skip
WIDE = {"hidden_size": 2048, "intermediate_size": 5504, "num_hidden_layers": 24, "num_attention_heads": 16}
MEDIUM = (
    {"model_type": "llama", **WIDE, "vocab_size": 32000},
    {"model_type": "gpt2", "n_embd": 2048, "n_layer": 24, "n_head": 16, "vocab_size": 50257},
    {"model_type": "qwen3", **WIDE, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 64000},
)
TOLERANCE = 1e-4


def llama_8b() -> None:
    """Print the cost of the command on the large configuration, and what it found."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(LLAMA_8B))
        start = time.perf_counter()
        command = [sys.executable, "-m", "core", "audit", str(path), "--json"]
        document = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        wall, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{wall:.0f} s wall, {used.ru_utime:.0f} s user, {used.ru_stime:.0f} s system, {used.ru_maxrss >> 10} MiB peak"
    )
    print(document["driver"], document["conformance"]["verdict"], *document["conformance"]["notes"])
    print(*document["headline"]["sentences"])


def medium() -> None:
    """Print the largest relative difference at any site of each medium model, and fail beyond the tolerance."""
    import torch

    from core.audit.intake.hub import library
    from core.audit.run import audit
    from core.audit.true_size.task import _configured, _drawing, audit_at_true_size

    library()
    for settings in MEDIUM:
        task: dict[str, Any] = {
            "kind": "config", "settings": settings, "source": "config.json", "shrink": False, "seed": 1, "batch": None,
            "dtype": "float32", "driver": "block",
        }  # fmt: skip
        large = _configured(task)
        with _drawing(large, task) as drawing:
            mine = audit_at_true_size(large, drawing)[0].observation
        kind: Any = type(large.model)
        model = kind._from_config(large.model.config, attn_implementation="eager", dtype=torch.float32)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in large.programs:
                    parameter.copy_(large.programs[name].value().view(parameter.shape))
        whole = audit(model, large.batch).observation
        assert mine is not None
        assert whole is not None
        pairs = ((mine.activation_rms, whole.activation_rms), (mine.adjoint_rms, whole.adjoint_rms))
        worst = max(float(abs(one / two - 1).max()) for one, two in pairs)
        count = sum(p.numel() for p in model.parameters())
        print(f"{settings['model_type']}: {count:,} parameters, worst relative difference {worst:.2g}", flush=True)
        assert worst <= TOLERANCE


if __name__ == "__main__":
    for chosen in sys.argv[1:] or ["llama-8b", "medium"]:
        {"llama-8b": llama_8b, "medium": medium}[chosen]()
