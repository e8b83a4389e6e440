"""The reduced twin: a narrower decoder with the same ratios as a wide one, which can be observed at once.

A residual branch reads a normalized state, so the scale of its contribution depends on a matrix only through std *
sqrt(fan_in), where std is the standard deviation of the entries. A narrower decoder that keeps this product and the RMS
of the embeddings has the same RMS at every site (state of the residual stream), up to fluctuations of order 1 /
sqrt(width). With the same std instead it would be another model: at a fourth of the width, the output of every matrix
would be half as large.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, shown
from .config import SIZE_FIELDS, DecoderConfig, TrueSizes
from .parameters import layout

if TYPE_CHECKING:
    # Sizes and twins wait for no array library.
    from .batch import Batch

LEAST_HEAD_DIM = 16
# A bound on the search alone: no twin for an answer at once has as many.
MOST_HEADS = 4096
LEAST_VOCABULARY = 1000
# Wide enough for ratios within a tenth, narrow enough for an answer at once.
WIDEST = 320
LEAST_POSITIONS = 64


def reduced_twin(
    config: DecoderConfig, width: int, *, vocabulary: int | None = None, positions: int | None = None
) -> DecoderConfig:
    """Return the config of the twin of `config` at `width`.

    Use it with the same `Distribution`, seeds, recipe and rows. Its `true_sizes` are the sizes of the wide decoder. All
    laws of draw, recipe and graph are evaluated at these: each matrix has the std * sqrt(fan_in) of the true one,
    embeddings have the true RMS, and multipliers are the true ones. `blocks`, norms, the kind of positions, tying and
    biases are kept. `ff_width` keeps its ratio to the width, rounded. The number of heads is the largest that leaves an
    even head_dim of at least 16 (or the true one, if that is smaller); heads / kv_heads is kept if some such number of
    heads allows it.

    `vocabulary` may reduce the vocabulary to 1,000 or more, and `positions` (of the longest row) the capacity to 64 or
    more; None, or a number that is not smaller, keeps them. A twin of a twin is a twin of the true decoder; at the true
    sizes it is `config` itself. Source of the law: with independent weights of variance std^2, a sum of fan_in terms
    has the variance fan_in * std^2 times the inputs' mean square. Raises `ConfigError` if the width is not valid or
    leaves no head.
    """
    true = config.true_config
    _check_width(true, width)
    inner = in_proportion(true.heads * true.head_width, width, true.width)
    exact = true.heads * true.head_width == true.width
    found = twin_heads(inner, true.heads, true.key_value_heads, true.head_width, exact=exact)
    if found is None:
        raise ConfigError(_no_head(true, width))
    heads, kv_heads, head_dim = found
    twin = replace(
        true,
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ff_width=in_proportion(true.ff_width, width, true.width),
        vocabulary=_vocabulary(true, vocabulary),
        positions=true.positions if positions is None else min(true.positions, max(LEAST_POSITIONS, positions)),
    )
    return true if twin == true else replace(twin, true_sizes=_sizes(true))


def suggested_width(true_width: int, widest: int = WIDEST) -> int:
    """Return a width for a twin: `true_width` halved to at most `widest`, as long as halves are multiples of 8.

    If halving ends before that, the result is `widest`. Halving keeps the ratios of all sizes exactly.
    """
    width = true_width
    while width > widest and width % 16 == 0:
        width //= 2
    return width if width <= widest else widest


def twin_for_rows(config: DecoderConfig, width: int, batch: Batch) -> DecoderConfig:
    """Return the config of the twin at `width`, with vocabulary and positions reduced to the need of `batch`.

    Raises `BatchError` if the rows do not fit the decoder itself, `ConfigError` as `reduced_twin`.
    """
    batch.check(config.true_config)
    largest = int(max(batch.inputs.max(), batch.targets.max()))
    return reduced_twin(
        config, width, vocabulary=max(LEAST_VOCABULARY, largest + 1), positions=int(batch.positions.max()) + 1
    )


def twin_document(config: DecoderConfig) -> dict[str, Any] | None:
    """Return the key `twin` of a JSON document as a dict; None if `config` is not a reduced twin.

    - `true`, `twin`: the sizes of the wide decoder and of the twin, each with its number of parameters.
    - `spreads`: one entry per drawn matrix with its role, both fan_in, the twin's standard deviation divided by the
      true one, and the product that was kept.
    - `kept`: the depth, and whether each ratio or size is the true one.
    """
    if config.true_sizes is None:
        return None
    true, sizes = config.true_config, layout(config)
    drawn = [spec for spec in sizes.stem + sizes.block_template + sizes.tail if spec.draws]
    return {
        "true": _described(true),
        "twin": _described(config),
        "spreads": [
            {
                "role": spec.role,
                "true_fan_in": spec.true_shape[0],
                "fan_in": spec.shape[0],
                "std_over_true_std": spec.twin_gain,
                "kept": "std" if spec.role.endswith("embedding") else "std * sqrt(fan_in)",
            }
            for spec in drawn
        ],
        "kept": {
            "depth": config.blocks,
            "ff_ratio": true.ff_width * config.width == config.ff_width * true.width,
            "heads": true.heads == config.heads,
            "head_dim": true.head_width == config.head_width,
            "grouping": true.heads * config.key_value_heads == config.heads * true.key_value_heads,
            "vocabulary": true.vocabulary == config.vocabulary,
            "positions": true.positions == config.positions,
        },
    }


def _described(config: DecoderConfig) -> dict[str, int]:
    return {
        "blocks": config.blocks, **asdict(_sizes(config)), "parameters": layout(config).parameters,
    }  # fmt: skip


def _sizes(config: DecoderConfig) -> TrueSizes:
    names = (*(name for name in SIZE_FIELDS if name != "blocks"), "head_dim")
    return TrueSizes(**{name: getattr(config, name) for name in names})


def _check_width(true: DecoderConfig, width: int) -> None:
    if isinstance(width, bool) or not isinstance(width, int) or not 0 < width <= true.width:
        raise ConfigError(
            f"The twin's width is {shown(width)}; it must be a whole number from 1 to the decoder's own {true.width}."
        )


def _no_head(true: DecoderConfig, width: int) -> str:
    least, kind = min(LEAST_HEAD_DIM, true.head_width), "a head_dim" if true.head_width % 2 else "an even head_dim"
    enough = -(-least * true.width // (true.heads * true.head_width))
    return (
        f"A twin of width {width} has no head with {kind} of at least {least}; choose an even width of at least "
        f"{enough}, such as a power of two."
    )


def twin_heads(
    inner: int, heads: int, kv_heads: int, head_dim: int, *, exact: bool, dividing: int = 0
) -> tuple[int, int, int] | None:
    """Return (heads, kv_heads, head_dim) of a twin with `inner` features over all query heads; None if impossible.

    The arguments `heads`, `kv_heads` and `head_dim` are the true ones. The largest possible number of heads with the
    true heads / kv_heads is chosen, else the largest number. With `exact` all heads together must have exactly `inner`
    features; otherwise each head has the nearest even size, and the sum may miss `inner` by a tenth. The number of
    heads must divide `dividing`, unless that is 0. An odd true head_dim allows odd sizes.
    """
    least, step = min(LEAST_HEAD_DIM, head_dim), 1 if head_dim % 2 else 2
    sizes: dict[int, int] = {}
    for count in range(1, min(heads, inner // least, MOST_HEADS) + 1):
        size = max(least, step * round(inner / (step * count)))
        if dividing % count == 0 and (count * size == inner or (not exact and 10 * abs(count * size - inner) <= inner)):
            sizes[count] = size
    if not sizes:
        return None
    grouping = heads // kv_heads
    chosen = max((count for count in sizes if count % grouping == 0), default=max(sizes))
    shared = max(group for group in range(1, min(grouping, chosen) + 1) if chosen % group == 0)
    return chosen, chosen // shared, sizes[chosen]


def in_proportion(size: int, width: int, true_width: int) -> int:
    """Return `size` times `width` / `true_width`, rounded exactly to the nearest integer, at least 1."""
    return max(1, (2 * size * width + true_width) // (2 * true_width))


def _vocabulary(true: DecoderConfig, wanted: int | None) -> int:
    if wanted is None:
        return true.vocabulary
    least = min(LEAST_VOCABULARY, true.vocabulary)
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < least:
        raise ConfigError(f"The twin's vocabulary is {shown(wanted)}; it must be a whole number of at least {least:,}.")
    return min(true.vocabulary, wanted)
