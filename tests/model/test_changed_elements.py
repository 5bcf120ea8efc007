"""An element is what it was when it was emitted, though a function changes the object later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import penstock as beam
from penstock.testing import TestStream, assert_that, equal_to
from penstock.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer
from penstock.utils.windowed_value import WindowedValue


class YieldsItsList(beam.DoFn):
    """Yields one list again and again."""

    def process(self, n: int) -> Iterator[list[int]]:
        found: list[int] = []
        for i in range(n):
            found.append(i)
            yield found


class YieldsItsBuffer(beam.DoFn):
    """Yields its buffer at the end of a bundle and at once clears it."""

    def start_bundle(self) -> None:
        self.buffer: list[int] = []

    def process(self, n: int) -> None:
        self.buffer.append(n)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield WindowedValue(self.buffer, 0, [beam.window.GlobalWindow()])
        self.buffer.clear()


class TagsItsDict(beam.DoFn):
    """Changes a dictionary between two tagged outputs."""

    def process(self, n: int) -> Iterator[beam.pvalue.TaggedOutput]:
        found = {"n": n}
        yield beam.pvalue.TaggedOutput("first", found)
        found["n"] = -1
        yield beam.pvalue.TaggedOutput("second", found)


class Orders(beam.DoFn):
    """Adds events to an order, which it reads, changes, writes and emits."""

    ORDER = ReadModifyWriteStateSpec("order")

    def process(self, event: tuple[str, int], order: Any = beam.DoFn.StateParam(ORDER)) -> Iterator[list[int]]:
        found = order.read() or []
        found.append(event[1])
        order.write(found)
        yield found
        found.clear()


class Flushes(beam.DoFn):
    """Collects elements in a bag, and emits and clears a list of them in a timer."""

    BUFFER = BagStateSpec("buffer")
    FLUSH = TimerSpec("flush", beam.TimeDomain.WATERMARK)

    def __init__(self) -> None:
        self.flushed: list[Any] = []

    def process(
        self,
        event: tuple[str, list[int]],
        buffer: Any = beam.DoFn.StateParam(BUFFER),
        flush: Any = beam.DoFn.TimerParam(FLUSH),
    ) -> None:
        buffer.add(event[1])
        event[1].append(0)
        flush.set(10)

    @on_timer(FLUSH)
    def flush(self, buffer: Any = beam.DoFn.StateParam(BUFFER)) -> Iterator[list[Any]]:
        for part in buffer.read():
            part.append(9)
            self.flushed.append(part)
        yield self.flushed
        self.flushed.clear()


class Together(beam.CombineFn):
    """A combiner whose accumulator is its output."""

    def create_accumulator(self) -> list[int]:
        return []

    def add_input(self, accumulator: list[int], value: int) -> list[int]:
        accumulator.append(value)
        return accumulator

    def merge_accumulators(self, accumulators: Any) -> list[int]:
        return [value for accumulator in accumulators for value in accumulator]

    def extract_output(self, accumulator: list[int]) -> list[int]:
        return accumulator


def with_more(found: list[Any]) -> list[Any]:
    found.append("more")
    return found


def values_with_more(pair: tuple[Any, Any]) -> list[Any]:
    return [with_more(value) for value in pair[1]]


def test_what_is_emitted_is_what_it_was(make_pipeline: Callable[..., Any]) -> None:
    """By functions that change their outputs, on each runner."""
    given = [[1], [2]]
    with make_pipeline() as p:
        three = p | "three" >> beam.Create([3])
        assert_that(three | beam.ParDo(YieldsItsList()), equal_to([[0], [0, 1], [0, 1, 2]]), "again")
        buffers = three | beam.ParDo(YieldsItsBuffer()) | beam.FlatMap(list)
        assert_that(buffers, equal_to([3]), "finish_bundle")
        tagged = three | beam.ParDo(TagsItsDict()).with_outputs("first", "second")
        assert_that(tagged.first, equal_to([{"n": 3}]), "first tag")
        assert_that(tagged.second, equal_to([{"n": -1}]), "second tag")
        orders = p | "events" >> beam.Create([("ann", 1)]) | beam.ParDo(Orders())
        assert_that(orders, equal_to([[1]]), "written and emitted")
        flushed = p | "buffered" >> beam.Create([("ann", [1])]) | beam.ParDo(Flushes())
        assert_that(flushed, equal_to([[[1, 9]]]), "timer")
        lists = p | "lists" >> beam.Create(given)
        given[0].append(5)
        assert_that(lists | "changes" >> beam.Map(with_more), equal_to([[1, "more"], [2, "more"]]), "changed")
        assert_that(lists | "reads" >> beam.Map(list), equal_to([[1], [2]]), "read")
        grouped = lists | "of one" >> beam.WithKeys(0) | beam.GroupByKey()
        assert_that(grouped | beam.MapTuple(lambda _, found: sorted(found)), equal_to([[[1], [2]]]), "grouped")
        windowed = lists | beam.Map(lambda found: beam.window.TimestampedValue((0, found), 25))
        sliding = windowed | beam.WindowInto(beam.window.SlidingWindows(20, 10)) | "by window" >> beam.GroupByKey()
        assert_that(
            sliding | beam.FlatMap(values_with_more),
            equal_to([[1, "more"], [2, "more"]] * 2),
            "of each window",
        )
    assert [[1, 5], [2]] == given


def test_each_pane_is_what_it_was(streaming_runner: Any) -> None:
    """Of a combiner whose accumulator is its output, before a function that changes its input."""
    events = TestStream().add_elements([("ann", 1)]).add_elements([("ann", 2)]).advance_watermark_to_infinity()
    with beam.Pipeline(runner=streaming_runner) as p:
        repeatedly = beam.trigger.Repeatedly(beam.trigger.AfterCount(1))
        panes = (
            p
            | events
            | beam.WindowInto(
                beam.window.GlobalWindows(),
                trigger=repeatedly,
                accumulation_mode=beam.trigger.AccumulationMode.RETRACTING,
            )
            | beam.CombinePerKey(Together())
        )
        changed = panes | beam.MapTuple(lambda _, found: with_more(found))
        signed = changed | beam.Map(lambda found, sign=beam.DoFn.SignParam: (sign, found))
        assert_that(signed, equal_to([(1, [1, "more"]), (-1, [1, "more"]), (1, [1, 2, "more"])]))
