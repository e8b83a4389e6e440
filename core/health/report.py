"""The `observe` document: one seed, with one recipe and without (the unscaled control of the same base draw)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from .. import __version__
from ..construction.record import ConstructionRecord
from ..construction.states import Decoder, Fresh, FreshInitialization, construction_record
from ..construction.storage import StoredRun
from ..decoder.base_draw import BaseDraw
from ..decoder.batch import Batch, chapter_batch
from ..decoder.forward_pass import forward
from ..decoder.parameters import layout
from ..decoder.progress import Told, silent
from ..decoder.splitmix64 import SplitMix64
from ..decoder.tape import recording
from ..decoder.twin import twin_document
from ..decoder.weights import StoredWeights
from ..recipes.catalogue import CONTROL, recipe
from .arms import ByBlock, by_block_of, checked_device, observe_arms, torch_dtype
from .band import DEFAULT_BAND, Band
from .document import Document, arm_document
from .estimate import check_memory, check_run
from .observation import Observation, measure
from .request import ObserveRequest

SCHEMA = "depthscope.observe/1"


def observe_document(
    request: ObserveRequest,
    *,
    contributions: bool = True,
    refused_arms: bool = False,
    by_block: ByBlock | None = None,
    told: Told = silent,
) -> Document:
    """Observe a request with its recipe and without, on one base draw, and return the document as a dict.

    `contributions` includes what each branch adds. `by_block` replaces the options of a block-by-block run. Raises
    `ObservationError` if an arm (with or without the recipe) has no finite ratios; with `refused_arms` that arm is None
    in the document instead. `told(what, done, total)` is the progress callback. Raises also the errors of `check_run`.
    """
    cost = check_run(request)
    draw = BaseDraw(request.config, [request.seed], request.distribution)
    chosen = recipe(request.recipe)
    arms = observe_arms(
        draw,
        [chosen, recipe(CONTROL)],
        request.batch,
        dtype=request.dtype,
        device=request.device,
        contributions=contributions,
        tokens=True,
        by_block=by_block or by_block_of(cost),
        told=told,
    )
    record = construction_record(draw, chosen)
    documents = [
        None
        if refused_arms and arm.observation.refusal(arm.member(0)) is not None
        else arm_document(arm.observation, arm.member(0), request.band)
        for arm in arms
    ]
    return _document(record, request.dtype, cost.request.driver, documents, request.band)


def built_run(request: ObserveRequest) -> StoredRun:
    """Return the decoders that `observe_document` observes, with the recipe and without, so that they can be saved.

    Raises the errors of the request.
    """
    replace(request, driver="graph").check()
    fresh = FreshInitialization.prepare(
        Fresh(request.config, request.budget, request.distribution), SplitMix64(request.seed)
    )
    control = fresh.control()
    return StoredRun(fresh.complete(request.recipe, request.batch), control, request.dtype)


def restored_document(
    run: StoredRun,
    batch: Batch | None = None,
    band: Band = DEFAULT_BAND,
    device: str = "cpu",
    *,
    told: Told = silent,
) -> Document:
    """Observe stored decoders exactly as they are, and return the document that `observe_document` would return.

    If files differ from those that were saved, the key `changed_weights` names their arms (`initialized`, `control`).
    `batch` is the published example if None. `told(what, done, total)` is the progress callback.
    """
    batch = batch or chapter_batch()
    record, chosen = run.initialized.record, recipe(run.initialized.record.recipe)
    batch.check(record.config)
    check_memory(ObserveRequest(config=record.config, recipe=chosen.name, dtype=run.dtype, batch=batch))
    if chosen.topology == recipe(CONTROL).topology:
        observation = _observe_stored([run.initialized, run.control], chosen.name, run.dtype, batch, device, told)
        documents = [arm_document(observation, member, band) for member in range(2)]
    else:
        pairs = ((run.initialized, chosen.name), (run.control, CONTROL))
        single = [_observe_stored([decoder], name, run.dtype, batch, device, told) for decoder, name in pairs]
        documents = [arm_document(observation, 0, band) for observation in single]
    changed = {"changed_weights": list(run.changed)} if run.changed else {}
    return {**_document(record, run.dtype, "graph", documents, band), "construction": "restored", **changed}


def _observe_stored(
    decoders: list[Decoder], name: str, dtype: str, batch: Batch, device: str, told: Told
) -> Observation:
    config, shortcuts = decoders[0].config, decoders[0].record.shortcuts
    kind, place = torch_dtype(dtype), checked_device(device)
    with recording(place):
        scalars = None
        if shortcuts is not None and recipe(name).profile is not None:
            scalars = [{k: torch.tensor([v], dtype=torch.float64) for k, v in block.items()} for block in shortcuts]
        weights = StoredWeights(config, [decoder.arrays() for decoder in decoders], kind, place, scalars)
        return measure(forward(recipe(name).graph(config), weights, batch, told=told), tokens=True, told=told)


def _document(
    record: ConstructionRecord, dtype: str, driver: str, arms: Sequence[Document | None], band: Band
) -> dict[str, Any]:
    sizes, twin = layout(record.config), twin_document(record.config)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "config": record.config.document(),
        **({} if twin is None else {"twin": twin}),
        "seed": str(record.initial_rng_state),
        "dtype": dtype,
        "driver": driver,
        "recipe": record.recipe,
        "policy_id": record.policy_id,
        "base_initializer_id": record.base_initializer_id,
        "factor": record.factor,
        "band": [band.lower, band.upper],
        "parameters": sizes.parameters,
        "parameter_tensors": sizes.tensors,
        "initial_rng_state": str(record.initial_rng_state),
        "final_rng_state": str(record.final_rng_state),
        "transformed_tensors": record.transformed_tensors,
        "selected_names": list(record.selected_names),
        "unselected_tensors_unchanged": sizes.tensors - len(record.selected_names),
        "construction": "initialized",
        "initialized": arms[0],
        "same_base_unscaled_control": arms[1],
    }
