"""RunnerSuite: the conformance suite of runners, as tests of pytest.

A subclass names a runner, and inherits the tests:

    class TestDask(RunnerSuite):
        runner = "my_package.dask_runner:DaskRunner"
        flags = ("--parallelism=2",)
        survives_lost_workers = True

Each test runs a pipeline, and reads what it has written into pytest's `tmp_path`, which the workers have to reach.
Where the runner doesn't declare a feature (`Runner.capabilities`), a test asks that a pipeline that needs it is
refused, by the name of the transform, before anything runs.
"""

from __future__ import annotations

import os
import pathlib
import signal
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from ..sdk.coders import StrUtf8Coder, VarIntCoder
from ..sdk.combine_fn import CombineFn
from ..sdk.dofn.dofn import DoFn
from ..sdk.elements.element_wrappers import TaggedOutput
from ..sdk.elements.row import Row
from ..sdk.errors import InvalidKeyError, UnsupportedError, UserCodeError
from ..sdk.metrics import Metrics, MetricsFilter
from ..sdk.options import PipelineOptions
from ..sdk.pipeline import Pipeline
from ..sdk.runner import Capability, PipelineResult, Runner, create_runner
from ..sdk.side_inputs import AsDict, AsIter, AsList, AsSingleton
from ..sdk.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    TimeDomain,
    TimerSpec,
    on_timer,
)
from ..transforms import (
    CoGroupByKey,
    CombineGlobally,
    CombinePerKey,
    Create,
    Distinct,
    Feedback,
    Filter,
    FlatMap,
    Flatten,
    GroupBy,
    GroupByKey,
    GroupIntoBatches,
    Map,
    MapTuple,
    ParDo,
    Reshuffle,
    WindowInto,
    Write,
)
from ..transforms.combiners import Count
from ..triggers import AccumulationMode, AfterCount, AfterWatermark, Repeatedly
from ..windowing import FixedWindows, Sessions, SlidingWindows, TimestampedValue
from .collecting_sink import CollectingSink, collected
from .test_stream import TestStream

__all__ = ["RunnerSuite"]

# Adds transforms to a pipeline, and returns the PCollections whose elements a test expects.
Build = Callable[[Pipeline], Any]

PAIRS = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5)]

# Elements that make several partitions.
MANY = 3_000


