"""Hostile numbers, lists, names and JSON, as data and as changes of good ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

# What reaches a program for bytes that are no text.
NO_TEXT = "\udcff\udc80"
WORDS = (
    "", " ", "x", "null", "true", "é", "😀", NO_TEXT, "x" * 300, "\x1b[31mred", "a\nb", "-", "--", "=", ",", ";", "%s",
    "{0}", "None", "\u202eabc", "\u2028",
)  # fmt: skip
WHOLES = (
    "-1", "0", "-0", "00004", " 4 ", "\t4\n", "4097", str(2**31), str(2**53), str(2**53 + 1), str(2**63),
    str(2**64 - 1),
    str(2**64), str(-(2**63)), "1" + "0" * 40, "-1" + "0" * 40, "9" * 5000, "1_0", "+1", "1e3", "2.5", "0x10", "nan",
    "inf", "١٢", "１２", "²", "Ⅳ", "1\xa0", "\u20091", "1,2", "1 2",
)  # fmt: skip
NUMBERS = (
    "nan", "inf", "-inf", "infinity", "1e999", "-1e999", "-0", "-0.0", "0", "5e-324", "1e-400", "1e-320", "1e-160",
    "1e160", "1e308", "1.7976931348623157e308", "-1", "1_0", "١.٥", "1,5", "0x1p3", "1e", ".", "e5", "1.0.0",
    "1." + "0" * 2000, " 1 ", "1\xa0", "--1", "1e+", str(10**40),
)  # fmt: skip
SEEDS = (
    "0", str(2**64 - 1), str(2**64), "-1", "-0", "1.0", "1e3", "0x1", "1_0", "٣", " 7 ", "9" * 5000, "0" * 100, "seed",
)  # fmt: skip
RANGES = (
    "0:2", "7", "0,0", "2:1", "1:1", ":", "0:", ":2", "0:2:1", "-1:1", "0:4194305", "0:1" + "0" * 40,
    f"{2**64 - 1}:{2**64}", f"{2**64 - 2}:{2**64 + 1}", "0:2,0:2", "0;2", "0: 2", "a:b", "0:٢", ",", "0,,1", "1_0:1_2",
    "0..2", "," * 5000,
)  # fmt: skip
LISTS = (
    "1", "1,2", "2,1", "1,1", "", ",", "1,", ",1", "1,,2", "1;2", "1;", ";", "1,2;3", "0", "-1", "4097", "1.0", "1e1",
    "1,x", "1,١", "1:3", str(2**53), str(2**64), "1" + "0" * 40, "1," * 5000, " 1 , 2 ", "[1,2]", "1\xa0,2", NO_TEXT,
)  # fmt: skip
VECTORS = (
    "1,2,3", "0,0,0", "1", "1;2", "1,2;3,4", "1,2;3", "nan,1", "inf,1", "1e308,1e308,-1e308", "5e-324,5e-324", "1,",
    ",,", "", "1 2", "1e999,1", "-0,-0", "1," * 3000 + "1", "x", "1,2;3,4;5,6;7,8",
)  # fmt: skip
BANDS = (
    "0.01,100", "1,1", "5e-324,1e308", "1e308,1.7976931348623157e308", "5e-324,5e-324", "2,1", "0,1", "-1,1", "nan,1",
    "1,inf", "1", "1,2,3", "", ",", "1;2", "1e-400,1", " 1 , 2 ", "0.01:100", "١,٢", "1_0,2_0", "x,y", "1e,2",
)  # fmt: skip
RECIPES = (
    "unscaled", "depth-scaled", "gpt2", "ngpt", "lns", "post-norm", "peri-norm", "deepnorm", "deepscalelm", "wang",
    "t-fixup", "gpt2+wang", "gpt2 wang", "gpt2+gpt2", "post-norm+peri-norm", "lns+ngpt", "gpt2++wang", "+gpt2", "gpt2+",
    "+", "", " ", "GPT2", "gpt2,wang", "gpt2,gpt2", "depth-scald", "gpt2\xa0", "gpt2+" * 500 + "wang", "../gpt2", "all",
    "none", "ＧＰＴ2", NO_TEXT,
)  # fmt: skip
TEXTS = ("", "a", "Hello", "é😀", "\x01", NO_TEXT, "a\nb", "x" * 3000, "x" * 70_000, "\ufeff")
SCHEDULERS = (
    "", "x", "tcp://", "tcp://127.0.0.1:1", "127.0.0.1:1", "http://127.0.0.1:1", "127.0.0.1:port", "tcp://[::1",
    "tcp://127.0.0.1:99999", "inproc://x", "ucx://x", "tls://127.0.0.1:1", "x" * 300, ":", "://", NO_TEXT,
    "tcp://a b:1",
)  # fmt: skip

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 2**31, 2**53, 2**63, 2**64, 10**40, -(2**63), 0.0, -0.0, 0.5, 1.0, 5e-324, 1e308,
    -1e308, "", "x", "1", "nan", "gpt2", "../x", "\x00", "\ud800", "😀", "x" * 10_000, [], [1], [[]], [[1]], [None],
    [[True]], {}, {"a": 1}, {"": {}}, [0] * 2000, ["x"] * 3, "float32", "bfloat16", "post-norm", "ngpt", "t-fixup",
)  # fmt: skip

Document = Any


def mutated(draw: Random, document: Document) -> Document:
    """`document` with one to three of its values replaced, removed, doubled, wrapped or renamed."""
    changed = json.loads(json.dumps(document))
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        places = _places(changed)
        if not places:
            return draw.choice(VALUES)
        holder, key = draw.choice(places)
        draw.choice(CHANGES)(draw, holder, key)
    return changed


def _places(value: Document) -> list[tuple[Any, Any]]:
    if not isinstance(value, dict | list):
        return []
    keys = list(value) if isinstance(value, dict) else range(len(value))
    found = [(value, key) for key in keys]
    # A long list says nothing more after its beginning.
    return [*found, *(place for key in list(keys)[:40] for place in _places(value[key]))]


def _replace(draw: Random, holder: Any, key: Any) -> None:
    holder[key] = draw.choice(VALUES)


def _remove(draw: Random, holder: Any, key: Any) -> None:
    del holder[key]


def _wrap(draw: Random, holder: Any, key: Any) -> None:
    holder[key] = draw.choice(([holder[key]], {"x": holder[key]}, str(holder[key])))


def _double(draw: Random, holder: Any, key: Any) -> None:
    if isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        holder[f"{key} "] = holder[key]


def _rename(draw: Random, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[draw.choice(("", "unheard_of", key.upper(), "\ud800"))] = holder.pop(key)
    else:
        holder.append(draw.choice(VALUES))


def _nudge(draw: Random, holder: Any, key: Any) -> None:
    value = holder[key]
    if isinstance(value, int | float):
        holder[key] = draw.choice((value + 1, -value, value * 2, float(value), value / 3, value * 1000))
    else:
        _replace(draw, holder, key)


CHANGES: tuple[Callable[[Random, Any, Any], None], ...] = (
    _replace, _replace, _replace, _remove, _remove, _wrap, _double, _rename, _nudge, _nudge,
)  # fmt: skip


def damaged(draw: Random, data: bytes) -> bytes:
    """Bytes of a file that are cut, flipped, mixed up or something else."""
    return draw.choice(DAMAGES)(draw, data)


def _flipped(draw: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 16))):
        if changed:
            # The beginning tells what the rest is, so half the faults lie there.
            place = draw.randrange(min(len(changed), draw.choice((16, 200, len(changed)))))
            changed[place] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _cut(draw: Random, data: bytes) -> bytes:
    return data[: draw.randrange(len(data) + 1)]


def _spliced(draw: Random, data: bytes) -> bytes:
    place = draw.randrange(len(data) + 1)
    return data[:place] + draw.randbytes(draw.choice((1, 8, 4096))) + data[place:]


DAMAGES: tuple[Callable[[Random, bytes], bytes], ...] = (
    _flipped,
    _flipped,
    _cut,
    _cut,
    _spliced,
    lambda draw, data: b"",
    lambda draw, data: data + data,
    lambda draw, data: data[::-1],
    lambda draw, data: bytes(len(data)),
    lambda draw, data: draw.randbytes(len(data)),
    lambda draw, data: data + b"\x00" * 4096,
)

# Texts of one JSON document that are not as `json.dumps` writes them.
REWRITINGS: Mapping[str, Callable[[Random, str], bytes]] = {
    "mark of byte order": lambda draw, text: text.encode("utf-8-sig"),
    "two marks": lambda draw, text: b"\xef\xbb\xbf" + text.encode("utf-8-sig"),
    "other encodings": lambda draw, text: text.encode(draw.choice(("utf-16", "utf-16-le", "utf-32"))),
    "no encoding": lambda draw, text: text.replace('"', '"ÿ', 1).encode("latin-1", "replace"),
    "repeated key": lambda draw, text: (text[:1] + '"a": 1, "a": 2, ' + text[1:]).encode(),
    "doubled": lambda draw, text: (text + text).encode(),
    "rest": lambda draw, text: (text + draw.choice((",", "}", "//x", "\n\n \t", "\x00"))).encode(),
    "literal": lambda draw, text: _once(draw, text, draw.choice(("NaN", "Infinity", "-Infinity"))),
    "overflow": lambda draw, text: _once(draw, text, draw.choice(("1e999", "-1e400", "9" * 90, "9" * 5000, "1e-999"))),
    "no JSON": lambda draw, text: _once(draw, text, draw.choice(("01", "+1", ".5", "1.", "'x'", "undefined", "0x1"))),
    "surrogate": lambda draw, text: _once(draw, text, draw.choice(('"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"'))),
    "nested": lambda draw, text: _once(draw, text, "[" * 19 + "]" * 19),
    "deep": lambda draw, text: draw.choice((b"[", b'{"a":', b"[{")) * 100_000,
    "no object": lambda draw, text: draw.choice((b"", b" ", b"null", b"[]", b"0", b'"x"', b"true", b"{}", b"[1]")),
    "broken lines": lambda draw, text: text.replace(" ", "\r\n").encode(),
    "large": lambda draw, text: text.encode() + b" " * 2**22,
}  # fmt: skip


def _once(draw: Random, text: str, new: str) -> bytes:
    digits = [index for index, letter in enumerate(text[:5000]) if letter.isdigit()]
    if not digits:
        return new.encode()
    place = draw.choice(digits)
    return (text[:place] + new + text[place + 1 :]).encode()


def json_bytes(draw: Random, document: Document) -> bytes:
    """A document's text: as it is, with other values, written otherwise, or damaged."""
    kind = draw.random()
    if kind < 0.5:
        document = mutated(draw, document)
    text = json.dumps(document)
    if kind < 0.6:
        return text.encode()
    return draw.choice(list(REWRITINGS.values()))(draw, text) if kind < 0.85 else damaged(draw, text.encode())
