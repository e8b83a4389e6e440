"""Findings beside scale: memory never written, repeated draws, reloading, missing keys, dead branches; fused parts."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from core.audit.initialization.judge import judged_document
from core.audit.initialization.rebuild import Rebuilder
from core.audit.initialization.sign_hash import compare_digests, sign_hashes
from core.audit.run import audit
from core.health.document import arm_document
from tests.audit.drawn import IDS, At, Drawn, gpt2, judged, kinds

WIDTH, FF, BLOCKS, SIGMA = 64, 172, 4, 0.02
FACTOR = (2 * BLOCKS) ** -0.5


def with_ffn(make: Any, std: Any = gpt2, **options: Any) -> Drawn:
    """A decoder whose feed-forward parts are other modules."""
    model = Drawn(std, blocks=BLOCKS, **options)
    state = torch.get_rng_state()
    torch.manual_seed(1)
    for block in range(BLOCKS):
        model.ffn[block] = make()
    torch.set_rng_state(state)
    return model


class FusedGate(nn.Module):
    """Gate and up in one matrix; the factor stands on up, or on down where it belongs."""

    def __init__(self, *, fault: bool) -> None:
        super().__init__()
        self.gate_up = nn.Parameter(torch.randn(2 * FF, WIDTH) * SIGMA)
        self.down = nn.Parameter(torch.randn(WIDTH, FF) * SIGMA)
        with torch.no_grad():
            (self.gate_up[FF:] if fault else self.down).mul_(FACTOR)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = functional.linear(x, self.gate_up).chunk(2, -1)
        return functional.linear(functional.silu(gate) * up, self.down)


class Experts(nn.Module):
    """Four experts in tensors of three axes, mixed densely; `loop` takes them one by one."""

    def __init__(self, std: Any, *, loop: bool = False, bare: int | None = None) -> None:
        super().__init__()
        self.loop = loop
        self.router = nn.Parameter(torch.randn(4, WIDTH) * std(At("up", 0, BLOCKS, WIDTH, 4)))
        self.up = nn.Parameter(torch.randn(4, WIDTH, 96) * std(At("up", 0, BLOCKS, WIDTH, 96)))
        self.down = nn.Parameter(torch.randn(4, 96, WIDTH) * std(At("down", 0, BLOCKS, 96, WIDTH)))
        if bare is not None:
            with torch.no_grad():
                self.down[bare].div_(FACTOR)

    def forward(self, x: Tensor) -> Tensor:
        shares = functional.linear(x, self.router).softmax(-1)
        if self.loop:
            parts = [functional.gelu(x @ self.up[e]) @ self.down[e] for e in range(4)]
            return sum(shares[..., e : e + 1] * part for e, part in enumerate(parts))  # type: ignore[return-value]
        hidden = functional.gelu(torch.einsum("btd,edf->ebtf", x, self.up))
        return (torch.einsum("ebtf,efd->ebtd", hidden, self.down) * shares.permute(2, 0, 1)[..., None]).sum(0)


def test_one_half_of_a_fused_matrix() -> None:
    finding = judged(with_ffn(lambda: FusedGate(fault=True)), rule="gpt2").findings[0]
    assert finding.kind == "on-reader"
    assert set(finding.parameters) == {f"ffn.{b}.{part}" for b in range(BLOCKS) for part in ("gate_up", "down")}
    assert "[172:344]" in finding.sentence
    assert kinds(judged(with_ffn(lambda: FusedGate(fault=False)), rule="gpt2")) == ["applied"]


@pytest.mark.parametrize("loop", [False, True])
def test_experts_in_one_tensor(loop: bool) -> None:
    assert kinds(judged(with_ffn(lambda: Experts(gpt2, loop=loop)), rule="gpt2")) == ["applied"]
    finding = judged(with_ffn(lambda: Experts(gpt2, loop=loop, bare=2)), rule="gpt2").findings[0]
    assert finding.kind == "partial"
    assert set(finding.parameters) == {f"ffn.{b}.down" for b in range(BLOCKS)}
    assert "[2:3]" in finding.sentence
    assert finding.measured == pytest.approx(1 / FACTOR, rel=0.03)


def test_experts_drawn_by_the_product_of_two_axes() -> None:
    """As an initializer for matrices draws a tensor of three axes."""

    def usual(at: At) -> float:
        return at.fan_in**-0.5 * (FACTOR if at.writes else 1)

    def wrong(at: At) -> float:
        fan_in = 96 * WIDTH if 96 in (at.fan_in, at.fan_out) else at.fan_in
        return fan_in**-0.5 * (FACTOR if at.writes else 1)

    judgement = judged(with_ffn(lambda: Experts(wrong), usual), rule="gpt2")
    assert set(kinds(judgement)) == {"wrong-fan-in"}
    wrong_names = {name for finding in judgement.findings for name in finding.parameters}
    assert wrong_names == {f"ffn.{b}.{part}" for b in range(BLOCKS) for part in ("up", "down")}
    assert kinds(judged(with_ffn(lambda: Experts(usual), usual), rule="gpt2")) == ["applied"]


class Forgetful(Drawn):
    """Allocates parameters and never draws them; the memory happens to hold zeros in the model that is audited."""

    def __init__(self, *, shift: bool = True, rows: bool = False) -> None:
        super().__init__(gpt2, blocks=2)
        self.shift = nn.Parameter(torch.empty(WIDTH)) if shift else None
        self.table = nn.Parameter(torch.Tensor(8, WIDTH))
        with torch.no_grad():
            self.table[: 4 if rows else 8].normal_(std=SIGMA)

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) + 0 * self.table.sum()


@pytest.mark.parametrize(("options", "never"), [({}, {"shift"}), ({"shift": False, "rows": True}, {"table"})])
def test_memory_that_is_never_written(options: dict[str, bool], never: set[str]) -> None:
    model = Forgetful(**options)
    with torch.no_grad():
        for name in never:
            parameter = model.get_parameter(name)
            parameter.copy_(parameter.nan_to_num(0, 0, 0).clamp(-1, 1))
    judgement = judged(model, rule="gpt2", source=Rebuilder(build=lambda blocks: Forgetful(**options)))
    found = [finding for finding in judgement.findings if finding.kind == "never-initialised"]
    assert [set(finding.parameters) for finding in found] == [never]


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e30, 1e-40])
def test_values_that_no_initializer_draws(value: float) -> None:
    model = Drawn(gpt2)
    with torch.no_grad():
        model.ffn[1].up.weight[3, 4] = value
    judgement = judged(model, rule="gpt2")
    assert judgement.verdict == "never-initialised"
    assert judgement.findings[0].parameters == ("ffn.1.up.weight",)


class Halving(Drawn):
    """Applies a factor whenever it is loaded."""

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:
        for name in state:
            if name.endswith("down.weight"):
                state[name] = state[name] * 0.5
        super()._load_from_state_dict(state, prefix, *others)


class Losing(Drawn):
    """Leaves a matrix out of what it saves."""

    def state_dict(self, *arguments: Any, **options: Any) -> Any:
        state = super().state_dict(*arguments, **options)
        state.pop("ffn.1.down.weight", None)
        return state


def test_a_round_trip_through_saving_and_loading() -> None:
    judgement = judged(Halving(gpt2), rule="gpt2")
    assert kinds(judgement) == ["changed-by-reload", "applied"]
    assert set(judgement.findings[0].parameters) == {f"ffn.{b}.down.weight" for b in range(4)}
    assert judgement.findings[0].measured == pytest.approx(0.5)
    judgement = judged(Losing(gpt2), rule="gpt2")
    assert kinds(judgement) == ["missing-keys", "applied"]
    assert judgement.findings[0].parameters == ("ffn.1.down.weight",)


class Resetting(Drawn):
    """A coefficient in a buffer that loading sets back."""

    def __init__(self) -> None:
        super().__init__(gpt2, blocks=2)
        self.register_buffer("scale", torch.tensor([0.5, 0.25]))

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:
        super()._load_from_state_dict({**state, "scale": torch.ones(2)}, prefix, *others)


def test_a_buffer_that_loading_sets_back() -> None:
    judgement = judged(Resetting(), rule="gpt2")
    assert kinds(judgement) == ["changed-by-reload", "applied"]
    assert judgement.findings[0].parameters == ("scale",)


def test_keys_that_a_stored_file_lacks() -> None:
    judgement = judged(Drawn(gpt2), rule="gpt2", source=Rebuilder(missing=("ffn.0.up.weight",)))
    assert judgement.verdict == "missing-keys"
    assert judgement.findings[0].parameters == ("ffn.0.up.weight",)


def test_trained_weights_are_not_judged() -> None:
    judgement = judged(Drawn(lambda at: SIGMA), rule="gpt2", source=Rebuilder(trained=True))
    assert kinds(judgement) == ["no-rule-declared"]
    assert "trained" in judgement.findings[0].sentence


def test_one_draw_under_several_names() -> None:
    model = Drawn(gpt2)
    for block in range(1, 4):
        model.ffn[block] = copy.deepcopy(model.ffn[0])
    judgement = judged(model, rule="gpt2")
    assert kinds(judgement) == ["duplicated", "applied"]
    expected = {f"ffn.{b}.{part}.weight" for b in range(4) for part in ("gate", "up", "down")}
    assert set(judgement.findings[0].parameters) == expected


def test_one_draw_times_several_factors() -> None:
    """A generator seeded anew for every block: equal draws, unequal tensors."""
    model = Drawn(lambda at: SIGMA * ((2 * (at.block + 1)) ** -0.5 if at.writes else 1), blocks=3)
    with torch.no_grad():
        for block in (1, 2):
            model.ffn[block].down.weight.copy_(model.ffn[0].down.weight * (1 / (block + 1)) ** 0.5)
    judgement = judged(model)
    assert kinds(judgement) == ["duplicated", "applied"]
    assert set(judgement.findings[0].parameters) == {f"ffn.{b}.down.weight" for b in range(3)}


def test_experts_of_one_draw_in_one_tensor() -> None:
    model = with_ffn(lambda: Experts(gpt2))
    with torch.no_grad():
        for ffn in model.ffn:
            ffn.up.copy_(ffn.up[:1].expand_as(ffn.up).clone())
    judgement = judged(model, rule="gpt2")
    assert kinds(judgement) == ["duplicated", "applied"]
    assert set(judgement.findings[0].parameters) == {f"ffn.{b}.up" for b in range(BLOCKS)}
    assert "ffn.0.up[0] = ffn.0.up[1]" in judgement.findings[0].sentence
    # Whole stacks that are copies are named as stacks.
    with torch.no_grad():
        model = with_ffn(lambda: Experts(gpt2))
        model.ffn[1].up.copy_(model.ffn[0].up)
    assert judged(model, rule="gpt2").findings[0].parameters == ("ffn.0.up", "ffn.1.up")


def test_tied_names_are_no_duplicates() -> None:
    judgement = judged(Drawn(gpt2, tied=True), rule="gpt2")
    assert kinds(judgement) == ["applied", "tied"]
    assert judgement.findings[1].parameters == ("embed.weight", "head.weight")
    model = Drawn(gpt2)
    model.head.weight = nn.Parameter(model.embed.weight.data)
    assert kinds(judged(model, rule="gpt2")) == ["applied", "tied"]


def test_branches_that_can_never_learn() -> None:
    model = Drawn(gpt2)
    nn.init.zeros_(model.ffn[0].down.weight)
    assert kinds(judged(model, rule="gpt2")) == ["applied", "zero-by-construction"]
    nn.init.zeros_(model.ffn[0].up.weight)
    judgement = judged(model, rule="gpt2")
    assert kinds(judgement) == ["dead-branch", "applied"]
    assert set(judgement.findings[0].parameters) == {f"ffn.0.{part}.weight" for part in ("gate", "up", "down")}
    constant = judged(Drawn(gpt2, forward_factor=lambda block, blocks: 0.0 if block == 2 else 1.0), rule="gpt2")
    assert kinds(constant) == ["dead-branch", "applied"]
    assert {name.split(".")[1] for name in constant.findings[0].parameters} == {"2"}


class Gated(Drawn):
    """ReZero: a learned gate of zero before every contribution."""

    def __init__(self, *, bare: bool = False) -> None:
        super().__init__(lambda at: 0.0 if bare and at.writes else SIGMA, blocks=2)
        self.gates = nn.Parameter(torch.zeros(2, 2))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for block in range(2):
            x = x + self.gates[block, 0] * self.attention[block](x)
            x = x + self.gates[block, 1] * self.ffn[block](x)
        return self.head(x)


def test_a_gate_of_zero_learns_unless_the_writer_is_zero_too() -> None:
    judgement = judged(Gated())
    assert kinds(judgement) == ["zero-by-construction", "no-rule-declared"]
    assert "none at the start" in judgement.findings[0].sentence
    assert judged(Gated(bare=True)).verdict == "dead-branch"


def test_a_block_that_never_writes() -> None:
    model = Drawn(gpt2, blocks=3)
    model.attention[1].register_forward_hook(lambda module, inputs, output: torch.zeros_like(output))
    judgement = judged(model, rule="gpt2")
    assert "dead-branch" in kinds(judgement)
    dead = judgement.findings[kinds(judgement).index("dead-branch")]
    assert {name for name in dead.parameters if name.startswith("attention.1.")}


def test_arms_of_one_base_draw_and_the_first_draw_that_shifted() -> None:
    plain = dict(Drawn(lambda at: SIGMA).named_parameters())
    scaled = dict(Drawn(gpt2).named_parameters())
    same = compare_digests(sign_hashes(plain), sign_hashes(scaled))
    assert same.all_shared
    assert same.shared == len(plain)
    # A matrix inserted before the others moves every draw behind it.
    torch.manual_seed(0)
    rows = {"first": torch.randn(16, 16), "second": torch.randn(16, 16)}
    torch.manual_seed(0)
    moved = {"first": torch.randn(16, 16), "inserted": torch.randn(16, 16), "second": torch.randn(16, 16)}
    shared = compare_digests(sign_hashes(rows), sign_hashes(moved))
    assert (shared.shared, shared.first_shifted, shared.only_second) == (1, "second", ("inserted",))
    assert "second" in shared.sentence
    anew = compare_digests(sign_hashes(plain), sign_hashes(dict(Drawn(gpt2, seed=1).named_parameters())))
    assert (anew.shared, anew.first_shifted) == (0, "embed.weight")


def test_a_judgement_leaves_the_model_and_the_generator_alone() -> None:
    model = Drawn(lambda at: SIGMA)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    torch.manual_seed(7)
    state = torch.get_rng_state()
    judged(
        model,
        rule="gpt2",
        source=Rebuilder(build=lambda blocks: Drawn(lambda at: SIGMA, blocks=blocks or 4), deep=True),
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], parameter) for name, parameter in model.named_parameters())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_twin_is_the_right_model_itself() -> None:
    """Same draw, writers times the exact factor: its health is that of the model built right, not nearly so."""
    right = judged(Drawn(gpt2), rule="gpt2")
    assert right.corrected is None
    for std in (
        lambda at: SIGMA,
        lambda at: SIGMA * (FACTOR**2 if at.writes else 1),
        lambda at: SIGMA * (FACTOR if at.role in ("output", "up") else 1),
        lambda at: SIGMA * (FACTOR if at.role == "output" else 1),
    ):
        twin = judged(Drawn(std), rule="gpt2").corrected
        assert twin is not None
        assert twin.observation is not None
        assert twin.draws.all_shared
        whole = audit(Drawn(gpt2), IDS).observation
        assert whole is not None
        found, wanted = (arm_document(observation, 0)["sites"] for observation in (twin.observation, whole))
        for one, two in zip(found, wanted, strict=True):
            assert one["activation_rms"] == pytest.approx(two["activation_rms"], rel=1e-5)
            assert one["adjoint_rms"] == pytest.approx(two["adjoint_rms"], rel=1e-4)


def numbers(value: Any, path: str = "") -> dict[str, Any]:
    """Every leaf of a document by its path."""
    if isinstance(value, dict):
        return {key: leaf for name, inner in value.items() for key, leaf in numbers(inner, f"{path}.{name}").items()}
    if isinstance(value, list):
        return {key: leaf for n, inner in enumerate(value) for key, leaf in numbers(inner, f"{path}.{n}").items()}
    return {path: value}


def test_the_twin_in_the_document_is_a_model_repaired_by_hand() -> None:
    model = Drawn(lambda at: SIGMA)
    document = judged_document(audit(model, IDS), rule="gpt2")
    with torch.no_grad():
        for attention, ffn in zip(model.attention, model.ffn, strict=True):
            attention.output.weight.mul_(FACTOR)
            ffn.down.weight.mul_(FACTOR)
    found, wanted = numbers(document["twin"]), numbers(audit(model, IDS).document()["health"])
    assert len(found) > 100
    for path, value in found.items():
        assert value == (pytest.approx(wanted[path], rel=1e-6) if isinstance(value, float) else wanted[path]), path
    assert document["twin_factors"] == pytest.approx(
        {f"attention.{b}.output.weight": FACTOR for b in range(BLOCKS)}
        | {f"ffn.{b}.down.weight": FACTOR for b in range(BLOCKS)}
    )