class RunnerSuite:
    """Base class of the tests of a runner, which pytest collects from subclasses whose names begin with `Test`.

    Attributes:
      runner: its name, its class, or the place of its class, as for `--runner`.
      flags: of each pipeline.
      survives_lost_workers: whether a run goes on if a worker is killed, which is a process of its own then.
    """

    runner: str | type[Runner] = "local"
    flags: Sequence[str] = ()
    survives_lost_workers: bool = False

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: pathlib.Path) -> None:
        self._path = tmp_path

    # --- What a subclass may define

    def make_runner(self) -> Runner:
        """Return the runner of a pipeline, such as one with an open session."""
        return create_runner(self.runner)

    def __init_subclass__(cls) -> None:
        kind = cls.runner if isinstance(cls.runner, type) else type(create_runner(cls.runner))
        for name, capability in _NEEDS.items():
            if name not in cls.__dict__ and not kind.supports(capability):
                setattr(cls, name, None)
        for name, capability in _REFUSED.items():
            if name not in cls.__dict__ and kind.supports(capability):
                setattr(cls, name, None)
        for name in ("test_a_killed_worker_changes_no_result", "test_results_of_two_executions_are_never_mixed"):
            if name not in cls.__dict__ and not cls.survives_lost_workers:
                setattr(cls, name, None)

    # --- Elements

    def test_elements_go_through_functions(self) -> None:
        """One to one, to many and to none."""

        def build(p: Pipeline) -> Any:
            numbers = p | Create(range(10))
            doubled = numbers | "Double" >> Map(lambda n: 2 * n)
            several = doubled | FlatMap(lambda n: [n, n + 1]) | Filter(lambda n: n % 3 == 0)
            return doubled, several

        doubled, several = [2 * n for n in range(10)], [n for n in range(20) if n % 3 == 0]
        self.check(build, doubled, several)

    def test_no_elements_are_no_results(self) -> None:
        """Of a grouping either; a global sum has one."""

        def build(p: Pipeline) -> Any:
            none = p | Create(list[tuple[str, int]]())
            return none | GroupByKey(), none | MapTuple(lambda k, v: v) | CombineGlobally(sum)

        self.check(build, [], [0])

    def test_many_elements_are_there_once_each(self) -> None:
        """Behind two shuffles."""
        self.check(
            lambda p: p | Create(range(MANY)) | "A" >> Reshuffle() | Map(lambda n: n + 1) | "B" >> Reshuffle(),
            range(1, MANY + 1),
        )

    def test_values_of_many_types_arrive_as_they_are(self) -> None:
        """Whatever their coder."""
        values = [None, True, 0, -(2**70), 1.5, "ü", b"\x00", (1, ("a",)), [1], {"a": 1}, {1}, Row(a=1, b="x")]
        self.check(lambda p: p | Create(values) | Reshuffle(), values)

    def test_several_outputs_have_their_elements(self) -> None:
        """By their tags; the main one has the others."""

        def split(n: int) -> Iterator[Any]:
            yield TaggedOutput("even", n) if n % 2 == 0 else n

        def build(p: Pipeline) -> Any:
            parts = p | Create(range(10)) | ParDo(split).with_outputs("even", main="odd")
            return parts.even, parts.odd

        self.check(build, [0, 2, 4, 6, 8], [1, 3, 5, 7, 9])

    def test_pcollections_are_flattened(self) -> None:
        """Also one of them twice, and behind a shuffle of one."""

        def build(p: Pipeline) -> Any:
            one, two = p | "One" >> Create([1]), p | "Two" >> Create([2]) | Reshuffle()
            return (one, two, one) | Flatten()

        self.check(build, [1, 1, 2])

    def test_dofns_are_set_up_and_torn_down(self) -> None:
        """A setup comes before the first bundle, and each bundle has its begin and its end."""
        self.check(lambda p: p | Create([1, 2]) | ParDo(_Lifecycle()), [("set up", 1), ("set up", 2)])

    def test_batches_of_elements_are_processed_together(self) -> None:
        """By a DoFn that takes lists."""
        self.check(lambda p: p | Create(range(100)) | ParDo(_Batched()), range(1, 101))

    # --- Side inputs

    def test_side_inputs_are_complete(self) -> None:
        """As one value, a list, a dict and an iterable; behind a grouping."""

        def build(p: Pipeline) -> Any:
            pairs = p | "Pairs" >> Create(PAIRS)
            total = pairs | MapTuple(lambda k, v: v) | CombineGlobally(sum)
            sums = pairs | CombinePerKey(sum)
            return (
                p
                | "Main" >> Create([1])
                | Map(
                    lambda n, one, many, by_key, values: (n, one, sorted(many), by_key["b"], sum(values)),
                    AsSingleton(total),
                    AsList(pairs),
                    AsDict(sums),
                    AsIter(pairs | "Second" >> Map(lambda pair: pair[1])),
                )
            )

        self.check(build, [(1, 15, sorted(PAIRS), 7, 15)])

    def test_a_side_input_of_its_own_input_is_complete_first(self) -> None:
        """No element is processed before the whole side input is known, which all of them are in."""

        def build(p: Pipeline) -> Any:
            numbers = p | Create(range(100))
            return numbers | Filter(lambda n, most: n == most, AsSingleton(numbers | CombineGlobally(max)))

        self.check(build, [99])

    def test_side_inputs_are_those_of_the_window(self) -> None:
        """Each element sees that of its own."""

        def build(p: Pipeline) -> Any:
            at = [TimestampedValue(n, 10 * n) for n in range(4)]
            numbers = p | Create(at) | WindowInto(FixedWindows(20))
            sums = numbers | CombineGlobally(sum).without_defaults()
            return numbers | Map(lambda n, total: (n, total), AsSingleton(sums))

        self.check(build, [(0, 1), (1, 1), (2, 5), (3, 5)])

    # --- Groupings

    def test_the_values_of_a_key_come_together(self) -> None:
        self.check(
            lambda p: p | Create(PAIRS) | GroupByKey() | MapTuple(lambda k, vs: (k, sorted(vs))),
            [("a", [1, 3]), ("b", [2, 5]), ("c", [4])],
        )

    def test_equal_keys_are_one_whatever_their_type(self) -> None:
        """1, 1.0 and True; not "1"."""
        pairs = [(1, 1), (1.0, 2), (True, 3), ("1", 4), ((1, "x"), 5), ((1.0, "x"), 6)]
        self.check(lambda p: p | Create(pairs) | CombinePerKey(sum) | MapTuple(lambda k, v: v), [6, 4, 11])

    def test_sums_by_key(self) -> None:
        """Of many elements, and of a key with most of them."""
        pairs = [("often" if n % 3 else n % 10, n) for n in range(MANY)]
        expected: dict[Any, int] = {}
        for key, n in pairs:
            expected[key] = expected.get(key, 0) + n
        self.check(lambda p: p | Create(pairs) | CombinePerKey(sum), expected.items())

    def test_a_combiner_of_the_users_own(self) -> None:
        """With an accumulator, which is merged; with a fanout, too."""

        def build(p: Pipeline) -> Any:
            pairs = p | Create([("k", n) for n in range(100)])
            return (
                pairs | "Plain" >> CombinePerKey(_MeanOf()),
                pairs | "Fanned" >> CombinePerKey(_MeanOf()).with_hot_key_fanout(4),
            )

        self.check(build, [("k", 49.5)], [("k", 49.5)])

    def test_pcollections_are_joined_by_key(self) -> None:
        def build(p: Pipeline) -> Any:
            left, right = p | "L" >> Create(PAIRS), p | "R" >> Create([("a", "x"), ("d", "y")])
            joined = {"left": left, "right": right} | CoGroupByKey()
            return joined | MapTuple(lambda k, found: (k, sorted(found["left"]), list(found["right"])))

        self.check(build, [("a", [1, 3], ["x"]), ("b", [2, 5], []), ("c", [4], []), ("d", [], ["y"])])

    def test_rows_are_grouped_by_their_fields(self) -> None:
        rows = [Row(user=user, cost=cost) for user, cost in PAIRS]
        self.check(
            lambda p: (
                p
                | Create(rows)
                | GroupBy("user").aggregate_field("cost", sum, "total")
                | Map(lambda row: (row.user, row.total))
            ),
            [("a", 4), ("b", 7), ("c", 4)],
        )

    def test_a_grouping_behind_a_grouping(self) -> None:
        """And the same PCollection grouped twice; distinct elements and counts."""

        def build(p: Pipeline) -> Any:
            words = p | Create(["to", "be", "or", "not", "to", "be"])
            counts = words | Count.PerElement()
            of_counts = counts | MapTuple(lambda word, count: (count, word)) | GroupByKey()
            return words | Distinct(), of_counts | MapTuple(lambda count, found: (count, sorted(found)))

        self.check(build, ["to", "be", "or", "not"], [(1, ["not", "or"]), (2, ["be", "to"])])

    # --- Windows

    def test_windows_are_grouped_apart(self) -> None:
        """Fixed and sliding ones, and sessions; their results are at their ends."""
        times = [("k", 0), ("k", 5), ("k", 12), ("k", 40)]

        def build(p: Pipeline) -> Any:
            pairs = p | Create([TimestampedValue(pair, pair[1]) for pair in times])
            return tuple(
                pairs | name >> WindowInto(fn) | f"{name}s" >> CombinePerKey(sum) | f"See{name}" >> ParDo(_Seen())
                for name, fn in [
                    ("Fixed", FixedWindows(10)),
                    ("Sliding", SlidingWindows(20, 10)),
                    ("Session", Sessions(10)),
                ]
            )

        self.check(
            build,
            [(5, 0, 10, 9.999999), (12, 10, 20, 19.999999), (40, 40, 50, 49.999999)],
            [
                (5, -10, 10, 9.999999),
                (17, 0, 20, 19.999999),
                (12, 10, 30, 29.999999),
                (40, 30, 50, 49.999999),
                (40, 40, 60, 59.999999),
            ],
            [(17, 0, 22, 21.999999), (40, 40, 50, 49.999999)],
        )

    def test_windows_of_groups_are_regrouped(self) -> None:
        """Minutes into hours."""

        def build(p: Pipeline) -> Any:
            pairs = p | Create([TimestampedValue(("k", 1), 30 * n) for n in range(8)])
            minutes = pairs | "Minutes" >> WindowInto(FixedWindows(60)) | "PerMinute" >> CombinePerKey(sum)
            return minutes | "Hour" >> WindowInto(FixedWindows(180)) | "PerHour" >> CombinePerKey(sum)

        self.check(build, [("k", 6), ("k", 2)])

    # --- State and timers

    def test_state_is_kept_by_key(self) -> None:
        self.check(
            lambda p: p | Create([(n % 3, 1) for n in range(30)]) | ParDo(_Running()) | CombinePerKey(max),
            [(0, 10), (1, 10), (2, 10)],
        )

    def test_a_timer_fires_at_the_end_of_the_window(self) -> None:
        """And sees the state of its key."""

        def build(p: Pipeline) -> Any:
            pairs = p | Create([TimestampedValue(pair, 5) for pair in PAIRS])
            return pairs | WindowInto(FixedWindows(10)) | ParDo(_AtTheEnd())

        self.check(build, [("a", [1, 3]), ("b", [2, 5]), ("c", [4])])

    def test_batches_by_key_have_their_size(self) -> None:
        self.check(
            lambda p: (
                p
                | Create([("k", n) for n in range(10)])
                | GroupIntoBatches(4)
                | MapTuple(lambda k, batch: len(list(batch)))
            ),
            [4, 4, 2],
        )

    # --- Sinks, errors and metrics

    def test_sinks_publish_when_all_has_run(self) -> None:
        """Two of them in one pipeline."""

        def build(p: Pipeline) -> Any:
            numbers = p | Create(range(MANY))
            return numbers | "Even" >> Filter(lambda n: n % 2 == 0), numbers | "Odd" >> Filter(lambda n: n % 2)

        self.check(build, range(0, MANY, 2), range(1, MANY, 2))

    def test_a_failed_run_publishes_nothing(self) -> None:
        """Of a sink whose part had succeeded, either; the error names the transform and the element."""

        def build(p: Pipeline) -> Any:
            numbers = p | Create(range(10))
            return numbers, numbers | Reshuffle() | "Divide" >> Map(_unlucky)

        with pytest.raises(UserCodeError) as raised:
            self.written(build)
        assert raised.value.transform == "Divide"
        assert raised.value.element == "7"
        assert isinstance(raised.value, ZeroDivisionError) or isinstance(raised.value.__cause__, ZeroDivisionError)
        assert collected(self._path / "0") == []

    def test_a_key_that_cannot_be_one_is_named(self) -> None:
        """With its transform."""
        with pytest.raises(InvalidKeyError) as raised:
            self.written(lambda p: p | Create([(object(), 1)]) | "Group" >> GroupByKey())
        assert "Group" in str(raised.value)

    def test_elements_that_fail_go_elsewhere(self) -> None:
        """With `with_exception_handling`."""

        def build(p: Pipeline) -> Any:
            good, bad = p | Create(range(10)) | Map(_unlucky).with_exception_handling()
            return good, bad | Map(lambda pair: pair[0])

        self.check(build, [n for n in range(10) if n != 7], [7])

    def test_metrics_of_user_code_are_summed(self) -> None:
        """Each element is counted once."""
        result = self.written(lambda p: p | Create(range(100)) | Reshuffle() | "Count" >> ParDo(_Counting()))
        (counter,) = result.metrics().query(MetricsFilter().with_name("seen"))["counters"]
        assert counter.committed == 100

    def test_the_state_of_a_run_is_done(self) -> None:
        result = self.written(lambda p: p | Create([1]))
        assert "DONE" == result.state == result.wait_until_finish()

    # --- Lost workers

    def test_a_killed_worker_changes_no_result(self) -> None:
        """Killed in the first stage, and in one behind a shuffle."""
        before, behind = self._path / "before", self._path / "behind"

        def build(p: Pipeline) -> Any:
            numbers = p | Create(range(MANY)) | "Before" >> Map(_killing, 11, str(before))
            sums = numbers | Map(lambda n: (n % 7, n)) | CombinePerKey(sum)
            return numbers, sums | "Behind" >> MapTuple(lambda k, v: (_killing(k, 5, str(behind)), v))

        self.check(build, range(MANY), [(k, sum(range(k, MANY, 7))) for k in range(7)])
        assert before.exists()
        assert behind.exists()

    def test_results_of_two_executions_are_never_mixed(self) -> None:
        """Ids that are random reach two sinks, and are the same in both."""
        marker = self._path / "killed"

        def build(p: Pipeline) -> Any:
            ids = p | Create(range(400)) | "Id" >> Map(lambda n: (n, uuid.uuid4().hex))
            behind = ids | "One" >> Reshuffle() | MapTuple(lambda n, found: (_killing(n, 211, str(marker)), found))
            return ids, behind | "Two" >> Reshuffle(), ids | Map(lambda pair: pair) | GroupByKey() | FlatMap(_each)

        self.written(build)
        one, two, three = (collected(self._path / str(number)) for number in range(3))
        assert len(one) == 400
        assert one == two == three
        assert marker.exists()

    # --- Time

    def test_panes_follow_the_script(self) -> None:
        """Early, on time and late ones; a late element beyond the lateness is dropped."""

        def build(p: Pipeline) -> Any:
            at = TimestampedValue
            script = TestStream().add_elements([at(("k", 1), 1)]).add_elements([at(("k", 2), 2)])
            script = script.advance_watermark_to(10).add_elements([at(("k", 4), 3)])
            script = script.advance_watermark_to(100).add_elements([at(("k", 8), 4)])
            windows = WindowInto(
                FixedWindows(10),
                trigger=AfterWatermark(early=Repeatedly(AfterCount(1)), late=AfterCount(1)),
                accumulation_mode=AccumulationMode.ACCUMULATING,
                allowed_lateness=20,
            )
            return p | script | windows | CombinePerKey(sum) | ParDo(_Timed())

        self.check(build, [("EARLY", 1), ("EARLY", 3), ("ON_TIME", 3), ("LATE", 7)])

    def test_retracting_panes_leave_the_last(self) -> None:
        """Behind a second grouping, too."""

        def build(p: Pipeline) -> Any:
            at = TimestampedValue
            script = TestStream().add_elements([at(("k", 1), 1)]).add_elements([at(("k", 2), 2), at(("l", 2), 2)])
            windows = WindowInto(
                FixedWindows(10),
                trigger=AfterWatermark(early=Repeatedly(AfterCount(1))),
                accumulation_mode=AccumulationMode.RETRACTING,
            )
            sums = p | script.advance_watermark_to_infinity() | windows | "Sum" >> CombinePerKey(sum)
            by_sum = sums | "Swap" >> MapTuple(lambda k, v: (v, k)) | GroupByKey()
            return sums, by_sum | MapTuple(lambda total, keys: (total, sorted(keys)))

        self.check(build, [("k", 3), ("l", 2)], [(3, ["k"]), (2, ["l"])])

    def test_processing_time_fires_timers(self) -> None:
        """When the script advances it."""

        def build(p: Pipeline) -> Any:
            script = TestStream().add_elements([("k", 1)]).advance_processing_time(10).add_elements([("k", 2)])
            return p | script.advance_watermark_to_infinity() | ParDo(_AfterSeconds())

        self.check(build, [("k", 1)])

    def test_a_loop_ends_when_all_elements_have_left_it(self) -> None:
        def build(p: Pipeline) -> Any:
            return p | Create([1, 3, 100]) | Feedback(Map(lambda n: 2 * n), until=lambda n: n >= 20)

        self.check(build, [32, 24, 200])

    # --- What the runner hasn't

    def test_a_script_is_refused(self) -> None:
        with pytest.raises(UnsupportedError, match="Script"):
            self.written(lambda p: p | "Script" >> TestStream().add_elements([1]).advance_watermark_to_infinity())

    def test_a_loop_is_refused(self) -> None:
        with pytest.raises(UnsupportedError, match="Loop"):
            self.written(lambda p: p | Create([1]) | "Loop" >> Feedback(Map(lambda n: 2 * n), until=lambda n: n > 9))

    # --- Help

    def check(self, build: Build, *expected: Iterable[Any]) -> None:
        """Fail unless the PCollections of a pipeline have the expected elements, in any order."""
        found = self.found(build)
        assert [sorted(map(repr, each)) for each in expected] == found

    def found(self, build: Build) -> list[list[str]]:
        """Run a pipeline, and return the representations of the elements of its PCollections, sorted."""
        self.written(build)
        return [collected(path) for path in sorted(self._path.glob("[0-9]"))]

    def written(self, build: Build) -> PipelineResult:
        """Run a pipeline to its end; write its PCollections to directories that are numbered from 0 on."""
        p = Pipeline(runner=self.make_runner(), options=PipelineOptions(list(self.flags)))
        built = build(p)
        for number, pcoll in enumerate(built if isinstance(built, tuple) else (built,)):
            path = self._path / str(number)
            path.mkdir()
            _ = pcoll | f"Represent{number}" >> Map(repr) | f"Write{number}" >> Write(CollectingSink(path))
        result = p.run()
        result.wait_until_finish()
        return result


