"""The cosine between a branch output and the stream it is added to, token by token.

A cosine over all tokens together can be near 0 although one half of the tokens is aligned and the other half opposed.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from ..construction.drawn_weights import DrawnWeights
from ..decoder.base_draw import BaseDraw
from ..decoder.forward_pass import forward
from ..decoder.splitmix64 import FloatArray
from ..decoder.tape import Tape, recording
from ..decoder.valid import select_valid
from ..health.arms import checked_device, profile_scalars, torch_dtype
from ..health.rms import cosine_of_rows
from ..recipes.catalogue import recipe
from ..recipes.recipe import Recipe
from .request import ComparisonRequest, runnable_recipes, seed_chunks

QUANTILES = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}
TOKEN_COLUMNS = ("recipe", "blocks", "site", "label", "block", "branch", *QUANTILES, "tokens", "undefined")


def token_cosine_table(request: ComparisonRequest) -> pd.DataFrame:
    """Return quantiles of the cosine over all valid tokens of all seeds, one row per recipe and branch.

    Columns are `TOKEN_COLUMNS`; the depth is that of the request's `config`. `tokens` counts all tokens, `undefined`
    those whose stream or branch output is zero. The quantiles leave these out, and are NaN if no token is left. Raises
    the errors of `request.check`.
    """
    request.check()
    config = request.config
    runnable, _ = runnable_recipes([recipe(name) for name in request.recipes], config)
    rows: list[dict[str, object]] = []
    for chosen in runnable:
        labels = chosen.graph(config).site_labels()
        found: dict[tuple[int, int, str], list[FloatArray]] = {}
        for seeds in seed_chunks(request, config, 1):
            for key, cosines in _tape_cosines(_tape(request, chosen, seeds)).items():
                found.setdefault(key, []).append(cosines)
        for (site, block, branch), parts in found.items():
            head = {"recipe": chosen.name, "blocks": config.blocks, "site": site, "label": labels[site]}
            rows.append({**head, "block": block, "branch": branch, **_quantiles(np.concatenate(parts))})
    return pd.DataFrame(rows, columns=list(TOKEN_COLUMNS))


def _tape(request: ComparisonRequest, chosen: Recipe, seeds: tuple[int, ...]) -> Tape:
    draw = BaseDraw(request.config, seeds, request.distribution)
    kind, place = torch_dtype(request.dtype), checked_device(request.device)
    with recording(place), torch.no_grad():
        scalars = profile_scalars(draw, chosen, request.batch, request.device)
        weights = DrawnWeights(draw, [chosen], kind, place, scalars)
        return forward(chosen.graph(request.config), weights, request.batch)


def _tape_cosines(tape: Tape) -> dict[tuple[int, int, str], FloatArray]:
    """Return the cosines of every branch, one per member and valid token."""
    width = tape.states[0].shape[-1]
    cosines = {}
    for part in tape.contributions:
        gained, stream = (
            select_valid(values, tape.valid).reshape(-1, width) for values in (part.contribution, part.stream)
        )
        cosines[part.site, part.block, part.branch] = cosine_of_rows(gained, stream).cpu().numpy()
    return cosines


def _quantiles(cosines: FloatArray) -> dict[str, object]:
    defined = cosines[np.isfinite(cosines)]
    values = np.quantile(defined, list(QUANTILES.values())) if len(defined) else [np.nan] * len(QUANTILES)
    return {
        **dict(zip(QUANTILES, map(float, values), strict=True)),
        "tokens": len(cosines),
        "undefined": len(cosines) - len(defined),
    }
