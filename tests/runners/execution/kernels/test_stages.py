"""stages: the generated function does what its operations say, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import dedent
from typing import Any
from unittest.mock import patch

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.execution.stages import GroupingAlone, Row, StageAlone, bundle, row, window

import penstock as beam
from penstock.runners.execution.kernels import runtime
from penstock.runners.execution.kernels import windows as window_source
from penstock.runners.execution.kernels.descriptions import (
    FoldOperation,
    Operation,
    ParDoOperation,
    WindowOperation,
)
from penstock.runners.execution.kernels.stages import StageDescription, StageKernel, labels_of, stage_kernel
from penstock.runners.execution.stages import executor as stage_chain
from penstock.sdk.dofn.arrangement import FIRST, WHOLE, Applied, ArrangementDoFn, Constant
from penstock.sdk.dofn.dofn import FilterDoFn, FlatMapDoFn, MapDoFn
from penstock.sdk.dofn.signature import Argument
from penstock.sdk.elements.bundle import GLOBAL_WINDOWS, Bundle, Shape
from penstock.sdk.elements.element_wrappers import WindowedValue
from penstock.sdk.user_code.step_slot import StepTimes
from penstock.triggers import ONLY_PANE, PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming
from penstock.windowing import (
    CalendarDays,
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    Sessions,
    SlidingWindows,
    TimestampedValue,
    WindowFn,
)

ONE_FOR_ALL = Shape(timestamps=False, windows=False, panes=False, signs=False, one_window=True)
LATE = PaneInfo(False, True, PaneInfoTiming.LATE, 2, 1)
A, B = window(0, 60), window(30, 90)


def pardo(fn: Any) -> ParDoOperation:
    return ParDoOperation("label", fn, (Argument(beam.DoFn.ElementParam),))


def generate(
    operations: tuple[Operation, ...], fold: FoldOperation | None, shape: Shape, limit: int, **others: Any
) -> StageKernel:
    times = StepTimes(labels_of(operations, fold))
    return stage_kernel(StageDescription("stage", operations, fold, shape, limit, **others), times, {})


PAIR = ArrangementDoFn((WHOLE, Constant(1)), "pair")

# The source


def test_a_function_that_counts_has_one_more_line_where_elements_may_get_lost() -> None:
    """It is the same otherwise."""
    operations = (pardo(MapDoFn(lambda x: x + 1)), pardo(FilterDoFn(lambda x: x)), pardo(FlatMapDoFn(str.split)))
    plain = generate(operations, None, ONE_FOR_ALL, 7).source.splitlines()
    counting = generate(operations, None, ONE_FOR_ALL, 7, counts=True).source.splitlines()

    assert [line for line in counting if line in plain] == plain
    assert [
        "n1 = 0; e1 = None",
        "n2 = 0; e2 = None",
        "n1 += 1; e1 = v1",
        "n2 += 1; e2 = v1",
        "passed(1, n1, e1)",
        "passed(2, n2, e2)",
    ] == [line.strip() for line in counting if line not in plain]


def test_functions_become_a_loop_like_one_written_by_hand() -> None:
    """Only the type of a result is looked at, and columns that all share aren't touched."""
    operations = (pardo(MapDoFn(lambda x: x + 1)), pardo(FilterDoFn(lambda x: x)), pardo(FlatMapDoFn(str.split)))
    expected = """\
        def run(values, t, w, p, s, f0=f0, f1=f1, f2=f2):
            P0 = []; pend0 = P0.append; k0 = None
            o = []
            for v0 in values:
                v1 = f0(v0)
                if type(v1) is not k0:
                    if type(v1) in SPECIAL:
                        pend0((unshared(v1), t, w, p, s))
                        if len(P0) >= 100: specials(0, P0)
                        continue
                    k0 = type(v1)
                if not f1(v1): continue
                for v3 in f2(v1):
                    o.append(v3)
                    if len(o) >= 100:
                        emit(o, t, w, p, s)
                        o = []
            if o:
                emit(o, t, w, p, s)
            if P0:
                specials(0, P0)"""
    assert dedent(expected) == generate(operations, None, ONE_FOR_ALL, 100).source


