import pytest

from penstock.windowing import (
    GLOBAL_WINDOW,
    CalendarDays,
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    Timestamp,
    WindowFn,
    checked_windows,
    default_window_mapping_fn,
)


class OurSpelling(WindowFn):
    def assign_windows(self, context):
        return [IntervalWindow(context.timestamp, context.timestamp + 1)]

    def merge_windows(self, merge_context):
        merge_context.merge(merge_context.windows, max(merge_context.windows))


class BeamsSpelling(WindowFn):
    def assign(self, context):
        return [IntervalWindow(context.timestamp, context.timestamp + 1)]

    def merge(self, merge_context):
        merge_context.merge(merge_context.windows, max(merge_context.windows))


class Recorder(WindowFn.MergeContext):
    def __init__(self, windows):
        super().__init__(windows)
        self.merged = []

    def merge(self, to_be_merged, merge_result):
        self.merged.append((list(to_be_merged), merge_result))


@pytest.mark.parametrize("fn", [OurSpelling(), BeamsSpelling()])
def test_either_spelling_may_be_overridden_and_either_called(fn):
    context = WindowFn.AssignContext(3)
    windows = [IntervalWindow(3, 4)]
    assert windows == fn.assign(context) == fn.assign_windows(context) == list(fn.assign_micros(3_000_000))
    pair = [IntervalWindow(0, 1), IntervalWindow(0, 2)]
    for method in (fn.merge, fn.merge_windows):
        recorder = Recorder(pair)
        method(recorder)
        assert [(pair, IntervalWindow(0, 2))] == recorder.merged


@pytest.mark.parametrize("fn", [FixedWindows(60), GlobalWindows(), Sessions(60), CalendarDays()])
def test_the_built_in_ones_can_be_called_by_either_name(fn):
    context = WindowFn.AssignContext(3)
    assert fn.assign_windows(context) == fn.assign(context) == list(fn.assign_micros(3_000_000))


def test_a_function_that_overrides_neither_is_told_so():
    class Nothing(WindowFn):
        pass

    for method in (Nothing().assign, Nothing().assign_windows):
        with pytest.raises(NotImplementedError, match="Nothing must override assign_windows"):
            method(WindowFn.AssignContext(3))
    for method in (Nothing().merge, Nothing().merge_windows):
        with pytest.raises(NotImplementedError, match="Nothing must override merge_windows"):
            method(Recorder([]))


def test_a_users_function_promises_nothing_to_the_runner():
    fn = OurSpelling()
    assert (False, False, True) == (fn.depends_only_on_timestamp, fn.merges_by_overlap, fn.is_merging)


@pytest.mark.parametrize("name", ["assign", "assign_windows"])
def test_a_built_in_function_that_is_overridden_loses_its_promises(name):
    other = type("Other", (FixedWindows,), {name: lambda self, context: [IntervalWindow(0, 1)]})(60)
    assert not other.depends_only_on_timestamp
    assert (IntervalWindow(0, 1),) == other.assign_micros(100_000_000)
    assert [IntervalWindow(0, 1)] == other.assign(WindowFn.AssignContext(100))


def test_a_built_in_function_with_another_merge_does_not_merge_by_overlap():
    other = type("Other", (Sessions,), {"merge": lambda self, context: None})(60)
    assert (True, False) == (Sessions(60).merges_by_overlap, other.merges_by_overlap)


def test_an_overriding_function_may_ask_the_one_that_it_overrides():
    class Shifted(FixedWindows):
        def assign(self, context):
            return [IntervalWindow(w.start + 1, w.end + 1) for w in super().assign(context)]

    assert [IntervalWindow(1, 61)] == Shifted(60).assign_windows(WindowFn.AssignContext(5))


def test_is_merging_may_be_a_method_as_in_beam():
    class Flat(WindowFn):
        def is_merging(self):
            return False

    assert False is Flat().is_merging


def test_a_non_merging_function_merges_nothing():
    class Flat(NonMergingWindowFn):
        pass

    recorder = Recorder([IntervalWindow(0, 2), IntervalWindow(1, 3)])
    Flat().merge(recorder)
    Flat().merge_windows(recorder)
    assert ([], False) == (recorder.merged, Flat().is_merging)


