"""What `compare` says: what matters first, things by their label, counts and the largest difference."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.decoder import DecoderConfig
from core.export.compare import compare_documents
from core.health import ObserveRequest, observe_document
from tests.support import run_cli

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


def observed(**options: Any) -> dict[str, Any]:
    """An observation of two blocks."""
    config = DecoderConfig(blocks=options.pop("blocks", 2))
    return observe_document(ObserveRequest(config=config, **options))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return observed()


def changed(document: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {**copy.deepcopy(document), **values}


class TestWhatMattersFirst:
    def test_a_seed_is_the_reason_why_sites_differ(self, document: dict[str, Any]) -> None:
        found = compare_documents(document, observed(seed=4702))
        assert found["first_difference"] == {"path": "seed", "a": "4701", "b": "4702", "relative": None}
        assert [cause["path"] for cause in found["causes"]] == ["seed"]

    def test_settings_come_in_their_order(self, document: dict[str, Any]) -> None:
        other = observed(blocks=3, seed=1, recipe="gpt2", dtype="float32")
        found = compare_documents(document, other)
        assert [c["path"] for c in found["causes"]] == ["config.blocks", "seed", "recipe", "dtype"]
        assert found["first_difference"]["path"] == "config.blocks"

    def test_sites_and_findings_come_before_the_rest(self) -> None:
        a = {"loss": 1.0, "sites": [{"label": "x", "rms": 1.0}], "factor": 2.0}
        b = {"loss": 2.0, "sites": [{"label": "x", "rms": 3.0}], "factor": 3.0}
        assert compare_documents(a, b)["first_difference"]["path"] == "sites[x].rms"
        a, b = ({"loss": loss, "conformance": {"findings": [{"kind": kind, "parameters": ["w"]}]}}
                for loss, kind in ((1.0, "absent"), (2.0, "partial")))  # fmt: skip
        assert compare_documents(a, b)["first_difference"]["path"] == 'conformance.findings[absent.["w"]]'


class TestLabels:
    def test_a_site_that_one_document_lacks_is_absent_and_moves_no_other(self, document: dict[str, Any]) -> None:
        other = changed(document)
        gone = other["initialized"]["sites"].pop(2)
        for a, b, side in ((document, other, "b"), (other, document, "a")):
            found = compare_documents(a, b)
            assert found["first_difference"]["path"] == f"initialized.sites[{gone['label']}]"
            assert found["first_difference"][side] == "(absent)"
            assert (found["differences"], found["differing_sites"]) == (1, 1)

    @pytest.mark.parametrize(
        ("name", "things"),
        [
            ("branches", [{"block": 0, "v": 1.0}, {"block": 1, "v": 2.0}]),
            ("contributions", [{"block": 0, "branch": branch, "v": 1.0} for branch in ("attention", "feed_forward")]),
            ("findings", [{"kind": kind, "parameters": ["a", "b"], "v": 1.0} for kind in ("absent", "applied")]),
            ("writers", [{"name": name, "v": 1.0} for name in ("a", "b")]),
            ("additions", [{"index": index, "label": f"b{index}", "v": 1.0} for index in range(3)]),
            ("names", ["a", "b", "c"]),
        ],
    )
    def test_every_kind_of_list_is_aligned(self, name: str, things: list[Any]) -> None:
        found = compare_documents({name: things}, {name: things[1:]})
        assert (found["differences"], found["first_difference"]["b"]) == (1, "(absent)")
        assert compare_documents({name: things}, {name: things})["equal"]

    def test_another_order_is_one_difference(self) -> None:
        things = [{"name": name, "v": value} for name, value in (("a", 1), ("b", 2), ("c", 3))]
        found = compare_documents({"writers": things}, {"writers": things[::-1]})
        assert (found["differences"], found["first_difference"]["path"]) == (1, "writers[order]")

    def test_things_without_a_name_of_their_own_are_told_apart_by_place(self) -> None:
        a, b = [{"name": "x", "v": 1}, {"name": "x", "v": 2}], [{"name": "x", "v": 1}, {"name": "x", "v": 3}]
        assert compare_documents(a, b)["first_difference"]["path"] == "[1].v"


class TestWhatIsNoResult:
    @pytest.mark.parametrize("recipe", ["depth-scaled", "admin"])
    def test_a_saved_run_and_its_restored_run_are_equal(self, recipe: str, tmp_path: Any) -> None:
        run_cli("observe", "--blocks", 2, "--recipe", recipe, "--save", tmp_path / "run")
        saved = run_cli("observe", "--blocks", 2, "--recipe", recipe, "--json").document()
        restored = run_cli("observe", "--restore", tmp_path / "run", "--json").document()
        assert saved["construction"] != restored["construction"]
        assert compare_documents(saved, restored)["equal"]

    def test_only_a_document_has_a_version(self) -> None:
        a, b = ({"fixtures": [{"id": "x", "schema": "s", "version": v, "seconds": v, "v": 1}]} for v in (1, 2))
        assert compare_documents(a, b)["equal"]
        assert not compare_documents({"inner": {"version": 1}}, {"inner": {"version": 2}})["equal"]


class TestIgnore:
    @pytest.mark.parametrize(
        "name", ["dtype", "config.blocks", "blocks", "config", "c.sites.v", "c.sites[x.y].v", "v", "c.sites", "c"]
    )
    def test_a_key_or_a_path_with_and_without_labels(self, name: str) -> None:
        a = {"dtype": "float64", "config": {"blocks": 1}, "c": {"sites": [{"label": "x.y", "v": 1.0}]}}
        b = {"dtype": "float32", "config": {"blocks": 2}, "c": {"sites": [{"label": "x.y", "v": 2.0}]}}
        assert compare_documents(a, b)["differences"] == 3
        found = compare_documents(a, b, ignore=[name])
        assert found["differences"] == 2
        assert compare_documents(a, b, ignore=["dtype", "config", "sites"])["equal"]
        assert compare_documents(a, b, ignore=["dtyp", "lock"])["differences"] == 3

    def test_float64_against_float32(self) -> None:
        """Cosines near zero have no relative precision, so their gap itself is held against the tolerance."""
        documents = [observed(blocks=8, dtype=dtype) for dtype in ("float64", "float32")]
        found = compare_documents(*documents, 1e-5, ["dtype"])
        assert found["equal"]
        assert compare_documents(*documents, 1e-5)["first_difference"]["path"] == "dtype"
        exact = compare_documents(*documents, 0.0, ["dtype"])
        assert exact["differing_sites"] > 20
        assert 1e-9 < exact["largest"]["relative"] < 1e-5


class TestNumbers:
    def test_the_largest_difference_has_its_place(self) -> None:
        a, b = {"x": 1.0, "y": 1.0, "z": "s"}, {"x": 1.5, "y": 4.0, "z": "t"}
        assert compare_documents(a, b)["largest"] == {"path": "y", "a": 1.0, "b": 4.0, "relative": 0.75}
        assert compare_documents({"z": "s"}, {"z": "t"})["largest"] is None

    @pytest.mark.parametrize(
        ("a", "b", "relative"),
        [
            (2**63, 2**63 + 1, 1 / (2**63 + 1)),
            (2**53 + 1, 2.0**53, 1 / (2**53 + 1)),
            (10**400, -(10**400), 2.0),
            (math.inf, 1.0, None),
            (math.inf, -math.inf, None),
            (math.nan, 1.0, None),
            (None, 0.0, None),
            ("1", 1, None),
        ],
    )
    def test_exact(self, a: Any, b: Any, relative: float | None) -> None:
        for first, second in ((a, b), (b, a)):
            found = compare_documents({"x": first}, {"x": second})
            assert found["differences"] == 1
            assert found["first_difference"]["relative"] == relative
        assert compare_documents({"x": a}, {"x": a})["equal"]

    def test_the_tolerance_never_makes_infinity_a_number(self) -> None:
        assert not compare_documents({"x": math.inf}, {"x": 1.0}, 1e300)["equal"]


@given(VALUES, VALUES)
def test_equal_where_json_values_are_equal_and_the_same_from_both_sides(a: Any, b: Any) -> None:
    assert compare_documents(a, copy.deepcopy(a))["equal"]
    there, back = compare_documents({"x": a}, {"x": b}), compare_documents({"x": b}, {"x": a})
    assert there["differences"] == back["differences"]
    assert there["equal"] == (there["first_difference"] is None) == (there["differences"] == 0)
