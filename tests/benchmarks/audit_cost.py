"""What an audit costs beside one plain forward and backward: `python -m tests.benchmarks.audit_cost [--repeats N]`.

LLaMA of 125M shape, one row of 128 tokens, float32, one thread, building apart. Prints the median processor seconds of
both and their ratio; the limit is 4.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import torch

from core.audit import audit

LIMIT = 4.0
SHAPE = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 2048,
    "vocab_size": 32000,
    "attn_implementation": "eager",
}


def timed(action: Callable[[], object]) -> float:
    """Processor seconds of one call."""
    start = time.process_time()
    action()
    return time.process_time() - start


def main() -> None:
    """Measure alternately, so that a busy machine slows both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    from transformers import LlamaConfig, LlamaForCausalLM, logging

    logging.set_verbosity_error()
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SHAPE))
    ids = torch.randint(0, SHAPE["vocab_size"], (1, 128))

    def plain() -> None:
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        model.zero_grad()

    def audited() -> None:
        result = audit(model, ids)
        assert result.identity.verdict == "proved"
        result.document()

    plain()
    audited()
    pairs = [(timed(plain), timed(audited)) for _ in range(repeats)]
    ours, theirs = statistics.median(pair[1] for pair in pairs), statistics.median(pair[0] for pair in pairs)
    ratio = statistics.median(pair[1] / pair[0] for pair in pairs)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{parameters:,} parameters; plain {theirs:.3f} s, audit {ours:.3f} s, ratio {ratio:.2f} (limit {LIMIT:g})")


if __name__ == "__main__":
    main()
