"""The sentences of all findings that are not about scale, and phrases on bases and names.

There is one function per kind of finding. What to report is decided elsewhere; no code parses these sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .base_std import CONSTANT, BaseStd, Origin
from .measure import MatrixStats, grouped, pattern

SHOWN = 4
RELOAD = "make saving write, and loading keep, every parameter as it is"


def listed(names: Iterable[str]) -> str:
    """Return up to `SHOWN` names separated by commas, and the number of the others."""
    every = list(names)
    return ", ".join(every[:SHOWN]) + (f" and {len(every) - SHOWN} more" if len(every) > SHOWN else "")


def shown(matrices: Sequence[MatrixStats]) -> str:
    """Return up to `SHOWN` names of matrices as text, one per group, each with the number of matrices in the group."""
    groups = grouped(matrices)
    return listed(group[0].shown if len(group) == 1 else f"{group[0].group} ({len(group)})" for group in groups)


def base_source(base: BaseStd) -> str:
    """Return a phrase on where a base (the standard deviation before any depth rule) was read from."""
    share = "all readers" if base.agreeing == base.readers else f"{base.agreeing} of {base.readers} readers"
    usual = base.law.formula if base.constant == 1.0 else f"{base.constant:.4g} times {base.law.formula}"
    usual += "" if base.shrink == 1.0 else ", truncated"
    pooled = f"the pooled std of {share}" + ("" if base.law == CONSTANT else f", by {base.law.formula}")
    beside = base_source(base.beside) if base.beside else ""
    return {
        Origin.DECLARED: "the declared sigma",
        Origin.CONFIGURED: base.key,
        Origin.POOLED: f"{pooled}; {usual} exactly" if base.named else pooled,
        Origin.NAMED: usual,
        Origin.WRITERS: f"{usual}, which the writers are scaled from; the readers are at {beside}",
        Origin.DEPTHS: "what readers at two depths have in common",
        Origin.OUTSIDE: f"the std of {base.key}",
        Origin.NOTHING: "nothing to read it from, so 1",
    }[base.origin]


def patterned(names: Sequence[str]) -> str:
    """Return names as text; names that differ only in numbers are shown once, with their count."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(pattern(name), []).append(name)
    return listed(one[0] if len(one) == 1 else f"{group} ({len(one)})" for group, one in groups.items())


def zero(matrices: Sequence[MatrixStats], moving: Sequence[str], still: Sequence[str]) -> str:
    """Return the sentence of a `zero-by-construction` finding on writers.

    `moving` names the parameters that have a gradient at the start, `still` those that have none.
    """
    gated = any(m.weights.std != 0 for m in matrices)
    how = "stand behind a forward coefficient of 0" if gated else "are zeros"
    told = _learn(moving, still)
    return f"{shown(matrices)} {how}, so their branches add nothing at the start; nothing is to change.{told}"


def zero_gate(gates: Sequence[str], writers: Sequence[MatrixStats], moving: Sequence[str], still: Sequence[str]) -> str:
    """Return the sentence of a `zero-by-construction` finding on gates or gains behind the writers."""
    return (
        f"{patterned(gates)} gate the branches of {shown(writers)} to exactly 0, so they add nothing at the start; "
        f"nothing is to change.{_learn(moving, still)}"
    )


def zero_inner(inner: Sequence[str], moving: Sequence[str], still: Sequence[str]) -> str:
    """Return the sentence of a `zero-by-construction` finding on matrices inside a branch."""
    are, write = ("is", "its branch writes") if len(inner) == 1 else ("are", "their branches write")
    return (
        f"{patterned(inner)} {are} zeros, so {write} nothing at the start, although the writers are not zero; draw "
        f"them unless that is meant.{_learn(moving, still)}"
    )


def _learn(moving: Sequence[str], still: Sequence[str]) -> str:
    told = f" {patterned(moving)} {'has' if len(moving) == 1 else 'have'} a gradient." if moving else ""
    return told + (f" {patterned(still)} {'has' if len(still) == 1 else 'have'} none at the start." if still else "")


