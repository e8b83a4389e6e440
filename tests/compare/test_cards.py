"""Contract cards, drawings and differences: rendered from the data, complete, and true to the numbers."""

from __future__ import annotations

import json
import math

import pytest

from core.compare.card import card, cards
from core.compare.difference import difference_table
from core.compare.drawing import EDGE_COLUMNS, NODE_COLUMNS, drawing
from core.compare.equations import graph_equations
from core.decoder.base_draw import Distribution
from core.decoder.config import DecoderConfig
from core.decoder.parameters import layout
from core.errors import RecipeError
from core.recipes.catalogue import RECIPES, recipe
from core.recipes.recipe import Recipe

RUNNABLE = [known for known in RECIPES if known.refusal is None]
# Written from the published graphs: A attention, M feed-forward, N the decoder's own norm.
EQUATIONS = {
    "unscaled": ["x <- x + A(N(x))", "x <- x + M(N(x))", "last state through N(x)"],
    "lns": ["x <- x + A((l+1)^(-1/2) N(x))", "x <- x + M((l+1)^(-1/2) N(x))", "last state through N(x)"],
    "completep": ["x <- x + (L/2)^(-1) A(N(x))", "x <- x + (L/2)^(-1) M(N(x))", "last state through N(x)"],
    "skipinit": ["x <- x + 0 A(x)", "x <- x + 0 M(x)", "last state through N(x)"],
    "fixup": ["x <- x + A(x)", "x <- x + M(x)", "last state through N(x)"],
    "post-norm": ["x <- N(x + A(x))", "x <- N(x + M(x))", "no final norm"],
    "deepnorm": ["x <- N((2L)^(1/4) x + A(x))", "x <- N((2L)^(1/4) x + M(x))", "no final norm"],
    "peri-norm": ["x <- x + N(A(N(x)))", "x <- x + N(M(N(x)))", "last state through N(x)"],
    "parallel": ["x <- x + A(N(x)) + M(N(x))", "last state through N(x)"],
    "dyt": [
        "x <- x + A(tanh(0.5 x))", "x <- x + M(tanh(0.5 x))", "input embedding times d^(1/2)",
        "last state through tanh(0.5 x)",
    ],
}  # fmt: skip


class TestCards:
    """One card a recipe, at any sizes."""

    @pytest.mark.parametrize("known", RECIPES, ids=lambda known: known.name)
    def test_every_recipe_has_a_complete_card(self, known: Recipe) -> None:
        found = card(known.name)
        assert found.title
        assert found.source
        assert found.evidence in ("paper", "implementation read", "derived here")
        assert found.law
        assert found.graph
        assert (found.refusal is None) == (known.refusal is None)
        json.dumps(found.document(), allow_nan=False)

    def test_the_cards_stand_in_the_order_of_the_recipes(self) -> None:
        assert [found.name for found in cards(DecoderConfig(blocks=2))] == [known.name for known in RECIPES]

    @pytest.mark.parametrize("name", EQUATIONS)
    def test_graphs_in_words(self, name: str) -> None:
        assert graph_equations(recipe(name).topology) == EQUATIONS[name]

    def test_graphs_in_one_line(self) -> None:
        assert card("peri-norm").graph == "x <- x + N(F(N(x))); last state through N(x)"
        assert card("normformer").graph.startswith("x <- x + N(A(N(x))); x <- x + M(N(x)); M normalizes its features")
        assert card("t-fixup").graph == "not a decoder-only graph"

    def test_numbers_at_this_depth(self) -> None:
        found = card("block-indexed", DecoderConfig(blocks=8, width=16, heads=2, ff_width=20))
        output, down = found.stored
        assert output.pattern == "blocks.{b}.attention.output.weight"
        assert (output.tensors, output.formula) == (8, "(2(l+1))^(-1/2)")
        assert (output.first, output.last) == pytest.approx((2**-0.5, 0.25), rel=1e-15)
        assert down.first_std == pytest.approx(math.sqrt(2 / 36) * 2**-0.5, rel=1e-15)
        assert found.selected_tensors == 16

    def test_numbers_follow_the_base_draw(self) -> None:
        for found in card("gpt2", DecoderConfig(blocks=12), Distribution(0.02)).stored:
            assert f"{found.first_std:.7f}" == "0.0040825"
        wang = card("wang", DecoderConfig(blocks=4), Distribution(0.02))
        assert {round(law.first_std or 0, 12) for law in wang.stored} == {0.25, round(math.sqrt(0.1), 12)}

    @pytest.mark.parametrize("known", RUNNABLE, ids=lambda known: known.name)
    def test_selection_is_the_constructions(self, known: Recipe) -> None:
        config = DecoderConfig(blocks=3)
        count = sum(spec.role in known.laws for spec in layout(config))
        found = card(known.name, config)
        assert found.selected_tensors == count
        assert len(found.selects) == len(set(found.selects))

    def test_forward_coefficients(self) -> None:
        found = {law.what: law for law in card("lns", DecoderConfig(blocks=9)).forward}
        law = found["factor on the norm before a branch"]
        assert (law.first, law.last) == pytest.approx((1.0, 1 / 3), rel=1e-15)
        admin = {law.what: law for law in card("admin").forward}["shortcut coefficient"]
        assert (admin.formula, admin.first, admin.last) == ("measured on a batch", 1.0, None)
        assert card("admin").profile

    def test_refusals_are_on_the_card(self) -> None:
        assert card("deepscalelm", DecoderConfig(blocks=1)).refusal is not None
        assert card("deepscalelm", DecoderConfig(blocks=2)).refusal is None
        assert "decoder-only" in (card("t-fixup+gpt2").refusal or "")
        with pytest.raises(RecipeError, match="unknown"):
            card("nothing")

    def test_a_combination_has_the_sentences_of_its_parts(self) -> None:
        joint = card("peri-norm+depth-scaled")
        for part in ("peri-norm", "depth-scaled"):
            assert set(card(part).traps) <= set(joint.traps)
        assert len(joint.assumes) == len(set(joint.assumes))


