"""An `observe` document as text for a terminal: verdicts, and the recipe beside the unscaled control."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from ..numerals import exact_text
from . import options as opt
from .seeds import seeds_lines


def readable(document: dict[str, Any]) -> str:
    """Return text for a terminal: verdicts over seeds if there are any, the diagnosis, and the ratios of every site."""
    lines = [*seeds_lines(document)] if "verdicts" in document else []
    if document["initialized"] is None:
        return "\n".join(lines).rstrip()
    from ..tables.twin_words import twin_sentence

    config, arms = document["config"], (document["initialized"], document["same_base_unscaled_control"])
    factor = "" if document["factor"] is None else f", factor {document['factor']:.6f}"
    lines += [
        *opt.wrapped(_sentences(document)),
        "",
        f"{config['blocks']} blocks, width {config['width']}, seed {document['seed']}, {document['dtype']}, "
        f"recipe {document['recipe']}{factor}, {document['parameters']:,} parameters",
        *(opt.wrapped([twin_sentence(document["twin"])]) if "twin" in document else ()),
    ]
    limits = f"[{', '.join(map(exact_text, document['band']))}]"
    named = zip((document["recipe"], "unscaled control"), arms, strict=True)
    lines += [_arm_line(name, arm, limits) for name, arm in named if arm is not None]
    lines += ["", f"{'site':>4}  {'label':<28}{'A ratio':>14}{'G ratio':>14}   |{'control A':>14}{'control G':>14}"]
    for scaled, control in zip_longest(*(arm["sites"] if arm else () for arm in arms)):
        site = scaled or control
        lines.append(f"{site['site']:>4}  {site['label']:<28}{_pair(scaled)}   |{_pair(control)}")
    return "\n".join(lines)


def _sentences(document: dict[str, Any]) -> list[str]:
    """Return the diagnosis of each arm of one seed, and how the two compare."""
    from ..health.diagnosis import comparison, diagnose, diagnose_control
    from ..recipes.catalogue import CONTROL

    found = [*diagnose(document).verdict]
    if document["same_base_unscaled_control"] is not None and document["recipe"] != CONTROL:
        found += [*diagnose_control(document).verdict, comparison(document)]
    return found


def _arm_line(name: str, arm: dict[str, Any], limits: str) -> str:
    inside = "every ratio within the band" if arm["within_band"] else "a ratio leaves the band"
    return (
        f"{name}: mean loss {arm['loss_nats']:.6f} nats over {arm['valid_positions']} valid targets, "
        f"A0 {arm['input_activation_rms']:.6f}, G_last {arm['terminal_adjoint_rms']:.6f}; {inside} {limits}"
    )


def _pair(site: dict[str, Any] | None) -> str:
    if site is None:
        return " " * 28
    marks = {"below": "-", "within": " ", "above": "+"}
    cells = [f"{site[f'{kind}_ratio']:>13.6f}{marks[site[f'{kind}_band']]}" for kind in ("activation", "adjoint")]
    return "".join(cells)
