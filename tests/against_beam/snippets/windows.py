"""Windows."""

import apache_beam as beam
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.transforms import window
from apache_beam.transforms.window import FixedWindows, GlobalWindows, IntervalWindow, Sessions, SlidingWindows
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp
from refusals import refused


def _stamped(p, *pairs):
    return p | beam.Create(pairs) | beam.MapTuple(lambda value, at: window.TimestampedValue(value, at))


def _shown(element, at=beam.DoFn.TimestampParam, window=beam.DoFn.WindowParam):
    # Whole milliseconds: the_end_of_a_window shows what is below.
    return element, at.micros // 1000, window


def fixed_windows() -> None:
    with beam.Pipeline() as p:
        (
            _stamped(p, (("a", 1), 1), (("a", 2), 8), (("a", 3), 12))
            | beam.WindowInto(FixedWindows(10))
            | beam.CombinePerKey(sum)
            | beam.Map(_shown)
            | beam.Map(print)
        )


def fixed_windows_with_an_offset() -> None:
    with beam.Pipeline() as p:
        (
            _stamped(p, (("a", 1), 1), (("a", 2), 8), (("a", 3), 12))
            | beam.WindowInto(FixedWindows(10, offset=5))
            | beam.CombinePerKey(sum)
            | beam.Map(_shown)
            | beam.Map(print)
        )


def sliding_windows() -> None:
    with beam.Pipeline() as p:
        (
            _stamped(p, (("a", 1), 1), (("a", 2), 8))
            | beam.WindowInto(SlidingWindows(size=10, period=5))
            | beam.CombinePerKey(sum)
            | beam.Map(_shown)
            | beam.Map(print)
        )


def sessions() -> None:
    with beam.Pipeline() as p:
        (
            _stamped(p, (("a", 1), 1), (("a", 2), 8), (("a", 3), 30), (("b", 4), 5))
            | beam.WindowInto(Sessions(10))
            | beam.CombinePerKey(sum)
            | beam.Map(_shown)
            | beam.Map(print)
        )


def global_windows() -> None:
    with beam.Pipeline() as p:
        (
            _stamped(p, (("a", 1), 1), (("a", 2), 8))
            | "fixed" >> beam.WindowInto(FixedWindows(10))
            | beam.WindowInto(GlobalWindows())
            | beam.CombinePerKey(sum)
            | beam.Map(lambda x, w=beam.DoFn.WindowParam: (x, w))
            | beam.Map(print)
        )


def windows_of_negative_timestamps() -> None:
    with beam.Pipeline() as p:
        _stamped(p, ("a", -1), ("b", -10)) | beam.WindowInto(FixedWindows(10)) | beam.Map(_shown) | beam.Map(print)


def windows_of_fractions() -> None:
    with beam.Pipeline() as p:
        _stamped(p, ("a", 0.7), ("b", 1.2)) | beam.WindowInto(FixedWindows(0.5)) | beam.Map(_shown) | beam.Map(print)


def windows_by_duration() -> None:
    with beam.Pipeline() as p:
        (
            _stamped(p, ("a", 7))
            | beam.WindowInto(FixedWindows(Duration(seconds=5)))
            | beam.Map(_shown)
            | beam.Map(print)
        )


def sizes_that_are_refused() -> None:
    with refused(ValueError):
        FixedWindows(0)
    with refused(ValueError):
        SlidingWindows(0, 1)
    with refused(ValueError):
        Sessions(0)


def timestamp_combiners() -> None:
    combiners = window.TimestampCombiner
    with beam.Pipeline() as p:
        values = _stamped(p, (("a", 1), 1), (("a", 2), 8))
        for name in ["OUTPUT_AT_EOW", "OUTPUT_AT_EARLIEST", "OUTPUT_AT_LATEST"]:
            (
                values
                | name >> beam.WindowInto(FixedWindows(10), timestamp_combiner=getattr(combiners, name))
                | f"sum {name}" >> beam.CombinePerKey(sum)
                | f"show {name}" >> beam.Map(_shown)
                | f"print {name}" >> beam.Map(lambda x, name=name: print(name, x))
            )


