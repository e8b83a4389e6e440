"""The sentences of an audit's headline, made from its data and the rows of the document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...health.band import DEFAULT_BAND
from ...numerals import exact_text
from ..initialization.findings import MEANING
from ..initialization.words import listed

Document = Mapping[str, Any]
# What is off with the named matrices: the verb of several, and the rest.
OFF: Mapping[str, tuple[str, str]] = {
    "absent": ("carry", "no depth factor"),
    "partial": ("are", "not scaled as the other writers are"),
    "on-reader": ("carry", "the depth factor that belongs on the writers"),
    "on-everything": ("carry", "the depth factor that belongs on the writers alone"),
    "twice": ("carry", "the depth factor twice"),
    "depth-convention": ("are", "scaled by another depth than the rule counts"),
    "wrong-fan-in": ("are", "drawn by a fan-in that is not their own"),
    "changed-by-reload": ("change", "when the model is saved and loaded"),
    "never-initialised": ("were", "never written by an initializer"),
    "missing-keys": ("are", "missing from what is stored"),
    "stream-lost": ("take", "the place of the stream, with no shortcut around them"),
    "equal-shards": ("repeat", "one draw in several of their parts"),
    "gate-not-as-declared": ("have", "another coefficient in the forward than the rule declares"),
    "mixed-depth": ("count", "another depth than the other writers do"),
    "dead-branch": ("belong", "to branches that add nothing and can learn nothing"),
    "duplicated": ("hold", "the same draws"),
    "range-ignored": ("do", "not follow the declared standard deviation"),
    "invisible-after-norm": ("are", "scaled, and a norm behind them hides it from the stream"),
    "mixed-topology": ("are", "norms on the stream itself, at some additions only"),
    "embedding-scale": ("start", "the stream far above what the branches add"),
    "narrow-stream": ("write", "to a stream of a coarser floating type"),
    "unexplained": ("do", "not meet the rule, and nothing known explains their scale"),
}
SINGULAR = {
    "carry": "carries", "are": "is", "change": "changes", "were": "was", "count": "counts", "belong": "belongs",
    "hold": "holds", "do": "does", "take": "takes", "repeat": "repeats", "have": "has", "start": "starts",
    "write": "writes",
}  # fmt: skip
BRANCHES = {"attention": "attention ", "feed_forward": "feed-forward "}
BELOW = "mend it with the lines below."


def sentences(document: Document, headline: Mapping[str, Any]) -> list[str]:
    """Return the headline as a list of sentences.

    They say what is wrong, whether it matters and what to change; or, if nothing is wrong, how healthy the model is.
    """
    if document["model"]["trained"] and not headline["off"]:
        return ["These weights are trained, so nothing is said of their initialization.", *_state(document, headline)]
    if not headline["off"]:
        return [*_state(document, headline), *_rule(document, headline)]
    return [_off(document, headline["off"]), *_matter(document, headline)]


def _off(document: Document, kinds: list[str]) -> str:
    """Return the sentence on the worst finding, with the number of other findings."""
    finding = document["conformance"]["findings"][0]
    subject, one = _subject(document, finding)
    verb, rest = OFF.get(finding["kind"], ("are", MEANING.get(finding["kind"], "not as declared")))
    others = f"; {_plural(len(kinds) - 1, 'more finding')} below" if len(kinds) > 1 else ""
    return f"{subject} {SINGULAR[verb] if one else verb} {rest}{others}."


def _subject(document: Document, finding: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the subject of a sentence on a finding's parameters, by role and blocks, and whether it is singular."""
    names = set(finding["parameters"])
    reading = finding["kind"] in ("on-reader", "on-everything")
    sides = ("readers",) if reading else ("writers", "readers")
    rows = [(side, row) for side in sides for row in document[side] if row["name"] in names]
    if not rows or ({row["name"] for _, row in rows} != names and not reading):
        if not names:
            return "Parts of the model", False
        return (f"The parameter {listed(names)}", True) if len(names) == 1 else (f"{len(names)} parameters", False)
    kinds = {row.get("branch") for _, row in rows}
    which = BRANCHES.get(str(next(iter(kinds))), "") if len(kinds) == 1 else ""
    both = {side for side, _ in rows}
    what = "matrices" if len(both) > 1 else "writers (matrices that end a branch)"
    what = "readers (matrices that a branch begins with)" if both == {"readers"} else what
    where = blocks_text((row["block"] for _, row in rows), document["model"]["blocks"])
    return f"The {which}{what} of {where}", False


