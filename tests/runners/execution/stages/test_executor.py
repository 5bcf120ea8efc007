"""stage: a stage's life, what leaves it and when, and what its errors say."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from support.execution.stages import GroupingAlone, StageAlone, bundle, only, plan_of, row, window

import penstock as beam
from penstock.runners.execution.plan.fusion import Stage
from penstock.runners.execution.stages import executor as stage_chain
from penstock.runners.execution.stages.executor import StageExecutor
from penstock.runners.execution.stages.side_input_views import SideInputViews
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.elements.element_wrappers import WindowedValue
from penstock.sdk.errors import InvalidKeyError, NotAPairError, PipelineError, SideInputError, UserCodeError
from penstock.sdk.side_inputs import AsDict, AsList, AsSingleton
from penstock.windowing import FixedWindows, Sessions, TimestampedValue, WindowFn

A, B = window(0, 60), window(30, 90)

Noted = Callable[[], list[str]]


# By logging, since a test file's functions run as copies, whose globals are copies too.
def note(event: Any) -> None:
    logging.getLogger("lived through").warning("%s", event)


@pytest.fixture
def noted(caplog: pytest.LogCaptureFixture) -> Noted:
    """Return the recorded calls."""
    return lambda: [record.getMessage() for record in caplog.records if record.name == "lived through"]


class Noting(beam.DoFn):
    """Notes what is called, under a name."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def setup(self) -> None:
        note(f"setup{self.name}")

    def start_bundle(self) -> None:
        note(f"start{self.name}")

    def process(self, element: Any) -> Iterator[Any]:
        note(element)
        yield element

    def finish_bundle(self) -> None:
        note(f"finish{self.name}")

    def teardown(self) -> None:
        note(f"teardown{self.name}")


# Life


def test_a_dofn_is_set_up_once_and_told_of_each_bundle(noted: Noted) -> None:
    """And torn down at the end."""
    alone = StageAlone(beam.ParDo(Noting()))
    alone.process(Bundle([1, 2]), Bundle([3])).executor.teardown()
    assert ["setup", "start", "1", "2", "finish", "start", "3", "finish", "teardown"] == noted()


def test_several_dofns_live_side_by_side(noted: Noted) -> None:
    """Each is told in the order of the chain."""
    alone = StageAlone(beam.ParDo(Noting("1")), beam.ParDo(Noting("2")))
    alone.process(Bundle([])).executor.teardown()
    assert ["setup1", "setup2", "start1", "start2", "finish1", "finish2", "teardown1", "teardown2"] == noted()


def test_a_stage_that_nothing_came_for_is_neither_set_up_nor_torn_down(noted: Noted) -> None:
    """Its worker had nothing to do."""
    alone = StageAlone(beam.ParDo(Noting()))
    alone.executor.teardown()
    assert [] == noted()


def test_a_stage_is_torn_down_once(noted: Noted) -> None:
    """Further calls have no effect."""
    alone = StageAlone(beam.ParDo(Noting()))
    alone.process(Bundle([])).executor.teardown()
    alone.executor.teardown()
    assert ["setup", "start", "finish", "teardown"] == noted()


class Last(beam.DoFn):
    """Yields the last element of a bundle when it ends."""

    def process(self, element: Any) -> None:
        self.last = element

    def finish_bundle(self) -> Iterator[Any]:
        yield WindowedValue(self.last, 70, (B,))
        yield beam.TaggedOutput("tagged", WindowedValue(-self.last, 70, (B,)))


def test_what_finish_bundle_yields_goes_through_the_rest_of_the_stage() -> None:
    """With the timestamp and windows that it was given."""
    last = type("Last", (Last,), {"finish_bundle": lambda self: [WindowedValue(self.last, 70, (B,))]})()
    alone = StageAlone(beam.ParDo(last), beam.Map(lambda x, t=beam.DoFn.TimestampParam: (x, int(t))))
    assert [(2, 70), (3, 70)] == alone.process(Bundle([1, 2]), Bundle([3])).values()
    assert [(B,), (B,)] == [r[2] for r in alone.rows()]


