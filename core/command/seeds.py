"""The verb `observe` over several seeds: which options fit together, its gates, and verdicts for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from ..errors import ConfigError, cropped
from . import options as opt

GATES = ("inside", "close", "depth")
BESIDE = ("seed", "save", "restore")
OVER_SEEDS = {"growth": "is fitted over seeds", "suggest": "compares recipes over seeds"}
MAX_SEEDS = 2**16
# Refused seeds whose reason a terminal shows; the document has all.
SHOWN_REASONS = 3


def checked_seeds(context: click.Context, options: Mapping[str, Any]) -> Sequence[int] | None:
    """Return the seeds that the options give, or None if they give none.

    Raises `ConfigError` if options cannot be used together.
    """
    text = options["seeds"]
    if text is None:
        for name, does in OVER_SEEDS.items():
            if options[name]:
                raise ConfigError(f"--{name} {does}; give --seeds too.")
        if options["gate"] in ("close", "depth"):
            raise ConfigError(f"--gate {options['gate']} judges a verdict over seeds; give --seeds too.")
        return None
    beside = opt.given(context, BESIDE)
    if beside:
        raise ConfigError(f"--seeds observes every seed of a range; leave {beside[0]} out.")
    from ..sweep.ranges import parse_seeds

    return parse_seeds(text, MAX_SEEDS)


def check_gate(gate: str | None, blocks: int) -> None:
    """Raise `ConfigError` for the gate `depth`, which judges what follows the first block, if there is one block."""
    if gate == "depth" and blocks == 1:
        raise ConfigError("--gate depth judges what follows the first block, and this decoder has one; use --gate.")


def gate_failure(document: Mapping[str, Any], gate: str) -> list[str]:
    """Return the sentences that say why the verdict on the recipe fails the gate; an empty list if it passes."""
    from ..health.verdict import Verdict
    from ..health.verdict_words import verdict_sentences

    verdict = Verdict.from_document(document["verdicts"]["initialized"])
    judged = verdict.depth_state if gate == "depth" else verdict.state
    if judged == "inside" or (gate == "close" and judged == "close"):
        return []
    return [*verdict_sentences(verdict), *_refusals(document, "initialized")]


def seeds_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the verdicts over seeds on the recipe and the control as lines for a terminal."""
    from ..health.verdict import Verdict
    from ..health.verdict_words import verdict_sentences
    from ..recipes.catalogue import CONTROL

    found_by_arm = dict(document["verdicts"])
    if document["recipe"] == CONTROL:
        # Both arms are the same numbers under one name.
        del found_by_arm["same_base_unscaled_control"]
    for key, found in found_by_arm.items():
        yield from opt.wrapped([*verdict_sentences(Verdict.from_document(found)), *_refusals(document, key)])
        if key == "initialized" and "suggestion" in document:
            yield from opt.wrapped(document["suggestion"]["sentences"])
        yield ""
    if document["initialized"] is not None:
        yield f"Seed {document['seed']} by itself:"


def _refusals(document: Mapping[str, Any], key: str) -> list[str]:
    found = document["refusals"][key]
    sentences = [f"Seed {one['seed']} is refused: {cropped(one['reason'], 300)}" for one in found[:SHOWN_REASONS]]
    return sentences + ([f"And {len(found) - SHOWN_REASONS:,} more are."] if len(found) > SHOWN_REASONS else [])
