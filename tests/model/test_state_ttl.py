"""State that expires, on each runner: it is never seen after its time, and doesn't stay."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from model.test_stateful import at, in_order
from support.pipelines.checks import check

import penstock as beam
from penstock.sdk.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    MapStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    StateTtl,
    TimerSpec,
    on_timer,
)
from penstock.testing import TestPipeline, TestStream
from penstock.windowing import Duration

REAL_TIME, WATERMARK = beam.TimeDomain.REAL_TIME, beam.TimeDomain.WATERMARK


class EveryKind(beam.DoFn):
    """What each kind of state has before an element is added to it."""

    LAST = ReadModifyWriteStateSpec("last", ttl=10)
    BAG = BagStateSpec("bag", ttl=Duration(10))
    SET = SetStateSpec("set", ttl=StateTtl(10))
    TOTAL = CombiningValueStateSpec("total", sum, ttl=10)
    MAP = MapStateSpec("map", ttl=10)
    LOG = OrderedListStateSpec("log", ttl=10)
    ALWAYS = BagStateSpec("always")

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        last: Any = beam.DoFn.StateParam(LAST),
        bag: Any = beam.DoFn.StateParam(BAG),
        distinct: Any = beam.DoFn.StateParam(SET),
        total: Any = beam.DoFn.StateParam(TOTAL),
        by_name: Any = beam.DoFn.StateParam(MAP),
        log: Any = beam.DoFn.StateParam(LOG),
        always: Any = beam.DoFn.StateParam(ALWAYS),
    ) -> Iterator[Any]:
        key, value = element
        seen = last.read(), bag.read(), distinct.read(), total.read(), by_name.values(), [v for _, v in log.read()]
        yield key, int(time), *seen, len(always.read())
        last.write(value)
        bag.add(value)
        distinct.add(value)
        total.add(value)
        by_name.put(value, value)
        log.add((time, value))
        always.add(value)


def expected_of(elements: list[tuple[int, int]]) -> Iterator[Any]:
    """For pairs of a time and a distinct value of one key, in the order of time."""
    seen: list[int] = []
    for number, (time, value) in enumerate(elements):
        if number and time - elements[number - 1][0] >= 10:
            seen = []
        yield time, (seen[-1] if seen else None), seen[:], seen[:], sum(seen), seen[:], seen[:], number
        seen.append(value)


def test_every_kind_of_state_expires(pipeline: Any, runner_name: str) -> None:
    """By the times of elements, whatever the bundles, workers and restarts."""
    random = Random(1)
    times = {key: sorted(random.choices(range(150), k=12)) for key in range(15)}
    elements = [at((key, n), time) for key, own in times.items() for n, time in enumerate(own)]
    elements.sort(key=lambda each: (each.timestamp, each.value[1]))
    with pipeline as p:
        found = in_order(p, runner_name, elements) | beam.ParDo(EveryKind())
        expected = [
            (key, *row) for key, own in times.items() for row in expected_of([(t, n) for n, t in enumerate(own)])
        ]
        check(expected, found)


class Seen(beam.DoFn):
    """Whether a key was seen, by elements and by a timer."""

    SEEN = ReadModifyWriteStateSpec("seen", ttl=10)
    BY_CLOCK = ReadModifyWriteStateSpec("by clock", ttl=StateTtl(10, REAL_TIME))
    READ = ReadModifyWriteStateSpec("read", ttl=StateTtl(10, refreshed_by_reads=True))
    LATER = TimerSpec("later", WATERMARK)

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        seen: Any = beam.DoFn.StateParam(SEEN),
        by_clock: Any = beam.DoFn.StateParam(BY_CLOCK),
        read: Any = beam.DoFn.StateParam(READ),
        later: Any = beam.DoFn.TimerParam(LATER),
    ) -> Iterator[Any]:
        _, what = element
        yield what, seen.read(), by_clock.read(), read.read()
        if what == "first":
            for state in (seen, by_clock, read):
                state.write("first")
            later.set(time + 9)

    @on_timer(LATER)
    def at_time(
        self, seen: Any = beam.DoFn.StateParam(SEEN), later: Any = beam.DoFn.TimerParam(LATER)
    ) -> Iterator[Any]:
        yield "timer", seen.read(), None, None
        if seen.read() is not None:
            later.set(12)


def test_time_is_that_of_what_is_processed(streaming_runner: Any) -> None:
    """Of an element, or the watermark if it is late; of the clock; and of the timer, however far the watermark is."""
    script = (
        TestStream()
        .add_elements([at(("a", "first"), 0)])
        .advance_processing_time(4)
        .add_elements([at(("a", "second"), 8)])
        .advance_processing_time(6)
        .add_elements([at(("a", "third"), 9)])
        .advance_watermark_to(15)
        .add_elements([at(("a", "late"), 9)])
        .advance_watermark_to(19)
        .add_elements([at(("a", "last"), 19)])
    )
    with TestPipeline(streaming_runner) as p:
        check(
            [
                ("first", None, None, None),
                ("second", "first", "first", "first"),
                ("third", "first", None, "first"),
                ("timer", "first", None, None),
                ("timer", None, None, None),
                ("late", None, None, "first"),
                ("last", None, None, "first"),
            ],
            p | script | beam.ParDo(Seen()),
        )


@pytest.mark.parametrize("ttl", [0, -1, "1h", Duration(0)])
def test_a_ttl_is_a_duration(ttl: Any) -> None:
    """More than nothing."""
    with pytest.raises((ValueError, TypeError)):
        ReadModifyWriteStateSpec("seen", ttl=ttl)
