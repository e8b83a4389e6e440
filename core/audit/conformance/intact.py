"""Findings beside scale: memory never written, draws repeated, parameters that saving and loading change."""

from __future__ import annotations

import copy
import importlib
import io
import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from core.audit.conformance.draws import repeated_draws, unstacked
from core.audit.conformance.kinds import Finding
from core.audit.conformance.rules import close
from core.audit.conformance.source import LARGEST_REBUILD, Source, rebuilt
from core.audit.conformance.spread import tolerance
from core.audit.names import ParameterNames

# No initializer draws values as large or, but for zeros, as small.
HUGE, TINY = 1e6, 1e-30
SHOWN = 4
RELOAD = "make saving write, and loading keep, every parameter as it is"


def listed(names: Iterable[str]) -> str:
    """The first names of many."""
    every = list(names)
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more


def unwritten(model: nn.Module, marked: nn.Module | None, explained: frozenset[str] = frozenset()) -> list[Finding]:
    """Parameters that hold what no initializer left there: by a build in marked memory, and by their values.

    `explained` are names whose values another finding explains.
    """
    never = [] if marked is None else [name for name, p in _parameters(marked).items() if bool(p.isnan().any())]
    # What the build leaves blank may hold anything now, zeros too.
    names = _parameters(model)
    odd = [name for name, p in names.items() if name not in explained and name not in never and _garbage(p)]
    never = [name for name in never if name in names]
    findings = []
    if never:
        sentence = (
            f"{listed(never)} {_are(never)} never written: built in memory filled with NaN, the NaN is still there; "
            "draw it in the initializer."
        )
        findings.append(Finding(kind="never-initialised", parameters=tuple(never), sentence=sentence))
    if odd:
        worst = max(float(names[name].detach().abs().max()) for name in odd)
        sentence = (
            f"{listed(odd)} {_are(odd)} nonfinite, denormal or huge values that no initializer draws; look for memory "
            "that is never written, or a standard deviation that divides by zero."
        ).replace(f" {_are(odd)} nonfinite", " hold nonfinite" if len(odd) > 1 else " holds nonfinite")
        findings.append(Finding(kind="never-initialised", parameters=tuple(odd), measured=worst, sentence=sentence))
    return findings


def alike(model: nn.Module, again: nn.Module) -> bool:
    """Whether a second build has the names, the shapes and, within sampling error, the spreads of the first.

    A model that was changed after it was built is not what its source builds, at any depth.
    """
    one, two = _parameters(model), _parameters(again)
    if {name: p.shape for name, p in one.items()} != {name: p.shape for name, p in two.items()}:
        return False
    for name, p in one.items():
        if p.dim() < 2 or not p.is_floating_point():
            continue
        first, second = (float(t.detach().double().std(correction=0)) for t in (p, two[name]))
        if math.isfinite(first) and math.isfinite(second) and not close(first, second, 2 * tolerance(p.numel())):
            return False
    return True


def duplicated(model: nn.Module) -> list[Finding]:
    """Parameters that hold one draw, a warning, and names that share one tensor, which is as intended."""
    names = ParameterNames(model)
    findings = []
    memory: dict[tuple[int, int, int], list[str]] = {}
    for name, p in names.parameters.items():
        if p.numel():
            memory.setdefault((p.data_ptr(), p.numel(), p.element_size()), []).append(name)
    tied = {name: list(others) for name, others in names.aliases.items()}
    for first, *others in memory.values():
        if others:
            tied.setdefault(first, []).extend(others)
    alone = {first: names.parameters[first] for first, *_ in memory.values()}
    groups = repeated_draws(alone)
    if groups:
        every = [name for group in groups for name in group]
        example = " = ".join(groups[0][:2])
        findings.append(
            Finding(
                kind="duplicated",
                parameters=tuple(dict.fromkeys(unstacked(name) for name in every)),
                measured=float(len(every) - len(groups)),
                expected=0.0,
                sentence=(
                    f"{len(every)} matrices hold {len(groups)} draws, up to a factor, as {example}; draw each of its "
                    "own instead of copying or seeding again, or tie them if they are meant to be one."
                ),
            )
        )
    if tied:
        every = [name for first, others in tied.items() for name in (first, *others)]
        pairs = "; ".join(f"{first} = {listed(others)}" for first, others in list(tied.items())[:SHOWN])
        findings.append(
            Finding(
                kind="tied",
                parameters=tuple(every),
                sentence=f"One parameter under several names, counted once: {pairs}.",
            )
        )
    return findings


