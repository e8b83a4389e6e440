"""One block of a decoder's graph as two tables from which it can be drawn: nodes on a grid, and edges between them.

The residual stream runs along row 0, one step per column. The branches of an addition leave it for row 1 and return at
the sum; the second branch of a parallel addition is in row -1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from ..decoder.graph import NORM_TITLES, Addition, Branch, Coefficient, Graph, Norm
from .equations import MODULES, WORDS

NODE_COLUMNS = ("node", "kind", "label", "column", "row", "site")
EDGE_COLUMNS = ("source", "target", "path")
BRANCH_ROWS = (1, -1)


@dataclass
class _Sheet:
    site: int
    nodes: list[tuple[str, str, str, int, int, int | None]] = field(default_factory=list)
    edges: list[tuple[str, str, str]] = field(default_factory=list)

    def put(self, kind: str, label: str, column: int, row: int, after: str | None, path: str) -> str:
        name = f"{kind} {len(self.nodes)}"
        self.nodes.append((name, kind, label, column, row, self.site if kind == "state" else None))
        self.site += kind == "state"
        if after is not None:
            self.edges.append((after, name, path))
        return name


def drawing(graph: Graph, block: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables of nodes (`NODE_COLUMNS`) and edges (`EDGE_COLUMNS`) of one block.

    Coefficients are those of that block. `kind` of a node is state, norm, branch, coefficient or sum; `path` of an edge
    is stream or branch. Columns count from 0; rows are -1, 0 and 1. Only states have a `site`, the index of the
    residual state. The last block ends in the final norm, if the graph has one.
    """
    sheet = _Sheet(site=sum(len(earlier) for earlier in graph.blocks[:block]))
    here, column = sheet.put("state", "x", 0, 0, None, "stream"), 0
    for addition in graph.blocks[block]:
        here, column = _draw_addition(sheet, addition, here, column)
    if block == len(graph.blocks) - 1 and graph.final_norm is not None:
        sheet.put("norm", f"final {_norm_label(graph.final_norm)}", column + 1, 0, here, "stream")
    return (
        pd.DataFrame(sheet.nodes, columns=list(NODE_COLUMNS)).astype({"site": "Int64"}),
        pd.DataFrame(sheet.edges, columns=list(EDGE_COLUMNS)),
    )


def _draw_addition(sheet: _Sheet, addition: Addition, start: str, column: int) -> tuple[str, int]:
    ends, furthest = [], column + 1
    for row, branch in zip(BRANCH_ROWS, addition.branches, strict=False):
        end, last = _draw_branch(sheet, branch, start, column, row)
        ends.append(end)
        furthest = max(furthest, last)
    stream = start
    if addition.shortcut != 1.0:
        stream = sheet.put("coefficient", _coefficient(addition.shortcut), column + 1, 0, start, "stream")
    column = furthest + 1
    total = sheet.put("sum", "+", column, 0, stream, "stream")
    sheet.edges += [(end, total, "branch") for end in ends]
    if addition.norm_after is not None:
        column += 1
        total = sheet.put("norm", _norm_label(addition.norm_after), column, 0, total, "stream")
    column += 1
    return sheet.put("state", addition.label.replace("_", " "), column, 0, total, "stream"), column


def _draw_branch(sheet: _Sheet, branch: Branch, start: str, column: int, row: int) -> tuple[str, int]:
    steps = [
        ("norm", _norm_label(branch.norm_in)),
        ("branch", WORDS[MODULES[branch.kind]]),
        ("norm", _norm_label(branch.norm_out)),
        ("coefficient", "" if branch.coefficient == 1.0 else _coefficient(branch.coefficient)),
    ]
    here = start
    for kind, label in (step for step in steps if step[1]):
        column += 1
        here = sheet.put(kind, label, column, row, here, "branch")
    return here, column


def _coefficient(value: Coefficient) -> str:
    return "w, measured" if isinstance(value, str) else f"times {value:.4g}"


def _norm_label(norm: Norm | None) -> str:
    """Return a norm's name and factor; an empty string for None."""
    if norm is None:
        return ""
    name = NORM_TITLES[norm.kind]
    return name if norm.factor == 1.0 else f"{name} times {norm.factor:.4g}"