def the_default_timestamp_of_a_group() -> None:
    with beam.Pipeline() as p:
        (
            _stamped(p, (("a", 1), 1), (("a", 2), 8))
            | beam.WindowInto(FixedWindows(10))
            | beam.GroupByKey()
            | beam.Map(lambda kv, at=beam.DoFn.TimestampParam: (kv[0], sorted(kv[1]), at.micros // 1000))
            | beam.Map(print)
        )


def a_window_into_another_windowing() -> None:
    with beam.Pipeline() as p:
        first = _stamped(p, (("a", 1), 1)) | "first" >> beam.WindowInto(FixedWindows(10))
        first | "second" >> beam.WindowInto(FixedWindows(60)) | beam.Map(_shown) | beam.Map(print)


def interval_windows() -> None:
    one, other = IntervalWindow(0, 10), IntervalWindow(5, 20)
    print(one, repr(one), one.start, one.end, one.max_timestamp())
    print(one == IntervalWindow(0, 10), one != other, one < other, hash(one) == hash(IntervalWindow(0, 10)))
    print(one.intersects(other), one.union(other))


def the_global_window() -> None:
    one = window.GlobalWindow()
    print(one, repr(one), one == window.GlobalWindow(), one.start, int(one.end))


def bounded_windows() -> None:
    print(window.BoundedWindow(10).max_timestamp(), window.BoundedWindow(10).end)


def timestamped_values() -> None:
    one = window.TimestampedValue("a", 5)
    print(one.value, one.timestamp, type(one.timestamp).__name__, one == window.TimestampedValue("a", Timestamp(5)))
    print(one < window.TimestampedValue("a", 6))


def assignment_by_hand() -> None:
    context = window.WindowFn.AssignContext(7, element="x")
    print(FixedWindows(5).assign(context))
    print(sorted(SlidingWindows(10, 5).assign(context)))
    print(Sessions(3).assign(context))
    print(GlobalWindows().assign(context))


def equality_of_window_fns() -> None:
    print(FixedWindows(5) == FixedWindows(5), FixedWindows(5) == FixedWindows(6), FixedWindows(5, 1) != FixedWindows(5))
    print(SlidingWindows(5, 1) == SlidingWindows(5, 1), Sessions(4) == Sessions(4), GlobalWindows() == GlobalWindows())


def attributes_of_window_fns() -> None:
    print(FixedWindows(5, offset=7).size, FixedWindows(5, offset=7).offset)
    print(SlidingWindows(10, 5, offset=12).offset, SlidingWindows(10, 5).period, Sessions(4).gap_size)


def merging_by_hand() -> None:
    class Merged(window.WindowFn.MergeContext):
        def merge(self, to_be_merged, merge_result):
            print(sorted(to_be_merged), merge_result)

    Sessions(10).merge(Merged([IntervalWindow(0, 10), IntervalWindow(5, 15), IntervalWindow(30, 40)]))


class _Halves(window.NonMergingWindowFn):
    def assign(self, context):
        start = int(context.timestamp) // 10 * 10
        return [IntervalWindow(start, start + 5), IntervalWindow(start + 5, start + 10)]

    def get_window_coder(self):
        return IntervalWindowCoder()


def a_window_fn_of_users() -> None:
    with beam.Pipeline() as p:
        _stamped(p, ("a", 12)) | beam.WindowInto(_Halves()) | beam.Map(_shown) | beam.Map(print)


class _ByElement(window.NonMergingWindowFn):
    def assign(self, context):
        return [IntervalWindow(0, len(context.element))]

    def get_window_coder(self):
        return IntervalWindowCoder()


def a_window_fn_that_reads_the_element() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(["abc"]) | beam.WindowInto(_ByElement()) | beam.Map(_shown) | beam.Map(print)


def windowing_of_a_pcollection() -> None:
    p = beam.Pipeline()
    values = p | beam.Create([1]) | beam.WindowInto(FixedWindows(10), allowed_lateness=5)
    windowing = values.windowing
    print(windowing.windowfn == FixedWindows(10), windowing.accumulation_mode, windowing.triggerfn)


def an_accumulation_mode_is_needed_with_a_trigger() -> None:
    with refused(ValueError), beam.Pipeline() as p:
        p | beam.Create([1]) | beam.WindowInto(FixedWindows(10), trigger=beam.trigger.AfterCount(1)) | beam.Map(print)


def flatten_keeps_the_windows() -> None:
    with beam.Pipeline() as p:
        one = _stamped(p, ("a", 1)) | beam.WindowInto(FixedWindows(10))
        (one, one) | beam.Flatten() | beam.Map(_shown) | beam.Map(print)


def count_by_window() -> None:
    with beam.Pipeline() as p:
        (
            _stamped(p, ("a", 1), ("a", 3), ("b", 12))
            | beam.WindowInto(FixedWindows(10))
            | beam.combiners.Count.PerElement()
            | beam.Map(_shown)
            | beam.Map(print)
        )


def globally_by_window() -> None:
    with beam.Pipeline() as p:
        (
            _stamped(p, (1, 1), (2, 3), (5, 12))
            | beam.WindowInto(FixedWindows(10))
            | beam.CombineGlobally(sum).without_defaults()
            | beam.Map(_shown)
            | beam.Map(print)
        )


def globally_with_defaults_by_window() -> None:
    with refused(ValueError), beam.Pipeline() as p:
        _stamped(p, (1, 1)) | beam.WindowInto(FixedWindows(10)) | beam.CombineGlobally(sum) | beam.Map(print)


def minimum_and_maximum() -> None:
    print(window.MIN_TIMESTAMP, MAX_TIMESTAMP, window.GlobalWindow().max_timestamp() < MAX_TIMESTAMP)


def a_session_over_midnight() -> None:
    with beam.Pipeline() as p:
        (
            _stamped(p, (("u", "x"), 86395), (("u", "y"), 86402))
            | beam.WindowInto(Sessions(10))
            | beam.GroupByKey()
            | beam.MapTuple(lambda k, vs: (k, sorted(vs)))
            | beam.Map(_shown)
            | beam.Map(print)
        )


def regrouping_sessions_by_fixed_windows() -> None:
    with beam.Pipeline() as p:
        (
            _stamped(p, (("u", 1), 5), (("u", 1), 12))
            | "sessions" >> beam.WindowInto(Sessions(10))
            | beam.CombinePerKey(sum)
            | beam.Map(lambda kv, w=beam.DoFn.WindowParam: ("length", float(w.end - w.start)))
            | "fixed" >> beam.WindowInto(FixedWindows(60))
            | beam.combiners.Mean.PerKey()
            | beam.Map(_shown)
            | beam.Map(print)
        )


def co_group_by_window() -> None:
    with beam.Pipeline() as p:
        left = (
            p | "l" >> beam.Create([("a", 1), ("a", 12)]) | "ls" >> beam.Map(lambda x: window.TimestampedValue(x, x[1]))
        )
        right = p | "r" >> beam.Create([("a", 3)]) | "rs" >> beam.Map(lambda x: window.TimestampedValue(x, x[1]))
        (
            {
                "left": left | "lw" >> beam.WindowInto(FixedWindows(10)),
                "right": right | "rw" >> beam.WindowInto(FixedWindows(10)),
            }
            | beam.CoGroupByKey()
            | beam.MapTuple(lambda k, v: (k, {tag: list(found) for tag, found in v.items()}))
            | beam.Map(_shown)
            | beam.Map(print)
        )


def co_group_of_different_windows() -> None:
    with refused(ValueError), beam.Pipeline() as p:
        left = p | "l" >> beam.Create([("a", 1)]) | "lw" >> beam.WindowInto(FixedWindows(10))
        right = p | "r" >> beam.Create([("a", 3)]) | "rw" >> beam.WindowInto(FixedWindows(5))
        (left, right) | beam.CoGroupByKey() | beam.Map(print)


def values_in_the_global_window() -> None:
    found = GlobalWindows.windowed_value("a", 5)
    print(found.value, found.timestamp, found.windows)
    with beam.Pipeline() as p:
        values = p | beam.Create([found, GlobalWindows.windowed_value("b", 7)]) | beam.Map(lambda value: value)
        values | beam.Map(_shown) | beam.Map(print)


def the_end_of_a_window() -> None:
    with beam.Pipeline() as p:
        values = _stamped(p, (("a", 1), 1)) | beam.WindowInto(FixedWindows(10)) | beam.CombinePerKey(sum)
        values | beam.Map(lambda x, at=beam.DoFn.TimestampParam: (x, at)) | beam.Map(print)


def the_end_of_the_global_window() -> None:
    print(window.GlobalWindow().max_timestamp())
    with beam.Pipeline() as p:
        values = _stamped(p, (("a", 1), 1)) | beam.CombinePerKey(sum)
        values | beam.Map(lambda x, at=beam.DoFn.TimestampParam: (x, at)) | beam.Map(print)


def windows_that_touch_or_are_apart() -> None:
    print(IntervalWindow(0, 10).intersects(IntervalWindow(10, 20)))
    print(IntervalWindow(0, 10).intersects(IntervalWindow(30, 40)))


def lateness_of_a_pcollection() -> None:
    p = beam.Pipeline()
    windowed = p | beam.Create([1]) | beam.WindowInto(FixedWindows(60), allowed_lateness=30)
    windowing = windowed.windowing
    print(windowing.windowfn.size, windowing.allowed_lateness, windowing.allowed_lateness.micros)
    again = windowed | "again" >> beam.WindowInto(windowing.windowfn, allowed_lateness=windowing.allowed_lateness)
    print(again.windowing.allowed_lateness == windowing.allowed_lateness)