def test_columns_that_vary_are_read_and_written_beside_the_values() -> None:
    """By one zip."""
    shape = Shape(timestamps=True, windows=False, panes=False, signs=True, one_window=True)
    expected = """\
        def run(values, t, w, p, s, f0=f0, IMMUTABLE=IMMUTABLE):
            P0 = []; pend0 = P0.append; k0 = None
            o = []
            ot = []
            os = []
            for v0, t0, s0 in zip(values, t, s):
                v1 = f0(v0)
                if type(v1) is not k0:
                    if type(v1) in SPECIAL:
                        pend0((unshared(v1), t0, w, p, s0))
                        if len(P0) >= 100: specials(0, P0)
                        continue
                    k0 = type(v1)
                if type(v1) not in IMMUTABLE:
                    if type(v1) is tuple:
                        for part in v1:
                            if type(part) not in IMMUTABLE:
                                v1 = unshared(v1)
                                break
                    else:
                        v1 = unshared(v1)
                o.append(v1)
                ot.append(t0)
                os.append(s0)
            if o:
                emit(o, ot, w, p, os)
            if P0:
                specials(0, P0)"""
    assert dedent(expected) == generate((pardo(MapDoFn(lambda x: x + 1)),), None, shape, 100).source


def test_a_fixed_window_before_a_fold_is_looked_up_by_its_number() -> None:
    """No window is made for an element."""
    grouping = GroupingAlone(beam.CombinePerKey(sum))
    operations = (WindowOperation("label", FixedWindows(60)),)
    fold = attrs.evolve(grouping.fold.operation, window_fn=FixedWindows(60))
    shape = Shape(timestamps=True, windows=False, panes=False, signs=False, one_window=True)
    expected = """\
        def run(values, t, w, p, s):
            kp = None
            opened = {}
            for v0, t0 in zip(values, t):
                if type(v0) is not kp: kp = pair_type(v0)
                k, x = v0
                b = t0 // 60000000
                try: d = opened[b]
                except KeyError: d = opened[b] = cells.open(assign0(t0)[0]).accumulators
                d[k] = d.get(k, 0) + x"""
    assert dedent(expected) == generate(operations, fold, shape, 100).source


def test_a_constant_value_of_a_pair_is_assigned_once() -> None:
    """And the window of all elements is taken once."""
    grouping = GroupingAlone(beam.CombinePerKey(sum))
    operations = (pardo(PAIR),)
    expected = """\
        def run(values, t, w, p, s, c0_0=c0_0):
            x = c0_0
            d = cells.open(w[0]).accumulators
            get = d.get
            for v0 in values:
                k = v0
                d[k] = get(k, 0) + x"""
    assert dedent(expected) == generate(operations, grouping.fold.operation, ONE_FOR_ALL, 100).source


def test_a_constant_value_of_a_pair_stays_beside_timestamps_from_a_function() -> None:
    """Their variables differ."""
    counted = (
        ["a", "b", "a"] | beam.WithTimestamps(lambda letter: ord(letter)) | beam.ParDo(PAIR) | beam.CombinePerKey(sum)
    )
    assert [("a", 2), ("b", 1)] == sorted(counted)


def test_every_line_says_which_operation_it_belongs_to() -> None:
    """And which variable holds what that operation was given."""
    operations = (pardo(MapDoFn(abs)), WindowOperation("label", FixedWindows(60)), pardo(FilterDoFn(abs)))
    generated = generate(operations, None, Shape(True, True, True, True, False), 100)
    lines = dict(zip(map(str.strip, generated.source.splitlines()), generated.lines, strict=True))
    assert (0, "v0") == lines["v1 = f0(v0)"]
    assert (1, "v1") == lines["b = t0 // 60000000"]
    assert (2, "v1") == lines["if not f2(v1): continue"]


def test_timestamped_values_can_stay_in_the_loop() -> None:
    """Anything else that is special still leaves it."""
    expected = """\
        def run(values, t, w, p, s, f0=f0, TIMESTAMPED=TIMESTAMPED, IMMUTABLE=IMMUTABLE):
            P0 = []; pend0 = P0.append; k0 = None
            o = []
            ot = []
            for v0 in values:
                v1 = f0(v0)
                if type(v1) is TIMESTAMPED:
                    at = v1.at; v1 = v1.value
                    t1 = at * 1000000 if type(at) is int else at[0]
                else:
                    t1 = t
                    if type(v1) is not k0:
                        if type(v1) in SPECIAL:
                            pend0((unshared(v1), t, w, p, s))
                            if len(P0) >= 100: specials(0, P0)
                            continue
                        k0 = type(v1)
                if type(v1) not in IMMUTABLE:
                    if type(v1) is tuple:
                        for part in v1:
                            if type(part) not in IMMUTABLE:
                                v1 = unshared(v1)
                                break
                    else:
                        v1 = unshared(v1)
                o.append(v1)
                ot.append(t1)
            if o:
                emit(o, ot, w, p, s)
            if P0:
                specials(0, P0)"""
    opaque = pardo(MapDoFn(lambda x: x.value))
    assert dedent(expected) == generate((opaque,), None, ONE_FOR_ALL, 100, timestamped={0}).source