def blank(names: Sequence[str]) -> str:
    """Return the sentence of a `never-initialised` finding on parameters that still hold NaN.

    The model was built in memory filled with NaN, so nothing has written them.
    """
    return (
        f"{listed(names)} {'are' if len(names) > 1 else 'is'} never written: built in memory filled with NaN, the NaN "
        "is still there; draw it in the initializer."
    )


def odd_values(names: Sequence[str]) -> str:
    """Return the sentence of a `never-initialised` finding on parameters with values that no initializer draws."""
    return (
        f"{listed(names)} {'hold' if len(names) > 1 else 'holds'} nonfinite, denormal or huge values that no "
        "initializer draws; look for memory that is never written, or a standard deviation that divides by zero."
    )


def duplicated(groups: Sequence[Sequence[str]]) -> str:
    """Return the sentence of a `duplicated` finding; each group has the names of matrices with the same random draw."""
    return (
        f"{sum(map(len, groups))} matrices hold {len(groups)} draws, up to a factor, as {' = '.join(groups[0][:2])}; "
        "draw each one separately instead of copying or seeding again, or tie them if they are meant to be one."
    )


def equal_shards(found: Mapping[str, tuple[int, int, int]]) -> str:
    """Return the sentence of an `equal-shards` finding: parts of one matrix hold the same random draw.

    `found` maps the name of a matrix to (number of parts, axis, number of different draws).
    """
    name, (parts, axis, different) = next(iter(found.items()))
    return (
        f"{patterned(tuple(found))} {'repeat' if len(found) > 1 else 'repeats'} a draw within one matrix: the {parts} "
        f"equal parts of {name} along axis {axis} hold {different} {'draw' if different == 1 else 'draws'}; draw the "
        "whole matrix, or seed every shard apart."
    )


def tied(groups: Sequence[Sequence[str]]) -> str:
    """Return the sentence of a `tied` finding; each group holds the names of one parameter."""
    pairs = "; ".join(f"{first} = {listed(others)}" for first, *others in groups[:SHOWN])
    return f"One parameter under several names, counted once: {pairs}."


def missing(names: Sequence[str]) -> str:
    """Return the sentence of a `missing-keys` finding on parameters that stored files lack."""
    return f"The stored file lacks {listed(names)}, drawn anew at every load; save the whole model."


def lost(names: Sequence[str]) -> str:
    """Return the sentence of a `missing-keys` finding on parameters that the model does not save."""
    return f"Saving the model leaves out {listed(names)}, so loading cannot bring it back; {RELOAD}."


def changed(names: Sequence[str], ratio: tuple[str, float] | None) -> str:
    """Return the sentence of a `changed-by-reload` finding.

    `ratio` is the name of a parameter and its standard deviation after loading over that before, or None.
    """
    by = "" if ratio is None else f" ({ratio[0]} to {ratio[1]:.4g} times its standard deviation)"
    return f"Saving and loading changes {listed(names)}{by}; {RELOAD}."


def silent(names: Sequence[str]) -> str:
    """Return the sentence of a `dead-branch` finding on parameters of blocks that never write to the stream."""
    return f"The blocks of {listed(names)} never write to the stream; connect them or take them out."


def dead(names: Sequence[str]) -> str:
    """Return the sentence of a `dead-branch` finding on parameters of branches that add zero and cannot learn."""
    return (
        f"The branches of {listed(names)} add zero and none of their parameters has a gradient, so they can never "
        "learn; leave one factor of each branch nonzero."
    )


def not_pre_norm(stream: str, cosine: float | None) -> str:
    """Return the note on a stream whose size is set by a norm; `cosine` is that of the last state with the input."""
    told = "" if cosine is None else f"; the last state's cosine with the input is {cosine:.2f}"
    return f"The stream is no pre-norm one: {stream}{told}. The norm, not the writers, sets its size."


def small_branch(label: str, size: float) -> str:
    """Return the note on a norm whose epsilon is not small beside its input.

    `size` is the RMS of its output over the full size, 1 where epsilon has no effect.
    """
    return (
        f"The norm on the branch output brings {label} to {size:.2f} of full size: its epsilon is not small beside so "
        "small a branch (or its gain is below 1), and the writer's scale shows through in part."
    )
