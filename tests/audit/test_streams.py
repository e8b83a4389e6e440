"""The stream of every hand-written decoder is found, proved, and equal to what running its blocks by hand gives."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from core.audit import AuditResult, audit, observe_module
from core.errors import AuditError
from tests.audit import zoo

IDS = torch.randint(0, zoo.VOCABULARY, (2, 13), generator=torch.Generator().manual_seed(5))
FEATURES = torch.randn(2, 13, zoo.WIDTH, generator=torch.Generator().manual_seed(6))
PAIR = ["after_attention", "after_feed_forward"]

# model: (labels of one block, its contributions' coefficients, its shortcuts' coefficients)
EXPECTED: dict[str, tuple[list[str], list[float], list[float]]] = {
    "Decoder": (PAIR, [1, 1], [1, 1]),
    "InPlace": (PAIR, [1, 1], [1, 1]),
    "InPlaceThroughViews": (PAIR, [1, 1], [1, 1]),
    "Tuples": (PAIR, [1, 1], [1, 1]),
    "NoLinear": (PAIR, [1, 1], [1, 1]),
    "Functional": (PAIR, [1, 1], [1, 1]),
    "Parallel": (["after_parallel"], [1, 1], [1]),
    "ParallelGrouped": (["after_parallel"], [0.5, 0.5], [1]),
    "ScaledSum": (PAIR, [math.sqrt(0.5), 0.3], [math.sqrt(0.5), 1]),
    "NormOut": (PAIR, [1, 0.5], [1, 1]),
    "PostNorm": (PAIR, [1, 1], [2, 2]),
    "AfterNorm": (PAIR, [1, 1], [1, 1]),
    "Dropout": (PAIR, [1, 1], [1, 1]),
    "PositionsFirst": (PAIR, [1, 1], [1, 1]),
    "Flattened": (PAIR, [1, 1], [1, 1]),
    "ChannelsFirst": (["after_mixer"], [1], [1]),
    "StateSpace": (["after_mixer", "after_feed_forward"], [1, 1], [1, 1]),
    "Mixture": (PAIR, [1, 1], [1, 1]),
    "Zero": (PAIR, [0, 1], [1, 1]),
    "Shared": (PAIR, [1, 1], [1, 1]),
    "Unit": (PAIR, [0.05, 0.05], [0.95, 0.95]),
    "Lerp": (PAIR, [0.1, -1], [0.9, 1]),
    "Fused": (PAIR, [1, 1], [1, 1]),
    "FusedWithCoefficients": (PAIR, [0.25, 0.5], [1, 2]),
    "Bounded": (PAIR, [1, 1], [1, 1]),
    "WeightNorm": (PAIR, [1, 1], [1, 1]),
    "InsideTheModule": (PAIR, [1, 1], [1, 1]),
    "Chunked": (PAIR, [1, 1], [1, 1]),
    "Casts": (PAIR, [1, 1], [1, 1]),
    "TorchLayers": (PAIR, [1, 1], [1, 1]),
    "Scripted": (PAIR, [0.5, 1], [1, 1]),
    "Custom": (PAIR, [1, 1], [1, 1]),
    "StackedSum": (PAIR, [1, 1], [1, 1]),
    "Autocast": (PAIR, [1, 1], [1, 1]),
    "Checkpointed": (PAIR, [1, 1], [1, 1]),
    "Fourier": (["after_mixer", "after_feed_forward"], [1, 1], [1, 1]),
    "LastPosition": (PAIR, [1, 1], [1, 1]),
    "CrossAttention": ([*PAIR[:1], "after_cross_attention", *PAIR[1:]], [1, 1, 1], [1, 1, 1]),
    "ValueRoute": (PAIR, [1, 1], [1, 1]),
    "BareBranches": (PAIR, [1, 1], [1, 1]),
    "Positions": (PAIR, [1, 1], [1, 1]),
    "Mutating": (PAIR, [1, 1], [1, 1]),
    "Features": (PAIR, [1, 1], [1, 1]),
}


def built(name: str, *arguments: Any) -> nn.Module:
    torch.manual_seed(7)
    return getattr(zoo, name)(*arguments)


def audited(name: str) -> AuditResult:
    return audit(built(name), FEATURES if name == "Features" else IDS)


@pytest.mark.parametrize("name", EXPECTED)
def test_every_addition_is_found_and_proved(name: str) -> None:
    labels, coefficients, shortcuts = EXPECTED[name]
    result = audited(name)
    document = result.document()
    assert result.identity.verdict == "proved", result.identity.reason
    assert document["identity"]["worst_relative_error"] < 1e-6
    assert all(trial.passed for trial in result.identity.interventions)
    assert result.discovery.labels == ["input", *(f"block.{b}.{label}" for b in range(zoo.BLOCKS) for label in labels)]
    first = document["additions"][: len(labels)]
    found = [branch["coefficient"]["value"] for addition in first for branch in addition["branches"]]
    assert found == pytest.approx(coefficients, rel=1e-6)
    assert [addition["shortcut"]["value"] for addition in first] == pytest.approx(shortcuts, rel=1e-6)


@pytest.mark.parametrize(
    "name", ["Decoder", "InPlace", "NoLinear", "Scaled", "PostNorm", "Lerp", "Gated", "Casts", "Zero"]
)
def test_states_and_adjoints_are_those_of_running_the_blocks_by_hand(name: str) -> None:
    model = built(name).eval()
    result = audited(name)
    # The oracle knows the model's own blocks; additions inside a block are left to the proof.
    states = [model.start(IDS).detach().clone().requires_grad_()]
    kept = []
    for block in range(len(model.first)):
        # Written in place, a block cannot be differentiated as it stands; the plain one computes the same.
        x = zoo.Decoder.block(model, states[-1], block) if name == "InPlace" else model.block(states[-1], block)
        kept.append(x)
        states.append(x.detach().clone().requires_grad_())
    logits = model.end(states[-1])
    loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), IDS[:, 1:].flatten())
    adjoint = torch.autograd.grad(loss, states[-1])[0]
    adjoints = [adjoint]
    for block in reversed(range(len(kept))):
        adjoint = torch.autograd.grad(kept[block], states[block], adjoint)[0]
        adjoints.insert(0, adjoint)
    discovery = result.discovery
    per_block = (len(discovery.states) - 1) // len(kept)
    for place, (state, adjoint) in enumerate(zip(states, adjoints, strict=True)):
        site = place * per_block
        assert torch.equal(discovery.states[site], state)
        torch.testing.assert_close(discovery.adjoints[site], adjoint, rtol=1e-5, atol=1e-9)
    assert float(result.discovery.loss) == pytest.approx(loss.item(), rel=1e-6)


def test_a_gain_is_what_the_stream_gains() -> None:
    """Contribution = next state - shortcut, whatever the branch's module returned."""
    result = audited("Scaled")
    for site in result.discovery.sites:
        assert site.measured is not None
        gained = sum(branch.contribution for branch in site.measured.branches)
        torch.testing.assert_close(gained, site.measured.next_state - site.measured.stream, rtol=1e-5, atol=1e-6)