# By test, the feature that it needs.
_NEEDS = {
    "test_panes_follow_the_script": Capability.TEST_STREAM,
    "test_retracting_panes_leave_the_last": Capability.TEST_STREAM,
    "test_processing_time_fires_timers": Capability.TEST_STREAM,
    "test_a_loop_ends_when_all_elements_have_left_it": Capability.LOOPS,
    "test_state_is_kept_by_key": Capability.STATE_AND_TIMERS,
    "test_a_timer_fires_at_the_end_of_the_window": Capability.STATE_AND_TIMERS,
    "test_batches_by_key_have_their_size": Capability.STATE_AND_TIMERS,
    "test_batches_of_elements_are_processed_together": Capability.COLUMNS,
    "test_rows_are_grouped_by_their_fields": Capability.COLUMNS,
}

# By test, the feature without which it is refused.
_REFUSED = {"test_a_script_is_refused": Capability.TEST_STREAM, "test_a_loop_is_refused": Capability.LOOPS}


def _unlucky(n: int) -> int:
    if n == 7:
        return n // 0
    return n


def _each(pair: tuple[Any, Iterable[Any]]) -> Iterator[tuple[Any, Any]]:
    return ((pair[0], value) for value in pair[1])


def _killing(n: int, victim: int, marker: str) -> int:
    """Kill the worker that processes a number, once."""
    if n == victim:
        try:
            pathlib.Path(marker).touch(exist_ok=False)
        except FileExistsError:
            return n
        os.kill(os.getpid(), signal.SIGKILL)
    return n