def test_finish_bundle_may_yield_tagged_outputs() -> None:
    """As any output may be."""

    def build(p: beam.Pipeline) -> None:
        p | beam.Create([]) | beam.ParDo(Last()).with_outputs("tagged", main="main")

    alone = StageAlone(stage=only(plan_of(build).steps, Stage)).process(Bundle([1]))
    assert [row(1, 70, (B,))] == alone.rows()
    assert [row(-1, 70, (B,))] == alone.rows("tagged")


class Context:
    """Notes when it is entered and left."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> str:
        note(f"enter {self.name}")
        return self.name

    def __exit__(self, *error: Any) -> None:
        note(f"leave {self.name}")


class InContext(Noting):
    def process(  # type: ignore[override]
        self,
        element: Any,
        for_all: Any = beam.DoFn.SetupContextParam(Context, ("setup",)),
        for_bundle: Any = beam.DoFn.BundleContextParam(Context, kwargs={"name": "bundle"}),
    ) -> Iterator[Any]:
        yield element, for_all, for_bundle


def test_contexts_are_entered_once_in_a_worker_and_once_in_a_bundle(noted: Noted) -> None:
    """And left at teardown, and when the bundle has been finished."""
    alone = StageAlone(beam.ParDo(InContext()))
    alone.process(Bundle([1]), Bundle([2])).executor.teardown()
    assert [(1, "setup", "bundle"), (2, "setup", "bundle")] == alone.values()
    assert [
        *["setup", "enter setup"],
        *["enter bundle", "start", "finish", "leave bundle"],
        *["enter bundle", "start", "finish", "leave bundle"],
        *["leave setup", "teardown"],
    ] == noted()


def test_what_a_bundles_context_gives_is_of_that_bundle() -> None:
    """The next bundle enters another one."""

    def asking(x: int, own: Any = beam.DoFn.BundleContextParam(lambda: nullcontext(object()))) -> tuple[int, int]:
        return x, own

    alone = StageAlone(beam.Map(asking)).process(Bundle([1, 2]), Bundle([3]))
    (_, first), (_, also_first), (_, second) = alone.values()
    assert first is also_first
    assert first is not second


def test_bundle_finalizers_are_called_after_the_bundle(noted: Noted) -> None:
    """Once each."""

    def asking(x: int, finalizer: Any = beam.DoFn.BundleFinalizerParam) -> int:
        finalizer.register(lambda: note(f"final {x}"))
        note(x)
        return x

    alone = StageAlone(beam.Map(asking))
    alone.process(Bundle([1, 2]), Bundle([3]))
    assert ["1", "2", "final 1", "final 2", "3", "final 3"] == noted()


# What leaves a stage


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (beam.FlatMap(lambda x: range(x)), [[0, 1, 2], [3, 4, 5], [6, 0, 1], [2]]),
        (beam.Map(lambda x: x + 1), [[8, 4]]),
        (beam.FlatMap(lambda x: [TimestampedValue(y, y) for y in range(x)]), [[0, 1, 2], [3, 4, 5], [6, 0, 1], [2]]),
    ],
)
def test_a_bundle_that_grows_is_handed_on_in_parts(transform: Any, expected: list[list[int]]) -> None:
    """As soon as a part is large enough; what can't grow is one."""
    with patch.object(stage_chain, "BUNDLE_SIZE", 3):
        alone = StageAlone(transform).process(Bundle([7, 3]))
    assert expected == [made.values for _, made in alone.emitted]


def test_the_parts_have_timestamps_of_their_own() -> None:
    """Where timestamps vary."""
    with patch.object(stage_chain, "BUNDLE_SIZE", 2):
        alone = StageAlone(beam.FlatMap(lambda x: range(x))).process(bundle(row(2, 5), row(3, 6)))
    assert [row(0, 5), row(1, 5), row(0, 6), row(1, 6), row(2, 6)] == alone.rows()
    assert [2, 2, 1] == [len(made) for _, made in alone.emitted]


def test_a_bundle_of_which_nothing_is_left_is_not_handed_on() -> None:
    """There is no empty bundle."""
    assert [] == StageAlone(beam.Filter(lambda x: False)).process(Bundle([1, 2])).emitted


