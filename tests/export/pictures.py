"""Pictures of every page, with short and long names, few points and many, by the page and figure that they are of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import pandas as pd

from core.audit.survey_table import shipped_survey
from core.compare.comparison import compare_recipes
from core.compare.comparison_tables import contribution_table, profile_table, share_table
from core.compare.drawing import drawing
from core.compare.drift_table import drift_table
from core.compare.overlays import depth_overlay_table, site_overlay_table
from core.compare.request import ComparisonRequest
from core.compare.token_cosines import token_cosine_table
from core.decoder.config import DecoderConfig
from core.figures import recipes, studies, sweep, theory
from core.figures.audit import depth_ratio_figure, writer_profile_figure
from core.figures.bars import count_figure, role_figure
from core.figures.block import block_figure
from core.figures.chart import Chart, Line, Picture
from core.figures.heat import heat_figure
from core.figures.matrix import Matrix
from core.figures.rows import drift_figure, growth_figure
from core.figures.sites import RATIO_TITLES, contribution_figure, ratio_figure, token_figure
from core.health.band import Band
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.lab.experiments import EXPERIMENTS, experiment
from core.lab.initializer import init_document
from core.plan.arithmetic import plan_document
from core.plan.presets import PRESETS
from core.recipes.catalogue import RECIPES, recipe
from core.sweep.grid import SweepGrid
from core.sweep.run import SweepRun
from core.sweep.store import Store
from core.tables import observe
from core.tables import studies as numbers
from core.tables.recipes import contribution_summary, overlay_summary, profile_summary
from core.tables.survey import kind_table, state_table, survey_table
from core.tables.sweep import difference_table, distribution_table, heat_table, series_names, series_table
from core.tables.writers import writer_table

SMALL = DecoderConfig(blocks=3)
HOSTILE = "layers.#.<b>down</b>.weight $x_1$ \u6df1\u5ea6 \t" + "very_long_name." * 12


def few() -> dict[str, Picture]:
    """One of each kind of drawing."""
    table = observe.site_table(observe_document(ObserveRequest(config=SMALL)))
    nodes, edges = drawing(recipe("depth-scaled").graph(SMALL), 2)
    run = swept((1, 4, 16), 12)
    cells = series_table(run.cells(), ())
    return {
        "ratio": ratio_figure.chart(table),
        "hostile": ratio_figure.chart(table.assign(recipe=HOSTILE)),
        "histogram": studies.histogram_figure.chart(numbers.histogram_table(init_document(8, 8, 17))),
        "share": sweep.distribution_figure.chart(distribution_table(cells, 16, "largest_activation_ratio")),
        "growth": growth_figure.chart(run.growth(), "input_adjoint_ratio"),
        "heat": heat_figure.chart(heat_table(cells[cells["recipe"] == "unscaled"], "largest_activation_ratio", Band())),
        "roles": role_figure.chart(numbers.role_table(plan_document(PRESETS["laptop"].request))),
        "block": block_figure.chart(nodes, edges, writer_table(SMALL, "depth-scaled", 2), "Block 2"),
        "edge": Chart(title="", x_title="x", y_title="a title " * 40, lines=[Line(name="none", x=[1.0], y=[math.nan])]),
        "matrix": large_matrix(),
        **pictures_of("norm-jacobian"),
    }


def large_matrix() -> Matrix:
    """Cells too many for numbers, so that a bar says what their colours mean."""
    names = [f"a rather long name {index}" for index in range(24)]
    values = [[row * column * 1e-7 - 1e-5 for column in range(24)] for row in range(24)]
    return Matrix(
        title="Matrix " * 30, rows=names, columns=names, values=values, x_title="to", y_title="from",
        bar_title="covariance of what is written by two blocks",
    )  # fmt: skip


def swept(blocks: tuple[int, ...], seeds: int) -> SweepRun:
    """A finished sweep of four recipes, one of them refused at one block."""
    names = ("depth-scaled", "unscaled", "deepscalelm", "rezero")
    run = SweepRun(SweepGrid(blocks=blocks, seeds=tuple(range(seeds)), recipes=names), Store.open(":memory:"))
    while run.pending:
        run.step(10)
    return run


def pictures_of(name: str) -> Mapping[str, Picture]:
    """The pictures of an experiment at its defaults."""
    view = experiment(name)
    options = view.options()
    return view.pictures(view.run(options), view.subject(options))


def all_pictures() -> Iterator[tuple[str, Picture]]:
    """Every figure of every page."""
    yield from few().items()
    yield from ((f"depth-{name}", one) for depth in (1, 64) for name, one in observed(depth))
    yield from compared()
    yield from swept_pictures()
    yield from judged()
    for name in EXPERIMENTS:
        yield from pictures_of(name).items()
    for known in RECIPES:
        if known.refusal is None:
            nodes, edges = drawing(known.graph(SMALL), 2)
            yield (
                f"block-{known.name}",
                block_figure.chart(nodes, edges, writer_table(SMALL, known.name, 2), known.name),
            )


def observed(depth: int) -> Iterator[tuple[str, Picture]]:
    """What the landing page shows."""
    document = observe_document(ObserveRequest(config=DecoderConfig(blocks=depth), recipe="gpt2"))
    tables = observe.observe_tables(document)
    for quantity in RATIO_TITLES:
        yield f"{quantity}-ratio", ratio_figure.chart(tables["sites"], Band(), quantity)
        yield f"{quantity}-ratio-linear", ratio_figure.chart(tables["sites"], Band(), quantity, log=False)
        yield f"{quantity}-rms", token_figure.chart(tables["tokens"], quantity)
    for column in ("contribution_to_stream", "contribution_rms", "cosine"):
        yield column, contribution_figure.chart(tables["contributions"], column)


def compared() -> Iterator[tuple[str, Picture]]:
    """What the pages Recipes and Depth sweep show of several recipes, their names long."""
    names = ("unscaled", "gpt2", "rezero", "parallel", "peri-norm", "depth-scaled")
    request = ComparisonRequest(recipes=names, config=SMALL, seeds=(1, 2, 3))
    found, run = compare_recipes(request), swept((1, 2, 4), 3)
    rows = profile_table(found)
    tokens = token_cosine_table(ComparisonRequest(recipes=("gpt2",), config=SMALL, seeds=(1, 2)))
    sites = overlay_summary(site_overlay_table(found)).query("recipe == 'gpt2'")
    depths = overlay_summary(depth_overlay_table(run.rows(recipe="unscaled"), SMALL))
    summary = run.summary()
    yield "profile", recipes.profile_figure.chart(profile_summary(rows, share_table(rows)), spread=True)
    yield "depth", recipes.depth_figure.chart(summary, spread=True)
    yield "share-within", recipes.share_figure.chart(summary)
    contributions = contribution_summary(contribution_table(found))
    for measure in ("raw_rms", "cosine"):
        yield f"branch-{measure}", recipes.branch_figure.chart(contributions, measure, "attention", spread=True)
    yield "tokens", recipes.cosine_figure.chart(tokens, "attention")
    for name, table, x in (("sites", sites, "site"), ("depths", depths, "blocks")):
        yield f"theory-{name}", theory.overlay_figure.chart(table, x)
        yield f"error-{name}", theory.error_figure.chart(table, x)
    yield "drift", drift_figure.chart(drift_table(request), "adjoint")


def swept_pictures() -> Iterator[tuple[str, Picture]]:
    """A sweep with many seeds and one of a single depth."""
    for blocks, seeds in (((1, 2, 3, 4, 6, 8, 12, 16, 24, 32), 40), ((16,), 9), ((1, 2), 200)):
        run = swept(blocks, seeds)
        named = series_table(run.summary(), ())
        order, cells = series_names(named), series_table(run.cells(), ())
        for quantity in ("largest_activation_ratio", "input_adjoint_ratio"):
            yield f"ribbon-{blocks}-{quantity}", sweep.ribbon_figure.chart(named, Band(), quantity, order=order)
        differences = series_table(difference_table(run.summary()), ())
        yield f"paired-{blocks}", sweep.difference_figure.chart(differences, order=order)
        heat = heat_table(cells[cells["recipe"] == "unscaled"], "largest_adjoint_ratio", Band(0.5, 20))
        yield f"heat-{blocks}", heat_figure.chart(heat, Band(0.5, 20), "largest_adjoint_ratio")
        spread = distribution_table(cells, blocks[-1], "largest_adjoint_ratio")
        yield f"distribution-{blocks}", sweep.distribution_figure.chart(spread, "largest_adjoint_ratio", order=order)


def judged() -> Iterator[tuple[str, Picture]]:
    """Audit, survey, initialization, bands and plans."""
    rows, _ = shipped_survey()
    yield "states", count_figure.chart(state_table(rows), "state")
    yield "kinds", count_figure.chart(kind_table(rows), "kind")
    yield "depth-ratios", depth_ratio_figure.chart(survey_table(rows))
    groups = [f"model.layers.#.{name}.weight" for name in ("self_attn.o_proj", "mlp.down_proj", "moe.experts.down")]
    cells = [(name, block, (2 * block + 2) ** -0.5) for name in groups for block in range(12)]
    profile = pd.DataFrame(cells, columns=["group", "block", "ratio"]).assign(tolerance=0.08, unscaled=1.4)
    for rule in ("block-indexed", None):
        yield f"writers-{rule}", writer_profile_figure.chart(profile, rule)
    document = init_document(64, 64, 17)
    yield "histogram", studies.histogram_figure.chart(numbers.histogram_table(document))
    yield "propagation", studies.propagation_figure.chart(numbers.propagation_table(document))
    yield "judged", studies.judged_figure.chart(numbers.judged_table([1e-9, 0.01, 1.0, 100.0, 1e12]), Band())
    for name, preset in PRESETS.items():
        yield f"roles-{name}", role_figure.chart(numbers.role_table(plan_document(preset.request)))
