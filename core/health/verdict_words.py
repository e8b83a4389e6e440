"""The sentences of a verdict, the same on a page, in a terminal, in a notebook and in the message of a failing gate."""

from __future__ import annotations

import textwrap
from html import escape

from ..numerals import exact_text, plural
from .verdict import Growth, Pair, Spread, State, Verdict

TITLES: dict[State, str] = {
    "inside": "Inside the band",
    "close": "Close to the band's limits",
    "outside": "Outside the band",
    "refused": "Refused",
}
LINE_WIDTH = 100
# Powers of two that binary64 holds; a ratio next to its ends is further from a limit than any of them.
LARGEST_POWER = 1000.0
# From here on a factor on the way is said beside that at the end.
FURTHER = 1.1


def verdict_headline(verdict: Verdict) -> str:
    """Return one sentence with the state, what was judged, and the number of seeds."""
    name = "" if verdict.subject is None else f" of {verdict.subject.name}"
    if verdict.state == "refused":
        return f"{TITLES['refused']}: none of {plural(verdict.seeds, 'seed')}{name} has finite ratios."
    low, high = (exact_text(limit) for limit in verdict.thresholds.band)
    within, spare = (round(share * verdict.seeds) for share in (verdict.share_within, verdict.share_within_by_2))
    keep = "keeps" if verdict.seeds == 1 else "keep"
    return (
        f"{TITLES[verdict.state]}: {within} of {plural(verdict.seeds, 'seed')}{name} {keep} every ratio within "
        f"[{low}, {high}], {spare} of them with a factor of 2 to spare."
    )


def verdict_sentences(verdict: Verdict) -> list[str]:
    """Return a list of sentences: the headline, then refused seeds, margin, input and depth, and growth."""
    found = [verdict_headline(verdict)]
    if verdict.state == "refused":
        return found
    if verdict.refused:
        are = "is" if verdict.refused == 1 else "are"
        found.append(f"{plural(verdict.refused, 'seed')} {are} refused, without finite ratios, and counted as outside.")
    if not verdict.thresholds.by_2_possible:
        found.append(
            "The input's own ratio is 1, and this band holds neither its half nor its double with it: no arm can have "
            "a factor of 2 to spare, so none is inside."
        )
    found += [_interval(verdict), *_margin(verdict.margin, verdict.worst_factor)]
    found += _depth(verdict)
    if verdict.growth is not None:
        found.append(_growth(verdict.growth))
    return found


def verdict_text(verdict: Verdict) -> str:
    """Return the sentences as lines of text for a terminal, wrapped at 100 characters."""
    lines = [textwrap.wrap(one, LINE_WIDTH, subsequent_indent="  ") for one in verdict_sentences(verdict)]
    return "\n".join(line for each in lines for line in each)


def verdict_html(verdict: Verdict) -> str:
    """Return the sentences of a verdict as HTML text for a notebook."""
    head, *rest = (escape(sentence) for sentence in verdict_sentences(verdict))
    items = "".join(f"<li>{sentence}</li>" for sentence in rest)
    return f"<p><strong>{head}</strong></p>" + (f"<ul>{items}</ul>" if items else "")


def factor_text(value: float | None) -> str:
    """Format a factor: two significant digits below 100, else three, with thousands separators; None is `undefined`."""
    if value is None:
        return "undefined"
    text = f"{value:.3g}" if value >= 99.5 else f"{value:.2g}"
    return f"{float(text):,.0f}" if 1000 <= value < 1e6 else text


def _interval(verdict: Verdict) -> str:
    low, high = (f"{100 * share:.0f}" for share in verdict.interval)
    return f"With {plural(verdict.seeds, 'seed')}, the share within lies between {low} and {high} % (95 %, Wilson)."


def _margin(margin: Spread, worst: Spread) -> list[str]:
    if margin.median is None or worst.median is None:
        return []
    factor = factor_text(2.0 ** min(abs(margin.median), LARGEST_POWER))
    place = f"beyond a limit by a factor of {factor}" if margin.median < 0 else f"with room for another {factor}"
    return [
        f"The median seed's worst ratio is a factor of {factor_text(worst.median)} from 1 (5 to 95 % of seeds: "
        f"{factor_text(worst.q05)} to {factor_text(worst.q95)}), {place}."
    ]


def _depth(verdict: Verdict) -> list[str]:
    """Return sentences that separate the input's scale from the depth; empty at one block."""
    begin, end, subject = verdict.input_ratio, verdict.depth_ratio, verdict.subject
    if verdict.depth_state is None or begin.activation is None or end.activation is None or end.adjoint is None:
        return []
    std = f" (embedding std {subject.embedding_std:.3g})" if subject and subject.embedding_std else ""
    over = f" over {plural(subject.blocks - 1, 'block')}" if subject else ""
    sentences = [
        f"The stream begins {_apart(begin.activation)} its first block{std}; from there it {_moves(end.activation)}"
        f"{over}, and the gradient {_moves(end.adjoint)} on its way back."
    ]
    sentences += _on_the_way(verdict.depth_factor, end)
    state = TITLES[verdict.depth_state].lower()
    if verdict.cause == "input" and verdict.depth_state == "inside":
        sentences.append(f"The depth by itself is {state}: the scale of the input takes the ratios out.")
    elif verdict.cause == "input":
        sentences.append(f"The depth by itself is {state}; the scale of the input takes the ratios further out.")
    elif verdict.cause == "depth":
        sentences.append(f"The depth by itself is {state} too.")
    return sentences


def _on_the_way(factor: Pair, end: Pair) -> list[str]:
    """Return what is larger between the first block and the last site than at these two ends."""
    found = [
        f"the {name} up to {factor_text(largest)}-fold"
        for name, largest, last in (
            ("stream", factor.activation, end.activation),
            ("gradient", factor.adjoint, end.adjoint),
        )
        if largest is not None and last is not None and last > 0 and largest > FURTHER * max(last, 1 / last)
    ]
    return [f"In between they move further: {' and '.join(found)}."] if found else []


def _apart(ratio: float) -> str:
    if factor_text(ratio) == "1":
        return "at the scale of"
    return f"{factor_text(max(ratio, 1 / ratio))}-fold {'below' if ratio > 1 else 'above'}" if ratio > 0 else "above"


def _moves(ratio: float) -> str:
    if factor_text(ratio) == "1":
        return "keeps its size"
    if ratio <= 0:
        return "vanishes"
    return f"{'grows' if ratio > 1 else 'shrinks'} {factor_text(max(ratio, 1 / ratio))}-fold"


def _growth(growth: Growth) -> str:
    *others, last = (str(blocks) for blocks in growth.blocks)
    depths = f"{', '.join(others)} and {last}" if others else last
    if growth.activation is None or growth.adjoint is None:
        return f"The growth with depth is undefined: of {depths} blocks, fewer than two have finite ratios."
    return (
        f"Over {depths} blocks, the last activation ratio grows as L^{growth.activation:.2f} and the input's gradient "
        f"ratio as L^{growth.adjoint:.2f}."
    )
