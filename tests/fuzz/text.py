"""Bytes to ``reads``: a ParseError with a line that exists, or a valid formula that writes and reads back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from test_fuzz import SEEDS, WORDS, check_reading

from sharpdnf import formats


def cases(seed: int) -> Iterator[Any]:
    random_ = random.Random(seed)
    for _ in range(100):
        data = random_.choice(SEEDS) if random_.random() < 0.9 else b"p dnf 4 3\n"
        for _ in range(random_.randint(1, 6)):
            data = mutate(random_, data)
        yield {"data": data[:4000].decode("latin-1"), "dialect": random_.choice([None, *formats.READ_DIALECTS])}


def mutate(random_: random.Random, data: bytes) -> bytes:
    """The text with one place replaced, cut out, repeated or swapped for another file's."""
    i, j = sorted(random_.randint(0, len(data)) for _ in range(2))
    if random_.random() < 0.6:
        j = min(j, i + 3)
    piece = random_.choice(
        [random_.choice(WORDS), random_.randbytes(random_.randint(1, 8)), b"%d" % random_.randint(-(10**20), 10**20)]
    )
    return random_.choice(
        [data[:i] + piece + data[j:], data[:i] + b" " + piece + b" " + data[i:], data[:i] + data[j:],
         data[:j] + data[i:], data[:i] + random_.choice(SEEDS)[i:], data[:i]]
    )  # fmt: skip


def check(case: Any) -> bool:
    return check_reading(case["data"].encode("latin-1"), case["dialect"])
