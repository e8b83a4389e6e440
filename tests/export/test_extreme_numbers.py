"""Row 27 of the cases: a tiny value, a zero on a log axis, infinities, NaN and a name that begins with "="."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

from core.export.csv import csv_text
from core.export.html import html_report
from core.export.json import figure_json, json_text
from core.figures.sites import site_figure
from core.tables.observe import site_table


def test_extreme_numbers_are_exact_in_files_and_told_on_log_axes(document: dict[str, Any]) -> None:
    table = site_table(document)
    extremes = [1.3e-8, 0.0, math.inf, -math.inf, math.nan, 5e-324]
    table.loc[: len(extremes) - 1, "activation_rms"] = extremes
    table.loc[0, "label"] = "=1+1"
    rows = list(csv.DictReader(io.StringIO(csv_text(table))))
    assert [row["activation_rms"] for row in rows[:4]] == ["1.3e-08", "0.0", "inf", "-inf"]
    assert rows[4]["activation_rms"] == ""
    assert float(rows[5]["activation_rms"]) == 5e-324
    assert rows[0]["label"] == "'=1+1"
    assert [row["activation_rms"] for row in json.loads(json_text(table))[:5]] == [1.3e-8, 0.0, "inf", "-inf", None]
    figure = site_figure(table, "activation_rms", title="RMS", y_title="RMS")
    assert json.loads(figure_json(figure))["data"][0]["y"][:6] == [1.3e-8, None, None, None, None, 5e-324]
    told = site_figure.chart(table, "activation_rms", title="RMS", y_title="RMS").undrawn
    assert [text.rsplit(", ", 1)[1] for text in told] == ["0", "inf", "-inf", "nan"]
    assert "<td>1.3e-08</td>" in html_report("t", {"t": table}, {"f": figure})
