"""Ways to damage a text: by bytes, and by the words that readers look for."""

from __future__ import annotations

import re

import numpy as np

WORD = re.compile(rb"[\w.+-]+|\s|[^\w\s]")
ODD = [
    *(b"0", b"-1", b"1", b"2", b"1e308", b"1e999", b"-1e999", b"nan", b"inf", b"1e-320", b"0x1p3"),
    *(b"2147483647", b"2147483648", b"-2147483649", b"4294967296", b"9223372036854775807"),
    *(b"18446744073709551616", b"9" * 400, b"1_000", b"1,5", b"$12.30", b"12%", b"01", b"1.", b"-"),
    *(b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\xe9", "é²½".encode(), "\u2028".encode()),
    *(b"'", b'"', b'""', b",", b";", b"\t", b":", b"\n", b"\r", b"\r\n", b"\n\n", b">", b"#", b"{"),
    *(b"NA", b"None", b"True", b"2024-01-31", b"2024-13-45T99:00", b"1:1", b"qid:3", b"x" * 3000),
]


def damaged(rng: np.random.Generator, text: bytes) -> bytes:
    """The text with a few of its bytes, words or lines changed, repeated, moved or cut away."""
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        how = rng.integers(6)
        parts: list[bytes]
        if how < 3:
            parts = WORD.findall(text)
        elif how < 5:
            parts = text.splitlines(keepends=True)
        else:
            parts = [bytes([byte]) for byte in text]
        if not parts:
            return bytes(rng.choice(list(b"01: \n,>"), 5).tolist())
        a, b = sorted(rng.integers(0, len(parts) + 1, 2))
        a, b = (a, min(b, a + 3)) if rng.integers(4) else (a, b)
        other = rng.integers(5)
        if other == 0:
            parts[a:b] = []
        elif other == 1:
            parts[a:b] = parts[a:b] * int(rng.choice([2, 3, 50]))
        elif other == 2:
            moved = parts[a:b]
            del parts[a:b]
            at = int(rng.integers(0, len(parts) + 1))
            parts[at:at] = moved
        else:
            new = ODD[rng.integers(len(ODD))] if how < 5 else bytes([rng.integers(256)])
            parts[a : min(b, a + 1)] = [new]
        text = b"".join(parts)[:200_000]
    return text
