"""The sentences of an audit: the model, the proof of its residual stream, its initialization, its health.

`document` is an audit document, a dict, in all functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..audit.initialization.findings import VERDICTS
from ..audit.report.gate import findings_of, nothing_judged
from ..health.band import DEFAULT_BAND
from ..health.diagnosis import compared, diagnose_arm
from ..lab.view import plural
from .observe_words import loss_sentence

Document = Mapping[str, Any]

TRAINED = "These weights are trained, so nothing is claimed about their initialization."
SHRUNK = "Widths are made small, the depth is as asked."
IDENTITY_TITLES = {
    "proved": "Residual stream proved",
    "partial": "Residual stream proved in part",
    "failed": "Residual stream not proved",
}


def model_sentence(document: Document) -> str:
    """Return sentences with the model's class, size and depth, the origin of its weights and its kind of stream."""
    model, additions = document["model"], len(document["additions"])
    return (
        f"{model['class']} with {model['parameters']:,} parameters, {plural(model['blocks'], 'block')} and "
        f"{additions} additions to the residual stream. {weights_sentence(document)}"
    )


def reduced_sentence(document: Document) -> str | None:
    """Return which code built the model and what was made smaller; None if health is of the model itself."""
    if (found := document.get("reduced_twin")) is None:
        return None
    true, twin = found["true"], found["twin"]
    changed = [
        f"{key} {value:,} to {twin['settings'][key]:,}"
        for key, value in true["settings"].items()
        if key in twin["settings"] and twin["settings"][key] != value
    ]
    return (
        f"It has {true['parameters']:,} parameters and is shown as its reduced twin of {twin['parameters']:,}, of the "
        "same code and depth: every matrix keeps sigma * sqrt(fan_in), so each branch adds as much. "
        f"Reduced: {', '.join(changed)}."
    )


def weights_sentence(document: Document) -> str:
    """Return sentences that say where the weights come from, what the stream is, and whether widths were reduced."""
    model = document["model"]
    weights = {True: "Trained weights", False: "Fresh weights", None: "Weights of unknown origin"}[model["trained"]]
    stream = f"; {model['topology']}" if model["topology"] else ""
    return f"{weights}{stream}.{' ' + SHRUNK if model['shrunk'] else ''}"


def measured_words(finding: Mapping[str, Any]) -> str:
    """Return the measured and the expected number of a finding as text; empty if nothing was measured."""
    if finding["measured"] is None:
        return ""
    expected = "" if finding["expected"] is None else f", expected {finding['expected']:.4g}"
    return f"measured {finding['measured']:.4g}{expected}"


def identity_sentence(document: Document) -> str:
    """Return a sentence on the proof that states are sums of branch outputs: error and tests, or why it failed."""
    identity, additions = document["identity"], len(document["additions"])
    error = identity["worst_relative_error"]
    close = "" if error is None else f" to a relative error of {error:.2g} at worst"
    if identity["verdict"] == "proved":
        return (
            f"Coefficient times contribution plus shortcut is the next state at all {additions} additions{close}, and "
            f"{plural(identity['interventions'], 'intervention')} that zeroed an addition's writers changed what "
            "they should and nothing before it."
        )
    reason = identity["reason"] or "no reason was given"
    found = f" {additions} additions were found{close}." if additions else ""
    return f"{reason.rstrip('.')}.{found}"


def conformance_title(document: Document) -> str:
    """Return a short text on what the audit says of the initialization."""
    return VERDICTS[document["conformance"]["verdict"]]


def conformance_sentence(document: Document) -> str:
    """Return the sentence of the worst finding and the number of further ones, or that nothing was judged."""
    if document["model"]["trained"]:
        return TRAINED
    others = findings_of(document)
    sentence = "No gate fails on that." if nothing_judged(document) else others.pop(0)["sentence"]
    more = f" {plural(len(others), 'more finding')} below." if others else ""
    return f"{sentence}{more}"


def base_sentence(document: Document) -> str:
    """Return a sentence on how the initialization was judged: rule, base standard deviation, and depths built."""
    conformance = document["conformance"]
    if conformance["base"] is None or nothing_judged(document):
        return "No scale was judged."
    base, depths = conformance["base"], [str(depth["blocks"]) for depth in conformance["depths"]]
    rule = f"the rule {conformance['rule']}, {conformance['formula']}" if conformance["rule"] else "no rule"
    law = "" if base["law"] == "constant" else f" times {base['law']}"
    return (
        f"Judged by {rule}, on a base std of {base['constant']:.4g}{law} from {base['source']}, at "
        f"{' and '.join(depths)} blocks."
    )


def health_title(document: Document) -> str:
    """Return a title that says whether all ratios are within the band."""
    limits = f"[{DEFAULT_BAND.lower:g}, {DEFAULT_BAND.upper:g}]"
    within = document["health"]["within_band"]
    return f"Every ratio lies within the band {limits}" if within else f"Ratios leave the band {limits}"


def health_sentences(document: Document) -> list[str]:
    """Return sentences on the ratios outside the band, or the largest ones, and on the repaired twin."""
    limits = (DEFAULT_BAND.lower, DEFAULT_BAND.upper)
    model = diagnose_arm(document["health"], "model", limits)
    sentences = list(model.sentences)
    if document["twin"] is not None:
        twin = diagnose_arm(document["twin"], "twin", limits)
        sentences.append(compared(model, twin, "the repaired twin", "the model"))
    return sentences


def twin_sentence(document: Document) -> str:
    """Return a sentence on what the repaired twin is, or why there is none; empty if no rule is known.

    The repaired twin is the same model with its weights multiplied to follow the rule.
    """
    if document["twin"] is not None:
        count = len(document["twin_factors"])
        return (
            f"The repaired twin is the same base draw with {count} {'matrix' if count == 1 else 'matrices'} multiplied "
            f"to the rule {document['conformance']['rule']}. {document['twin_draws']}"
        )
    if document.get("twin_refusal"):
        return f"The repaired twin has no health: {document['twin_refusal']}"
    return "There is no repaired twin: nothing is to be multiplied." if document["conformance"]["rule"] else ""


def reduction_sentence(document: Document) -> str:
    """Return a sentence on what absolute values depend on: how the loss is reduced, and how many targets are valid."""
    return loss_sentence(document["health"]["valid_positions"], document["health"]["loss_reduction"])


def audit_paragraphs(document: Document) -> list[str]:
    """Return the whole audit as a list of paragraphs for a report."""
    found = [
        # A stream that was only measured has no answer.
        *([" ".join(document["headline"]["sentences"])] if "headline" in document else []),
        model_sentence(document),
        f"{IDENTITY_TITLES[document['identity']['verdict']]}. {identity_sentence(document)}",
        f"{conformance_title(document)}. {conformance_sentence(document)} {base_sentence(document)}",
    ]
    if document["health"] is None:
        found.append(f"No health: {document['health_refusal']}")
    else:
        found.append(" ".join([f"{health_title(document)}.", *health_sentences(document), twin_sentence(document)]))
        found.append(reduction_sentence(document))
    return [*found, *document["model"]["notes"], *document["conformance"]["notes"]]