def test_the_rest_of_a_stage_can_be_had_by_itself() -> None:
    """For what left the loop at an operation before."""
    operations = (pardo(MapDoFn(abs)), pardo(MapDoFn(lambda x: x + 1)))
    source = generate(operations, None, ONE_FOR_ALL, 100, first=1).source
    assert "f0" not in source
    assert "for v1 in values:" in source
    assert "v2 = f1(v1)" in source


# Every kind of operation


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (beam.Map(lambda x: x + 1), [2, 3, 4]),
        (beam.Map(lambda x, y, z: x * y + z, 10, z=1), [11, 21, 31]),
        (beam.Map(str), ["1", "2", "3"]),
        (beam.Filter(lambda x: x != 2), [1, 3]),
        (beam.Filter(lambda x, least: x >= least, 2), [2, 3]),
        (beam.FlatMap(range), [0, 0, 1, 0, 1, 2]),
        (beam.FlatMap(lambda x: [x] if x > 1 else None), [2, 3]),
        (beam.FlatMap(lambda x: (y for y in (x, -x))), [1, -1, 2, -2, 3, -3]),
        (beam.ParDo(ArrangementDoFn((WHOLE, (Constant("a"), WHOLE)), "pairs")), [(x, ("a", x)) for x in (1, 2, 3)]),
        (beam.ParDo(ArrangementDoFn(WHOLE, "same")), [1, 2, 3]),
    ],
)
def test_each_operation_gives_its_outputs(transform: Any, expected: list[Any]) -> None:
    """In order."""
    assert expected == StageAlone(transform).process(Bundle([1, 2, 3])).values()


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (beam.MapTuple(lambda a, b: a + b), [3, 7]),
        (beam.MapTuple(lambda a, b, c: a + b + c, 10), [13, 17]),
        (beam.FlatMapTuple(lambda a, b: [a, b]), [1, 2, 3, 4]),
        (beam.Map(lambda pair, key=beam.DoFn.KeyParam: key), [1, 3]),
    ],
)
def test_operations_on_pairs_take_them_apart(transform: Any, expected: list[Any]) -> None:
    """Items become arguments."""
    assert expected == StageAlone(transform).process(Bundle([(1, 2), (3, 4)])).values()


def test_a_function_is_given_what_it_asks_for_of_an_element() -> None:
    """Whether a column varies or not."""

    def asking(
        x: int,
        t: Any = beam.DoFn.TimestampParam,
        w: Any = beam.DoFn.WindowParam,
        p: Any = beam.DoFn.PaneInfoParam,
        whole: Any = beam.DoFn.WindowedValueParam,
    ) -> Any:
        return x, float(t), w, p, whole.value, float(whole.timestamp), whole.windows, whole.pane_info

    shared = StageAlone(beam.Map(asking)).process(Bundle([7], 5_000_000, (A,), LATE))
    varying = StageAlone(beam.Map(asking)).process(bundle(row(7, 5, (A,), LATE), row(8, 6, (B,), ONLY_PANE)))
    assert [(7, 5.0, A, LATE, 7, 5.0, [A], LATE)] == shared.values()
    assert [
        (7, 5.0, A, LATE, 7, 5.0, [A], LATE),
        (8, 6.0, B, ONLY_PANE, 8, 6.0, [B], ONLY_PANE),
    ] == varying.values()


def test_a_function_that_asks_for_the_sign_decides_on_that_of_its_outputs() -> None:
    """Any other function's outputs have that of the input."""
    rows = bundle(row(1, sign=1), row(2, sign=-1))
    asking = StageAlone(beam.Map(lambda x, sign=beam.DoFn.SignParam: (x, sign))).process(rows)
    assert [((1, 1), 1), ((2, -1), 1)] == [(r[0], r[4]) for r in asking.rows()]
    assert [1, -1] == [r[4] for r in StageAlone(beam.Map(lambda x: x + 1)).process(rows).rows()]


# Windows


