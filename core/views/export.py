"""Files of tables, figures and whole reports: exact numbers, no spreadsheet formula, no request to anywhere.

The same input gives the same bytes; nothing here reads a clock, a host name or a random number.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from core.errors import StorageError
from core.files import check_file, check_folder, refusal, replacing

# A spreadsheet reads a cell that begins like this as a formula, full-width forms and hidden characters included.
_FORMULA = re.compile("[\\s\u200b\ufeff]*[=+\\-@＝＋－＠]|[ \u00a0\u200b\ufeff\u3000]*[\t\r\n]")
# Plotly's own "Share chart" would send the figure to a server outside; nothing here does anything with a selection.
MAX_HEADER = 2**16
MODEBAR = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d"],
}
STYLE = """
:root{color-scheme:light}body{font:16px/1.5 system-ui,sans-serif;color:#1a1a1a;margin:2rem auto;max-width:70rem;
padding:0 1rem}h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2rem}.scroll{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.85rem}
th,td{padding:.2rem .6rem;border-bottom:1px solid #e3e6eb;text-align:right;white-space:nowrap}
th{text-align:left;background:#f3f5f8}td.text{text-align:left}p{max-width:60rem}
"""


def csv_text(table: pd.DataFrame) -> str:
    """The table as CSV: floats in full, missing values empty, text that would be a formula led by an apostrophe."""
    safe = table.copy(deep=False)
    safe.columns = pd.Index([defused(str(name)) for name in table.columns])
    for index, name in enumerate(table.columns):
        column = table[name]
        if not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)):
            safe.isetitem(index, [defused(cell) for cell in column])
    text = safe.to_csv(index=False, lineterminator="\n")
    # The writer quotes only what holds its own line end, and a bare carriage return would end a line elsewhere.
    return text if "\r" not in text else safe.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)


def defused(cell: Any) -> Any:
    """A text cell that no spreadsheet runs as a formula; anything but text is handed on."""
    return "'" + cell if isinstance(cell, str) and _FORMULA.match(cell) else cell


def json_text(table: pd.DataFrame) -> str:
    """The table as a JSON list of rows: floats in full, missing values null, infinities as text."""
    names = [str(name) for name in table.columns]
    columns = [[plain_value(value) for value in table[name].tolist()] for name in table.columns]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return json.dumps(rows, allow_nan=False, indent=1, ensure_ascii=False) + "\n"


def plain_value(value: Any) -> Any:
    """A cell as JSON holds it; NaN is null and an infinity is the text `inf` or `-inf`."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or value is pd.NA:
        return None
    return value if isinstance(value, bool | int | float | str) else str(value)


def write_tables(folder: str | os.PathLike[str], tables: Mapping[str, pd.DataFrame]) -> list[Path]:
    """Write `{name}.csv` for every table into `folder`, which is made: all of them or none.

    A file there with other columns than the table's is somebody's own and is not replaced. Raises `StorageError`.
    """
    check_tables(folder, {name: list(table.columns) for name, table in tables.items()})
    place = Path(folder)
    written = [place / f"{name}.csv" for name in tables]
    try:
        place.mkdir(parents=True, exist_ok=True)
        with replacing(*written) as asides:
            for aside, table in zip(asides, tables.values(), strict=True):
                aside.write_text(csv_text(table), encoding="utf-8", newline="")
    except OSError as error:
        raise StorageError(f"The tables cannot be written to {place}: {error.strerror or error}.") from error
    return written


def check_tables(folder: str | os.PathLike[str], columns: Mapping[str, Iterable[object]], option: str = "") -> None:
    """Refuse a folder that tables of these columns, by name, cannot be written to; raises `StorageError`.

    A CSV of a table's name is replaced only where its header is that table's, or where it is empty.
    """
    check_folder(folder, option)
    for name, header in columns.items():
        path = Path(folder) / f"{name}.csv"
        check_file(path, option, [Path(os.path.realpath(folder))])
        if _header(path) not in ([], [defused(str(column)) for column in header]):
            reason = f"it holds a {path.name} of other columns than this table's; give another folder"
            raise refusal(folder, option, reason, "folder")


def _header(path: Path) -> list[str]:
    """The cells of a file's first line; none where there is no file or nothing in it."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as stream:
            return next(csv.reader([stream.readline(MAX_HEADER)]), [])
    except FileNotFoundError:
        return []
    except (OSError, csv.Error) as error:
        raise StorageError(f"The file {path} cannot be read: {error}; give another folder.") from error


def figure_json(figure: go.Figure) -> str:
    """The figure as Plotly JSON, arrays as plain numbers."""
    return json.dumps(_plain_figure(figure), allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def figure_html(title: str, figure: go.Figure) -> str:
    """One figure as a page of its own that loads nothing."""
    return html_report(title, {}, {title: figure})


def html_report(
    title: str,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, go.Figure],
    paragraphs: Sequence[str] = (),
    *,
    script: str | None = None,
) -> str:
    """A self-contained page: paragraphs, figures, then tables.

    Its content-security-policy allows the page's own two scripts by their digests and no request at all. `script` names
    a file beside the page that holds Plotly; without it Plotly is written into the page.
    """
    parts = [f"<h1>{html.escape(title)}</h1>", *(f"<p>{html.escape(text)}</p>" for text in paragraphs)]
    for index, name in enumerate(figures):
        parts.append(f'<h2>{html.escape(name)}</h2><div id="figure-{index}" role="img"></div>')
    parts += [
        f'<h2>{html.escape(name)}</h2><div class="scroll" tabindex="0">{table_html(table)}</div>'
        for name, table in tables.items()
    ]
    scripts, allowed = _scripts(list(figures.values()), script)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + f"\n{scripts}</body>\n</html>\n"
    )


def table_html(table: pd.DataFrame) -> str:
    """The table as HTML with every cell escaped and floats in full."""
    head = "".join(f'<th scope="col">{html.escape(str(name))}</th>' for name in table.columns)
    columns = [table[name].tolist() for name in table.columns]
    rows = ["<tr>" + "".join(map(_cell, row)) + "</tr>" for row in zip(*columns, strict=True)]
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n" + "\n".join(rows) + "\n</tbody></table>"


def _cell(value: Any) -> str:
    value = plain_value(value)
    if isinstance(value, str):
        return f'<td class="text">{html.escape(value)}</td>'
    return f"<td>{'' if value is None else html.escape(repr(value))}</td>"


def _scripts(figures: list[go.Figure], file: str | None) -> tuple[str, str]:
    """The script elements, and the policy's sources that allow them and nothing else."""
    if not figures:
        return "", "'none'"
    data = json.dumps([_plain_figure(figure) for figure in figures], allow_nan=False, separators=(",", ":"))
    # A `</script>` inside a name would end the element; JSON allows the escaped slash.
    data = data.replace("</", "<\\/").replace("<!--", "<\\u0021--")
    options = json.dumps(MODEBAR, separators=(",", ":"))
    drawing = f"{data}.forEach((f,i)=>Plotly.newPlot('figure-'+i,f.data,f.layout,{options}));"
    inner = f"<script>{drawing}</script>\n"
    if file is not None:
        return f'<script src="{html.escape(file)}"></script>\n{inner}', f"'self' file: {_digest(drawing)}"
    library = get_plotlyjs()
    return f"<script>{library}</script>\n{inner}", f"{_digest(library)} {_digest(drawing)}"


def _digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _plain_figure(figure: go.Figure) -> dict[str, Any]:
    found = _plain_tree(figure.to_dict())
    assert isinstance(found, dict)
    found.get("layout", {}).pop("template", None)
    return found


def _plain_tree(value: Any) -> Any:
    """Plotly's tree with arrays, also its packed ones, as lists and nonfinite numbers as null."""
    if isinstance(value, dict):
        if set(value) >= {"dtype", "bdata"}:
            packed = np.frombuffer(base64.b64decode(value["bdata"]), dtype=np.dtype(value["dtype"]))
            shape = [int(size) for size in str(value.get("shape", packed.size)).split(",")]
            return _plain_tree(packed.reshape(shape).tolist())
        return {key: _plain_tree(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain_tree(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain_tree(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if isinstance(value, np.generic) else value
