"""Interleaved runs: ours and the hand-written program in turn, and the ratio of their medians.

CPU time, not the clock on the wall: other work on the machine then makes the noise, not
the result.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import attrs

RUNS = 5


@attrs.frozen
class Ratio:
    """What a benchmark has found.

    Attributes:
      name: what was compared.
      ours, by_hand: medians, in seconds of `clock`.
      limit: the ratio that must not be exceeded.
    """

    name: str
    ours: float
    by_hand: float
    limit: float

    @property
    def ratio(self) -> float:
        return self.ours / self.by_hand

    @property
    def passes(self) -> bool:
        return self.ratio <= self.limit

    def __str__(self) -> str:
        verdict = "ok" if self.passes else "OVER"
        return (
            f"{self.name:<44} ours {self.ours:6.2f} s   by hand {self.by_hand:6.2f} s   "
            f"ratio {self.ratio:#.3g}   limit {self.limit:#.3g}   {verdict}"
        )


@attrs.frozen
class Quantity:
    """One number and its limit; `unit` is what both are in, `digits` how many are shown behind the point."""

    name: str
    value: float
    limit: float
    unit: str
    digits: int = 0

    @property
    def passes(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        verdict = "ok" if self.passes else "OVER"
        value = f"{self.value:6.{self.digits}f}"
        return f"{self.name:<44} {value} {self.unit}   limit {self.limit:.0f} {self.unit}   {verdict}"


@attrs.frozen
class Figure:
    """A number of a table, in `unit`, with `digits` behind the point; `limit` is None where there is none."""

    value: float
    unit: str = ""
    digits: int = 0
    limit: float | None = None

    @property
    def passes(self) -> bool:
        return self.limit is None or self.value <= self.limit

    def __str__(self) -> str:
        return f"{self.value:,.{self.digits}f} {self.unit}".rstrip()


@attrs.frozen
class Figures:
    """A row of a table: the figures of one subject, by the heads of their columns.

    Attributes:
      name: the subject, which is the first cell of the row.
      subject: the head of the first column.
    """

    name: str
    values: Mapping[str, Figure]
    subject: str = ""

    @property
    def passes(self) -> bool:
        return all(figure.passes for figure in self.values.values())

    def __str__(self) -> str:
        found = "   ".join(f"{column} {figure}" for column, figure in self.values.items())
        over = [f"{column} {figure.limit:g}" for column, figure in self.values.items() if not figure.passes]
        return f"{f'{self.subject} {self.name}'.strip():<44} {found}" + (f"   OVER {', '.join(over)}" if over else "")


# What a benchmark finds.
Result = Ratio | Quantity | Figures


def compare(
    name: str,
    ours: Callable[[], Any],
    by_hand: Callable[[], Any],
    limit: float,
    *,
    result: Callable[[Any], Any] = lambda outcome: outcome,
    clock: Callable[[], float] = time.process_time,
    warm_up: int = 0,
    of_both: bool = False,
    start_up: Callable[[], Any] | None = None,
    runs: int = RUNS,
) -> Ratio:
    """Run both, `runs` times in turn, after `warm_up` runs that don't count.

    `result` makes of what `ours` (with `of_both`, each of the two) returned what is compared; it is not timed.  Raises
    `AssertionError` when the two differ.  `start_up` runs ours over an empty input: its time is subtracted from ours.
    """
    times: dict[Callable[[], Any], list[float]] = {ours: [], by_hand: []}
    starts = []
    for run in range(runs + warm_up):
        if start_up is not None:
            before = clock()
            start_up()
            starts.append(clock() - before)
        outcomes = []
        # Each goes first every other time.
        for program in (ours, by_hand) if run % 2 else (by_hand, ours):
            gc.collect()
            before = clock()
            outcome = program()
            times[program].append(clock() - before)
            outcomes.append(result(outcome) if program is ours or of_both else outcome)
            del outcome
        assert outcomes[0] == outcomes[1], f"{name}: the results differ"
    own, theirs = (median(times[program][warm_up:]) for program in (ours, by_hand))
    return Ratio(name, own - (median(starts[warm_up:]) if starts else 0.0), theirs, limit)