def test_columns_that_are_the_same_for_all_stay_one_entry() -> None:
    """Also behind outputs that brought timestamps, if they are all alike."""
    alone = StageAlone(beam.Map(lambda x: TimestampedValue(x, 70))).process(bundle(row(1, 5), row(2, 6)))
    ((_, made),) = alone.emitted
    assert (70_000_000, (beam.window.GlobalWindow(),), 1) == (made.timestamps, made.windows, made.signs)


def tagging(*tags: str) -> StageAlone:
    def build(p: beam.Pipeline) -> None:
        def split(x: int) -> Iterator[Any]:
            yield x
            yield beam.TaggedOutput("odd" if x % 2 else "even", TimestampedValue(-x, 70))

        p | beam.Create([]) | "split" >> beam.FlatMap(split).with_outputs(*tags)

    return StageAlone(stage=only(plan_of(build).steps, Stage))


def test_tagged_outputs_go_to_their_pcollections() -> None:
    """Unwrapped, as any output is."""
    alone = tagging("odd", "even").process(bundle(row(1, 5), row(2, 6)))
    assert [row(1, 5), row(2, 6)] == alone.rows()
    assert ([row(-1, 70)], [row(-2, 70)]) == (alone.rows("odd"), alone.rows("even"))


def test_a_tag_that_was_not_declared_is_an_error() -> None:
    """The error lists the declared tags."""
    with pytest.raises(PipelineError, match=r"split: got an output tagged 'even', but the tags declared .* \['odd'\]"):
        tagging("odd").process(Bundle([1, 2]))


def test_a_tag_belongs_to_the_transform_that_declares_it() -> None:
    """Another one's output with that tag is dropped, though the stage has such an output."""

    def build(p: beam.Pipeline) -> None:
        tagged = p | beam.Create([]) | "other" >> beam.Map(lambda x: beam.TaggedOutput("odd", x) if x == 1 else x)
        tagged | "split" >> beam.FlatMap(lambda x: [x]).with_outputs("odd")

    alone = StageAlone(stage=only(plan_of(build).steps, Stage)).process(Bundle([1, 2]))
    assert ([2], []) == (alone.values(), alone.rows("odd"))


def test_a_tagged_output_where_there_are_no_tags_is_dropped() -> None:
    """At the end of a stage as in its middle."""
    for rest in ([], [beam.Map(lambda x: x)]):
        alone = StageAlone(beam.Map(lambda x: beam.TaggedOutput("odd", x) if x == 1 else x), *rest)
        assert [2] == alone.process(Bundle([1, 2])).values()


# Side inputs


def with_side_input(view: Callable[[Any], Any], contents: list[Any], *windowed: Any) -> StageAlone:
    """A stage that pairs each element with its view of a side input."""

    def build(p: beam.Pipeline) -> None:
        side = p | "side" >> beam.Create([])
        main = p | "main" >> beam.Create([])
        for i, transform in enumerate(windowed):
            side = side | f"window side {i}" >> transform
        main | "look" >> beam.Map(lambda x, seen: (x, seen), view(side))

    plan = plan_of(build)
    (looking,) = [step for step in plan.steps if isinstance(step, Stage) and step.label == "look"]
    views = SideInputViews()
    views.add(looking.side_inputs[0].pcollection, bundle(*contents))
    return StageAlone(side_inputs=views, stage=looking)


def test_a_function_sees_its_side_inputs() -> None:
    """As the view that was asked for."""
    assert [(1, [7, 8])] == with_side_input(AsList, [row(7), row(8)]).process(Bundle([1])).values()
    assert [(1, {"a": 7})] == with_side_input(AsDict, [row(("a", 7))]).process(Bundle([1])).values()


def test_a_function_sees_the_side_input_of_its_elements_window() -> None:
    """Of each of them, where it is in several."""
    sides = [row(7, 0, (A,)), row(8, 60, (window(60, 120),))]
    alone = with_side_input(AsList, sides, beam.WindowInto(FixedWindows(60)))
    alone.process(bundle(row(1, 5, (A,)), row(2, 5, (A, B))))
    assert [((1, [7]), (A,)), ((2, [7]), (A,)), ((2, [8]), (B,))] == [(r[0], r[2]) for r in alone.rows()]


