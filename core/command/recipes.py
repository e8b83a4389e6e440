"""The verb `recipes`: all properties of recipes at one decoder's sizes, and what combinations and public code do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..decoder.parameters import layout
from ..errors import ConfigError
from ..recipes.catalogue import recipe
from . import options as opt
from .exports import check_exports, emit_with_tables, export_options, recipe_tables
from .pictures import recipe_figures

if TYPE_CHECKING:
    from ..health.request import ObserveRequest

DRIFT_SEEDS = 8


@click.command(name="recipes")
@click.option("--blocks", type=opt.WHOLE, default=opt.CHAPTER.blocks, show_default=True, help="Complete blocks L.")
@opt.size_options
@opt.positions_option
@opt.constant_options
@opt.family_options
@opt.base_options
@click.option("--recipe", "name", type=str, help="One recipe, or several joined by +, with measured warnings.")
@click.option("--against", type=str, metavar="NAME", help="What changes from --recipe to this one.")
@click.option("--drift", is_flag=True, help="Add what public code bases do under the same names, measured.")
@click.option("--seed", type=str, default="4701", show_default=True, help="Seed of what is measured.")
@export_options
@opt.json_option
def command(name: str | None, against: str | None, drift: bool, seed: str, **options: Any) -> None:
    """List recipes with law, graph, source and the weights they change; numbers are those of the given sizes."""
    from ..health.request import ObserveRequest

    check_exports(options)
    if against is not None and name is None:
        raise ConfigError("--against compares with --recipe; give both.")
    request = ObserveRequest(
        config=opt.decoder_config(options, opt.CHAPTER.positions),
        seed=opt.seed(seed),
        recipe=recipe(name or "unscaled").name,
        distribution=opt.distribution(options),
    )
    request.budget.check(request.config, layout(request.config).parameters)
    from ..compare.document import difference_rows, measured_report, recipes_document

    document = recipes_document(request.config, [] if name is None else [request.recipe], request.distribution)
    if name is not None and recipe(name).parts:
        opt.use_threads(layout(request.config).parameters)
        document |= measured_report(request)
    if against is not None:
        document["difference"] = difference_rows(request.recipe, against, request.config, request.distribution)
    if drift:
        document["drift"] = _drift(request)
    emit_with_tables(
        document,
        readable,
        "Recipes",
        lambda: recipe_tables(document),
        lambda: recipe_figures(document, request),
        options,
    )


def _drift(request: ObserveRequest) -> list[dict[str, Any]]:
    from ..compare.document import drift_rows
    from ..compare.request import comparison_of

    opt.use_threads(layout(request.config).parameters)
    return drift_rows(comparison_of(request, (request.recipe,), DRIFT_SEEDS))


def readable(document: dict[str, Any]) -> str:
    """Return the document as text for a terminal: a few lines per recipe, or all of one, and what was measured."""
    cards = document["recipes"]
    lines = _card_lines(cards[0]) if len(cards) == 1 else _list_lines(document)
    lines += [f"warning: {warning['sentence']}" for warning in document.get("warnings", ())]
    lines += [
        f"effect of {e['part']}: largest relative change {_number(e['largest_change'], '.6g')} "
        f"({e['quantity']}, site {e['site']})"
        for e in document.get("effects", ())
    ]
    lines += [
        f"{row['aspect']}, {row['item']}: {row['first']} -> {row['second']}" for row in document.get("difference", ())
    ]
    for row in document.get("drift", ()):
        lines.append(
            f"{row['recipe']} in {row['code_base']}: {row['does']}; largest ratios "
            f"{_number(row['declared_activation_ratio'])} declared, {_number(row['variant_activation_ratio'])} there"
        )
    return "\n".join(lines)


def _number(value: float | None, form: str = ".4g") -> str:
    return "undefined" if value is None else format(value, form)


def _list_lines(document: dict[str, Any]) -> list[str]:
    lines = [f"{document['config']['blocks']} blocks, width {document['config']['width']}"]
    for card in document["recipes"]:
        lines.append(f"{card['name']:<26}{card['law']}")
        lines.append(f"{'':<26}graph: {card['graph']}")
        lines.append(f"{'':<26}selects: {_selection(card)}")
        lines.append(f"{'':<26}source ({card['evidence']}): {card['source']}")
        if card["refusal"]:
            lines.append(f"{'':<26}refused: {card['refusal']}")
    return lines


def _card_lines(card: dict[str, Any]) -> list[str]:
    lines = [f"{card['title']} ({card['name']}) at {card['blocks']} blocks", *card["equations"]]
    lines += [f"{law['what']} {law['formula']} = {law['first']}" for law in card["forward"]]
    lines += [
        f"{law['pattern']} ({law['tensors']}): {law['formula']}, {law['first']:.6g} to {law['last']:.6g}"
        for law in card["stored"]
    ]
    lines += [f"{name}: {value:.6g}" for name, value in card["constants"].items()]
    for title in ("assumes", "state", "traps"):
        lines += [f"{title}: {sentence}" for sentence in card[title]]
    lines.append(f"source ({card['evidence']}): {card['source']}")
    return lines + ([f"refused: {card['refusal']}"] if card["refusal"] else [])


def _selection(card: dict[str, Any]) -> str:
    patterns = ", ".join(card["selects"]) or "nothing"
    return f"{patterns} ({card['selected_tensors']} tensors)" if card["selects"] else patterns
