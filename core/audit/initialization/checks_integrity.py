"""Checks other than of scale: memory that was never written, repeated draws, and changes by saving and loading."""

from __future__ import annotations

import copy
import importlib
import io
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from ..sandbox.guard import same_values
from ..trace.names import ParameterNames
from . import words
from .factors import close
from .findings import Finding
from .rebuild import LARGEST_REBUILD, Rebuilder, rebuilt
from .sign_hash import equal_parts, repeated_draws, unstacked
from .weight_stats import standard_deviation, tolerance

# No initializer draws values as large or, but for zeros, as small.
HUGE, TINY = 1e6, 1e-30


def uninitialized(
    model: nn.Module, marked: nn.Module | None, explained: frozenset[str] = frozenset()
) -> Iterator[Finding]:
    """Yield findings on parameters of `model` that no initializer wrote.

    They hold NaN in `marked`, a build in memory that was filled with NaN (or None), or values that no initializer
    draws. Parameters in `explained` have another finding and are left out.
    """
    parameters = dict(model.named_parameters())
    blank = [] if marked is None else [name for name, p in marked.named_parameters() if bool(p.isnan().any())]
    # What the build leaves blank may hold anything now, zeros too.
    odd = [n for n, p in parameters.items() if n not in explained and n not in blank and _garbage(p)]
    blank = [name for name in blank if name in parameters]
    largest = max((float(parameters[name].detach().abs().max()) for name in odd), default=0.0)
    yield from unwritten(blank, odd, largest)


def unwritten(blank: list[str], odd: list[str], largest: float) -> Iterator[Finding]:
    """Yield findings on parameters that were never written: those left `blank`, and those with `odd` values.

    `largest` is the largest magnitude of the latter.
    """
    if blank:
        yield Finding(kind="never-initialised", parameters=tuple(blank), sentence=words.blank(blank))
    if odd:
        sentence = words.odd_values(odd)
        yield Finding(kind="never-initialised", parameters=tuple(odd), measured=largest, sentence=sentence)


def alike(model: nn.Module, again: nn.Module) -> bool:
    """Return True if a second build `again` has the same names, shapes and, within error, standard deviations.

    If not, the model was changed after it was built, and its source builds another model.
    """
    one, two = dict(model.named_parameters()), dict(again.named_parameters())
    if {name: p.shape for name, p in one.items()} != {name: p.shape for name, p in two.items()}:
        return False
    for name, p in one.items():
        if p.dim() >= 2 and p.is_floating_point():
            first, second = standard_deviation(p), standard_deviation(two[name])
            if math.isfinite(first) and math.isfinite(second) and not close(first, second, 2 * tolerance(p.numel())):
                return False
    return True


def shared(model: nn.Module) -> Iterator[Finding]:
    """Yield a warning on matrices that hold the same random draw, and an info on names that share one tensor."""
    names = ParameterNames(model)
    memory: dict[tuple[int, int, int], list[str]] = {}
    for name, p in names.parameters.items():
        if p.numel():
            memory.setdefault((p.data_ptr(), p.numel(), p.element_size()), []).append(name)
    # Layers that were copied before their matrices were drawn share the draws of their biases, which does no harm.
    matrices = {first: p for first, *_ in memory.values() if (p := names.parameters[first]).dim() > 1}
    groups = repeated_draws(matrices)
    tied = {name: list(others) for name, others in names.aliases.items()}
    for first, *others in memory.values():
        if others:
            tied.setdefault(first, []).extend(others)
    yield from sharing(groups, tied)


def sharing(groups: Sequence[tuple[str, ...]], tied: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Yield a finding on groups of parameters that hold the same random draw, and one on tied parameters.

    `tied` maps the first name of a shared tensor to its other names.
    """
    if groups:
        every = [name for group in groups for name in group]
        yield Finding(
            kind="duplicated",
            parameters=tuple(dict.fromkeys(map(unstacked, every))),
            measured=float(len(every) - len(groups)),
            expected=0.0,
            sentence=words.duplicated(groups),
        )
    if tied:
        together = [(first, *others) for first, others in tied.items()]
        every = [name for group in together for name in group]
        yield Finding(kind="tied", parameters=tuple(every), sentence=words.tied(together))


def equal_shards(model: nn.Module) -> Iterator[Finding]:
    """Yield a finding on matrices of which several parts hold the same draw, as if parallel ranks had one seed."""
    found = {name: cut for name, p in ParameterNames(model).parameters.items() if (cut := equal_parts(p)) is not None}
    if found:
        parts, _, different = next(iter(found.values()))
        yield Finding(
            kind="equal-shards",
            parameters=tuple(found),
            measured=float(different),
            expected=float(parts),
            sentence=words.equal_shards(found),
        )


def missing(source: Rebuilder) -> Iterator[Finding]:
    """Yield a finding on the parameters that the stored files lack."""
    if source.missing:
        yield _missing(source.missing, words.missing(source.missing))


def _missing(names: tuple[str, ...], sentence: str) -> Finding:
    return Finding(kind="missing-keys", parameters=names, measured=float(len(names)), expected=0.0, sentence=sentence)


def reloaded(model: nn.Module, source: Rebuilder) -> Iterator[Finding]:
    """Yield findings on parameters that are changed or lost when the model is saved and loaded."""
    if sum(parameter.numel() for parameter in model.parameters()) > LARGEST_REBUILD:
        return
    own = hasattr(model, "save_pretrained") and hasattr(type(model), "from_pretrained")
    again, lost = _pretrained(model) if own else _state_dict(model, source)
    if again is not None:
        before, after = _stored(model), _stored(again)
        kept = {name: p for name, p in before.items() if name not in lost}
        changed = [name for name, p in kept.items() if name not in after or not same_values(p, after[name])]
        ratios = (_ratio(before[name], after[name]) for name in changed if name in after)
        measured = next((ratio for ratio in ratios if ratio is not None), None)
        if changed:
            yield Finding(
                kind="changed-by-reload",
                parameters=tuple(changed),
                measured=measured,
                expected=1.0,
                sentence=words.changed(changed, None if measured is None else (changed[0], measured)),
            )
    if lost:
        yield _missing(tuple(lost), words.lost(lost))


def _pretrained(model: Any) -> tuple[nn.Module | None, list[str]]:
    """Return the model after saving and loading it with its own methods, and the names that were lost.

    Uses files in a private folder, or the state dictionary where files cannot be written. (None, []) where both fail.
    """
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
    """Turn the library's progress bars and logging off; restore them on exit."""
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


def _state_dict(model: nn.Module, source: Rebuilder) -> tuple[nn.Module | None, list[str]]:
    """Return a model loaded from the state dictionary, and the names that were lost; (None, []) where that fails.

    It is loaded into a second build, or a copy, whose floating-point values were overwritten with NaN before.
    """
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
    return again, [name for name in result.missing_keys if name in dict(again.named_parameters())]


def _stored(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters, and the buffers that are saved with them, by name."""
    saved = model.state_dict().keys()
    return dict(model.named_parameters()) | {name: buffer for name, buffer in model.named_buffers() if name in saved}


def _ratio(before: torch.Tensor, after: torch.Tensor) -> float | None:
    if before.shape != after.shape or before.numel() < 2:
        return None
    one, two = standard_deviation(before), standard_deviation(after)
    return two / one if one > 0 and math.isfinite(two) else None


def _garbage(parameter: torch.Tensor) -> bool:
    if not parameter.is_floating_point():
        return False
    size = parameter.detach().abs()
    return bool((~size.isfinite() | (size > HUGE) | ((size > 0) & (size < TINY))).any())
