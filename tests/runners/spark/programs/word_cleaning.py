"""A module that count_words.py imports from its directory; workers don't have the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

import penstock as beam


@attrs.frozen(order=True)
class Word:
    """A value of a user's class."""

    text: str
    length: int


class Clean(beam.DoFn):
    """Return the letters of words."""

    def process(self, line: str) -> Iterator[Word]:
        for text in line.lower().split():
            letters = "".join(filter(str.isalpha, text))
            if letters:
                yield Word(letters, len(letters))


class Longest(beam.CombineFn):
    """Return the longest word, and of several the first in the alphabet."""

    def create_accumulator(self) -> Any:
        return None

    def add_input(self, accumulator: Any, word: Word) -> Any:
        return word if accumulator is None or (-word.length, word) < (-accumulator.length, accumulator) else accumulator

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        merged = None
        for accumulator in accumulators:
            merged = merged if accumulator is None else self.add_input(merged, accumulator)
        return merged

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator
