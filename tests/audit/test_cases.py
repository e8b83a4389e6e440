"""Cases from public reports: streams, hooks, coefficients, padding, zero branches, counts and fan-in."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from core.audit import audit, observe_module
from core.audit.intake.config_file import screen_config
from core.decoder.batch import Batch
from core.decoder.config import Budget, DecoderConfig
from core.errors import BudgetError, ObservationError
from tests.audit import zoo
from tests.audit.families import family
from tests.audit.plain import PlainDecoder
from tests.audit.test_own_decoder import weights_of

pytestmark = pytest.mark.filterwarnings("ignore")
IDS = torch.randint(5, 90, (2, 13), generator=torch.Generator().manual_seed(5))


def proved(model: nn.Module, batch: Any = IDS) -> dict[str, Any]:
    result = audit(model, batch)
    assert result.identity.verdict == "proved", result.identity.reason
    document = result.document()
    assert document["identity"]["worst_relative_error"] < 1e-5
    return document


def module_outputs(model: nn.Module, kinds: tuple[str, ...], batch: torch.Tensor) -> list[torch.Tensor]:
    """What a hook on modules of these class names would take for contributions."""
    found: list[torch.Tensor] = []

    def keep(module: nn.Module, args: Any, output: Any) -> None:
        found.append((output[0] if isinstance(output, tuple) else output).detach())

    handles = [m.register_forward_hook(keep) for m in model.modules() if type(m).__name__.endswith(kinds)]
    try:
        with torch.no_grad():
            model(input_ids=batch, use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    return found


def test_row_8_forward_coefficients_count_as_scaling() -> None:
    for addition in proved(family("granite", residual_multiplier=0.22))["additions"]:
        assert addition["coefficient"] == 0.22
    for blocks, expected in ((4, 0.70), (16, 0.35)):
        settings = {"num_key_value_heads": 4, "scale_depth": 1.4, "num_hidden_layers": blocks}
        document = proved(family("minicpm3", **settings))
        assert len(document["additions"]) == 2 * blocks
        for addition in document["additions"]:
            assert addition["coefficient"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "kinds", "settings"),
    [
        ("bloom", ("BloomAttention", "BloomMLP"), {"n_layer": 4, "n_head": 4}),
        ("olmo2", ("Attention", "MLP"), {}),
        ("gemma2", ("Attention", "MLP"), {"head_dim": 8}),
        ("granite", ("Attention", "MLP"), {"residual_multiplier": 0.22}),
    ],
)
def test_row_9_a_modules_output_is_not_what_the_stream_gains(name: str, kinds: Any, settings: dict[str, Any]) -> None:
    model = family(name, **settings)
    result = audit(model, IDS)
    assert result.identity.verdict == "proved", result.identity.reason
    first, last = result.discovery.states[0].double(), result.discovery.states[-1].double()
    gained = [branch.contribution.double() for site in result.discovery.sites for branch in site.measured.branches]
    change = last - first
    ours, theirs = sum(gained) - change, sum(module_outputs(model, kinds, IDS)).double() - change
    assert float(ours.norm() / last.norm()) < 1e-6
    assert float(theirs.norm() / change.norm()) > 0.5


def test_row_9_norms_stand_where_they_stand() -> None:
    for name, settings in (("olmo2", {}), ("gemma2", {"head_dim": 8})):
        document = proved(family(name, **settings))
        assert all(branch["norm_out"] for addition in document["additions"] for branch in addition["branches"])
        assert not any(addition["norm_after"] for addition in document["additions"])


def test_row_10_parallel_branches_are_one_addition() -> None:
    document = proved(family("gpt_neox", use_parallel_residual=True))
    assert len(document["additions"]) == 4
    assert len(document["health"]["sites"]) == 5
    for addition in document["additions"]:
        assert [branch["branch"] for branch in addition["branches"]] == ["attention", "feed_forward"]
    sequential = proved(family("gpt_neox", use_parallel_residual=False))
    assert len(sequential["additions"]) == 8


def test_row_11_the_last_state_stands_before_the_final_norm() -> None:
    model = family("llama")
    result = audit(model, IDS)
    last = result.discovery.states[-1]
    hidden = model(input_ids=IDS, output_hidden_states=True, use_cache=False).hidden_states[-1]
    torch.testing.assert_close(model.model.norm(last), hidden)
    assert not torch.allclose(last, hidden, rtol=0.1)


def test_row_12_states_are_copies_of_a_stream_written_in_place() -> None:
    torch.manual_seed(0)
    plain, in_place = zoo.Decoder(), zoo.InPlace()
    in_place.load_state_dict(plain.state_dict())
    ids = IDS % zoo.VOCABULARY
    first, second = audit(plain, ids), audit(in_place, ids)
    for ours, theirs in zip(first.discovery.states, second.discovery.states, strict=True):
        assert torch.equal(ours, theirs)
    assert first.observation is not None
    assert second.observation is not None
    assert second.observation.adjoint_rms == pytest.approx(first.observation.adjoint_rms, rel=1e-6)


def test_row_13_conv1d_writers_and_their_fans() -> None:
    document = proved(family("gpt2"))
    rows = {row["name"]: row for row in document["writers"]}
    assert len(rows) == 8
    assert rows["transformer.h.0.mlp.c_proj.weight"]["fan_in"] == 4 * 32
    assert rows["transformer.h.0.attn.c_proj.weight"]["fan_in"] == 32
    assert rows["transformer.h.0.mlp.c_proj.weight"]["fan_out"] == 32


def test_row_15_head_dim_apart_from_width_and_a_tied_head() -> None:
    settings = {"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16}
    model = family("qwen3", tie_word_embeddings=True, **settings)
    document = proved(model)
    names = [row["name"] for row in document["writers"]]
    assert len(names) == len(set(names)) == 8
    rows = {row["name"]: row for row in document["writers"]}
    assert rows["model.layers.0.self_attn.o_proj.weight"]["fan_in"] == 128
    assert document["model"]["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert document["model"]["tied"] == {"model.embed_tokens.weight": ["lm_head.weight"]}


@pytest.mark.parametrize("name", ["llama", "gpt2", "gpt_neox", "mixtral"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_row_16_padding_changes_nothing_that_counts(name: str, side: str) -> None:
    """Rows of 9 and 5 tokens beside the same rows run alone."""
    model = family(name)
    rows = [IDS[0, :9].tolist(), IDS[1, :5].tolist()]
    ids, mask = torch.full((2, 9), 7), torch.zeros(2, 9, dtype=torch.int64)
    for place, row in enumerate(rows):
        span = slice(9 - len(row), 9) if side == "left" else slice(0, len(row))
        ids[place, span], mask[place, span] = torch.tensor(row), 1
    padded = audit(model, {"input_ids": ids, "attention_mask": mask}).discovery
    alone = [audit(model, torch.tensor([row])).discovery for row in rows]
    for site, state in enumerate(padded.states):
        together = state[torch.from_numpy(padded.inputs.valid)]
        apart = torch.cat([one.states[site][torch.from_numpy(one.inputs.valid)] for one in alone])
        torch.testing.assert_close(together, apart, rtol=2e-5, atol=1e-6)
    counts = [int(one.inputs.valid.sum()) for one in alone]
    mean = sum(float(one.loss) * count for one, count in zip(alone, counts, strict=True)) / sum(counts)
    assert float(padded.loss) == pytest.approx(mean, rel=1e-5)


def test_row_16_what_stands_in_padded_rows_does_not_matter() -> None:
    """Statistics are taken by selection: garbage and NaN in padding leave every bit of them."""
    torch.manual_seed(0)
    model = zoo.Decoder()
    rows, targets = [[0, 9, 10, 11], [5, 6]], [[9, 10, 11, 1], [6, 1]]
    clean = observe_module(model, Batch.from_rows(rows, targets))
    padded = Batch.from_rows(rows, targets)
    padded.inputs[~padded.present] = 36
    model.embed.weight.data[36] = math.nan
    dirty = observe_module(model, padded)
    assert (clean.activation_rms == dirty.activation_rms).all()
    assert (clean.adjoint_rms == dirty.adjoint_rms).all()
    assert clean.loss_nats == dirty.loss_nats


def _weights() -> Any:
    return weights_of(DecoderConfig(blocks=2, width=8, heads=2, ff_width=8), "unscaled")


def test_row_17_one_outsized_token_shows_in_the_rms() -> None:
    torch.manual_seed(0)
    model = zoo.Decoder(1)
    model.embed.weight.data /= model.embed.weight.data.square().mean(1, keepdim=True).sqrt()
    model.embed.weight.data[36] *= 300
    ids = torch.arange(36).reshape(1, 36)
    quiet = observe_module(model, torch.cat([ids, ids[:, :1]], 1))
    loud = observe_module(model, torch.cat([torch.tensor([[36]]), ids], 1)[:, :37])
    assert quiet.activation_rms[0, 0] == pytest.approx(1.0, rel=1e-5)
    assert loud.activation_rms[0, 0] == pytest.approx(math.sqrt((35 + 300**2) / 36), rel=1e-5)


@pytest.mark.parametrize("scale", [1e-18, 1e15])
def test_row_18_small_and_large_streams_keep_their_ratios(scale: float) -> None:
    """Squares of these values leave float32's range."""
    config = DecoderConfig(blocks=2, width=8, heads=2, ff_width=8)
    weights = {name: value.copy() for name, value in _weights().items()}
    weights["token_embedding.weight"] *= scale
    model = PlainDecoder(config, weights).to(torch.float32)
    observation = audit(model, torch.tensor([[1, 2, 3, 4]])).observation
    assert observation is not None
    rms = math.sqrt(float((weights["token_embedding.weight"][[1, 2, 3]] ** 2).mean()))
    assert observation.activation_rms[0, 0] == pytest.approx(rms, rel=1e-6)


