"""Golden files: what an audit found, stored beside the code, so that a change with a new library version shows."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ... import __version__
from ...errors import StorageError
from ...files import write_text
from ...strict_json import read_json

SCHEMA = "depthscope.golden/1"
# Two builds of one seed agree to the last bits; another order of summing moves a standard deviation less than this.
RELATIVE = 1e-6
MAX_BYTES = 2**26


def golden_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a golden file stores, as a dict.

    It is the verdict, the findings by kind and name, the additions, and the scale of writers and readers (the matrices
    that end and begin branches).
    """
    conformance = document["conformance"] or {}
    rows = [*document["writers"], *document.get("readers", ())]
    return {
        "schema": SCHEMA,
        "version": __version__,
        "class": document["model"]["class"],
        "blocks": document["model"]["blocks"],
        "parameters": document["model"]["parameters"],
        "rule": conformance.get("rule"),
        "verdict": conformance.get("verdict"),
        "findings": [{"kind": f["kind"], "parameters": f["parameters"]} for f in conformance.get("findings", ())],
        "additions": [
            {"label": a["label"], "coefficient": a["coefficient"], "norm_after": a["norm_after"]}
            for a in document["additions"]
        ],
        "matrices": {
            row["name"] + row.get("part", ""): {
                "std": row["std"],
                "distribution": row["distribution"],
                "ratio": row["ratio"],
                "draw": row.get("draw"),
            }
            for row in rows
        },
    }


def compare_golden(kept: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Return one sentence per change from `kept` to `found`: verdict first, then findings, structure and matrices.

    Empty if nothing changed.
    """
    changes = [
        f"{key} was {kept.get(key)!r} and is {found[key]!r}"
        for key in ("verdict", "rule", "class", "blocks", "parameters")
        if kept.get(key) != found[key]
    ]
    before, after = _findings(kept), _findings(found)
    changes += [f"finding {kind} on {name} is gone" for kind, name in before if (kind, name) not in after]
    changes += [f"finding {kind} on {name} is new" for kind, name in after if (kind, name) not in before]
    if kept.get("additions") != found["additions"]:
        changes += _additions(kept.get("additions") or [], found["additions"])
    return changes + _matrices(kept.get("matrices") or {}, found["matrices"])


def read_golden(path: str | Path) -> Mapping[str, Any] | None:
    """Return the content of a golden file as a mapping; None if there is no file.

    Raises `StorageError` if it cannot be read or is not a golden file.
    """
    if not os.path.exists(path):
        return None
    kept = read_json(path, max_bytes=MAX_BYTES)
    if not isinstance(kept, dict) or kept.get("schema") != SCHEMA or not _is_whole(kept):
        raise StorageError(f"{path} is no golden file of an audit; give another path, or delete it to write one.")
    return kept


def _is_whole(kept: Mapping[str, Any]) -> bool:
    """Return whether the parts that are compared have the right types; an edit or a merge may have broken them."""
    findings, additions, matrices = kept.get("findings"), kept.get("additions"), kept.get("matrices")
    return (
        isinstance(findings, list)
        and all(isinstance(row, dict) and isinstance(row.get("kind"), str) for row in findings)
        and all(isinstance(row.get("parameters"), list) for row in findings)
        and all(isinstance(name, str) for row in findings for name in row["parameters"])
        and isinstance(additions, list)
        and isinstance(matrices, dict)
        and all(isinstance(row, dict) and {"distribution", "std"} <= set(row) for row in matrices.values())
        and all(_is_number(row["std"]) for row in matrices.values())
    )


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def check_golden(path: str | Path, document: Mapping[str, Any], *, write: bool = True) -> list[str] | None:
    """Compare a document with the golden file at `path`; return one sentence per change.

    Returns None if there is no file; it is then written if `write`. Raises `StorageError`.
    """
    kept, found = read_golden(path), golden_document(document)
    if kept is not None:
        return compare_golden(kept, found)
    if write:
        write_text(path, json.dumps(found, indent=1, allow_nan=False) + "\n")
    return None


def _findings(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = []
    for finding in document.get("findings") or ():
        pairs += [(finding["kind"], name) for name in finding["parameters"] or ["the model"]]
    return pairs


def _additions(kept: list[Any], found: list[Any]) -> list[str]:
    if len(kept) != len(found):
        return [f"{len(kept)} additions are {len(found)} now"]
    return [
        f"addition {new['label']} was {old} and is {new}" for old, new in zip(kept, found, strict=True) if old != new
    ]


def _matrices(kept: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    changes = [f"{name} is gone" for name in kept if name not in found]
    changes += [f"{name} is new" for name in found if name not in kept]
    shifted = [name for name in found if name in kept and kept[name].get("draw") != found[name]["draw"]]
    if shifted:
        changes.append(f"the base draws differ from {shifted[0]} on ({len(shifted)} matrices)")
    for name, row in found.items():
        old = kept.get(name)
        if old is None:
            continue
        if old["distribution"] != row["distribution"]:
            changes.append(f"{name} was {old['distribution']} and is {row['distribution']}")
        if not _close(old["std"], row["std"]):
            times = f", {row['std'] / old['std']:.4g} times" if old["std"] and row["std"] else ""
            changes.append(f"the std of {name} was {old['std']!r} and is {row['std']!r}{times}")
    return changes


def _close(one: float | None, two: float | None) -> bool:
    if one is None or two is None:
        return one is two
    return math.isclose(one, two, rel_tol=RELATIVE)