def test_a_pardo_that_observes_windows_runs_once_in_each() -> None:
    """Its outputs are in that window alone (Dataflow Model, figure 3)."""
    stage = StageAlone(
        beam.WindowInto(SlidingWindows(60, 30)),
        beam.Map(lambda x, w=beam.DoFn.WindowParam: (x, int(w.start))),
    )
    stage.process(bundle(row("a", 40), row("b", 70)))
    assert [
        (("a", 30), (window(30, 90),)),
        (("a", 0), (window(0, 60),)),
        (("b", 60), (window(60, 120),)),
        (("b", 30), (window(30, 90),)),
    ] == [(r[0], r[2]) for r in stage.rows()]


def test_any_other_pardo_runs_once_for_all_windows() -> None:
    """Its outputs are in all of them."""
    stage = StageAlone(beam.WindowInto(SlidingWindows(60, 30)), beam.Map(lambda x: x + "!"))
    assert [("a!", (window(30, 90), window(0, 60)))] == [
        (r[0], r[2]) for r in stage.process(bundle(row("a", 40))).rows()
    ]


def test_an_element_without_a_window_is_dropped() -> None:
    """Sliding windows may leave gaps."""
    stage = StageAlone(beam.WindowInto(SlidingWindows(10, 30)), beam.Map(lambda x: x))
    assert ["a", "c"] == stage.process(bundle(row("a", 5), row("b", 15), row("c", 35))).values()


class ByValue(WindowFn):
    """Looks at the element and the window it had; drops negative ones."""

    def assign_windows(self, context: WindowFn.AssignContext) -> list[IntervalWindow]:
        if context.element < 0:
            return []
        start = context.element + (1000 if context.window == B else 0)
        return [IntervalWindow(start, start + 10)]

    def merge_windows(self, merge_context: WindowFn.MergeContext) -> None:
        pass

    is_merging = False


def test_a_window_function_may_look_at_the_element_and_its_window() -> None:
    """It is asked for each element then."""
    stage = StageAlone(beam.WindowInto(ByValue()))
    stage.process(bundle(row(5, 0, (A,)), row(-1, 0, (A,)), row(5, 0, (B,))))
    assert [(window(5, 15),), (window(1005, 1015),)] == [r[2] for r in stage.rows()]


def test_windows_of_one_timestamp_for_all_are_assigned_once() -> None:
    """Outside of the loop."""
    stage = StageAlone(beam.WindowInto(FixedWindows(60))).process(Bundle(["a", "b"], 5_000_000))
    assert [("a", (A,)), ("b", (A,))] == [(r[0], r[2]) for r in stage.rows()]
    assert type(stage.emitted[0][1].windows) is tuple


def test_many_windows_are_remembered_no_longer_than_memory_allows() -> None:
    """Forgotten windows are assigned again."""
    with patch.object(runtime, "_REMEMBERED_BUCKETS", 2):
        alone = StageAlone(beam.WindowInto(FixedWindows(1)), beam.Map(lambda x: x))
        alone.process(bundle(*(row(i, i % 5) for i in range(10))))
    assert [(window(i % 5, i % 5 + 1),) for i in range(10)] == [r[2] for r in alone.rows()]


# Results that bring a timestamp, windows or a tag


def test_a_timestamped_value_in_the_middle_goes_on_with_its_timestamp() -> None:
    """The operations after it see that; what is plain keeps the element's own."""
    alone = StageAlone(
        beam.Map(lambda x: TimestampedValue(x, 70) if x == 1 else x),
        beam.WindowInto(FixedWindows(60)),
        beam.Map(lambda x, t=beam.DoFn.TimestampParam, w=beam.DoFn.WindowParam: (x, int(t), int(w.start))),
    )
    assert [(1, 70, 60), (2, 5, 0)] == sorted(alone.process(Bundle([1, 2], 5_000_000)).values())


def test_a_timestamped_value_at_the_end_comes_out_with_its_timestamp() -> None:
    """In the windows of its input."""
    alone = StageAlone(beam.FlatMap(lambda x: [x, TimestampedValue(-x, 70)]))
    rows = alone.process(Bundle([1], 5_000_000, (A,), LATE)).rows()
    assert [row(-1, 70, (A,), LATE), row(1, 5, (A,), LATE)] == sorted(rows, key=repr)


def in_time(x: int) -> Any:
    """Timestamped if positive, windowed if negative."""
    return TimestampedValue(x, x) if x > 0 else WindowedValue(x, 70, (A,)) if x < 0 else x


