"""User code is pickled when a run starts: what the program changes before is in it, what it changes later isn't."""

from __future__ import annotations

import pathlib
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import cloudpickle
import pytest

import penstock as beam
from penstock.sdk.errors import SerializationError
from penstock.sdk.side_inputs import AsSingleton
from penstock.sdk.sources.bounded import BoundedSource
from penstock.sdk.userstate import ReadModifyWriteStateSpec
from penstock.testing import TestPipeline, assert_that
from penstock.testing.util import PenstockAssertionError
from penstock.triggers import AccumulationMode, DataDrivenTrigger, PaneInfoTiming
from penstock.windowing import GlobalWindows, IntervalWindow, NonMergingWindowFn


class Settings:
    """Settings that a program makes while it builds a pipeline, and changes afterwards."""

    def __init__(self, n: int) -> None:
        self.n = n


class Scale(beam.DoFn):
    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def process(self, element: int) -> Iterator[int]:
        yield element * self.settings.n


class ScaleKeyed(Scale):
    SEEN = ReadModifyWriteStateSpec("seen")

    def process(self, element: Any, seen: Any = beam.DoFn.StateParam(SEEN)) -> Iterator[int]:
        seen.write(True)
        yield from super().process(element[1])


class SumOfScaled(beam.CombineFn[int, int, int]):
    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element * self.settings.n

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


class CountFrom(SumOfScaled):
    def extract_output(self, accumulator: int) -> int:
        return self.settings.n


class OneWindow(NonMergingWindowFn):
    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def assign_windows(self, context: Any) -> list[IntervalWindow]:
        return [IntervalWindow(0, self.settings.n)]


class WhenThree(DataDrivenTrigger):
    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def update(self, own: Any, element: Any, pane: Any) -> bool:
        return self.settings.n == 3

    def is_ready(self, own: Any, pane: Any) -> bool:
        return bool(own)

    def merge(self, owns: Any, pane: Any) -> bool:
        return any(owns)


class Upto(BoundedSource[int]):
    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def split(self, desired_splits: int) -> list[int]:
        return [0]

    def read(self, split: Any) -> Iterator[int]:
        yield self.settings.n


def by_map(one: Any, settings: Settings) -> Any:
    return one | beam.Map(lambda x: x * settings.n)


def by_default_argument(one: Any, settings: Settings) -> Any:
    return one | beam.FlatMap(lambda x, s=settings: [x * s.n])


def by_argument(one: Any, settings: Settings) -> Any:
    return one | beam.Map(lambda x, s: x * s.n, settings)


def by_dofn(one: Any, settings: Settings) -> Any:
    return one | beam.ParDo(Scale(settings))


def by_stateful_dofn(one: Any, settings: Settings) -> Any:
    return one | beam.WithKeys("k") | beam.ParDo(ScaleKeyed(settings))


def by_guarded_dofn(one: Any, settings: Settings) -> Any:
    return (one | beam.ParDo(Scale(settings)).with_exception_handling()).good


def by_combine_fn(one: Any, settings: Settings) -> Any:
    return one | beam.WithKeys("k") | beam.CombinePerKey(SumOfScaled(settings)) | beam.Values()


def by_global_combine_fn(one: Any, settings: Settings) -> Any:
    return one | beam.CombineGlobally(SumOfScaled(settings))


def by_combine_fn_with_fanout(one: Any, settings: Settings) -> Any:
    combine = beam.CombinePerKey(SumOfScaled(settings)).with_hot_key_fanout(2)
    return one | beam.WithKeys("k") | combine | beam.Values()


def by_default_of_a_view(one: Any, settings: Settings) -> Any:
    nothing = one | "none" >> beam.Filter(lambda x: False)
    return one | beam.Map(lambda x, n: n, nothing | beam.CombineGlobally(CountFrom(settings)).as_singleton_view())


def by_side_input(one: Any, settings: Settings) -> Any:
    return one | "main" >> beam.Map(lambda x, n: n, AsSingleton(one | beam.Map(lambda x: x * settings.n)))


def by_partition(one: Any, settings: Settings) -> Any:
    parts = one | beam.Partition(lambda x, n: settings.n, 4)
    return [part | f"part {i}" >> beam.Map(lambda x, i=i: i) for i, part in enumerate(parts)] | beam.Flatten()


