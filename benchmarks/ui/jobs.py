"""The jobs whose page is measured, and how many elements they have read.

`orders` parses JSON and sums it by key and window; `steps` has 200 steps, and 32 subtasks of each task.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import penstock as beam
from penstock.triggers import AccumulationMode, AfterProcessingTime, AfterWatermark

# How many processes have a place in the file of a tally; two workers of one job have different ones.
_PLACES = 1024


class Tally:
    """The number of elements that a job has read so far, which its workers write into a file that another process maps.

    Args:
      path: of the file.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     tally = Tally.created(file.name)
    ...     tally(5), tally(6), tally.total()
    (5, 6, 2)
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._counts: Any = None
        self._place = 0

    @classmethod
    def created(cls, path: str) -> Tally:
        """Return the tally of a new file."""
        Path(path).write_bytes(bytes(8 * _PLACES))
        return cls(path)

    def __reduce__(self) -> Any:
        return Tally, (self.path,)

    def __call__(self, element: Any) -> Any:
        if self._counts is None:
            self._counts, self._place = self._mapped(), os.getpid() % _PLACES
        self._counts[self._place] += 1
        return element

    def total(self) -> int:
        """Return the number of elements, of all workers."""
        return sum(self._mapped())

    def _mapped(self) -> Any:
        with open(self.path, "r+b") as file:
            return memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")


def order(n: int) -> str:
    """Return an order as JSON; one customer in a hundred has most of them."""
    customer = 7 if n % 5 == 0 else n % 1000
    return json.dumps({"id": n, "customer": f"customer {customer}", "amount": n % 97, "items": [n % 7, n % 11]})


def is_paid(parsed: dict[str, Any]) -> bool:
    """Leave some orders out."""
    return bool(parsed["amount"])


def amount_of(parsed: dict[str, Any]) -> tuple[str, int]:
    """Return the customer and the amount."""
    return parsed["customer"], parsed["amount"] * len(parsed["items"])


def as_text(pair: tuple[str, int]) -> str:
    """Return a line of a report."""
    return f"{pair[0]}: {pair[1]:,}"


def orders(p: beam.Pipeline, elements: int, tally: Tally | None) -> None:
    """Add the sums of orders by customer, in windows with early panes."""
    numbers = p | "Read" >> beam.io.GenerateSequence(0, elements, 10_000_000, 1, partitions=4)
    numbers = numbers if tally is None else numbers | "Tally" >> beam.Map(tally)
    paid = numbers | "Order" >> beam.Map(order) | "Parse" >> beam.Map(json.loads) | "Paid" >> beam.Filter(is_paid)
    windows = beam.WindowInto(
        beam.window.FixedWindows(5),
        trigger=AfterWatermark(early=AfterProcessingTime(1)),
        accumulation_mode=AccumulationMode.ACCUMULATING,
    )
    sums = paid | "Amount" >> beam.Map(amount_of) | windows | "Sum" >> beam.CombinePerKey(sum)
    _ = sums | "Text" >> beam.Map(as_text)


def steps(p: beam.Pipeline, elements: int, tally: Tally | None) -> None:
    """Add 200 steps, with two shuffles."""
    steps: Any = p | "Read" >> beam.io.GenerateSequence(0, elements, 10_000_000, 1, partitions=32)
    steps = steps if tally is None else steps | "Tally" >> beam.Map(tally)
    for number in range(97):
        steps = steps | f"First {number}" >> beam.Map(_next)
    steps = steps | beam.WindowInto(beam.window.FixedWindows(10)) | "Pairs" >> beam.Map(_pair)
    steps = steps | "Sum" >> beam.CombinePerKey(sum)
    for number in range(96):
        steps = steps | f"Second {number}" >> beam.Map(_same)
    _ = steps | "All" >> beam.GroupByKey() | "Last" >> beam.Map(_same)


def _next(n: int) -> int:
    return n + 1


def _pair(n: int) -> tuple[int, int]:
    return n % 100, n


def _same(pair: Any) -> Any:
    return pair


# By name: what adds the job, the number of elements, and the parallelism.
JOBS: dict[str, tuple[Callable[[beam.Pipeline, int, Tally | None], None], int, int]] = {
    "orders": (orders, 1_500_000, 2),
    "steps": (steps, 2_000_000, 32),
}
