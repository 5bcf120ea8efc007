"""A stateful ParDo at work: state by key and window, what its DoFn may ask for, and its snapshots."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.execution.stateful_pardo import WATERMARK, Alarm, Collect, Index, S, Work, at

import penstock as beam
from penstock.runners.execution.stages.side_input_views import SideInputViews
from penstock.runners.execution.state.stateful_pardo import StatefulExecutor
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import PipelineError
from penstock.sdk.side_inputs import AsDict, AsList
from penstock.sdk.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from penstock.testing import TestPipeline
from penstock.windowing import FixedWindows, IntervalWindow

# --- State


def test_each_key_and_window_has_a_state_of_its_own() -> None:
    """With any bundles."""
    work = Work(Index(), FixedWindows(10))
    work.process(at(("a", "x"), 1), at(("b", "y"), 1), at(("a", "z"), 12)).process(at(("a", "v"), 2))
    assert [("a", "x", 0), ("b", "y", 0), ("a", "z", 0), ("a", "v", 1)] == work.taken()


def test_the_check_of_keys_takes_no_elements_from_the_loop() -> None:
    """Keys that are tuples are checked all at once, at the first element."""
    work = Work(Index()).process((("a", 1), "x"), (("b", 2), "y"), (("a", 1), "z"))
    assert [(("a", 1), "x", 0), (("b", 2), "y", 0), (("a", 1), "z", 1)] == work.taken()


def test_a_first_bundle_that_is_late_is_dropped_and_counted() -> None:
    """All of its elements are in one window that has expired."""
    work = Work(Index(), FixedWindows(10)).watermark(30)
    work.executor.process(Bundle([("a", "x"), ("a", "y")], 5 * S, (IntervalWindow(0, 10),)))
    assert ([], 2) == (work.taken(), work.executor.dropped)


def test_an_element_in_several_windows_is_processed_in_each() -> None:
    """Its outputs are in that window alone."""
    work = Work(Index(), beam.window.SlidingWindows(10, 5))
    work.process(at(("a", "x"), 7), at(("a", "y"), 12))
    found = [(value, windows) for value, _, windows, _, _ in work.rows]
    assert [
        (("a", "x", 0), (IntervalWindow(0, 10),)),
        (("a", "x", 0), (IntervalWindow(5, 15),)),
        (("a", "y", 1), (IntervalWindow(5, 15),)),
        (("a", "y", 0), (IntervalWindow(10, 20),)),
    ] == sorted(found, key=lambda row: (row[0][1], row[1]))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30))), st.integers(1, 5))
def test_keys_and_windows_are_isolated_however_the_input_is_cut(pairs: list[Any], size: int) -> None:
    """Each element's number is how many there were before it of its key and window."""
    work = Work(Index(), FixedWindows(10))
    elements = [at((key, second), second) for key, second in pairs]
    for start in range(0, len(elements), size):
        work.process(*elements[start : start + size])
    seen: dict[Any, int] = {}
    expected = []
    for key, second in pairs:
        group = key, second // 10
        expected.append((key, second, seen.setdefault(group, 0)))
        seen[group] += 1
    assert expected == work.taken()


# --- What a DoFn may ask for, and what it may yield


def test_other_arguments_side_inputs_and_contexts_are_passed_as_to_any_pardo() -> None:
    """Side inputs by the element's window."""

    class Context:
        def __enter__(self) -> str:
            return "inside"

        def __exit__(self, *error: Any) -> None:
            pass

    class Asking(beam.DoFn):
        STATE = ReadModifyWriteStateSpec("state")

        def process(
            self,
            element: Any,
            more: int,
            rates: Any,
            names: Any,
            state: Any = beam.DoFn.StateParam(STATE),
            context: Any = beam.DoFn.BundleContextParam(Context),
            window: Any = beam.DoFn.WindowParam,
            pane: Any = beam.DoFn.PaneInfoParam,
            whole: Any = beam.DoFn.WindowedValueParam,
            *,
            keyword: str = "",
        ) -> Any:
            yield element[0], more, rates, sorted(names), context, window, pane.index, whole.value, keyword

    p = TestPipeline()
    names = p | "names" >> beam.Create(["y", "x"])
    rates = p | "rates" >> beam.Create([at(("a", 5), 12), at(("a", 6), 22)]) | beam.WindowInto(FixedWindows(10))
    pcoll = p | beam.Create([("a", 1)]) | "W" >> beam.WindowInto(FixedWindows(10))
    pcoll | "Apply" >> beam.ParDo(Asking(), 7, AsDict(rates), AsList(names), keyword="k")
    transform = p.graph().transforms[-1]
    views = SideInputViews()
    views.add(names.id, Bundle(["y", "x"]))
    windows = [(IntervalWindow(10, 20),), (IntervalWindow(20, 30),)]
    views.add(rates.id, Bundle([("a", 5), ("a", 6)], [12 * S, 22 * S], windows))
    rows: list[Any] = []
    executor = StatefulExecutor(transform, lambda tag, bundle: rows.extend(bundle.values), views)
    executor.process(Bundle([("a", 1)], 15 * S, (IntervalWindow(10, 20),)))
    expected = ("a", 7, {"a": 5}, ["x", "y"], "inside", IntervalWindow(10, 20), 0, ("a", 1), "k")
    assert [expected] == rows


