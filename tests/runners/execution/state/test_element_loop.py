"""The generated loop of a stateful ParDo, for bundles of every shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.execution.stateful_pardo import REAL_TIME, WATERMARK, S, Work

import penstock as beam
from penstock.sdk.elements.bundle import BUNDLE_SIZE, Bundle
from penstock.sdk.errors import UserCodeError
from penstock.sdk.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
    on_window_expiration,
)
from penstock.triggers import PANE_INFO_UNKNOWN, PaneInfo
from penstock.windowing import IntervalWindow, SlidingWindows, TimestampedValue

FIRST = PaneInfo(is_first=True)

# Key, value, second, windows by number, pane, and sign.
Row = tuple[str, int, int, tuple[int, ...], PaneInfo, int]

rows = st.lists(
    st.tuples(
        st.sampled_from("aab"),
        st.integers(0, 9),
        st.integers(0, 3),
        st.sampled_from([(0,), (1,), (0, 1), (2, 1)]),
        st.sampled_from([PANE_INFO_UNKNOWN, FIRST]),
        st.sampled_from([1, 1, -1]),
    ),
    max_size=12,
)


def window(number: int) -> IntervalWindow:
    return IntervalWindow(10 * number, 10 * number + 20)


def bundle(elements: list[Row], may_share: bool = True) -> Bundle:
    """The elements; a column of equal entries as one entry if `may_share`."""
    columns: list[Any] = [
        [second * S for _, _, second, *_ in elements],
        [tuple(map(window, numbers)) for _, _, _, numbers, _, _ in elements],
        [pane for *_, pane, _ in elements],
        [sign for *_, sign in elements],
    ]
    shared = [c[0] if may_share and elements and c.count(c[0]) == len(c) else c for c in columns]
    return Bundle([(key, value) for key, value, *_ in elements], *shared)


class Outputs(beam.DoFn):
    """The last value and all values of the key, plain, tagged and with a timestamp of its own."""

    LAST = ReadModifyWriteStateSpec("last")
    ALL = BagStateSpec("all")

    def process(
        self, element: Any, last: Any = beam.DoFn.StateParam(LAST), all: Any = beam.DoFn.StateParam(ALL)
    ) -> Any:
        key, value = element
        if value == 0:
            return None
        if value == 1:
            last.clear()
            all.clear()
        found = key, last.read(), all.read()
        last.write(value)
        all.add(value)
        if value == 2:
            return [found, beam.pvalue.TaggedOutput("other", found), found]
        return [TimestampedValue(found, 50), found] if value == 3 else [found]


class Timed(beam.DoFn):
    """Timers that are due when they are set, between elements, and others."""

    LAST = ReadModifyWriteStateSpec("last")
    NOW = TimerSpec("now", REAL_TIME)
    LATER = TimerSpec("later", WATERMARK)

    def process(
        self,
        element: Any,
        last: Any = beam.DoFn.StateParam(LAST),
        now: Any = beam.DoFn.TimerParam(NOW),
        later: Any = beam.DoFn.TimerParam(LATER),
    ) -> Any:
        key, value = element
        yield key, last.read()
        last.write(value)
        if value > 6:
            now.set(0)
        elif value > 3:
            later.set(value)

    @on_timer(NOW)
    def at_once(self, key: Any = beam.DoFn.KeyParam, last: Any = beam.DoFn.StateParam(LAST)) -> Any:
        yield key, "now", last.read()
        last.clear()

    @on_timer(LATER)
    def at_last(self, key: Any = beam.DoFn.KeyParam, last: Any = beam.DoFn.StateParam(LAST)) -> Any:
        yield key, "later", last.read()

    @on_window_expiration
    def over(self, key: Any = beam.DoFn.KeyParam, last: Any = beam.DoFn.StateParam(LAST)) -> Any:
        yield key, "over", last.read()


def outputs(fn: beam.DoFn, before: list[Bundle], watermark: int, after: list[Bundle]) -> dict[Any, list[Any]]:
    """What comes out, by tag, with a watermark in seconds between the bundles."""
    work = Work(fn, SlidingWindows(20, 10), tags=("other",), tracking=True)
    for each in before:
        work.executor.process(each)
    work.watermark(watermark)
    for each in after:
        work.executor.process(each)
    work.watermark(100)
    assert [] == work.executor.state.namespaces()
    by_tag: dict[Any, list[Any]] = {}
    for tag, emitted in work.bundles:
        by_tag.setdefault(tag, []).extend(emitted.rows())
    return by_tag


@given(rows, st.sampled_from([0, 20, 30]), rows, st.sampled_from([Outputs, Timed]))
@example([("a", 7, 0, (0,), FIRST, 1)] * 3, 0, [("a", 7, 0, (0,), FIRST, 1)] * 2, Timed)
@example([("a", 2, 0, (0, 1), FIRST, 1), ("b", 3, 0, (0, 1), FIRST, 1), ("a", 2, 0, (0, 1), FIRST, 1)], 0, [], Outputs)
def test_the_shape_of_a_bundle_makes_no_difference(
    before: list[Row], watermark: int, after: list[Row], fn: Any
) -> None:
    """Shared columns, columns of their own, and one element and window at a time have the same outputs."""
    shared = outputs(fn(), [bundle(before)], watermark, [bundle(after)])
    assert outputs(fn(), [bundle(before, may_share=False)], watermark, [bundle(after, may_share=False)]) == shared
    one_by_one = [
        [bundle([(*row[:3], (number,), *row[4:])]) for row in part for number in row[3]] for part in (before, after)
    ]
    assert outputs(fn(), one_by_one[0], watermark, one_by_one[1]) == shared


@given(st.lists(st.tuples(st.sampled_from("aab"), st.integers(1, 9))))
def test_accessors_that_a_dofn_keeps_stay_those_of_their_key(pairs: list[tuple[str, int]]) -> None:
    """Whether it keeps some or all of them."""
    kept: list[tuple[str, Any]] = []

    class Keeping(beam.DoFn):
        LAST = ReadModifyWriteStateSpec("last")

        def process(self, element: Any, last: Any = beam.DoFn.StateParam(LAST)) -> Any:
            key, value = element
            if value > 5:
                kept.append((key, last))
            last.write(value)
            yield [(other, accessor.read()) for other, accessor in kept]

    work = Work(Keeping())
    work.process(*pairs)
    now: dict[str, int] = {}
    keeping: list[str] = []
    expected = []
    for key, value in pairs:
        now[key] = value
        keeping += [key] if value > 5 else []
        expected.append([(other, now[other]) for other in keeping])
    assert expected == work.taken()


def test_outputs_of_one_element_are_emitted_before_there_are_too_many() -> None:
    """In their order."""

    class Many(beam.DoFn):
        LAST = ReadModifyWriteStateSpec("last")

        def process(self, element: Any, last: Any = beam.DoFn.StateParam(LAST)) -> Any:
            return range(2 * BUNDLE_SIZE + 1)

    work = Work(Many()).process(("a", 1))
    assert [BUNDLE_SIZE, BUNDLE_SIZE, 1] == [len(emitted) for _, emitted in work.bundles]
    assert list(range(2 * BUNDLE_SIZE + 1)) == work.taken()


def test_an_error_has_its_element_and_that_of_a_timer_has_none() -> None:
    """The timer fires between two elements."""

    class Failing(beam.DoFn):
        NOW = TimerSpec("now", REAL_TIME)

        def process(self, element: Any, now: Any = beam.DoFn.TimerParam(NOW)) -> Any:
            if element[1]:
                raise ValueError("in process")
            now.set(0)

        @on_timer(NOW)
        def fired(self) -> None:
            raise ValueError("in a timer")

    for value, expected in ((1, "('a', 1)"), (0, None)):
        with pytest.raises(UserCodeError) as raised:
            Work(Failing()).process(("a", value), ("b", 1))
        assert expected == raised.value.element