# Errors: each kind of line names its transform, the element, and the user's line


def raises_at(x: Any, *args: Any) -> Any:
    raise LookupError("nothing there")


def yields_then_raises(x: Any) -> Iterator[Any]:
    yield x
    raise LookupError("nothing there")


class RaisingWindows(WindowFn):
    def assign_windows(self, context: WindowFn.AssignContext) -> Any:
        raise LookupError("nothing there")


class RaisingDoFn(beam.DoFn):
    def process(self, element: Any) -> Any:
        raise LookupError("nothing there")


HERE = Path(__file__).name


@pytest.mark.parametrize(
    "transform",
    [
        beam.Map(raises_at),
        beam.Map(raises_at, 7),
        beam.Filter(raises_at),
        beam.FlatMap(raises_at),
        beam.FlatMap(yields_then_raises),
        beam.MapTuple(raises_at),
        beam.FlatMapTuple(raises_at),
        beam.WithTimestamps(raises_at),
        beam.WindowInto(RaisingWindows()),
        beam.ParDo(RaisingDoFn()),
    ],
)
def test_an_error_names_the_transform_the_element_and_the_line(transform: Any) -> None:
    """In any operation; the element is the input of that operation."""
    alone = StageAlone("first" >> beam.Map(lambda x: (x, 1)), "here" >> transform, "last" >> beam.Map(str))
    with pytest.raises(
        LookupError, match=r"LookupError: nothing there \[while running 'here' on element \(7, 1\)"
    ) as e:
        alone.process(Bundle([7]))
    assert isinstance(e.value, UserCodeError)
    assert ("here", "(7, 1)") == (e.value.transform, e.value.element)
    assert e.value.location is not None
    assert HERE in e.value.location


async def numbers(_x: Any) -> Any:
    yield 5


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (beam.FlatMap(lambda x: 5), "must return an iterable of outputs or None, got 5; did you mean Map?"),
        (beam.FlatMap(lambda x: numbers(x)), "declare the function itself async, or use AsyncMap"),
        (beam.MapTuple(lambda a, b, c: a), "missing 1 required positional argument: 'c'"),
        (beam.WithTimestamps(lambda x: "noon"), "expected a number of seconds, a Timestamp or a Duration, got 'noon'"),
        (beam.WithTimestamps(lambda x: 10**15), r"expected a timestamp within \[.*, got 1000000000000000.0"),
        (beam.WithTimestamps(lambda x: float("inf")), "got inf"),
    ],
)
def test_a_result_of_the_wrong_kind_is_attributed_too(transform: Any, message: str) -> None:
    """With what was expected."""
    with pytest.raises((TypeError, ValueError), match=rf"{message}.*while running 'here' on element \(7, 1\)"):
        StageAlone("first" >> beam.Map(lambda x: (x, 1)), "here" >> transform).process(Bundle([7]))


@pytest.mark.parametrize("window_fn", [FixedWindows(60), Sessions(60)])
@pytest.mark.parametrize(
    ("element", "kind", "message"),
    [
        (7, NotAPairError, r"sum: expected a \(key, value\) pair, got 7 \(int\)"),
        ("ab", NotAPairError, r"sum: expected a \(key, value\) pair, got 'ab' \(str\)"),
        ((1, 2, 3), NotAPairError, r"sum: expected a \(key, value\) pair, got \(1, 2, 3\) \(tuple\) of 3 items"),
        (([1], 2), InvalidKeyError, r"sum: \[1\] \(a list\) is unhashable, .*: use a tuple$"),
        ((object(), 2), InvalidKeyError, r"sum: <object .*> \(an object\) has no deterministic encoding"),
    ],
)
def test_what_cannot_be_grouped_is_an_error_of_the_grouping(
    window_fn: Any, element: Any, kind: Any, message: str
) -> None:
    """At the first such element, whichever way it is folded."""
    grouping = GroupingAlone(beam.Map(lambda x: x), beam.WindowInto(window_fn), "sum" >> beam.CombinePerKey(sum))
    with pytest.raises(kind, match=message):
        grouping.process(bundle(row(("a", 1)), row(element)))


