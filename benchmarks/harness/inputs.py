"""The inputs of the benchmarks: deterministic, and generated once."""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Iterable, Iterator
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
    return list(_occurring(count, keys, minutes))


def _occurring(count: int, keys: int = 10_000, minutes: int = 60) -> Iterator[Event]:
    rng = random.Random(2015)
    span = minutes * 60
    for i in range(count):
        key = f"user-{rng.randrange(keys)}"
        yield key, _NOON + int(i * span / count - rng.expovariate(1 / 30)), rng.randrange(100)


def word_file(size: int = WORD_FILE_BYTES) -> Path:
    """A text file of Zipf-distributed words, ten a line."""
    return _generated(f"words-{size}.txt", _lines_of_words(size))


def large_word_file(copies: int = 10) -> Path:
    """The file of words several times."""
    small = word_file()
    lines = (line.rstrip("\n") for _ in range(copies) for line in small.open(encoding="ascii"))
    return _generated(f"words-{copies * WORD_FILE_BYTES}.txt", lines)


def event_file(count: int = 1_000_000) -> Path:
    """A text file of `events`: lines of key, seconds and value."""
    lines = (f"{key},{seconds},{value}" for key, seconds, value in _occurring(count))
    return _generated(f"events-{count}.txt", lines)


def click_file(count: int = 1_000_000) -> Path:
    """A file of `events` as JSON, an object with user, at and value on each line."""
    lines = (json.dumps({"user": key, "at": at, "value": value}) for key, at, value in _occurring(count))
    return _generated(f"clicks-{count}.jsonl", lines)


def number_file(count: int) -> Path:
    """A text file of the numbers from 0 on, one a line."""
    return _generated(f"numbers-{count}.txt", map(str, range(count)))


def scratch_directory() -> Path:
    """The directory of generated inputs, which is large enough for outputs too."""
    directory = Path(os.environ.get("PENSTOCK_BENCHMARKS", Path(tempfile.gettempdir()) / "penstock-benchmarks"))
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _generated(name: str, lines: Iterable[str]) -> Path:
    """The file of a name, which is written if it isn't there."""
    path = scratch_directory() / name
    if not path.exists():
        # Another benchmark run at the same time sees the whole file, or none.
        unfinished = path.with_suffix(f".{os.getpid()}")
        with unfinished.open("w", encoding="ascii") as file:
            file.writelines(f"{line}\n" for line in lines)
        unfinished.rename(path)
    return path


def _lines_of_words(size: int) -> Iterator[str]:
    rng = random.Random(2015)
    words = _vocabulary(rng)
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    written = 0
    while written < size:
        chosen = rng.choices(words, cum_weights=weights, k=10_000)
        for i in range(0, len(chosen), _WORDS_A_LINE):
            line = " ".join(chosen[i : i + _WORDS_A_LINE])
            written += len(line) + 1
            yield line


def _vocabulary(rng: random.Random) -> list[str]:
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words: dict[str, None] = {}
    while len(words) < _VOCABULARY:
        words["".join(rng.choices(letters, k=rng.randint(2, 10)))] = None
    return list(words)