class _Lifecycle(DoFn):
    def setup(self) -> None:
        self.said = "set up"

    def start_bundle(self) -> None:
        self.in_bundle = True

    def process(self, element: Any) -> Iterator[Any]:
        assert self.in_bundle
        yield self.said, element

    def finish_bundle(self) -> None:
        self.in_bundle = False


class _Batched(DoFn):
    def process_batch(self, batch: list[int]) -> Iterator[list[int]]:
        yield [n + 1 for n in batch]


class _MeanOf(CombineFn[int, tuple[int, int], float]):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add_input(self, accumulator: Any, input: Any) -> Any:
        return accumulator[0] + input, accumulator[1] + 1

    def merge_accumulators(self, accumulators: Any) -> Any:
        totals, counts = zip(*accumulators, strict=True)
        return sum(totals), sum(counts)

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]


class _Seen(DoFn):
    def process(self, pair: Any, window: Any = DoFn.WindowParam, timestamp: Any = DoFn.TimestampParam) -> Iterator[Any]:
        start, end = window.start.micros // 1_000_000, window.end.micros // 1_000_000
        yield pair[1], start, end, timestamp.micros / 1_000_000


class _Timed(DoFn):
    def process(self, pair: Any, pane: Any = DoFn.PaneInfoParam) -> Iterator[Any]:
        yield pane.timing.name, pair[1]


