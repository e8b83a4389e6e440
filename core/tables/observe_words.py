"""The sentences of an `observe` document: what was observed, the verdict, and what absolute values depend on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..health.columns import WITHOUT_LARGEST
from ..health.diagnosis import comparison, diagnose
from ..health.verdict import Verdict
from ..health.verdict_words import verdict_headline, verdict_sentences
from ..lab.view import plural

# Past this factor between a site's RMS and that of all tokens but the largest, one token speaks for the site.
OUTSIZED = 2.0


def observed_headline(document: Mapping[str, Any]) -> str:
    """Return the verdict on the recipe in one sentence: over seeds if the document has several, else on its seed."""
    found = document.get("verdicts")
    return verdict_headline(Verdict.from_document(found["initialized"])) if found else diagnose(document).headline


def observe_paragraphs(document: Mapping[str, Any]) -> list[str]:
    """Return paragraphs on what was observed, the verdict, the comparison with the control and the loss.

    Verdicts over several seeds come first, if the document has them.
    """
    verdict = diagnose(document)
    found = [Verdict.from_document(one) for one in document.get("verdicts", {}).values()]
    return [
        *(" ".join(verdict_sentences(one)) for one in found),
        setting_sentence(document),
        " ".join([verdict.headline, *verdict.sentences]),
        comparison(document),
        reduction_sentence(document),
    ]


def setting_sentence(document: Mapping[str, Any]) -> str:
    """Return a sentence with sizes, seed, dtype and recipe of an `observe` document."""
    config, factor = document["config"], document["factor"]
    scale = "" if factor is None else f" (factor {factor:.6g} on {document['transformed_tensors']} tensors)"
    return (
        f"{config['blocks']} blocks, width {config['width']}, {config['heads']} query and {config['kv_heads']} "
        f"key/value heads, feed-forward width {config['ff_width']}, vocabulary {config['vocabulary']}, "
        f"{document['parameters']:,} parameters; seed {document['seed']}, {document['dtype']}, recipe "
        f"{document['recipe']}{scale}."
    )


def reduction_sentence(document: Mapping[str, Any]) -> str:
    """Return a sentence on what absolute values depend on: how the loss is reduced, and how many targets are valid."""
    return loss_sentence(document["initialized"]["valid_positions"])


def loss_sentence(count: int, reduction: str = "mean over valid targets") -> str:
    """Return the same sentence for `count` valid targets and the name of the reduction."""
    if not reduction.startswith("mean"):
        return f"The loss is the model's own ({reduction}), in nats; another reduction scales every absolute adjoint."
    return (
        f"The loss is the mean over {plural(count, 'valid target')}, in nats. An adjoint is the derivative of that "
        "mean: another reduction or number of targets scales every absolute adjoint, and no ratio."
    )


def outsized_sentence(tokens: pd.DataFrame) -> str | None:
    """Return a sentence on the residual sites whose RMS a single token more than doubles, or None.

    `tokens` is a token table.
    """
    states = tokens[tokens["quantity"] == "activation"]
    quotients = states["rms"] / states[WITHOUT_LARGEST]
    found = states[quotients > OUTSIZED]
    if found.empty:
        return None
    worst = max(found.to_dict("records"), key=lambda row: float(row["rms"] / row[WITHOUT_LARGEST]))
    return (
        f"One token outweighs all others at {len(found)} of {len(states)} states: at site {worst['site']} "
        f"({worst['label']}, {worst['arm']}) the RMS is {worst['rms']:.4g} with it and {worst[WITHOUT_LARGEST]:.4g} "
        "without."
    )
