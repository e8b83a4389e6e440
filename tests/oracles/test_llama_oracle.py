"""The plain reference against `transformers`: LLaMA for the fixed graph, GPT-2 for the other options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from core.decoder.config import DecoderConfig
from tests.oracles.llama import LiftedToDouble, observe_llama
from tests.oracles.plain_decoder import observe_parameters
from tests.oracles.plain_weights import Sizes, plain_base_draw, plain_recipe_weights

ROW = [([0, 99, 100, 101], [99, 100, 101, 1])]
RAGGED = [
    ([0, 99, 100, 101, 7], [99, 100, 101, 7, 1], [True, False, True, True, False]),
    ([5, 50], [50, 1]),
    ([8], [9]),
]
PACKED = [(*RAGGED[0], [0, 0, 4, 4, 4]), *RAGGED[1:]]
TOLERANCE = 1e-12


def parameters_of(config: DecoderConfig, recipe: str, seed: int, *, shaken: bool = False) -> dict[str, np.ndarray]:
    """Stored arrays; `shaken` moves gains and biases off their ones and zeros."""
    sizes = Sizes(**config.document())
    drawn = plain_recipe_weights(recipe, sizes, plain_base_draw(sizes, seed))
    arrays = {name: np.array(values) for name, values in drawn.items()}
    noise = np.random.default_rng(seed % 2**32)
    return {
        name: values + noise.normal(0, 0.2, values.shape) if shaken and values.ndim == 1 else values
        for name, values in arrays.items()
    }


def assert_agree(plain: dict[str, Any], other: dict[str, Any], tolerance: float = TOLERANCE) -> None:
    """Loss and every site, activation and adjoint."""
    assert plain["loss"] == pytest.approx(other["loss"], rel=tolerance)
    for ours, theirs in zip(plain["sites"], other["sites"], strict=True):
        assert ours[0] == theirs[0]
        assert ours[1:] == pytest.approx(theirs[1:], rel=tolerance)


@pytest.mark.parametrize("rows", [ROW, RAGGED, PACKED], ids=["row", "ragged", "packed"])
@pytest.mark.parametrize(
    "sizes",
    [
        {"blocks": 8},
        {"blocks": 2, "width": 16, "heads": 2, "ff_width": 20},
        {"blocks": 3, "width": 16, "heads": 4, "kv_heads": 2, "ff_width": 20},
        {"blocks": 3, "width": 16, "heads": 4, "kv_heads": 1, "ff_width": 20, "head_dim": 6},
        {"blocks": 2, "width": 12, "heads": 3, "ff_width": 8, "tied": False, "rope_base": 500.0, "rms_epsilon": 1e-3},
    ],
    ids=["narrow-8", "cpu-bridge", "gqa", "mqa", "untied"],
)
def test_plain_reference_is_llama(sizes: dict[str, Any], rows: list[tuple]) -> None:
    config = DecoderConfig(**{"positions": 5, **sizes})
    parameters = parameters_of(config, "unscaled", 4701, shaken=True)
    plain = observe_parameters("unscaled", Sizes(**config.document()), parameters, rows)
    assert_agree(plain, observe_llama(parameters, config, rows))


@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_sixty_four_blocks(seed: int) -> None:
    config = DecoderConfig(blocks=64, width=8, heads=2, kv_heads=1, ff_width=12)
    parameters = parameters_of(config, "depth-scaled", seed)
    plain = observe_parameters("depth-scaled", Sizes(**config.document()), parameters, ROW)
    assert_agree(plain, observe_llama(parameters, config, ROW))


def test_every_vector_agrees() -> None:
    """Not only the statistics: each state and adjoint of a full row, by coordinates."""
    config = DecoderConfig(blocks=3, width=16, heads=4, kv_heads=2, ff_width=20)
    parameters = parameters_of(config, "depth-scaled", 7)
    plain = observe_parameters("depth-scaled", Sizes(**config.document()), parameters, ROW)
    llama = observe_llama(parameters, config, ROW)
    for part in ("states", "adjoints"):
        np.testing.assert_allclose(plain[part], llama[part], rtol=1e-10, atol=1e-15)


def test_pairing_of_rotary_features_is_visible() -> None:
    """Unpermuted, half-split pairs read interleaved columns: another decoder, known by its largest ratio."""
    config = DecoderConfig()
    parameters = parameters_of(config, "unscaled", 4701)
    largest = {}
    for permute in (True, False):
        sites = observe_llama(parameters, config, ROW, permute_rotary=permute)["sites"]
        largest[permute] = round(max(site[1] / sites[0][1] for site in sites), 6)
    assert largest == {True: 33.368741, False: 36.296841}


def test_library_generator_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    config = DecoderConfig(blocks=1)
    observe_llama(parameters_of(config, "unscaled", 1), config, ROW)
    assert torch.equal(torch.random.get_rng_state(), before)


def gpt2_model(config: DecoderConfig, parameters: dict[str, np.ndarray]) -> transformers.GPT2LMHeadModel:
    """GPT-2 with exact GELU holding our parameters; its matrices are `[fan_in, fan_out]` like ours."""
    with torch.random.fork_rng(devices=[]):
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=config.vocabulary,
                n_positions=config.positions,
                n_embd=config.width,
                n_layer=config.blocks,
                n_head=config.heads,
                n_inner=config.ff_width,
                activation_function="gelu",
                layer_norm_epsilon=config.rms_epsilon,
                tie_word_embeddings=config.tied,
                attn_implementation="eager",
                bos_token_id=0,
                eos_token_id=0,
            )
        )
    own = model.to(torch.float64).eval().state_dict()
    for name in own:
        own[name] = torch.tensor(gpt2_tensor(name, parameters, tied=config.tied))
    model.load_state_dict(own)
    return model


def gpt2_tensor(name: str, parameters: dict[str, np.ndarray], *, tied: bool) -> np.ndarray:
    """Our array behind a GPT-2 name."""
    stem, kind = name.removeprefix("transformer.").rsplit(".", 1)
    if stem == "lm_head":
        return parameters["token_embedding.weight"] if tied else parameters["head.weight"].T.copy()
    if stem in ("wte", "wpe"):
        return parameters[f"{'token' if stem == 'wte' else 'position'}_embedding.weight"]
    gain = "gain" if kind == "weight" else "bias"
    if stem == "ln_f":
        return parameters[f"final_norm.{gain}"]
    _, block, part = stem.split(".", 2)
    if part in ("ln_1", "ln_2"):
        return parameters[f"blocks.{block}.{'attention_norm' if part == 'ln_1' else 'ffn_norm'}.{gain}"]
    if part == "attn.c_attn":
        thirds = [parameters[f"blocks.{block}.attention.{role}.{kind}"] for role in ("query", "key", "value")]
        return np.concatenate(thirds, axis=-1)
    ours = {"attn.c_proj": "attention.output", "mlp.c_fc": "ffn.up", "mlp.c_proj": "ffn.down"}[part]
    return parameters[f"blocks.{block}.{ours}.{kind}"]


def observe_gpt2(model: transformers.GPT2LMHeadModel, inputs: list[int], targets: list[int]) -> dict[str, Any]:
    """Loss and (label, activation RMS, adjoint RMS) of one row, as the norms receive the states."""
    states: list[torch.Tensor] = []
    norms = [norm for layer in model.transformer.h for norm in (layer.ln_1, layer.ln_2)]
    for norm in (*norms, model.transformer.ln_f):
        norm.register_forward_pre_hook(lambda module, args: states.append(args[0]))
    with LiftedToDouble():
        logits = model(input_ids=torch.tensor([inputs]), use_cache=False).logits[0]
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(targets))
        adjoints = torch.autograd.grad(loss, states)
    labels = ["input"]
    for block in range(len(model.transformer.h)):
        labels += [f"block.{block}.after_attention", f"block.{block}.after_feed_forward"]
    sizes = [[part.square().mean().sqrt().item() for part in pair] for pair in zip(states, adjoints, strict=True)]
    return {"loss": loss.item(), "sites": [(label, *pair) for label, pair in zip(labels, sizes, strict=True)]}


@pytest.mark.parametrize("tied", [True, False])
def test_other_options_are_gpt2(tied: bool) -> None:
    """LayerNorm, exact GELU, learned positions, biases that are not zero, and an untied head."""
    config = DecoderConfig(
        blocks=3, width=12, heads=3, ff_width=20, positions=6, norm="layernorm", mlp="gelu",
        position_encoding="learned", tied=tied, bias=True,
    )  # fmt: skip
    parameters = parameters_of(config, "unscaled", 11, shaken=True)
    plain = observe_parameters("unscaled", Sizes(**config.document()), parameters, ROW)
    assert_agree(plain, observe_gpt2(gpt2_model(config, parameters), *ROW[0]))