def test_coefficients_of_a_channel_and_of_a_block() -> None:
    model = built("Scaled")
    document = audit(model, IDS).document()
    for block, gain in enumerate(model.gains):
        attention, feed_forward = document["additions"][2 * block : 2 * block + 2]
        assert attention["coefficient"] == 0.25
        assert feed_forward["shortcut"]["value"] == 0.5
        coefficient = feed_forward["branches"][0]["coefficient"]
        assert coefficient["spread"] == "per channel"
        assert coefficient["value"] == pytest.approx(gain.square().mean().sqrt().item(), rel=1e-6)
        assert coefficient["lowest"] == pytest.approx(gain.min().item(), rel=1e-6)
        assert coefficient["highest"] == pytest.approx(gain.max().item(), rel=1e-6)


def test_coefficients_that_parameters_decide() -> None:
    document = audited("Gated").document()
    for block in range(zoo.BLOCKS):
        gate = 0.1 * (block + 1)
        attention, feed_forward = document["additions"][2 * block : 2 * block + 2]
        assert attention["coefficient"] == pytest.approx(1 / (1 + math.exp(-gate)), rel=1e-6)
        assert feed_forward["coefficient"] == pytest.approx(math.tanh(gate), rel=1e-5)
        assert feed_forward["shortcut"]["value"] == pytest.approx(1 - math.tanh(gate), rel=1e-5)


def test_a_coefficient_of_a_position() -> None:
    """A fixed mask over positions: seven of thirteen are even, and 12 of them have a target."""
    coefficient = audited("EveryOtherToken").document()["additions"][1]["branches"][0]["coefficient"]
    assert coefficient["spread"] == "per position"
    assert (coefficient["lowest"], coefficient["highest"]) == (0.0, 1.0)
    assert coefficient["value"] == pytest.approx(math.sqrt(6 / 12))


def test_a_range_that_cuts_the_stream_off_stands_behind_its_addition() -> None:
    """What the stream gains is told before the cut, and the addition says that something stands between."""
    result = audited("Clipping")
    assert result.identity.verdict == "proved"
    assert [row["norm_after"] for row in result.document()["additions"]] == [True, False] * zoo.BLOCKS
    first = result.discovery.sites[0].measured
    assert first is not None
    total = first.stream + sum(branch.contribution for branch in first.branches)
    torch.testing.assert_close(first.next_state, total.clamp(-0.5, 0.5), rtol=1e-6, atol=1e-7)
    assert not any(row["norm_after"] for row in audited("Bounded").document()["additions"])


def test_writers_are_what_feeds_the_stream() -> None:
    expected = {
        "NoLinear": (["first.0.out.weight"], ["second.0.narrow.weight"]),
        "Functional": (["out.0"], ["down.0"]),
        "ChannelsFirst": (["out.0.weight"], ["out.1.weight"]),
        "StateSpace": (["first.0.out.weight"], ["second.0.narrow.weight"]),
        "TorchLayers": (["layers.0.self_attn.out_proj.weight"], ["layers.0.linear2.weight"]),
        "BareBranches": (["first.0.mix.weight"], ["first.0.out.weight"]),
        "OneVector": (["theta"], ["theta"]),
    }
    for name, (first, second) in expected.items():
        additions = audited(name).document()["additions"]
        assert additions[0]["writers"] == first
        assert additions[1]["writers"] == second


