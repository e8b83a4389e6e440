"""How long a person waits who drops a LLaMA-7B `config.json`: `python -m tests.benchmarks.dropped_config [--runs 3]`.

A fresh server and a real browser for each run. Seconds from the drop to the verdict with tower and curves, and to the
suggestion, by the clock and in processor time of the server, which other work on the machine lengthens less. The limit
of 10 s by the clock holds on a quiet machine; the load of the last minute stands beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

from tests.browser.harness import browser, running_server, server_processor_seconds, visit

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000,
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "initializer_range": 0.02, "tie_word_embeddings": False,
    "hidden_act": "silu",
}  # fmt: skip
# In the order of their appearance: words that the narrow decoder of a fresh server does not have.
AWAITED = {"verdict": "over 31 blocks", "suggestion": "instead of 0.02 would bring"}


def waited(opened: Any) -> dict[str, tuple[float, float]]:
    """Seconds by the clock and of the server's processor from the drop to each thing awaited, on a fresh server."""
    found = {}
    with running_server() as address, visit(opened, address, viewport={"width": 1400, "height": 900}) as visitor:
        visitor.open("/", "Health")
        uploader = visitor.page.locator(".st-key-landing-files input[type=file]")
        data = json.dumps(CONFIG).encode()
        wall, processor = time.perf_counter(), server_processor_seconds(address)
        uploader.set_input_files({"name": "config.json", "mimeType": "application/json", "buffer": data})
        for name, words in AWAITED.items():
            visitor.page.get_by_text(words).first.wait_for()
            found[name] = (time.perf_counter() - wall, server_processor_seconds(address) - processor)
    return found


def main() -> None:
    """Print both measures of every run, with the load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with browser() as opened:
        for run in range(options.runs):
            told = [f"{name} {wall:.1f} s ({cpu:.1f} s processor)" for name, (wall, cpu) in waited(opened).items()]
            print(f"run {run + 1}: {', '.join(told)}; load {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