def test_outputs_may_have_times_windows_and_tags_of_their_own() -> None:
    """From process as well as from a timer."""

    class Wrapping(beam.DoFn):
        TIMER = TimerSpec("timer", WATERMARK)

        def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(TIMER)) -> Any:
            timer.set(10)
            return self.wrapped("process")

        @on_timer(TIMER)
        def fired(self) -> Any:
            return self.wrapped("timer")

        def wrapped(self, source: str) -> Iterator[Any]:
            yield at((source, "stamped"), 5)
            yield beam.pvalue.TaggedOutput("side", at((source, "tagged"), 6))
            yield source, "plain"

    work = Work(Wrapping(), tags=("side",)).process(at(("a", 1), 2))
    work.watermark(10)
    found = {(tag, row[0], row[1] / S) for tag, bundle in work.bundles for row in bundle.rows()}
    assert {
        (tag, (source, name), second)
        for source, own in (("process", 2.0), ("timer", 10.0))
        for tag, name, second in ((None, "stamped", 5.0), ("side", "tagged", 6.0), (None, "plain", own))
    } == found
    # Without declared tags, or with unused ones, tagged outputs are dropped.
    for work in (Work(Wrapping(), tags=("",)), Work(Wrapping())):
        assert [("process", "stamped"), ("process", "plain")] == work.process(("a", 1)).taken()
    with pytest.raises(PipelineError, match="Apply: got an output tagged 'side', but .* are \\['other'\\]"):
        Work(Wrapping(), tags=("other",)).process(("a", 1))


def test_a_dofns_life_is_that_of_any_dofn() -> None:
    """Timers fire in a bundle of their own; nothing begins where nothing is due."""
    calls: list[str] = []

    class Living(Alarm):
        def setup(self) -> None: ...

        def start_bundle(self) -> None: ...

        def finish_bundle(self) -> None: ...

        def teardown(self) -> None: ...

    work = Work(Living())
    record_calls(work, calls)
    work.watermark(1).process().process(("a", 10)).watermark(5).watermark(10).clock(7)
    work.executor.teardown()
    assert ["setup", "start", "finish", "start", "finish", "teardown"] == calls


def record_calls(work: Work, calls: list[str]) -> None:
    """Have the worker's copy of a DoFn tell of the calls."""
    fn = work.executor._pardos()[0].fn
    for name in ("setup", "start_bundle", "finish_bundle", "teardown"):
        word = name.removesuffix("_bundle")
        setattr(fn, name, lambda word=word: calls.append(word))


# --- Snapshots


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), max_size=15),
    st.integers(0, 15),
    st.integers(0, 25),
)
def test_a_restored_executor_goes_on_like_the_one_that_was_lost(pairs: list[Any], cut: int, second: int) -> None:
    """From a snapshot that went through pickle, and one with changes on top of it."""
    make: Callable[[], Work] = lambda: Work(Collect(), FixedWindows(10), lateness=5, tracking=True)
    elements = [at(pair, pair[1]) for pair in pairs]
    work = make().process(*elements[:cut])
    kept = work.executor.state, work.executor.timers
    frozen = pickle.dumps([each.snapshot() for each in kept])
    work.watermark(second)
    snapshots = [pickle.loads(data) for data in (frozen, pickle.dumps([each.changes() for each in kept]))]
    state, timers = ([change for part in parts for change in part] for parts in zip(*snapshots, strict=True))
    work.taken()

    restored = make()
    restored.executor.restore(state, timers)
    restored.executor.watermark = work.executor.watermark
    outputs = []
    for each in (work, restored):
        each.process(*elements[cut:]).watermark(20).clock(500).watermark(100)
        outputs.append((each.taken(), each.executor.hold(), len(each.executor.state), len(each.executor.timers)))
    assert outputs[0] == outputs[1]
