"""What count_words.py imports from beside itself: workers don't have this file."""

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
    """Words without what isn't letters."""

    def process(self, line: str) -> Iterator[Word]:
        for text in line.lower().split():
            letters = "".join(filter(str.isalpha, text))
            if letters:
                yield Word(letters, len(letters))


class Longest(beam.CombineFn):
    """The longest word; of several the first of the alphabet."""

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