@pytest.mark.parametrize(
    ("values", "first", "second"),
    [([1, 0, 2], [0, 1, 2], [1, 0, 2]), ([0, 1, 0], [0, 0, 1], [0, 0, 1]), ([0, 1, -1], [0, 1, -1], [0, 1, -1])],
)
def test_where_most_outputs_are_timestamped_values_the_next_bundle_keeps_them_in_the_loop(
    values: list[int], first: list[int], second: list[int]
) -> None:
    """The order of outputs shows it; bundles with few or with other special outputs leave the loop."""
    alone = StageAlone(beam.Map(in_time), beam.Map(lambda x: x))
    assert first == alone.process(Bundle(values)).values()
    assert first + second == alone.process(Bundle(values)).values()


def test_a_windowed_value_comes_with_everything() -> None:
    """Timestamp, windows and pane."""
    alone = StageAlone(beam.Map(lambda x: WindowedValue(x, 70, (A, B), LATE)), beam.Map(lambda x: x + 1))
    assert [row(2, 70, (A, B), LATE)] == alone.process(Bundle([1], 5_000_000)).rows()


def test_a_special_inside_a_value_stays_what_it_is() -> None:
    """Only the output itself is unwrapped."""
    alone = StageAlone(beam.Map(lambda x: (x, TimestampedValue(x, 70))))
    assert [(1, TimestampedValue(1, 70))] == alone.process(Bundle([1])).values()


def test_the_sign_of_an_element_goes_with_what_it_brings() -> None:
    """A retraction's outputs are retractions."""
    alone = StageAlone(beam.Map(lambda x: TimestampedValue(x, 70)), beam.Map(lambda x: x + 1))
    assert [row(2, 70, sign=-1)] == alone.process(Bundle([1], signs=-1)).rows()


@pytest.mark.parametrize("end", [beam.WindowInto(FixedWindows(60)), beam.WindowInto(Sessions(60))])
def test_a_special_right_before_a_fold_is_folded_where_it_belongs(end: Any) -> None:
    """By its own timestamp."""
    grouping = GroupingAlone(
        beam.Map(lambda x: TimestampedValue(("a", x), 130) if x % 2 else ("a", x)), end, beam.CombinePerKey(sum)
    )
    grouping.process(bundle(row(1, 5), row(2, 5), row(3, 7), row(4, 7)))
    assert [("a", 6), ("a", 4)] == [r[0] for r in grouping.results()]


# Any chain, against each operation by itself


@attrs.frozen
class Kind:
    """An operation, and the rows that it makes of a row."""

    make: Callable[[], list[Any]]
    outputs: Callable[[Row], Iterator[Row]]


def function(make: Callable[[], Any], outputs: Callable[[Row], list[Any]], per_window: bool = False) -> Kind:
    """A ParDo: what it returns for a row, as a list."""

    def rows(given: Row) -> Iterator[Row]:
        value, micros, windows, pane, sign = given
        for own in [(w,) for w in windows] if per_window else [windows]:
            for output in outputs((value, micros, own, pane, sign)):
                if type(output) is TimestampedValue:
                    yield output.value, output.micros, own, pane, sign
                elif type(output) is WindowedValue:
                    yield output.value, output.micros, output.windows, output.pane_info, sign
                else:
                    yield output, micros, own, pane, sign

    return Kind(lambda: [make()], rows)


def assignment(window_fn: WindowFn) -> Kind:
    """A WindowInto."""

    def rows(given: Row) -> Iterator[Row]:
        value, micros, windows, pane, sign = given
        for had in windows:
            context = WindowFn.AssignContext(beam.utils.timestamp.Timestamp(micros=micros), value, had)
            if assigned := tuple(window_fn.assign_windows(context)):
                yield value, micros, assigned, pane, sign

    return Kind(lambda: [beam.WindowInto(window_fn)], rows)


def from_pair(make: Callable[[], Any], output: Callable[[int], int]) -> Kind:
    """A Map to a pair, and an operation on that."""
    both = function(make, lambda r: [output(r[0])])
    return Kind(lambda: [beam.Map(lambda x: (x, 1)), make()], both.outputs)


def sometimes_later(x: int) -> Any:
    return TimestampedValue(x, x % 200) if x % 3 else x


def in_windows(x: int) -> Any:
    yield x
    if x % 2:
        yield WindowedValue(x, x % 100, (A, B), LATE)


WINDOW_FNS = [
    GlobalWindows(),
    FixedWindows(60, 7),
    SlidingWindows(60, 20),
    SlidingWindows(10, 30),
    Sessions(30),
    CalendarDays(),
    ByValue(),
]

