"""Figures and reports as HTML that needs no network.

The same input gives the same bytes; nothing here depends on the time, the machine or a random number.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from .json import plain_figure, plain_value

# Plotly's own "Share chart" would send the figure to a server outside; nothing here does anything with a selection; and
# an image that a browser makes has the fonts of its machine, where the exported ones look the same everywhere.
MODEBAR = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d", "toImage"],
}
# What each figure does once it stands: it makes room for a wider font and for a narrow screen's legend.
SETTLE = Path(__file__).with_name("settle.js").read_text(encoding="utf-8").strip()
STYLE = """
:root{color-scheme:light}body{font:16px/1.5 system-ui,sans-serif;color:#1a1a1a;margin:2rem auto;max-width:70rem;
padding:0 1rem}h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2rem}.scroll{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.85rem}
th,td{padding:.2rem .6rem;border-bottom:1px solid #e3e6eb;text-align:right;white-space:nowrap}
th{text-align:left;background:#f3f5f8}td.text{text-align:left}p{max-width:60rem}
"""


def html_report(
    title: str,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, go.Figure],
    paragraphs: Sequence[str] = (),
    *,
    script: str | None = None,
) -> str:
    """Return a page as HTML text: paragraphs, figures, then tables.

    Its content security policy allows no request, and only the page's own scripts. `script` names a file beside the
    page that contains Plotly; if None, Plotly is written into the page.
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
    """Return a table as HTML text, with all cells escaped and floats in full."""
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
    """Return the script elements, and the sources of the policy that allow them and nothing else."""
    if not figures:
        return "", "'none'"
    data = json.dumps([plain_figure(figure) for figure in figures], allow_nan=False, separators=(",", ":"))
    # A `</script>` inside a name would end the element; JSON allows the escaped slash.
    data = data.replace("</", "<\\/").replace("<!--", "<\\u0021--")
    options = json.dumps(MODEBAR, separators=(",", ":"))
    drawing = f"{data}.forEach((f,i)=>Plotly.newPlot('figure-'+i,f.data,f.layout,{options}).then({SETTLE}));"
    inner = f"<script>{drawing}</script>\n"
    if file is not None:
        return f'<script src="{html.escape(file)}"></script>\n{inner}', f"'self' file: {_digest(drawing)}"
    library = get_plotlyjs()
    return f"<script>{library}</script>\n{inner}", f"{_digest(library)} {_digest(drawing)}"


def _digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
