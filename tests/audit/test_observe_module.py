"""`observe_module` gives a right answer or one true sentence, whatever module, batch and context it meets."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules import module as modules
from torch.nn.utils import parametrizations

from core.audit import audit
from core.decoder.batch import Batch
from core.errors import AuditError, BatchError, ObservationError
from core.health import observe_module
from core.health.observation import Observation
from tests.audit import zoo

IDS = torch.randint(0, zoo.VOCABULARY, (2, 13), generator=torch.Generator().manual_seed(5))
LAST = zoo.VOCABULARY - 1


def built(kind: type[nn.Module] = zoo.Decoder) -> Any:
    torch.manual_seed(0)
    return kind()


def equal(first: Observation, second: Observation) -> bool:
    pairs = ((first.activation_rms, second.activation_rms), (first.adjoint_rms, second.adjoint_rms))
    return first.labels == second.labels and all(np.array_equal(a, b) for a, b in pairs)


def refused(model: nn.Module, batch: object = IDS) -> str:
    with pytest.raises((AuditError, BatchError)) as caught:
        observe_module(model, batch)
    return str(caught.value)


# What the model is made of.


def test_parameters_made_in_inference_mode_are_named_and_modes_are_kept() -> None:
    with torch.inference_mode():
        model = built().train()
    assert refused(model).startswith("The parameter 'embed.weight' was made under torch.inference_mode")
    assert all(module.training for module in model.modules())
    # The way out that the sentence gives.
    assert equal(observe_module(copy.deepcopy(model), IDS), observe_module(built(), IDS))


def test_a_buffer_made_in_inference_mode_is_named() -> None:
    class Scaled(zoo.Decoder):
        def extra(self, blocks: int) -> None:
            self.register_buffer("scale", torch.ones(zoo.WIDTH))

        def end(self, x: Tensor) -> Tensor:
            return super().end(x * self.scale)

    model = built(Scaled)
    with torch.inference_mode():
        model.scale = model.scale.clone()
    assert refused(model).startswith("The model's forward fails: scale was made under torch.inference_mode")


def test_ids_made_in_inference_mode_and_a_call_inside_it_change_nothing() -> None:
    model = built()
    with torch.inference_mode():
        inside = observe_module(model, IDS.clone())
    assert equal(inside, observe_module(model, IDS))


def test_meta_models_and_meta_ids_are_refused() -> None:
    with torch.device("meta"):
        model = zoo.Decoder()
    assert refused(model).startswith("The parameter 'embed.weight' is on the meta device")
    assert "meta device" in refused(built(), IDS.to("meta"))
    assert "meta device" in refused(built(), {"ids": IDS.to("meta")})


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["embed.weight", "first.1.out.weight", "second.1.narrow.bias"])
def test_a_weight_that_is_not_finite_is_named(name: str, value: float) -> None:
    model = built()
    model.get_parameter(name).data.view(-1)[: zoo.WIDTH] = value
    batch = torch.zeros_like(IDS) if name == "embed.weight" else IDS
    assert f"The parameter '{name}' holds infinite or NaN values" in refused(model, batch)


def test_a_head_that_is_not_finite_is_named() -> None:
    model = built()
    model.head.weight.data[3, 3] = float("nan")
    with pytest.raises(ObservationError, match=r"^The parameter 'head\.weight' holds infinite or NaN values"):
        observe_module(model, IDS)


def test_a_parameter_made_by_the_forward_is_named() -> None:
    class Late(zoo.Decoder):
        def end(self, x: Tensor) -> Tensor:
            self.late = nn.Linear(zoo.WIDTH, zoo.WIDTH)
            return super().end(x + self.late(zoo.rms(x)))

    model = built(Late)
    assert "The forward makes the parameter 'late.weight' anew" in refused(model)
    assert not hasattr(model, "late")


class Unit(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight / weight.norm()


@pytest.mark.parametrize("made", [lambda m: nn.utils.parametrize.register_parametrization(m, "weight", Unit()),
                                  parametrizations.spectral_norm, parametrizations.weight_norm])  # fmt: skip
def test_matrices_computed_from_their_parameters_are_proved(made: Callable[[nn.Module], Any]) -> None:
    model = built()
    for block in model.second:
        made(block.narrow)
    stored = built()
    for block, plain in zip(model.second, stored.second, strict=True):
        plain.narrow.weight.data = block.eval().narrow.weight.detach().clone()
    first, second = observe_module(model, IDS), observe_module(stored, IDS)
    assert np.allclose(first.activation_rms, second.activation_rms, rtol=1e-6)
    assert np.allclose(first.adjoint_rms, second.adjoint_rms, rtol=1e-6)


def test_code_of_the_models_own_that_raises_is_one_sentence() -> None:
    class Raising(zoo.Decoder):
        @property
        def config(self) -> Any:
            raise RuntimeError("no config")

        def train(self, mode: bool = True) -> Any:
            super().train(mode)
            if not mode:
                raise RuntimeError("no evaluation")
            return self

    model = built(Raising)
    assert refused(model) == "Raising cannot be observed: RuntimeError: no evaluation."
    assert all(module.training for module in model.modules())
    observe_module(built(type("Quiet", (zoo.Decoder,), {"config": Raising.config})))


def test_compiled_scripted_and_wrapped_models_give_the_same() -> None:
    plain = observe_module(built(), IDS)
    block = built()
    block.first[1] = torch.compile(block.first[1], backend="eager")
    assert equal(observe_module(block, IDS), plain)
    assert equal(observe_module(torch.compile(built(), backend="eager"), IDS), plain)
    assert equal(observe_module(nn.DataParallel(built()), IDS), plain)

    class Sized(zoo.Decoder):
        def __len__(self) -> int:
            raise TypeError("no len")

    class Answering(zoo.Decoder):
        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return None

    assert equal(observe_module(torch.compile(built(Sized), backend="eager"), IDS), plain)
    assert equal(observe_module(built(Answering), IDS), plain)


# Hooks and functions that hand tensors on.


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("kind", ["full_backward_hook", "full_backward_pre_hook"])
def test_backward_hooks_are_looked_through(kind: str) -> None:
    plain = observe_module(built(), IDS)
    model = built()
    for module in model.modules():
        getattr(module, f"register_{kind}")(lambda *a: None)
    assert equal(observe_module(model, IDS), plain)
    handle = getattr(modules, f"register_module_{kind}")(lambda *a: None)
    try:
        assert equal(observe_module(built(), IDS), plain)
    finally:
        handle.remove()


def test_a_backward_hook_changes_the_adjoint_as_it_does_in_training() -> None:
    plain, model = observe_module(built(), IDS), built()
    model.norm.register_full_backward_hook(lambda module, inward, outward: (4 * inward[0],))
    hooked = observe_module(model, IDS)
    assert np.array_equal(hooked.adjoint_rms, 4 * plain.adjoint_rms)
    assert np.array_equal(hooked.activation_rms, plain.activation_rms)


def test_a_hook_that_raises_is_one_sentence() -> None:
    def raising(*arguments: object) -> None:
        raise KeyError("mine")

    for register in ("register_forward_hook", "register_full_backward_hook"):
        model = built()
        getattr(model.first[1], register)(raising)
        assert "fails: KeyError: 'mine'." in refused(model)


def test_a_function_that_scales_the_gradient_alone_is_looked_through() -> None:
    class Halve(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            return gradients[0] / 2

    class Halving(zoo.Decoder):
        def block(self, x: Tensor, block: int) -> Tensor:
            return Halve.apply(super().block(x, block))

    plain, halved = observe_module(built(), IDS), observe_module(built(Halving), IDS)
    assert np.array_equal(halved.activation_rms, plain.activation_rms)
    assert np.array_equal(halved.adjoint_rms[:, 0], plain.adjoint_rms[:, 0] / 2**zoo.BLOCKS)


def test_sentences_name_blocks_as_the_model_does() -> None:
    class Silent(zoo.Decoder):
        def block(self, x: Tensor, block: int) -> Tensor:
            return x + self.second[block](zoo.rms(x)) if block == 1 else super().block(x, block)

    assert ": first.1 never wrote to the stream." in refused(built(Silent))


# Batches.


def test_ids_in_every_unambiguous_form_are_accepted() -> None:
    model = built()
    plain, row = observe_module(model, IDS), observe_module(model, IDS[:1])
    for batch in (IDS.numpy(), IDS.numpy().astype(np.uint8), IDS.tolist(), list(IDS.numpy()), IDS.int()):
        assert equal(observe_module(model, batch), plain)
    for batch in (IDS[0], IDS[0].numpy(), IDS[0].tolist()):
        assert equal(observe_module(model, batch), row)


def test_a_tokenizers_lists_are_accepted() -> None:
    class Named(zoo.Decoder):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            assert attention_mask.shape == input_ids.shape
            return super().forward(input_ids)

    plain = observe_module(built(), IDS[:1])
    for ids in (IDS[0].tolist(), IDS[:1].tolist(), IDS[0], IDS[:1].numpy()):
        mask = torch.ones_like(torch.as_tensor(ids)).tolist()
        assert equal(observe_module(built(Named), {"input_ids": ids, "attention_mask": mask}), plain)


def test_the_batch_document_is_accepted() -> None:
    rows, targets = IDS.tolist(), IDS.roll(-1, 1).tolist()
    valid = [[True] * 12 + [False]] * 2
    plain = observe_module(built(), Batch.from_rows(rows, targets, valid))
    document = {"inputs": rows, "targets": targets, "valid": valid, "segments": [[0] * 13] * 2}
    assert equal(observe_module(built(), document), plain)
    assert equal(observe_module(built(), {name: torch.tensor(value) for name, value in document.items()}), plain)


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ([[1, 2, 3], [1, 2]], "Row 1 has 2 ids and row 0 has 3; rows of different lengths are a decoder.Batch"),
        ([], "give a LongTensor of ids [rows, positions]"),
        (torch.tensor(3), "give a LongTensor of ids [rows, positions]"),
        ([[2**70, 1]], "which no vocabulary reaches"),
        (IDS.float(), "The ids are float32, but embed.weight is looked up by whole numbers"),
        (IDS > 3, "The ids are bool, but embed.weight is looked up by whole numbers"),
        (IDS.index_put((torch.tensor(1), torch.tensor(4)), torch.tensor(300)),
         f"The input id 300 in row 1, position 4, is outside the vocabulary of {LAST + 1} of embed.weight"),
        (Batch.from_rows([[1, 2, 3]], [[2, 300, 4]]),
         f"The target id 300 in row 0, position 1, is outside the vocabulary of {LAST + 1}"),
        (Batch.from_rows([[1, 2, 3]], [[2, 3, -100]]), "The target id -100 in row 0, position 2, is outside"),
    ],
)  # fmt: skip
def test_a_batch_that_does_not_fit_is_one_sentence(batch: object, words: str) -> None:
    assert words in refused(built(), batch)


def test_positions_beyond_their_table_are_named() -> None:
    class Positions(zoo.Decoder):
        def extra(self, blocks: int) -> None:
            self.places = nn.Embedding(8, zoo.WIDTH)

        def start(self, ids: Tensor) -> Tensor:
            return super().start(ids) + self.places(torch.arange(ids.shape[1]))

    assert "row 8 of places.weight, which has rows 0 to 7" in refused(built(Positions))


# Autocast.


def test_under_autocast_the_model_is_observed_as_it_runs() -> None:
    """Against a forward and a reverse pass written out, under the same autocast."""
    model = built()
    plain = observe_module(model, IDS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = observe_module(model, IDS)
        states = [model.start(IDS)]
        for first, second in zip(model.first, model.second, strict=True):
            states.append(states[-1] + first(zoo.rms(states[-1])))
            states.append(states[-1] + second(zoo.rms(states[-1])))
        logits = model.end(states[-1])
    loss = functional.cross_entropy(logits[:, :-1].float().flatten(0, 1), IDS[:, 1:].flatten())
    adjoints = torch.autograd.grad(loss, states)
    for site, (state, adjoint) in enumerate(zip(states, adjoints, strict=True)):
        for mine, tensor in ((found.activation_rms, state), (found.adjoint_rms, adjoint)):
            wanted = tensor.detach().double()[:, :-1].square().mean().sqrt()
            assert mine[0, site] == pytest.approx(float(wanted), rel=1e-12)
    assert not equal(found, plain)
    assert plain.notes == ()
    assert "torch.autocast to bfloat16" in found.notes[0]


@pytest.mark.parametrize("name", ["Fused", "Gated", "Skips", "Unit", "Scripted"])
def test_sums_rounded_by_autocast_are_proved_and_said(name: str) -> None:
    model = built(getattr(zoo, name))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = audit(model, IDS)
    assert result.identity.verdict == "proved"
    assert "tolerance of bfloat16" in result.document()["model"]["notes"][0]
    assert audit(model, IDS).identity.verdict == "proved"


def test_autocast_of_the_script_goes_on_with_the_true_weights() -> None:
    """A run with silenced weights must leave none of them in autocast's cache."""
    model = built()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        before = model(IDS)
        observe_module(model, IDS)
        assert torch.equal(model(IDS), before)
