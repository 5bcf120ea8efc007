"""A DoFn's lifecycle: setup, start_bundle, process, finish_bundle, teardown; contexts and finalizers."""

from __future__ import annotations

import pathlib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.pipelines.checks import check

import penstock as beam
from penstock.sdk.elements.element_wrappers import TaggedOutput, WindowedValue
from penstock.sdk.errors import PipelineError
from penstock.windowing import FixedWindows, GlobalWindow, IntervalWindow, TimestampedValue


class Diary:
    """Lines that workers write; each worker's copy of a DoFn has a file of its own."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.name = ""

    def write(self, line: str) -> None:
        self.name = self.name or uuid.uuid4().hex
        with open(self.directory / self.name, "a") as file:
            file.write(line + "\n")

    def read(self) -> list[list[str]]:
        """The lines of each copy."""
        return [file.read_text().splitlines() for file in sorted(self.directory.iterdir())]


class Recorded(beam.DoFn):
    def __init__(self, diary: Diary) -> None:
        self.diary = diary

    def setup(self) -> None:
        self.diary.write("setup")

    def start_bundle(self) -> None:
        self.diary.write("start_bundle")

    def process(self, element: Any) -> Iterator[Any]:
        self.diary.write("process")
        yield element

    def finish_bundle(self) -> Iterator[Any]:
        self.diary.write("finish_bundle")
        return iter(())

    def teardown(self) -> None:
        self.diary.write("teardown")


def test_a_dofn_is_set_up_and_torn_down_around_its_bundles(pipeline: Any, tmp_path: pathlib.Path) -> None:
    """In each copy: setup; start_bundle, process of each element, finish_bundle, any number of times; teardown."""
    diary = Diary(tmp_path)
    with pipeline as p:
        check(range(10), p | beam.Create(range(10)) | beam.ParDo(Recorded(diary)))
    processed = 0
    for lines in diary.read():
        assert "setup" == lines.pop(0)
        assert "teardown" == lines.pop()
        while lines:
            assert "start_bundle" == lines.pop(0)
            while lines[0] == "process":
                processed += 1
                lines.pop(0)
            assert "finish_bundle" == lines.pop(0)
    assert 10 == processed


def test_a_dofn_without_elements_is_not_needed(pipeline: Any, tmp_path: pathlib.Path) -> None:
    """It may be set up or not; but where it is, it is torn down."""
    diary = Diary(tmp_path)
    with pipeline as p:
        check([], p | beam.Create([]) | beam.ParDo(Recorded(diary)))
    assert [] == [lines for lines in diary.read() if "process" in lines or lines[-1] != "teardown"]


def test_two_dofns_of_one_stage_have_lives_of_their_own(pipeline: Any, tmp_path: pathlib.Path) -> None:
    """Both are set up before an element comes, and torn down in the end."""
    first, second = Diary(tmp_path / "first"), Diary(tmp_path / "second")
    for diary in (first, second):
        diary.directory.mkdir()
    with pipeline as p:
        both = p | beam.Create([1]) | "1" >> beam.ParDo(Recorded(first)) | "2" >> beam.ParDo(Recorded(second))
        check([1], both)
    life = [["setup", "start_bundle", "process", "finish_bundle", "teardown"]]
    assert life == first.read()
    assert life == second.read()


class Buffering(beam.DoFn):
    """All elements of a bundle at its end, as one list for each window."""

    def start_bundle(self) -> None:
        self.held: dict[Any, list[Any]] = {}

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> None:
        self.held.setdefault(window, []).append(element)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window, elements in self.held.items():
            yield WindowedValue(sorted(elements), window.max_timestamp(), [window])


def test_what_finish_bundle_yields_goes_on_with_the_windows_it_says(pipeline: Any) -> None:
    """Through steps that are fused with it, and through a grouping."""
    with pipeline as p:
        stamped = p | beam.Create([TimestampedValue(t, t) for t in range(20)])
        held = stamped | beam.WindowInto(FixedWindows(10)) | beam.ParDo(Buffering())
        flat = held | beam.FlatMap(lambda elements: [("k", x) for x in elements])
        check(
            [(t, IntervalWindow(t // 10 * 10, t // 10 * 10 + 10)) for t in range(20)],
            flat | "to windows" >> beam.Map(lambda pair, w=beam.DoFn.WindowParam: (pair[1], w)),
        )
        check([("k", 45), ("k", 145)], flat | beam.CombinePerKey(sum))


class CountingInBundles(beam.DoFn):
    def start_bundle(self) -> None:
        self.count = 0

    def process(self, element: Any) -> Iterator[Any]:
        self.count += 1
        yield element

    def finish_bundle(self) -> Iterator[Any]:
        yield TaggedOutput("counts", WindowedValue(self.count, 3, [GlobalWindow()]))


def test_finish_bundle_may_yield_to_tagged_outputs(pipeline: Any) -> None:
    """With the timestamp inside the tag."""
    with pipeline as p:
        elements, counts = (
            p | beam.Create([1, 2, 3]) | beam.ParDo(CountingInBundles()).with_outputs("counts", main="all")
        )
        check([1, 2, 3], elements)
        check([3], counts | beam.CombineGlobally(sum))
        timestamps = counts | beam.Map(lambda _, t=beam.DoFn.TimestampParam: int(t)) | beam.Distinct()
        check([3], timestamps)


def test_finish_bundle_must_say_where_its_outputs_belong(pipeline: Any) -> None:
    """It has no element to take a timestamp and windows from."""

    class Plain(beam.DoFn):
        def process(self, element: Any) -> None:
            pass

        def finish_bundle(self) -> Iterator[Any]:
            yield "plain"

    _ = pipeline | beam.Create([1]) | "the end" >> beam.ParDo(Plain())
    with pytest.raises(PipelineError, match="the end: finish_bundle must yield WindowedValues.*'plain'"):
        pipeline.run()


# --- Contexts and finalizers


@contextmanager
def lamp(diary: Diary, name: str) -> Iterator[str]:
    diary.write("on")
    yield name
    diary.write("off")


def test_a_bundle_context_is_entered_before_the_first_element_and_left_after_the_last(
    pipeline: Any, tmp_path: pathlib.Path
) -> None:
    """The parameter is what entering gave."""
    diary = Diary(tmp_path)

    class InLight(beam.DoFn):
        def process(
            self, element: Any, light: Any = beam.DoFn.BundleContextParam(lamp, args=(diary, "lamp"))
        ) -> Iterator[Any]:
            yield element, light

    with pipeline as p:
        lit = p | beam.Create([1, 2, 3]) | beam.Reshuffle(1) | beam.ParDo(InLight())
        check([(1, "lamp"), (2, "lamp"), (3, "lamp")], lit)
    # Streams may have a bundle for each element.
    bundles = [tuple(lines[i : i + 2]) for lines in diary.read() for i in range(0, len(lines), 2)]
    assert {("on", "off")} == set(bundles)
    assert 1 <= len(bundles) <= 3


def test_a_setup_context_spans_all_bundles_of_a_worker(pipeline: Any, tmp_path: pathlib.Path) -> None:
    """Entered once, left at teardown."""
    diary = Diary(tmp_path)

    class InLight(beam.DoFn):
        def process(
            self, element: Any, light: Any = beam.DoFn.SetupContextParam(lamp, args=(diary, "lamp"))
        ) -> Iterator[Any]:
            yield light

    with pipeline as p:
        check(["lamp"] * 3, p | beam.Create([1, 2, 3]) | beam.ParDo(InLight()))
    assert {("on", "off")} == {tuple(lines) for lines in diary.read()}


def check_failed(number: int) -> None:
    raise ValueError(number)


def test_finalizers_are_called_once_the_bundle_is_done(pipeline: Any, tmp_path: pathlib.Path) -> None:
    """Each callback that was registered, once."""
    diary = Diary(tmp_path)

    class Acknowledge(beam.DoFn):
        def process(self, element: Any, finalizer: Any = beam.DoFn.BundleFinalizerParam) -> Iterator[Any]:
            # An error of one is logged, for the results of the bundle are there already.
            finalizer.register(lambda: check_failed(1))
            finalizer.register(lambda: diary.write(f"acknowledged {element}"))
            yield element

        def finish_bundle(self) -> None:
            diary.write("finished")

    with pipeline as p:
        check([1, 2], p | beam.Create([1, 2]) | beam.ParDo(Acknowledge()))
    lines = [line for copy in diary.read() for line in copy]
    assert ["acknowledged 1", "acknowledged 2"] == sorted(line for line in lines if line != "finished")
    assert all(copy[0] == "finished" for copy in diary.read())


def test_the_object_that_was_given_is_never_changed(pipeline: Any) -> None:
    """Workers have copies, made when the run started."""

    class Counting(beam.DoFn):
        def __init__(self) -> None:
            self.seen = 0

        def process(self, element: Any) -> Iterator[Any]:
            self.seen += 1
            yield element

    counting = Counting()
    with pipeline as p:
        check([1, 2], p | beam.Create([1, 2]) | beam.ParDo(counting))
        counting.seen = 100
    assert 100 == counting.seen