def test_a_combiner_that_raises_is_named_with_the_element() -> None:
    """With a fold that is an expression, and with one that is a call."""
    grouping = GroupingAlone(beam.Map(lambda x: x), "sum" >> beam.CombinePerKey(sum))
    with pytest.raises(TypeError, match=r"unsupported operand .*while running 'sum' on element \('a', 'b'\)"):
        grouping.process(Bundle([("a", 1), ("a", "b")]))

    class Raising(beam.CombineFn):
        def create_accumulator(self) -> int:
            return 0

        add_input = raises_at

    grouping = GroupingAlone(beam.Map(lambda x: x), "raising" >> beam.CombinePerKey(Raising()))
    with pytest.raises(LookupError, match=r"nothing there .*while running 'raising' on element \('a', 1\)"):
        grouping.process(Bundle([("a", 1)]))


@pytest.mark.parametrize("method", ["setup", "start_bundle", "finish_bundle", "teardown"])
def test_an_error_in_a_lifecycle_method_names_the_transform(method: str) -> None:
    """There is no element to name."""
    broken = type("Broken", (beam.DoFn,), {"process": lambda self, x: [x], method: lambda self: raises_at(None)})
    alone = StageAlone("here" >> beam.ParDo(broken()))
    with pytest.raises(LookupError, match=r"LookupError: nothing there \[while running 'here' at .*" + HERE):
        alone.process(Bundle([1])).executor.teardown()


def test_finish_bundle_must_say_everything_of_its_outputs() -> None:
    """There is no element to take a timestamp and windows from."""
    bare = type("Bare", (beam.DoFn,), {"process": lambda self, x: None, "finish_bundle": lambda self: [1]})
    with pytest.raises(PipelineError, match="here: finish_bundle must yield WindowedValues, .* got 1"):
        StageAlone("here" >> beam.ParDo(bare())).process(Bundle([1]))


def test_a_context_that_cannot_be_entered_names_the_transform() -> None:
    """The context belongs to that transform."""

    def asking(x: int, context: Any = beam.DoFn.BundleContextParam(raises_at, (1,))) -> int:
        return x

    with pytest.raises(LookupError, match="nothing there .*while running 'here'"):
        StageAlone("here" >> beam.Map(asking)).process(Bundle([1]))


def test_a_side_input_that_breaks_its_promise_names_the_transform_that_looks() -> None:
    """Not the one that made it."""
    with pytest.raises(SideInputError, match="look: .*"):
        with_side_input(AsSingleton, [row(7), row(8)]).process(Bundle([1]))


def test_an_error_behind_an_output_with_a_timestamp_names_what_raised_it() -> None:
    """Though the rest of the stage runs by itself there."""
    alone = StageAlone(
        "first" >> beam.Map(lambda x: TimestampedValue(x, 70)), "here" >> beam.Map(raises_at), beam.Map(lambda x: x)
    )
    with pytest.raises(LookupError, match="while running 'here' on element 7"):
        alone.process(Bundle([7]))


def test_an_error_of_a_consumer_is_not_attributed_to_this_stage() -> None:
    """It isn't this stage's."""
    refused = ValueError("refused")

    def refuse(tag: Any, made: Bundle) -> None:
        raise refused

    stage_of_one = only(plan_of(lambda p: p | beam.Create([]) | beam.Map(lambda x: x)).steps, Stage)
    with pytest.raises(ValueError, match="^refused$") as e:
        StageExecutor(stage_of_one, refuse).process(Bundle([1]))
    assert refused is e.value


def test_the_outputs_of_a_function_that_returns_a_string_are_its_characters() -> None:
    """As in Beam; a DoFn that returns one is refused."""
    assert ["a", "b", "c"] == (["ab", "c"] | beam.FlatMap())
    assert ["A", "B"] == (["ab"] | beam.ParDo(str.upper))
