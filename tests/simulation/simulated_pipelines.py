"""The pipelines that are simulated.  As a program it builds and runs them all:

`penstock simulate tests/simulation/simulated_pipelines.py --seeds 100`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any

import penstock as beam
from penstock.sdk.userstate import BagStateSpec, CombiningValueStateSpec, TimerSpec, on_timer
from penstock.testing import ScriptedSource
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark, Repeatedly

# What a combiner of numbers is made of.
Combined = Callable[[Iterable[int]], int]


def script(seed: int, partitions: int = 3, elements: int = 12) -> ScriptedSource[tuple[str, int]]:
    """Pairs of a key and a number, in each partition roughly in order, within a minute."""
    random = Random(seed)

    def partition(number: int) -> Iterable[beam.window.TimestampedValue[tuple[str, int]]]:
        for i in range(elements):
            time = 60 * i // elements + random.randint(0, 15)
            yield beam.window.TimestampedValue((random.choice("abcd"), 100 * number + i), time)

    return ScriptedSource([partition(number) for number in range(partitions)])


def windowed_sums(p: beam.Pipeline, combined: Combined = sum, offset: float = 0) -> None:
    """Sums by key in fixed windows, and of these the greatest in each window."""
    windows = beam.WindowInto(beam.window.FixedWindows(10, offset))
    sums = p | beam.io.Read(script(1)) | windows | beam.CombinePerKey(combined)
    _ = sums | "Total" >> beam.Map(lambda pair: ("all", pair[1])) | "Greatest" >> beam.CombinePerKey(max)
    _ = sums | beam.Map(lambda pair: pair)


def sessions_with_retractions(p: beam.Pipeline) -> None:
    """Sessions that grow, with early panes that are retracted; and the number of sessions of each sum."""
    _ = (
        p
        | beam.io.Read(script(2))
        | beam.WindowInto(
            beam.window.Sessions(4),
            trigger=AfterWatermark(early=Repeatedly(AfterCount(2))),
            accumulation_mode=AccumulationMode.RETRACTING,
        )
        | beam.CombinePerKey(sum)
        | "By remainder" >> beam.Map(lambda pair: (pair[1] % 3, pair[0]))
        | "Together"
        >> beam.WindowInto(
            beam.window.GlobalWindows(),
            trigger=AfterWatermark(early=Repeatedly(AfterCount(3))),
            accumulation_mode=AccumulationMode.RETRACTING,
        )
        | "Count" >> beam.combiners.Count.PerKey()
    )


class Batches(beam.DoFn):
    """Buffers elements until a timer of either domain fires; emits each once, with its own timestamp."""

    KEPT = BagStateSpec("kept")
    AT_END = TimerSpec("at end", beam.TimeDomain.WATERMARK)
    SOON = TimerSpec("soon", beam.TimeDomain.REAL_TIME)

    def process(
        self,
        element: tuple[str, int],
        time: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        kept: Any = beam.DoFn.StateParam(KEPT),
        at_end: Any = beam.DoFn.TimerParam(AT_END),
        soon: Any = beam.DoFn.TimerParam(SOON),
    ) -> None:
        kept.add((element, time))
        at_end.set(window.max_timestamp())
        # In the time of a simulation: now and then it comes, and now and then it is the end that does.
        soon.set(element[1] % 7 / 1000)

    @on_timer(AT_END)
    def end(self, kept: Any = beam.DoFn.StateParam(KEPT)) -> Iterable[Any]:
        return self.emptied(kept)

    @on_timer(SOON)
    def early(self, kept: Any = beam.DoFn.StateParam(KEPT)) -> Iterable[Any]:
        return self.emptied(kept)

    def emptied(self, kept: Any) -> Iterable[Any]:
        """Emit and clear the buffered elements."""
        for element, _ in kept.read():
            yield element
        kept.clear()


def stateful_with_timers(p: beam.Pipeline, combined: Combined = sum, offset: float = 0) -> None:
    """Elements kept in state until a timer of either domain; then summed by window."""
    _ = (
        p
        | beam.io.Read(script(3))
        | beam.WindowInto(beam.window.FixedWindows(20, offset))
        | beam.ParDo(Batches())
        | beam.CombinePerKey(combined)
    )


def join(p: beam.Pipeline, joined: Callable[[Iterable[int]], Iterable[int]] = sorted, offset: float = 0) -> None:
    """Two sources, joined by key and window."""
    window = beam.WindowInto(beam.window.FixedWindows(15, offset))
    left = p | "Left" >> beam.io.Read(script(4, partitions=2)) | "Left windows" >> window
    right = (
        p
        | "Right" >> beam.io.Read(script(5, partitions=1))
        | "Right windows" >> beam.WindowInto(beam.window.FixedWindows(15, offset))
    )
    _ = (
        {"left": left, "right": right}
        | beam.CoGroupByKey()
        | beam.Map(lambda pair: (pair[0], joined(pair[1]["left"]), joined(pair[1]["right"])))
    )


def two_sinks(
    p: beam.Pipeline, counted: Callable[[], Any] = beam.combiners.Count.PerElement, offset: float = 0
) -> None:
    """The input unchanged, and counts of it with a side input: two sinks that are committed together."""
    limits = p | "Limits" >> beam.Create([("a", 50), ("b", 150), ("c", 250), ("d", 0)])
    pairs = p | beam.io.Read(script(6))
    _ = pairs | "As it is" >> beam.Map(lambda pair: pair)
    _ = (
        pairs
        | beam.Map(lambda pair, limits: (pair[0], pair[1] < limits[pair[0]]), limits=beam.pvalue.AsDict(limits))
        | beam.WindowInto(beam.window.FixedWindows(30, offset))
        | counted()
    )


class Halved(beam.DoFn):
    """Halves numbers, and counts the elements of each key."""

    VISITS = CombiningValueStateSpec("visits", sum)

    def process(
        self, element: tuple[str, int], visits: Any = beam.DoFn.StateParam(VISITS)
    ) -> Iterable[tuple[str, int]]:
        visits.add(1)
        yield element[0], element[1] // 2


def loop(p: beam.Pipeline, combined: Combined = sum, offset: float = 0) -> None:
    """Numbers that circulate in a loop until they are small, and their sums by window, which wait for the loop."""
    _ = (
        p
        | beam.io.Read(script(7))
        | beam.Feedback(beam.ParDo(Halved()), until=lambda pair: pair[1] < 20)
        | beam.WindowInto(beam.window.FixedWindows(20, offset))
        | beam.CombinePerKey(combined)
    )


def _transfers(seed: int) -> dict[str, list[tuple[str, str, int]]]:
    """Return the partitions of two sources by name: credits of accounts, and the same as debits in another order.

    Each element is the name of its partition, an account and an amount.
    """
    random = Random(seed)
    entries = [(random.choice("abcd"), random.randint(1, 1_000_000)) for _ in range(24)]
    partitions: dict[str, list[tuple[str, str, int]]] = {}
    for name, sign in (("credit", 1), ("debit", -1)):
        random.shuffle(entries)
        for number in range(2):
            own = f"{name} {number}"
            partitions[own] = [(own, account, sign * amount) for account, amount in entries[number::2]]
    return partitions


TRANSFERS = _transfers(8)


def transfers(p: beam.Pipeline) -> None:
    """Balances of accounts, whose credits and debits cancel in the end, and their totals, by panes for each element.

    Each sum has the number of elements of each partition beside it, so a state tells which prefix it belongs to.
    """

    def read(name: str) -> Any:
        partitions = [own for partition, own in TRANSFERS.items() if partition.startswith(name)]
        times = [[beam.window.TimestampedValue(element, i) for i, element in enumerate(own)] for own in partitions]
        return p | name >> beam.io.Read(ScriptedSource(times))

    each = beam.WindowInto(
        beam.window.GlobalWindows(),
        trigger=Repeatedly(AfterCount(1)),
        accumulation_mode=AccumulationMode.RETRACTING,
    )
    entries = (read("credit"), read("debit")) | beam.Flatten() | beam.FlatMap(entries_of)
    balances = entries | each | "Balances" >> beam.CombinePerKey(sum)
    _ = balances | "Shown" >> beam.Map(lambda pair: pair)
    _ = balances | beam.Map(lambda pair: (total_of(pair[0]), pair[1])) | "Totals" >> beam.CombinePerKey(sum)


def entries_of(transfer: tuple[str, str, int]) -> list[tuple[str, int]]:
    """Return what a transfer adds to: an account's balance, and the number of elements of its partition."""
    partition, account, amount = transfer
    return [(account, amount), (partition, 1)]