def test_an_assign_context_holds_the_element_and_its_window():
    context = WindowFn.AssignContext(3, "a", GLOBAL_WINDOW)
    assert (Timestamp(3), "a", GLOBAL_WINDOW) == (context.timestamp, context.element, context.window)


def test_the_transformed_output_time_is_the_timestamp_itself():
    assert Timestamp(3) == OurSpelling().get_transformed_output_time(IntervalWindow(3, 4), Timestamp(3))


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (GlobalWindows(), GLOBAL_WINDOW),
        (FixedWindows(60), IntervalWindow(60, 120)),
        # Of the two around 69.999999, the one that ends first, as in Beam.
        (SlidingWindows(60, 30), IntervalWindow(30, 90)),
    ],
)
def test_a_side_input_is_seen_through_the_window_that_the_main_one_ends_in(fn, expected):
    main = IntervalWindow(50, 70)
    assert expected == fn.side_input_window(main) == default_window_mapping_fn(fn)(main)


def test_a_side_input_cannot_have_merging_windows():
    with pytest.raises(ValueError, match="Sessions.* merges windows"):
        Sessions(60).side_input_window(GLOBAL_WINDOW)
    with pytest.raises(ValueError, match="Sessions.* merges windows"):
        default_window_mapping_fn(Sessions(60))


def test_a_side_input_needs_a_window_at_the_end_of_the_main_one():
    with pytest.raises(ValueError, match="has no window"):
        SlidingWindows(10, 60).side_input_window(IntervalWindow(0, 60))


def test_windows_that_are_right_become_a_tuple():
    windows = (IntervalWindow(0, 1), GLOBAL_WINDOW)
    for given in (windows, list(windows), iter(windows)):
        assert windows == checked_windows(FixedWindows(1), given)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (None, "returned None, expected a list of windows; did you forget to return it?"),
        (
            IntervalWindow(0, 1),
            "returned [0.0, 1.0), expected a list of windows; did you forget the brackets around it?",
        ),
        ([(0, 1)], "returned a list that holds (0, 1), expected a list of windows; did you mean an IntervalWindow?"),
        ("ab", "returned 'ab', expected a list of windows"),
        (5, "returned 5, expected a list of windows"),
        ([None], "returned a list that holds None, expected a list of windows"),
    ],
)
def test_what_is_no_list_of_windows_is_refused_by_name(wrong, message):
    with pytest.raises(TypeError) as caught:
        checked_windows(OurSpelling(), wrong)
    assert f"OurSpelling.assign_windows {message}" == str(caught.value)


def test_two_functions_of_a_user_are_equal_only_if_they_say_so():
    assert OurSpelling() != OurSpelling()


def test_overriding_the_fast_method_overrides_the_others():
    class Doubled(FixedWindows):
        def assign_micros(self, micros):
            return super().assign_micros(2 * micros)

    windows = [IntervalWindow(60, 120)]
    context = WindowFn.AssignContext(40)
    assert windows == Doubled(60).assign(context) == Doubled(60).assign_windows(context)


@pytest.mark.parametrize("name", ["assign", "assign_windows", "assign_micros"])
def test_a_class_mixed_in_before_a_built_in_one_overrides_it(name):
    """Its methods count, and not what the built-in class says of its own."""
    windows = (IntervalWindow(0, 1),)
    mixin = type("Mixin", (), {name: lambda self, context_or_micros: windows})
    fn = type("Other", (mixin, FixedWindows), {})(60)
    assert name == "assign_micros" or not fn.depends_only_on_timestamp
    assert [windows] * 3 == [
        fn.assign_micros(100_000_000),
        tuple(fn.assign(WindowFn.AssignContext(100))),
        tuple(fn.assign_windows(WindowFn.AssignContext(100))),
    ]


def test_a_merge_that_is_mixed_in_is_called():
    mixin = type("Mixin", (), {"merge": lambda self, context: None})
    assert not type("Other", (mixin, Sessions), {})(60).merges_by_overlap


def test_the_window_of_a_side_input_may_depend_on_that_of_the_main_input():
    """The former window of the context."""

    class Same(NonMergingWindowFn):
        def assign(self, context):
            return [context.window or IntervalWindow(0, 1)]

    assert IntervalWindow(3, 7) == default_window_mapping_fn(Same())(IntervalWindow(3, 7))
