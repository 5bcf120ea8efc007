"""The inputs of the benchmarks: deterministic, and generated once."""

from __future__ import annotations

import os
import random
import tempfile
from functools import cache
from itertools import accumulate
from pathlib import Path

WORD_FILE_BYTES = 100_000_000
_VOCABULARY = 200_000
_WORDS_A_LINE = 10

# 2015-08-31, noon.
_NOON = 1_441_022_400

# An event: key, event time in seconds, value.
Event = tuple[str, int, int]


@cache
def events(count: int = 1_000_000, keys: int = 10_000, minutes: int = 60) -> list[Event]:
    """Events of an hour, out of order: each comes after a delay of half a minute on average."""
    rng = random.Random(2015)
    span = minutes * 60
    return [
        (f"user-{rng.randrange(keys)}", _NOON + int(i * span / count - rng.expovariate(1 / 30)), rng.randrange(100))
        for i in range(count)
    ]


def word_file(size: int = WORD_FILE_BYTES) -> Path:
    """A text file of Zipf-distributed words, ten a line."""
    directory = Path(os.environ.get("PENSTOCK_BENCHMARKS", Path(tempfile.gettempdir()) / "penstock-benchmarks"))
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"words-{size}.txt"
    if not path.exists():
        # Another benchmark run at the same time sees the whole file, or none.
        unfinished = path.with_suffix(f".{os.getpid()}")
        _write_words(unfinished, size)
        unfinished.rename(path)
    return path


def large_word_file() -> tuple[Path, int]:
    """A file of 1 GB: the smaller one several times, and how many times."""
    small, copies = word_file(), 10
    path = small.with_name(f"words-{copies * WORD_FILE_BYTES}.txt")
    if not path.exists():
        unfinished = path.with_suffix(f".{os.getpid()}")
        with unfinished.open("wb") as file:
            for _ in range(copies):
                file.write(small.read_bytes())
        unfinished.rename(path)
    return path, copies


def _write_words(path: Path, size: int) -> None:
    rng = random.Random(2015)
    words = _vocabulary(rng)
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    written = 0
    with path.open("w", encoding="ascii") as file:
        while written < size:
            chosen = rng.choices(words, cum_weights=weights, k=10_000)
            lines = [" ".join(chosen[i : i + _WORDS_A_LINE]) for i in range(0, len(chosen), _WORDS_A_LINE)]
            written += file.write("\n".join(lines) + "\n")


def _vocabulary(rng: random.Random) -> list[str]:
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words: dict[str, None] = {}
    while len(words) < _VOCABULARY:
        words["".join(rng.choices(letters, k=rng.randint(2, 10)))] = None
    return list(words)