def test_fans_are_those_of_the_product() -> None:
    rows = {row["name"]: row for row in audited("NoLinear").document()["writers"]}
    assert (rows["first.0.out.weight"]["fan_in"], rows["first.0.out.weight"]["fan_out"]) == (zoo.WIDTH, zoo.WIDTH)
    assert (rows["second.0.narrow.weight"]["fan_in"], rows["second.0.narrow.weight"]["fan_out"]) == (zoo.FF, zoo.WIDTH)
    rows = {row["name"]: row for row in audited("Decoder").document()["readers"]}
    assert (rows["first.0.mix.weight"]["fan_in"], rows["first.0.mix.weight"]["fan_out"]) == (zoo.WIDTH, 3 * zoo.WIDTH)


def test_every_expert_writes_and_the_router_reads() -> None:
    addition = audited("Mixture").document()["additions"][1]
    experts = {f"second.0.experts.{e}.narrow.weight" for e in range(3)}
    assert set(addition["writers"]) == experts | {"second.0.shared.narrow.weight"}
    assert "second.0.router.weight" in addition["readers"]


def test_streams_side_by_side_and_gates_of_the_batch() -> None:
    streams = audited("Streams")
    assert streams.identity.verdict == "proved"
    assert streams.discovery.width == 2 * zoo.WIDTH
    highway = audited("Highway")
    assert highway.identity.verdict == "proved"
    # The batch decides how much of the stream passes, so there is no coefficient to tell.
    assert highway.document()["additions"][0]["shortcut"] is None


def test_earlier_states_that_come_back_are_no_gain() -> None:
    result = audited("Skips")
    assert result.identity.verdict == "proved", result.identity.reason
    additions = result.document()["additions"]
    assert all(set(addition["writers"]) <= set(result.discovery.names.parameters) for addition in additions)
    assert sum(len(addition["branches"]) for addition in additions) == 2 * zoo.BLOCKS


def test_a_looped_block_counts_as_often_as_it_runs() -> None:
    document = audited("Shared").document()
    assert document["model"]["blocks"] == zoo.BLOCKS
    assert len(document["writers"]) == 2


@pytest.mark.parametrize("norm_first", [True, False])
def test_torch_layers_of_both_norm_orders(norm_first: bool) -> None:
    torch.manual_seed(0)
    document = audit(zoo.TorchLayers(norm_first=norm_first), IDS).document()
    assert document["identity"]["verdict"] == "proved"
    assert [addition["norm_after"] for addition in document["additions"][:-1]] == [not norm_first] * 5
    assert ("not pre-norm" in document["model"]["topology"]) is not norm_first


def test_square_batches_are_told_apart_by_moving_a_token() -> None:
    """With as many rows as positions a shape does not tell which axis is which."""
    ids = torch.randint(0, zoo.VOCABULARY, (5, 5), generator=torch.Generator().manual_seed(1))
    rows, positions = audit(built("Decoder"), ids), audit(built("PositionsFirst"), ids)
    for first, second in zip(rows.discovery.states, positions.discovery.states, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-5, atol=1e-6)
    assert positions.identity.verdict == "proved"


def test_a_site_that_never_fired_is_named() -> None:
    result = audited("Silent")
    assert result.identity.verdict == "partial"
    assert "first.1 never wrote" in str(result.identity.reason)
    with pytest.raises(AuditError, match=r": first\.1 never wrote"):
        observe_module(built("Silent"), IDS)


def test_what_cannot_be_proved_is_said_and_not_guessed() -> None:
    assert audited("Detached").identity.verdict == "partial"
    hidden, plain = audited("Hidden"), audited("NoResidual")
    assert hidden.identity.verdict == plain.identity.verdict == "failed"
    assert "CheckpointFunction" in str(hidden.identity.reason)
    assert plain.observation is None
    assert plain.document()["health"] is None
    with pytest.raises(AuditError, match=r"^The reverse pass of the model fails: When use_reentrant=True"):
        audited("HiddenBranch")
    with pytest.raises(AuditError, match="no_grad"):
        audited("WithoutGradients")


def test_what_is_no_whole_module_is_refused() -> None:
    with pytest.raises(AuditError, match=r"^The model is 'str'; it must be a torch.nn.Module"):
        audit("gpt2", IDS)  # type: ignore[arg-type]
    lazy = nn.Sequential(nn.LazyLinear(3))
    with pytest.raises(AuditError, match=r"^The parameter '0.weight' has no shape yet"):
        audit(lazy, IDS)


def test_one_position_and_one_row() -> None:
    batch = {"ids": torch.tensor([[3, 4]])}
    result = audit(built("Decoder"), batch)
    assert result.identity.verdict == "proved"
    assert [site.kind for site in result.discovery.sites] == ["attention", "feed_forward"] * zoo.BLOCKS
