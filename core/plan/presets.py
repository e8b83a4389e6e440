"""Published decoders as data, under the names that links and menus use.

Sources: the models' published configuration files. The norms and block matrices of GPT-2 have biases; Qwen2 has biases
on query, key and value only; Qwen3 normalizes the query and key of each head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..decoder.config import DecoderConfig
from .request import PlanRequest, biases, query_key_gains


@dataclass(frozen=True)
class Preset:
    """A known model: its title in menus, its sizes, and the family whose code initializes it, or None."""

    title: str
    request: PlanRequest
    family: str | None = None


def _gpt2(title: str, *, blocks: int, width: int, heads: int) -> Preset:
    config = DecoderConfig(
        blocks=blocks, width=width, heads=heads, ff_width=4 * width, vocabulary=50257, positions=1024,
        rms_epsilon=1e-5, norm="layernorm", mlp="gelu", position_encoding="learned", bias=True,
    )  # fmt: skip
    return Preset(title, PlanRequest(config=config), "gpt2")


def _llama(
    title: str, *, blocks: int, width: int, heads: int, ff_width: int, kv_heads: int | None = None,
    vocabulary: int = 32000, positions: int = 4096, rope_base: float = 10000.0, family: str = "llama",
) -> Preset:  # fmt: skip
    config = DecoderConfig(
        blocks=blocks, width=width, heads=heads, kv_heads=kv_heads, ff_width=ff_width, vocabulary=vocabulary,
        positions=positions, rope_base=rope_base, rms_epsilon=1e-5, tied=False,
    )  # fmt: skip
    return Preset(title, PlanRequest(config=config), family)


def _llama3(title: str, *, blocks: int, width: int, heads: int, ff_width: int, positions: int = 8192) -> Preset:
    return _llama(
        title, blocks=blocks, width=width, heads=heads, kv_heads=8, ff_width=ff_width, vocabulary=128256,
        positions=positions, rope_base=500000.0,
    )  # fmt: skip


_LAPTOP = DecoderConfig(
    blocks=8, width=512, heads=8, kv_heads=2, ff_width=1536, vocabulary=16384, positions=512
)  # fmt: skip
_QWEN2_7B = DecoderConfig(
    blocks=28, width=3584, heads=28, kv_heads=4, ff_width=18944, vocabulary=152064, positions=131072,
    rope_base=1e6, tied=False,
)  # fmt: skip
_QWEN3_8B = DecoderConfig(
    blocks=36, width=4096, heads=32, kv_heads=8, head_dim=128, ff_width=12288, vocabulary=151936, positions=40960,
    rope_base=1e6, tied=False, query_key_norm=True,
)  # fmt: skip

LAPTOP = "laptop"

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        LAPTOP: Preset("Laptop plan", PlanRequest(config=_LAPTOP)),
        "gpt2": _gpt2("GPT-2 small", blocks=12, width=768, heads=12),
        "gpt2-medium": _gpt2("GPT-2 medium", blocks=24, width=1024, heads=16),
        "gpt2-large": _gpt2("GPT-2 large", blocks=36, width=1280, heads=20),
        "gpt2-xl": _gpt2("GPT-2 XL", blocks=48, width=1600, heads=25),
        "llama-2-7b": _llama("Llama 2 7B", blocks=32, width=4096, heads=32, ff_width=11008),
        "llama-2-13b": _llama("Llama 2 13B", blocks=40, width=5120, heads=40, ff_width=13824),
        "llama-2-70b": _llama("Llama 2 70B", blocks=80, width=8192, heads=64, kv_heads=8, ff_width=28672),
        "llama-3-8b": _llama3("Llama 3 8B", blocks=32, width=4096, heads=32, ff_width=14336),
        "llama-3-70b": _llama3("Llama 3 70B", blocks=80, width=8192, heads=64, ff_width=28672),
        "llama-3.1-405b": _llama3(
            "Llama 3.1 405B", blocks=126, width=16384, heads=128, ff_width=53248, positions=131072
        ),
        "mistral-7b": _llama(
            "Mistral 7B v0.1",
            blocks=32,
            width=4096,
            heads=32,
            kv_heads=8,
            ff_width=14336,
            positions=32768,
            family="mistral",
        ),
        "qwen2-7b": Preset(
            "Qwen2 7B", PlanRequest(config=_QWEN2_7B, extra=biases(_QWEN2_7B, ("query", "key", "value"))), "qwen2"
        ),
        "qwen3-8b": Preset("Qwen3 8B", PlanRequest(config=_QWEN3_8B, extra=query_key_gains(_QWEN3_8B)), "qwen3"),
    }
)
