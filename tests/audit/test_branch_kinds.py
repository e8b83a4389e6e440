"""What a branch is called: attention, mixer or feed-forward, whatever its neighbour of the same shape is."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from core.audit import audit
from tests.audit.zoo import VOCABULARY, WIDTH, Decoder

IDS = torch.randint(0, VOCABULARY, (2, 7), generator=torch.Generator().manual_seed(1))


class Between(nn.Module):
    """Two matrices around one operation, which alone tells whether positions are mixed."""

    def __init__(self, operation: str) -> None:
        super().__init__()
        self.operation = operation
        self.into, self.out = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.into(x)
        return self.out(h.cumsum(1) if self.operation == "mixer" else torch.tanh(h))


class Pattern(Decoder):
    """`kinds` are those of the branches of each block in turn."""

    def attention(self, block: int) -> nn.Module:
        return Between(self.options["kinds"][2 * block])

    def feed_forward(self, block: int) -> nn.Module:
        return Between(self.options["kinds"][2 * block + 1])


@pytest.mark.parametrize("kinds", itertools.product(("mixer", "feed_forward"), repeat=4))
def test_branches_of_one_shape_keep_their_own_kinds(kinds: tuple[str, ...]) -> None:
    result = audit(Pattern(blocks=2, kinds=kinds), IDS)
    assert result.identity.verdict == "proved", result.identity.reason
    assert [site.kind for site in result.discovery.sites] == list(kinds)


def test_labels_say_which_of_two_equal_shapes_mixes() -> None:
    for kinds in (("mixer", "feed_forward"), ("feed_forward", "mixer")):
        labels = [row["label"] for row in audit(Pattern(blocks=2, kinds=kinds * 2), IDS).document()["additions"]]
        assert labels == [f"block.{block}.after_{kind}" for block in range(2) for kind in kinds]


def test_what_a_gate_of_the_batch_decides_is_asked_of_each_branch() -> None:
    """The same nodes with other values: one branch reads its mix through a mask of the diagonal alone."""

    class Masked(nn.Module):
        def __init__(self, mixes: bool) -> None:
            super().__init__()
            self.out, self.mixes = nn.Linear(WIDTH, WIDTH, bias=False), mixes

        def forward(self, x: Tensor) -> Tensor:
            eye = torch.eye(x.shape[1])
            return self.out(torch.einsum("ij,bjd->bid", torch.ones_like(eye).tril() if self.mixes else eye, x))

    class Both(Decoder):
        def attention(self, block: int) -> nn.Module:
            return Masked(mixes=False)

        def feed_forward(self, block: int) -> nn.Module:
            return Masked(mixes=True)

    assert [site.kind for site in audit(Both(), IDS).discovery.sites] == ["feed_forward", "mixer"] * 3
