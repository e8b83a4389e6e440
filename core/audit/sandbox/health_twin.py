"""The residual health of a model that was built with small widths, measured on a reduced twin.

A reduced twin is a narrower model whose matrices keep std * sqrt(fan_in) of the true width, so its ratios are those of
the full model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from ...decoder.batch import Batch
from ...decoder.twin import WIDEST, suggested_width
from ...errors import AuditError, DepthscopeError, first_line
from ..initialization.rebuild import deepened
from ..intake.hub import allowed, bare_model, built_config, built_model
from ..intake.shrink import TOKEN_KEY
from ..intake.spreads import drawn_matrices, exponents, keep_products, near_half
from ..intake.twin import true_width, twin_settings
from ..report.result import AuditResult, ReducedHealth, observed
from ..run import readable_tape
from ..sandbox.guard import undisturbed
from ..trace.discovery import Discovery, discover
from ..trace.inputs import model_inputs
from ..trace.recorder import DEFAULT_BYTES

# The narrowest twin, whose probes have a fourth of its width, and the most parameters of one.
NARROWEST = 64
LARGEST = 2**26
# Blocks of the two narrow models that show the laws of the width.
PROBE_BLOCKS = 2


def with_reduced_health(
    result: AuditResult, model_class: Any, settings: Mapping[str, Any], batch: Batch, seed: int
) -> AuditResult:
    """Return `result` with the residual health (ratios) of a reduced twin in place of the narrow model's.

    `settings` are those of the true sizes. If the twin cannot be built or its width laws are not known, the result has
    no observation, and `health_refusal` is the sentence that says why.
    """
    try:
        reduced = _reduced(model_class, settings, batch, seed)
        observation, refusal = observed(reduced.discovery, readable_tape(reduced.discovery))
    except DepthscopeError as error:
        return replace(result, observation=None, health_refusal=str(error))
    except Exception as error:
        # The library's own code at sizes that it has never seen; the audit at small widths stands without it.
        told = f"The reduced twin of this model could not be measured: {first_line(error)}."
        return replace(result, observation=None, health_refusal=told)
    width = reduced.document["twin"]["width"]
    note = (
        f"Health is that of a reduced twin of width {width} which keeps sigma * sqrt(fan_in) of the true width "
        f"{reduced.document['true']['width']}; everything else is judged at small widths."
    )
    facts = replace(result.facts, notes=(*result.facts.notes, note))
    return replace(result, facts=facts, observation=observation, health_refusal=refusal, reduced=reduced)


def _reduced(model_class: Any, settings: Mapping[str, Any], batch: Batch, seed: int) -> ReducedHealth:
    config_class = model_class.config_class
    current = built_config(config_class, settings).to_dict()
    true_model = bare_model(model_class, built_config(config_class, settings))
    width = _width(model_class, settings, current)

    def built(width: int, blocks: int | None = None, seed: int = seed) -> nn.Module:
        config = _config(model_class, settings, current, width, blocks)
        return built_model(model_class, config, seed=seed, max_parameters=LARGEST)

    def kept(twin: nn.Module) -> dict[str, float]:
        return keep_products(twin, true_model, laws, width_ratio=ratio, embedded=multiplied)

    def again(seed: int) -> nn.Module:
        twin = built(width, seed=seed)
        kept(twin)
        return twin

    laws, multiplied, ratio = {}, 0.0, true_width(current) / width
    if ratio != 1.0:
        probes = [built(width // 4, PROBE_BLOCKS), built(width // 2, PROBE_BLOCKS)]
        laws, multiplied = exponents(*probes), _embedding_exponent(probes, batch)
    twin = built(width)
    factors = kept(twin)
    document = {
        "true": _sizes(true_width(current), current, true_model),
        "twin": _sizes(width, current | twin_settings(current, width), twin),
        "std_over_own_std": factors,
    }
    return ReducedHealth(_flow(twin, batch), document, again)


def _width(model_class: Any, settings: Mapping[str, Any], current: Mapping[str, Any]) -> int:
    """Return the width of the twin: the suggested one, halved until the twin has at most `LARGEST` parameters.

    A model that is narrow keeps its true width. Raises `AuditError` where no width is small enough.
    """
    true = true_width(current)
    width = suggested_width(true, WIDEST)
    while width == true or (width >= NARROWEST and width % 8 == 0):
        model = bare_model(model_class, _config(model_class, settings, current, width))
        if sum(parameter.numel() for parameter in model.parameters()) <= LARGEST:
            return width
        width //= 2
    raise AuditError("With every narrow width the model is too large to be run at once, so its health is not told.")


def _config(
    model_class: Any, settings: Mapping[str, Any], current: Mapping[str, Any], width: int, blocks: int | None = None
) -> Any:
    changed = twin_settings(current, width)
    if blocks is not None:
        changed |= deepened(current, blocks)
    return built_config(model_class.config_class, {**settings, **allowed(model_class.config_class, changed)[0]})


def _embedding_exponent(probes: list[nn.Module], batch: Batch) -> float:
    """Return the power of the width that the code multiplies embeddings by: 1/2 in Gemma, 0 in most families."""
    sizes = []
    for model in probes:
        table = next((matrix.values for _, matrix in drawn_matrices(model) if matrix.embeds), None)
        states = _flow(model, batch).states
        if table is None or not states:
            raise AuditError("The residual stream's input could not be read, so no reduced twin tells its health.")
        sizes.append(float(states[0].double().square().mean().sqrt() / table.double().square().mean().sqrt()))
    return near_half(math.log2(sizes[1] / sizes[0]), "the stream's input")


def _flow(model: nn.Module, batch: Batch) -> Discovery:
    with undisturbed(model) as guard:
        return discover(guard, model_inputs(model, batch), max_bytes=DEFAULT_BYTES)


def _sizes(width: int, settings: Mapping[str, Any], model: nn.Module) -> dict[str, Any]:
    """Return the width, the number of parameters, and every integer setting that is not a token id."""
    named = {key: value for key, value in settings.items() if type(value) is int and not TOKEN_KEY.fullmatch(key)}
    return {"width": width, "parameters": sum(tensor.numel() for tensor in model.parameters()), "settings": named}