class TestDrawings:
    """Nodes and edges of one block."""

    @pytest.mark.parametrize("known", RUNNABLE, ids=lambda known: known.name)
    def test_every_edge_joins_two_nodes_and_no_two_nodes_share_a_place(self, known: Recipe) -> None:
        graph = known.graph(DecoderConfig(blocks=3))
        nodes, edges = drawing(graph, 2)
        assert tuple(nodes.columns) == NODE_COLUMNS
        assert tuple(edges.columns) == EDGE_COLUMNS
        assert nodes["node"].is_unique
        assert not nodes.duplicated(["column", "row"]).any()
        assert set(edges["source"]) | set(edges["target"]) == set(nodes["node"])
        columns = nodes.set_index("node")["column"]
        assert (columns[edges["target"]].to_numpy() > columns[edges["source"]].to_numpy()).all()
        states = nodes[nodes["kind"] == "state"]
        first = 2 * len(graph.blocks[0])
        assert states["site"].tolist() == [first + place for place in range(len(graph.blocks[2]) + 1)]
        assert nodes["site"].count() == len(states)

    @pytest.mark.parametrize("known", RUNNABLE, ids=lambda known: known.name)
    def test_the_drawing_is_the_graph(self, known: Recipe) -> None:
        graph = known.graph(DecoderConfig(blocks=3))
        nodes, _ = drawing(graph, 1)
        counts = nodes["kind"].value_counts()
        additions = graph.blocks[1]
        branches = [branch for addition in additions for branch in addition.branches]
        assert counts["sum"] == len(additions)
        assert counts["branch"] == len(branches)
        assert counts["state"] == len(additions) + 1
        norms = sum(b.norm_in is not None for b in branches) + sum(b.norm_out is not None for b in branches)
        assert counts.get("norm", 0) == norms + sum(addition.norm_after is not None for addition in additions)

    def test_only_the_last_block_ends_in_the_final_norm(self) -> None:
        graph = recipe("unscaled").graph(DecoderConfig(blocks=3))
        ends = [drawing(graph, block)[0]["label"].str.startswith("final").sum() for block in range(3)]
        assert ends == [0, 0, 1]

    def test_numbers_are_those_of_the_block(self) -> None:
        graph = recipe("lns").graph(DecoderConfig(blocks=4))
        assert "RMSNorm times 0.5" in set(drawing(graph, 3)[0]["label"])
        assert "w, measured" in set(drawing(recipe("admin").graph(DecoderConfig()), 1)[0]["label"])


class TestDifferences:
    """What changes between two recipes."""

    @pytest.mark.parametrize("known", RECIPES, ids=lambda known: known.name)
    def test_a_recipe_does_not_differ_from_itself(self, known: Recipe) -> None:
        assert difference_table(known.name, known.name).empty

    def test_two_writer_laws_differ_in_two_tensors(self) -> None:
        table = difference_table("depth-scaled", "gpt2", DecoderConfig(blocks=8))
        assert list(table["aspect"]) == ["tensor", "tensor"]
        assert list(table["item"]) == ["blocks.{b}.attention.output.weight", "blocks.{b}.ffn.down.weight"]
        assert table["first"].iloc[0] == "L^(-1/2): times 0.353553"
        assert table["second"].iloc[0] == "(2L)^(-1/2): times 0.25"

    def test_graph_coefficient_and_tensors(self) -> None:
        table = difference_table("post-norm", "deepnorm", DecoderConfig(blocks=8))
        assert table["aspect"].value_counts().to_dict() == {"graph": 2, "coefficient": 1, "tensor": 5}
        row = table[table["aspect"] == "coefficient"].iloc[0]
        assert (row["item"], row["first"], row["second"]) == ("shortcut coefficient", "1", "(2L)^(1/4) = 2")

    def test_the_difference_of_the_reverse_is_the_reverse(self) -> None:
        there, back = difference_table("admin", "lns"), difference_table("lns", "admin")
        pairs = {(row.aspect, row.item): (row.first, row.second) for row in there.itertuples()}
        assert pairs == {(row.aspect, row.item): (row.second, row.first) for row in back.itertuples()}
        assert ("state", "profile step") in pairs
