"""Figures of the audit: the standard deviation of the matrices that end a branch, over the blocks and at two depths."""

from __future__ import annotations

import math

import pandas as pd

from .chart import Chart, Drawn, Line, Strip
from .series import BLOCK_AXIS, TALL
from .style import Style, place_style

# What the ratio of the deeper model is to that of the smaller one, where writers follow nothing and where a rule.
SLOPES = {"no depth rule": (1.0, "longdash"), "falls as 1/√L": (2**-0.5, "dot")}


@Drawn
def writer_profile_figure(profile: pd.DataFrame, rule: str | None) -> Chart:
    """Plot the standard deviation of each group of writers (matrices that end a branch) over the blocks.

    It is multiplied by the factor on the branch in the forward, and divided by the value that `rule` declares, or by
    the base standard deviation if there is no rule. The shaded strip is the deviation that sampling allows for one
    matrix; the dotted line is a writer that keeps the base standard deviation.
    """
    around = profile["tolerance"].max()
    strips = [Strip(1 / (1 + around), 1 + around, f"sampling, ±{around:.0%} at most")] if math.isfinite(around) else []
    lines = [
        Line.labelled(rows.assign(label=_labels(rows)), "block", "ratio", str(name), place_style(place))
        for place, (name, rows) in enumerate(profile.groupby("group", sort=False))
    ]
    bare = profile.drop_duplicates("block").sort_values("block")
    if len(bare) and bare["unscaled"].notna().all() and (bare["unscaled"] - 1).abs().max() > 0:
        options = {"hover": "left at the base: %{y:.6g}", "width": 1.5}
        dotted = Style("ink", dash="dot")
        lines.append(Line.labelled(bare, "block", "unscaled", "a writer left at the base", dotted, "thin", **options))
    return Chart(
        title="Writers over the blocks",
        subject=f"std over what {rule} declares" if rule else "std over the base; no rule is declared",
        x_title=BLOCK_AXIS, y_title="ratio to declared" if rule else "ratio to the base", lines=lines, strips=strips,
        levels=[(1.0, "as declared, ratio 1" if rule else "the base, ratio 1")], whole_x=True,
    )  # fmt: skip


@Drawn
def depth_ratio_figure(table: pd.DataFrame) -> Chart:
    """Plot writer std / reader std of every model family: the deeper model against the smaller one.

    Writers are the matrices that end a branch, readers those that a branch begins with. One row of `table` is one
    family. If its writers do not depend on the depth, it is on the line of equal ratios; if they follow (2L)^(-1/2) for
    L blocks and the depth doubles, it is below by 1/sqrt(2).
    """
    rows = table.dropna(subset=["ratio_shallow", "ratio_deep"])
    end = 1.05 * max([*rows["ratio_shallow"], *rows["ratio_deep"]], default=1.0)
    slopes = [
        Line(name=name, x=[0, end], y=[0, end * slope], look="thin", style=Style("muted", dash=dash), width=1.5)
        for name, (slope, dash) in SLOPES.items()
    ]
    points = [
        Line(
            name=str(kind), x=found["ratio_shallow"].tolist(), y=found["ratio_deep"].tolist(), look="points",
            index=index, labels=found["family"].tolist(), keys=found["family"].tolist(),
            hover="%{text}<br>%{x:.4g}, deeper %{y:.4g}",
        )
        for index, (kind, found) in enumerate(rows.groupby("kind", sort=True))
    ]  # fmt: skip
    return Chart(
        title="Writer over reader standard deviation", x_title="smaller model", y_title="deeper model",
        lines=[*slopes, *points], log_y=False, x_range=(0, end), y_range=(0, end), **TALL,
    )  # fmt: skip


def _labels(rows: pd.DataFrame) -> list[str]:
    return [f"{group}, block {block}" for group, block in zip(rows["group"], rows["block"], strict=True)]