def total_of(key: str) -> str:
    """Return the total that a balance is part of; numbers of elements are their own.

    >>> total_of("b"), total_of("credit 0")
    ('ab', 'credit 0')
    """
    return next((total for total in ("ab", "cd") if key in total), key)


PIPELINES: dict[str, Callable[[beam.Pipeline], None]] = {
    build.__name__: build
    for build in (windowed_sums, sessions_with_retractions, stateful_with_timers, join, loop, two_sinks, transfers)
}

# Windows that end between two of a script's times, which are whole seconds: the watermark never stops at an end.
BETWEEN = 0.5

# Those that exist in a form to which an element that comes twice is as good as one that comes once.  The second time it
# may be late, and a window that is still kept would have another pane: so no window is kept once it has fired.
IDEMPOTENT: dict[str, Callable[[beam.Pipeline], None]] = {
    "windowed_sums": partial(windowed_sums, combined=max, offset=BETWEEN),
    "stateful_with_timers": partial(stateful_with_timers, combined=max, offset=BETWEEN),
    "join": partial(join, joined=set, offset=BETWEEN),
    "loop": partial(loop, combined=max, offset=BETWEEN),
    "two_sinks": partial(two_sinks, counted=beam.Distinct, offset=BETWEEN),
}


if __name__ == "__main__":
    for build in PIPELINES.values():
        with beam.Pipeline() as pipeline:
            build(pipeline)