class _Running(DoFn):
    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)

    def process(self, pair: Any, count: Any = DoFn.StateParam(COUNT)) -> Iterator[Any]:
        count.add(pair[1])
        yield pair[0], count.read()


class _AtTheEnd(DoFn):
    VALUES = BagStateSpec("values", VarIntCoder())
    KEY = ReadModifyWriteStateSpec("key", StrUtf8Coder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair: Any,
        window: Any = DoFn.WindowParam,
        values: Any = DoFn.StateParam(VALUES),
        key: Any = DoFn.StateParam(KEY),
        end: Any = DoFn.TimerParam(END),
    ) -> None:
        values.add(pair[1])
        key.write(pair[0])
        end.set(window.end)

    @on_timer(END)
    def at_the_end(self, values: Any = DoFn.StateParam(VALUES), key: Any = DoFn.StateParam(KEY)) -> Iterator[Any]:
        yield key.read(), sorted(values.read())


class _AfterSeconds(DoFn):
    VALUES = BagStateSpec("values", VarIntCoder())
    LATER = TimerSpec("later", TimeDomain.REAL_TIME)

    def process(self, pair: Any, values: Any = DoFn.StateParam(VALUES), later: Any = DoFn.TimerParam(LATER)) -> None:
        if pair[1] == 1:
            values.add(pair[1])
            later.set(5)

    @on_timer(LATER)
    def fire(self, values: Any = DoFn.StateParam(VALUES)) -> Iterator[Any]:
        yield "k", sum(values.read())


class _Counting(DoFn):
    def __init__(self) -> None:
        self.seen = Metrics.counter("suite", "seen")

    def process(self, element: Any) -> Iterator[Any]:
        self.seen.inc()
        yield element