def blocks_text(numbers: Iterable[int], count: int) -> str:
    """Return block numbers as `all 8 blocks`, `blocks 3 to 5`, `block 7`, or a list of them; `count` is the depth."""
    found = sorted(set(numbers))
    if len(found) == count:
        return f"all {count} blocks" if count > 1 else "its only block"
    if len(found) == 1:
        return f"block {found[0]}"
    if len(found) > 2 and found == list(range(found[0], found[-1] + 1)):
        return f"blocks {found[0]} to {found[-1]}"
    if len(found) == 2:
        return f"blocks {found[0]} and {found[1]}"
    return f"blocks {listed(map(str, found))}"


def _matter(document: Document, headline: Mapping[str, Any]) -> list[str]:
    """Return sentences on whether the worst finding matters at this depth, by the ratios, and on what to change."""
    change = BELOW if headline["repair"] else "its finding below says what to change."
    matters, kind = headline["matters"], headline["off"][0]
    if matters == "always":
        return [f"That matters at any depth, and no ratio shows it; {change}", *_state(document, headline)]
    if matters == "unknown":
        return [f"What it does to the ratios was not measured; {change}", *_state(document, headline)]
    both = _instead(headline)
    if matters == "little":
        silent = " In training it may: the attention logits are smaller too." if kind == "on-everything" else ""
        left = " Both leave the band." if headline["state"] == "outside" else ""
        return [f"At this depth that matters little: {both}; {change}{left}{silent}"]
    cause = headline["as_it_is"]["verdict"]["cause"] == "input" and headline["state"] == "outside"
    input_too = [f"{_input(headline['as_it_is']['verdict'])} that is most of it."] if cause else []
    if matters == "much":
        return [f"That matters: {both}; {change}", *input_too]
    inside = "outside the band either way" if headline["state"] == "outside" else "inside the band either way"
    return [f"It shows, {inside}: {both}; {change}", *input_too]


def _instead(headline: Mapping[str, Any]) -> str:
    """Return a clause that compares the ratio that the repair moves most before and after it, over how many seeds."""
    one, two, over = headline["as_it_is"], headline["mended"], seeds_text(headline["seeds"])
    if one["activation"] is None:
        return f"no finite ratios instead of {number(two['activation'])} and {number(two['adjoint'])}, {over}"
    quotients = {q: max(one[q] / two[q], two[q] / one[q]) for q in ("activation", "adjoint")}
    quantity = max(quotients, key=lambda q: quotients[q])
    name = "activation" if quantity == "activation" else "gradient"
    before, after = number(one[quantity]), number(two[quantity])
    if before == after:
        return f"the ratios stay as they are, at {number(one['activation'])} and {number(one['adjoint'])}, {over}"
    return f"{name} ratio {before} instead of {after}, {over}"


