"""Judge healthy models of every kind at many seeds: the share with a finding above `info`, which should be none.

    python -m tests.benchmarks.healthy_controls --seeds 0:100 [--kinds NAME,NAME]

Exits 1 where any is found.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import torch

from core.audit.initialization.judge import judge
from core.audit.run import audit
from tests.audit.judged_models import HEALTHY, WORDS


def alarms(name: str, seed: int) -> list[str]:
    """Return the findings above `info` on one healthy model, as text."""
    make, rule, _ = HEALTHY[name]
    torch.manual_seed(seed)
    ids = torch.randint(WORDS, (2, 9))
    judgement = judge(audit(make(), ids), rule=rule, with_twin=False)
    return [f"{found.kind}: {found.sentence}" for found in judgement.findings if found.severity != "info"]


def main() -> int:
    """Run every kind at every seed and print a row per kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:100", help="A range A:B, which excludes B.")
    parser.add_argument("--kinds", default=",".join(HEALTHY))
    options = parser.parse_args()
    first, last = map(int, options.seeds.split(":"))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    total = 0
    for name in options.kinds.split(","):
        start = time.process_time()
        told = [(seed, text) for seed in range(first, last) for text in alarms(name, seed)]
        total += len(told)
        print(
            f"{name:<28}{last - first:>5} seeds{len(told):>4} findings{time.process_time() - start:>8.1f} s", flush=True
        )
        for seed, text in told[:3]:
            print(f"    seed {seed}: {text}", flush=True)
    print(f"{total} findings above info")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
