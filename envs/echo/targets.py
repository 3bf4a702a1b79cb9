"""The words of the echo environment: pronounceable, four to seven letters, the same on every machine."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import islice

SEED = 7  # one whose words are equally long in both splits
SIZES: Mapping[str, int] = {"train": 128, "test": 64}

_FIRST = ("hello", "world")
_ONSETS = (*"bcdfghjklmnprstvwz", "br", "cl", "dr", "fl", "gr", "pl", "st", "tr")
_VOWELS = (*"aeiou", *"aeiou", "ea", "ou")
_CODAS = ("",) * 7 + ("l", "m", "n", "r", "s", "t", "nd", "st")


def _word(rng: random.Random) -> str:
    return "".join(part for _ in range(2) for part in (rng.choice(_ONSETS), rng.choice(_VOWELS), rng.choice(_CODAS)))


def _words() -> Iterator[str]:
    yield from _FIRST
    rng = random.Random(SEED)
    seen = set(_FIRST)
    while True:
        word = _word(rng)
        if 4 <= len(word) <= 7 and word not in seen:
            seen.add(word)
            yield word


def split_targets() -> dict[str, list[str]]:
    """Return the targets of every split; no word stands in two of them.

    The words are drawn from one stream, so a word's letters say nothing about its split.
    """
    stream = _words()
    return {split: list(islice(stream, size)) for split, size in SIZES.items()}