def test_row_19_zero_branches_and_a_zero_readout() -> None:
    torch.manual_seed(0)
    model = zoo.Zero()
    ids = IDS % zoo.VOCABULARY
    result = audit(model, ids)
    assert result.identity.verdict == "proved"
    health = result.document()["health"]
    assert all(site["activation_ratio"] == 1.0 and site["adjoint_ratio"] == 1.0 for site in health["sites"])
    assert all(row["contribution_rms"] == 0.0 and row["cosine"] is None for row in health["contributions"])
    assert health["undefined"] == len(health["contributions"])
    # What a gate of zero hides is still seen: the branch mixes positions, and its own output is not zero.
    assert result.document()["additions"][0]["branches"][0]["branch"] == "attention"
    assert result.document()["additions"][0]["branches"][0]["raw_rms"] > 0
    nn.init.zeros_(model.head.weight)
    silent = audit(model, ids)
    assert silent.document()["health"] is None
    assert "terminal adjoint RMS" in silent.document()["health_refusal"]
    with pytest.raises(ObservationError):
        observe_module(model, ids)


class Reduced(zoo.Decoder):
    """Returns its own loss, reduced as asked, scaled."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits = super().forward(ids)
        loss = functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction=self.options["reduction"]
        )
        return loss * self.options["scale"]


def test_row_20_the_reduction_moves_adjoints_and_not_ratios() -> None:
    found = {}
    for reduction, scale, shape in (("mean", 1.0, (4, 32)), ("sum", 2.0**16, (4, 32)), ("sum", 1.0, (16, 128))):
        torch.manual_seed(0)
        model = Reduced(2, reduction=reduction, scale=scale)
        ids = torch.randint(0, zoo.VOCABULARY, shape, generator=torch.Generator().manual_seed(3))
        found[reduction, scale] = audit(model, ids).document()["health"]
        assert found[reduction, scale]["loss_reduction"] == "the model's own loss"
        assert found[reduction, scale]["valid_positions"] == shape[0] * (shape[1] - 1)
    mean, scaled = found["mean", 1.0], found["sum", 2.0**16]
    factor = scaled["terminal_adjoint_rms"] / mean["terminal_adjoint_rms"]
    assert factor == pytest.approx(4 * 31 * 2.0**16, rel=1e-5)
    for first, second in zip(mean["sites"], scaled["sites"], strict=True):
        assert second["adjoint_ratio"] == pytest.approx(first["adjoint_ratio"], rel=1e-5)
    torch.manual_seed(0)
    logits = audit(zoo.Decoder(2), torch.zeros(2, 5, dtype=torch.int64) + torch.arange(5)).document()["health"]
    assert logits["loss_reduction"] == "mean over valid targets"


def test_row_22_a_residual_taken_after_the_norm_is_named() -> None:
    torch.manual_seed(0)
    model = zoo.AfterNorm(6)
    for name, parameter in model.named_parameters():
        if name.endswith(("out.weight", "narrow.weight")):
            parameter.data *= 4
    result = audit(model, IDS % zoo.VOCABULARY)
    document = result.document()
    assert "not pre-norm" in document["model"]["topology"]
    assert all(addition["norm_after"] for addition in document["additions"][:-1])
    assert all(0.99 < site["activation_rms"] < 1.5 for site in document["health"]["sites"])
    first, last = result.discovery.states[0].flatten(), result.discovery.states[-1].flatten()
    assert abs(float(functional.cosine_similarity(first, last, dim=0))) < 0.6
    assert "not pre-norm" not in audit(zoo.Decoder(6), IDS % zoo.VOCABULARY).document()["model"]["topology"]


@pytest.mark.parametrize(
    ("settings", "parameters"),
    [
        ({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257}, "124,439,808"),
        (
            {
                "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
                "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
            },
            "8,030,261,248",
        ),
        (
            {
                "model_type": "llama", "hidden_size": 16384, "num_hidden_layers": 126, "num_attention_heads": 128,
                "num_key_value_heads": 8, "intermediate_size": 53248, "vocab_size": 128256,
            },
            "405,853,388,800",
        ),
    ],
)  # fmt: skip
def test_row_25_sizes_are_counted_and_refused_before_anything_is_built(settings: Any, parameters: str) -> None:
    with pytest.raises(BudgetError, match=parameters):
        screen_config(settings, Budget(max_parameters=2**26))


def test_row_26_the_pairing_of_rotary_features_decides_the_ratio() -> None:
    """Interleaved pairs, the project's own, against the half-split pairs of many libraries, on the same weights."""
    from tests.oracles.llama import observe_llama

    config = DecoderConfig()
    weights = weights_of(config, "unscaled")
    ours = observe_module(PlainDecoder(config, weights), _chapter())
    assert round(ours.activation_ratio.max(), 6) == 33.368741
    rows = [([0, 99, 100, 101], [99, 100, 101, 1])]
    theirs = observe_llama(weights, config, rows, permute_rotary=False)
    ratios = [rms / theirs["sites"][0][1] for _, rms, _ in theirs["sites"]]
    assert round(max(ratios), 6) == 36.296841


def _chapter() -> Batch:
    return Batch.from_rows([[0, 99, 100, 101]], [[99, 100, 101, 1]])
