"""Inferred unions: a function that takes one of the members isn't refused, since its elements may all be of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

import penstock as beam
from penstock.sdk.errors import TypeHintError


def parsed(line: str):  # type: ignore[no-untyped-def]
    name, value = line.split(",")
    return {"k": name, "v": float(value)}


def or_none(line: str):  # type: ignore[no-untyped-def]
    if not line:
        return None
    return line


def text(value: str) -> str:
    return value


def number(value: float) -> float:
    return value


class OfText(beam.DoFn):
    def process(self, element: str) -> Iterable[str]:
        yield element


def declared(line: str) -> float | str:
    return line


STEPS: dict[str, Callable[[Any], Any]] = {
    "a mean": lambda lines: (
        lines | beam.Map(parsed) | "pair" >> beam.Map(lambda r: (r["k"], r["v"])) | beam.combiners.Mean.PerKey()
    ),
    "a key": lambda lines: lines | beam.Map(parsed) | "key" >> beam.Map(lambda r: r["k"]) | beam.Map(text),
    "a value": lambda lines: lines | beam.Map(parsed) | "value" >> beam.Map(lambda r: r["v"]) | beam.Map(number),
    "get": lambda lines: lines | beam.Map(parsed) | "get" >> beam.Map(lambda r: r.get("k")) | beam.ParDo(OfText()),
    "a list": lambda lines: lines | beam.Map(parsed) | beam.FlatMap(lambda r: [r["k"]]) | beam.Map(text),
    "items": lambda lines: (
        lines
        | beam.Map(parsed)
        | beam.FlatMap(lambda r: r.items())
        | beam.Filter(lambda pair: pair[0] == "k")
        | beam.MapTuple(lambda _, value: value)
        | beam.Map(text)
    ),
    "an early return": lambda lines: lines | beam.Map(or_none) | beam.Map(text),
    "a filter": lambda lines: lines | beam.Map(or_none) | beam.Filter(bool) | beam.Map(text),
    "a choice": lambda lines: lines | beam.Map(lambda line: line if line else 0) | beam.Map(text),
    "a mixed list": lambda lines: (
        lines | beam.Map(lambda line: [line, 1]) | "first" >> beam.Map(lambda r: r[0]) | beam.Map(text)
    ),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_function_may_take_one_member(step: Callable[[Any], Any]) -> None:
    """As in Beam, whose programs have such steps."""
    with beam.Pipeline() as p:
        _ = step(p | beam.Create(["a,1", "b,2"]))


def test_a_declared_union_has_to_be_taken_as_a_whole() -> None:
    """And a type that fits no member is refused, too."""
    p = beam.Pipeline()
    lines = p | beam.Create(["a,1"])
    with pytest.raises(TypeHintError, match="requires.*'str'.*Union"):
        _ = lines | beam.Map(declared) | beam.Map(text)
    with pytest.raises(TypeHintError, match="requires.*'float'"):
        _ = lines | "none" >> beam.Map(or_none) | beam.Map(number)