KINDS = [
    function(lambda: beam.Map(lambda x: x + 1), lambda r: [r[0] + 1]),
    function(lambda: beam.Map(abs), lambda r: [abs(r[0])]),
    function(lambda: beam.Map(lambda x, by: x - by, 3), lambda r: [r[0] - 3]),
    function(lambda: beam.Filter(lambda x: x % 2), lambda r: [r[0]] if r[0] % 2 else []),
    function(lambda: beam.FlatMap(lambda x: [x, -x]), lambda r: [r[0], -r[0]]),
    function(lambda: beam.FlatMap(lambda x: [x] if x % 3 else None), lambda r: [r[0]] if r[0] % 3 else []),
    function(lambda: beam.ParDo(ArrangementDoFn(Applied(lambda x: x * 2), "double")), lambda r: [r[0] * 2]),
    function(lambda: beam.ParDo(ArrangementDoFn(WHOLE, "same")), lambda r: [r[0]]),
    function(lambda: beam.Map(sometimes_later), lambda r: [sometimes_later(r[0])]),
    function(lambda: beam.FlatMap(in_windows), lambda r: list(in_windows(r[0]))),
    function(lambda: beam.WithTimestamps(lambda x: x % 150), lambda r: [TimestampedValue(r[0], r[0] % 150)]),
    function(lambda: beam.WithTimestamps(lambda x: x / 7), lambda r: [TimestampedValue(r[0], r[0] / 7)]),
    function(
        lambda: beam.Map(lambda x, w=beam.DoFn.WindowParam: x + w.max_micros % 11),
        lambda r: [r[0] + r[2][0].max_micros % 11],
        per_window=True,
    ),
    function(lambda: beam.Map(lambda x, t=beam.DoFn.TimestampParam: x + t.micros % 13), lambda r: [r[0] + r[1] % 13]),
    function(lambda: beam.Map(lambda x, p=beam.DoFn.PaneInfoParam: x + p.index), lambda r: [r[0] + r[3].index]),
    from_pair(lambda: beam.MapTuple(lambda a, b: a - b), lambda x: x - 1),
    from_pair(lambda: beam.ParDo(ArrangementDoFn(FIRST, "first")), lambda x: x),
    from_pair(lambda: beam.FlatMapTuple(lambda a, b: [a + b]), lambda x: x + 1),
    from_pair(lambda: beam.Map(lambda pair, key=beam.DoFn.KeyParam: key), lambda x: x),
    *map(assignment, WINDOW_FNS),
]

ROWS = st.lists(
    st.tuples(
        st.integers(-50, 50),
        st.integers(-200, 200).map(lambda seconds: seconds * 1_000_000),
        st.sampled_from([GLOBAL_WINDOWS, (A,), (B,), (A, B)]),
        st.sampled_from([PANE_INFO_UNKNOWN, LATE]),
        st.sampled_from([1, -1]),
    ),
    min_size=1,
    max_size=6,
)


def shaped(rows: list[Row], varying: tuple[bool, ...]) -> tuple[Bundle, list[Row]]:
    """A bundle in which some columns are one entry for all, that of the first row; and its rows."""
    values, *columns = (list(column) for column in zip(*rows, strict=True))
    shared: list[Any] = [column if varies else column[0] for column, varies in zip(columns, varying, strict=True)]
    made = Bundle(values, *shared)
    return made, list(made.rows())


@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=5),
    rows=ROWS,
    varying=st.tuples(*[st.booleans()] * 4),
    limit=st.sampled_from([1, 3, 16_384]),
)
def test_a_fused_stage_gives_what_its_operations_give_one_by_one(
    kinds: list[Kind], rows: list[Row], varying: tuple[bool, ...], limit: int
) -> None:
    """For any operations, bundles, moments of emission, and earlier bundles."""
    given_bundle, expected = shaped(rows, varying)
    for kind in kinds:
        expected = [made for given_row in expected for made in kind.outputs(given_row)]
    with patch.object(stage_chain, "BUNDLE_SIZE", limit):
        alone = StageAlone(*(t for kind in kinds for t in kind.make()))
        for _ in range(2):
            actual = alone.process(given_bundle).rows()
            alone.emitted.clear()
            assert sorted(expected, key=repr) == sorted(actual, key=repr)


def test_every_window_function_that_assigns_one_window_is_known_to() -> None:
    """A list by hand could go stale; sliding windows are not among them."""
    listed = set(window_source.ONE_WINDOW)
    assert {type(fn) for fn in WINDOW_FNS} - {SlidingWindows, ByValue} <= listed
    assert SlidingWindows not in listed