def missing(source: Source) -> list[Finding]:
    """Parameters that the stored files lack."""
    if not source.missing:
        return []
    return [
        Finding(
            kind="missing-keys",
            parameters=source.missing,
            measured=float(len(source.missing)),
            expected=0.0,
            sentence=f"The stored file lacks {listed(source.missing)}, drawn anew at every load; save the whole model.",
        )
    ]


def reloaded(model: nn.Module, source: Source) -> list[Finding]:
    """What a round trip through the model's own saving and loading changes."""
    if sum(parameter.numel() for parameter in model.parameters()) > LARGEST_REBUILD:
        return []
    if hasattr(model, "save_pretrained") and hasattr(type(model), "from_pretrained"):
        again, lost = _pretrained(model)
    else:
        again, lost = _state_dict(model, source)
    findings = [] if again is None else _changes(model, again, frozenset(lost))
    if lost:
        sentence = f"Saving the model leaves out {listed(lost)}, so loading cannot bring it back; {RELOAD}."
        findings.append(
            Finding(
                kind="missing-keys", parameters=tuple(lost), measured=float(len(lost)), expected=0.0, sentence=sentence
            )
        )
    return findings


def _changes(model: nn.Module, again: nn.Module, lost: frozenset[str]) -> list[Finding]:
    before, after = _stored(model), _stored(again)
    kept = {name: p for name, p in before.items() if name not in lost}
    changed = [name for name, p in kept.items() if name not in after or not _same(p, after[name])]
    if not changed:
        return []
    ratios = [_ratio(before[name], after[name]) for name in changed if name in after]
    measured = next((ratio for ratio in ratios if ratio is not None), None)
    by = "" if measured is None else f" ({changed[0]} to {measured:.4g} times its standard deviation)"
    return [
        Finding(
            kind="changed-by-reload",
            parameters=tuple(changed),
            measured=measured,
            expected=1.0,
            sentence=f"Saving and loading changes {listed(changed)}{by}; {RELOAD}.",
        )
    ]


def _pretrained(model: Any) -> tuple[nn.Module | None, list[str]]:
    """Through files in a private folder; where files cannot be written, through the state alone."""
    options = {"output_loading_info": True, "attn_implementation": "eager", "dtype": next(model.parameters()).dtype}
    try:
        with tempfile.TemporaryDirectory(prefix="depthscope-") as folder, _quiet():
            model.save_pretrained(folder)
            again, info = type(model).from_pretrained(folder, local_files_only=True, **options)
    except Exception:
        try:
            state = {name: value.clone() for name, value in model.state_dict().items()}
            config = copy.deepcopy(model.config)
            with _quiet():
                again, info = type(model).from_pretrained(None, config=config, state_dict=state, **options)
        except Exception:
            return None, []
    known = {name for name, _ in again.named_parameters(remove_duplicate=False)}
    return again, sorted(name for name in info.get("missing_keys") or () if name in known)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's progress bars."""
    logging = importlib.import_module("transformers.utils.logging")
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


def _state_dict(model: nn.Module, source: Source) -> tuple[nn.Module | None, list[str]]:
    """Through torch's own state dictionary, into a second build, or into a copy whose parameters were overwritten."""
    try:
        stream = io.BytesIO()
        torch.save(model.state_dict(), stream)
        stream.seek(0)
        state = torch.load(stream, weights_only=True)
        again = rebuilt(source, model, seed=1) or copy.deepcopy(model)
        with torch.no_grad():
            for tensor in _stored(again).values():
                if tensor.is_floating_point():
                    tensor.fill_(math.nan)
        result = again.load_state_dict(state, strict=False)
    except Exception:
        return None, []
    return again, [name for name in result.missing_keys if name in _parameters(again)]


def _parameters(model: nn.Module) -> Mapping[str, torch.Tensor]:
    return ParameterNames(model).parameters


def _stored(model: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters, and the buffers that are saved with them."""
    saved = model.state_dict().keys()
    return {**_parameters(model), **{name: buffer for name, buffer in model.named_buffers() if name in saved}}


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return bool(((first == second) | (first.isnan() & second.isnan())).all()) if first.numel() else True


def _ratio(before: torch.Tensor, after: torch.Tensor) -> float | None:
    if before.shape != after.shape or before.numel() < 2:
        return None
    one, two = (float(t.detach().double().std(correction=0)) for t in (before, after))
    return two / one if one > 0 and math.isfinite(two) else None


def _garbage(parameter: torch.Tensor) -> bool:
    values = parameter.detach()
    if not values.is_floating_point() or not values.numel():
        return False
    if not bool(values.isfinite().all()):
        return True
    size = values.abs()
    return bool((size > HUGE).any()) or bool(((size > 0) & (size < TINY)).any())


def _are(names: list[str]) -> str:
    return "are" if len(names) > 1 else "is"