def _state(document: Document, headline: Mapping[str, Any]) -> list[str]:
    """Return sentences on whether the layers start healthy, with the ratios furthest from 1.

    Where the input's scale is the cause and the depth is healthy, the layers are judged from the first block on.
    """
    arm, blocks = headline["as_it_is"], document["model"]["blocks"]
    layers = f"Your {_plural(blocks, 'layer')}" if blocks else "Your model"
    if arm is None or arm["activation"] is None:
        return [f"{layers} could not be measured: {document['health_refusal'] or 'no seed has finite ratios'}"]
    over, start = seeds_text(headline["seeds"]), "starts" if blocks == 1 else "start"
    band = f"the band [{exact_text(DEFAULT_BAND.lower)}, {exact_text(DEFAULT_BAND.upper)}]"
    verdict, ratios, small = arm["verdict"], _both(arm["activation"], arm["adjoint"]), _small_widths(document)
    if verdict["cause"] == "input" and verdict["depth_state"] == "inside":
        deep = _both(verdict["depth_factor"]["activation"], verdict["depth_factor"]["adjoint"])
        first = f"{layers} {start} healthy from the end of the first block on: factors {deep}, inside {band}, {over}."
        return [first, f"{_input(verdict)} counted from it the ratios are {ratios}. {_embeddings(verdict)}", *small]
    where = {"inside": f"healthy: ratios {ratios}, inside {band}", "close": f"close to the limits of {band}: {ratios}"}
    told = [f"{layers} {start} {where.get(headline['state'], f'outside {band}: ratios {ratios}')}, {over}."]
    if verdict["cause"] == "input" and verdict["depth_factor"]["activation"] is not None:
        told.append(f"{_input(verdict)} it moves the ratios more than the depth does. {_embeddings(verdict)}")
    return [*told, *small]


def _both(activation: float, adjoint: float) -> str:
    return f"{number(activation)} (activations) and {number(adjoint)} (gradients)"


def _input(verdict: Mapping[str, Any]) -> str:
    """Return the beginning of a sentence that compares the input with the first block; its effect is to follow."""
    ratio = verdict["input_ratio"]["activation"]
    if not ratio or 1 / 1.5 < ratio < 1.5:
        return "The first block, and not the depth, changes the gradients most:"
    return f"The input is {number(max(ratio, 1 / ratio))}-fold {'below' if ratio > 1 else 'above'} the first block:"


def _embeddings(verdict: Mapping[str, Any]) -> str:
    """Return a sentence on what to change where the input is the cause."""
    ratio = verdict["input_ratio"]["activation"]
    if not ratio or 1 / 1.5 < ratio < 1.5:
        return "The writers may stay."
    how = "larger" if ratio > 1 else "smaller"
    return f"Draw the embeddings {how}, or scale their output; the writers may stay."


def _small_widths(document: Document) -> list[str]:
    """Return a sentence that the ratios are those of small widths; empty where that is not so."""
    if not document["model"]["shrunk"] or "reduced_twin" in document:
        return []
    return ["These are the ratios of the small widths it was built with; a full-size model has others."]


def _rule(document: Document, headline: Mapping[str, Any]) -> list[str]:
    """Return sentences on the depth rule for a model in which nothing is wrong."""
    conformance = document["conformance"]
    if conformance["verdict"] == "applied":
        return [f"The rule {conformance['rule']}, {conformance['formula']}, is met."]
    if conformance["verdict"] != "no-rule-declared" or document["model"]["trained"]:
        return []
    arm = headline["as_it_is"]
    if arm is None or "inside" in (headline["state"], arm["verdict"]["depth_state"]):
        return ["No depth rule is declared, and at this depth none is needed."]
    if headline["repair"] is None:
        return ["No depth rule is declared."]
    return [f"No depth rule is declared; with the writers drawn by GPT-2's rule, as the lines below do: "
            f"{_instead(headline)}."]  # fmt: skip


def number(value: float) -> str:
    """Return a ratio as text with two digits, three from 100 on, and commas between thousands."""
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}" if value < 1e6 else f"{value:.2g}"
    if 1 <= value < 9.95:
        return f"{value:.1f}"
    return f"{value:.3g}" if value >= 100 else f"{value:.2g}"


def seeds_text(seeds: int) -> str:
    """Return a phrase on the number of seeds that a ratio is the median of."""
    return "at one seed" if seeds == 1 else f"median of {seeds} seeds"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