def by_key(one: Any, settings: Settings) -> Any:
    return one | beam.GroupBy(lambda x: settings.n) | beam.Keys()


def by_window_fn(one: Any, settings: Settings) -> Any:
    return one | beam.WindowInto(OneWindow(settings)) | beam.Map(lambda x, w=beam.DoFn.WindowParam: int(w.end))


def by_trigger(one: Any, settings: Settings) -> Any:
    early = beam.trigger.AfterWatermark(early=WhenThree(settings))
    windowing = beam.WindowInto(GlobalWindows(), trigger=early, accumulation_mode=AccumulationMode.DISCARDING)
    panes = one | beam.WithKeys("k") | windowing | beam.GroupByKey() | beam.Filter(lambda pair: list(pair[1]))
    is_early = beam.Map(lambda _, pane=beam.DoFn.PaneInfoParam: pane.timing == PaneInfoTiming.EARLY)
    return panes | "is early" >> is_early | "number" >> beam.Map(lambda early: 3 if early else 2)


WAYS: list[Callable[[Any, Settings], Any]] = [
    by_map,
    by_default_argument,
    by_argument,
    by_dofn,
    by_stateful_dofn,
    by_guarded_dofn,
    by_combine_fn,
    by_global_combine_fn,
    by_combine_fn_with_fanout,
    by_default_of_a_view,
    by_side_input,
    by_partition,
    by_key,
    by_window_fn,
    by_trigger,
]


class Expected:
    """The matcher of a check, which the program tells what to expect of the next run."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __call__(self, actual: list[Any]) -> None:
        if [self.settings.n] != actual:
            raise PenstockAssertionError(f"expected [{self.settings.n}], got {actual}")


def test_what_user_code_refers_to_is_as_it_is_when_the_run_starts(make_pipeline: Callable[..., Any]) -> None:
    """Of each of two runs of one pipeline."""
    settings = Settings(1)
    p = make_pipeline()
    for way in WAYS:
        result = p | f"{way.__name__}: one" >> beam.Create([1]) | way.__name__ >> Applied(way, settings)
        assert_that(result, Expected(settings), label=f"check {way.__name__}")
    assert_that(p | beam.io.Read(Upto(settings)), Expected(settings), label="check the source")
    for n in (2, 3):
        settings.n = n
        p.run().wait_until_finish()


class Applied(beam.PTransform):
    def __init__(self, way: Callable[[Any, Settings], Any], settings: Settings) -> None:
        super().__init__()
        self.way = way
        self.settings = settings

    def expand(self, one: Any) -> Any:
        return self.way(one, self.settings)


class Repeated(beam.io.fileio.TextSink):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings

    def write(self, record: str) -> None:
        super().write(record * self.settings.n)


def test_so_is_what_a_sink_refers_to(make_pipeline: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    """A sink that users derive from one of the library's."""
    settings = Settings(1)
    p = make_pipeline()
    p | beam.Create(["a"]) | beam.io.fileio.WriteToFiles(str(tmp_path), sink=Repeated(settings))
    settings.n = 2
    p.run().wait_until_finish()
    assert ["aa\n"] == [file.read_text() for file in tmp_path.iterdir() if file.is_file()]


def test_what_the_program_changes_after_the_start_is_not_seen() -> None:
    """A run has its own copies, wherever its workers are."""
    settings = Settings(1)
    p = TestPipeline()
    p | beam.Create([1]) | "scale" >> beam.ParDo(Scale(settings))
    scale = p.graph().transforms[-1].primitive.fn
    settings.n = 2
    assert 1 == scale.load()[0].settings.n
    assert 1 == pickle.loads(cloudpickle.dumps(scale)).load()[0].settings.n


def test_what_can_not_be_pickled_is_refused_when_the_transform_is_applied() -> None:
    """And what has become so since, when the run starts: both name the transform."""
    settings: Any = Settings(1)
    p = TestPipeline()
    p | beam.Create([1]) | "scale" >> beam.ParDo(Scale(settings))
    settings.n = threading.Lock()
    with pytest.raises(SerializationError, match="scale: attribute 'settings' of Scale"):
        p.run()
    with pytest.raises(SerializationError, match="again: attribute 'settings' of Scale"):
        p | "more" >> beam.Create([1]) | "again" >> beam.ParDo(Scale(settings))
