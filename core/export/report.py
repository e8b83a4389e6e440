"""The report of a page, to read and print: the result, two figures, the setting and the link.

It loads nothing and runs no script, and it prints on at most three sheets of A4. Exact tables and the other figures are
in separate files.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from .. import __version__
from .manifest import Export
from .pictures import image

FIGURES = 2
# Paragraphs and characters of one that are printed; the rest is counted and stands in the other files.
MOST_PARAGRAPHS, MOST_LETTERS = 12, 700
MOST_SETTINGS = 48
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
STYLE = """
@page{size:A4;margin:14mm}
:root{color-scheme:light}body{font:15px/1.5 system-ui,sans-serif;color:#1a1a1a;margin:2rem auto;max-width:46rem;
padding:0 1rem;overflow-wrap:anywhere}h1{font-size:1.5rem;margin:0 0 .6rem}h2{font-size:1.1rem;margin:1.2rem 0 .4rem}
p{margin:.4rem 0}.lead{font-size:1.05rem;font-weight:600;border-left:4px solid #0072b2;padding-left:.7rem}
figure{margin:.8rem 0}img{width:100%;max-height:78vh;object-fit:contain;object-position:left}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(13rem,1fr));gap:.1rem 1.2rem;margin:0;font-size:.85rem}
dl div{display:flex;gap:.5rem;border-bottom:1px solid #e3e6eb}dt{color:#555b66;flex:none}dd{margin:0 0 0 auto}
footer{font-size:.85rem;color:#555b66;margin-top:1rem}
@media print{body{font-size:10pt;margin:0;max-width:none;padding:0}figure,dl div,p{break-inside:avoid}
h2{break-after:avoid}img{max-height:105mm}dl{grid-template-columns:repeat(3,1fr)}}
"""


def report_html(
    title: str, lead: str, paragraphs: Sequence[str], figures: Mapping[str, go.Figure], export: Export
) -> str:
    """Return the report as HTML text: title, verdict (`lead`), the first two of `figures`, then the findings.

    `paragraphs` are the findings, of which at most twelve are shown; `export` gives the setting and the link.
    """
    shown = list(figures.items())[:FIGURES]
    parts = [f"<h1>{html.escape(title)}</h1>"]
    parts += [f'<p class="lead">{html.escape(lead)}</p>'] if lead else []
    parts += [_figure(name, figure) for name, figure in shown]
    parts += _findings(paragraphs)
    parts += _setting({**export.record, **export.saved.setting})
    parts.append(f"<footer><p>{html.escape(_origin(export))}</p></footer>")
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _figure(name: str, figure: go.Figure) -> str:
    data = base64.b64encode(image(figure, "svg")).decode()
    words = html.escape(name.replace("-", " "), quote=True)
    return f'<figure><img alt="{words}" src="data:image/svg+xml;base64,{data}"></figure>'


def _findings(paragraphs: Sequence[str]) -> list[str]:
    if not paragraphs:
        return []
    left = len(paragraphs) - MOST_PARAGRAPHS
    more = [f"{left} more paragraphs stand in the exported files."] if left > 0 else []
    short = [text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…" for text in paragraphs]
    return ["<h2>Findings</h2>", *(f"<p>{html.escape(text)}</p>" for text in [*short[:MOST_PARAGRAPHS], *more])]


def _setting(values: Mapping[str, Any]) -> list[str]:
    cells = list(_flat(values))
    rows = [
        f"<div><dt>{html.escape(key)}</dt><dd>{html.escape(text)}</dd></div>" for key, text in cells[:MOST_SETTINGS]
    ]
    return ["<h2>Setting</h2>", f"<dl>{''.join(rows)}</dl>"] if rows else []


def _flat(values: Mapping[str, Any], depth: int = 1) -> Iterator[tuple[str, str]]:
    """Yield names as words with their values, also of nested mappings; numbers are rounded, long lists left out."""
    for key, value in values.items():
        if isinstance(value, Mapping) and depth:
            yield from _flat(value, depth - 1)
        elif (text := _text(value)) is not None:
            yield str(key).replace("_", " "), text


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple) and 0 < len(value) <= 8:
        parts = [_text(part) for part in value]
        return ", ".join(part for part in parts if part is not None)
    return value[:80] if isinstance(value, str) and value else None


def _origin(export: Export) -> str:
    """Return where the same page can be opened again, and which versions made this one."""
    link = f"The same setting in the dashboard: {export.page}?{export.query}. " if export.query else ""
    return f"{link}Made by Depthscope {__version__}; the exported zip holds every table and figure."
