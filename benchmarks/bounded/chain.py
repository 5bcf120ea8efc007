"""(a) Five Maps and a Filter over two million integers, against a loop that calls the same functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.keeping_sink import KeepingSink
from harness.timing import Ratio, compare

import penstock as beam

NUMBERS = list(range(2_000_000))

Functions = tuple[Callable[[Any], Any], ...]

# Lambdas whose bytecode shows that they return numbers ...
ARITHMETIC: Functions = (
    lambda x: x + 1,
    lambda x: x * 3,
    lambda x: x ^ 0x5555,
    lambda x: x % 3 != 0,
    lambda x: x - 7,
    lambda x: x // 2,
)


# ... and functions that might return anything, so that each result has to be looked at.
def absolute(x: int) -> int:
    return abs(x)


def tripled(x: int) -> int:
    y = x * 3
    return y


def clipped(x: int) -> int:
    return max(x, 10)


def is_odd(x: int) -> int:
    return x & 1


def bits(x: int) -> int:
    return x.bit_length()


def converted(x: int) -> int:
    return int(x)


OPAQUE: Functions = (absolute, tripled, clipped, is_odd, bits, converted)


def pipeline(functions: Functions) -> KeepingSink:
    f1, f2, f3, f4, f5, f6 = functions
    sink = KeepingSink()
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(NUMBERS)
            | "1" >> beam.Map(f1)
            | "2" >> beam.Map(f2)
            | "3" >> beam.Map(f3)
            | "4" >> beam.Filter(f4)
            | "5" >> beam.Map(f5)
            | "6" >> beam.Map(f6)
            | beam.io.Write(sink)
        )
    return sink


def by_hand(functions: Functions) -> list[Any]:
    f1, f2, f3, f4, f5, f6 = functions
    results = []
    for number in NUMBERS:
        x = f3(f2(f1(number)))
        if f4(x):
            results.append(f6(f5(x)))
    return results


def run() -> list[Ratio]:
    return [
        compare(
            f"(a) five Maps and a Filter, {kind}",
            lambda f=functions: pipeline(f),
            lambda f=functions: by_hand(f),
            1.3,
            result=lambda sink: list(sink.values()),
        )
        for kind, functions in (("lambdas", ARITHMETIC), ("functions", OPAQUE))
    ]
