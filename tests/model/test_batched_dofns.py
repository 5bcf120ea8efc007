"""Batched DoFns give what their twins of elements give, on every runner."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import numpy.typing
import pandas
import pyarrow
import pyarrow.compute
import pytest
from support.pipelines.checks import check
from support.runners.local_variants import IN_THIS_PROCESS

import penstock as beam
from penstock.metrics import Metrics
from penstock.sdk.elements.element_wrappers import WindowedValue
from penstock.sdk.errors import PipelineError, UnsupportedError
from penstock.sdk.typehints.batch import NumpyArray, NumpyBatchConverter
from penstock.testing import TestWindowedValue
from penstock.windowing import FixedWindows, SlidingWindows

NUMBERS = list(range(40))


class ToNumpy(beam.DoFn):
    def process_batch(self, batch: numpy.ndarray) -> Iterator[numpy.ndarray]:
        assert type(batch) is numpy.ndarray
        yield batch * 2 + 1

    def infer_output_type(self, input_element_type: Any) -> Any:
        return input_element_type


class ToList(beam.DoFn):
    def process_batch(self, batch: list[int]) -> Iterator[list[int]]:
        assert type(batch) is list
        yield [2 * number + 1 for number in batch]


class ToArrow(beam.DoFn):
    def process_batch(self, batch: pyarrow.Array) -> Iterator[pyarrow.Array]:
        assert isinstance(batch, pyarrow.Array)
        yield pyarrow.compute.add(pyarrow.compute.multiply(batch, 2), 1)


class ToSeries(beam.DoFn):
    def process_batch(self, batch: pandas.Series) -> Iterator[pandas.Series]:
        assert isinstance(batch, pandas.Series)
        yield batch * 2 + 1


@pytest.mark.parametrize("first", [ToNumpy, ToList, ToArrow, ToSeries])
@pytest.mark.parametrize("second", [ToNumpy, ToList, ToArrow, ToSeries])
def test_batches_of_one_type_are_taken_as_another(pipeline: Any, first: type, second: type) -> None:
    """In one stage, behind a shuffle, and behind a function of elements."""
    with pipeline as p:
        once = p | beam.Create(NUMBERS) | "first" >> beam.ParDo(first()).with_output_types(int)
        twice = once | "second" >> beam.ParDo(second()).with_output_types(int)
        shuffled = twice | beam.Reshuffle() | "third" >> beam.ParDo(first())
        check([8 * number + 7 for number in NUMBERS], shuffled)
        mapped = twice | beam.Map(lambda number: number + 1) | "fourth" >> beam.ParDo(second())
        check([8 * number + 9 for number in NUMBERS], mapped)


class Ending(beam.DoFn):
    def process_batch(self, batch: numpy.ndarray) -> Iterator[numpy.ndarray]:
        return iter(())


@pytest.mark.parametrize("is_windowed", [False, True])
def test_batches_are_not_made_of_elements_again(
    pipeline: Any, runner_name: str, is_windowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither at the boundary of stages nor in a Reshuffle; those of timestamps and windows of their own neither."""
    made: list[int] = []
    exploded: list[int] = []
    produce, explode = NumpyBatchConverter.produce_batch, NumpyBatchConverter.explode_batch
    monkeypatch.setattr(
        NumpyBatchConverter, "produce_batch", lambda self, own: made.append(len(own)) or produce(self, own)
    )
    monkeypatch.setattr(
        NumpyBatchConverter, "explode_batch", lambda self, own: exploded.append(len(own)) or explode(self, own)
    )
    # Of smaller bundles a Reshuffle distributes the elements, as of the first ones of a job.
    n = 40_000

    with pipeline as p:
        numbers = p | beam.Create(range(n))
        if is_windowed:
            stamped = numbers | beam.Map(lambda i: beam.window.TimestampedValue(i, i)).with_output_types(int)
            numbers = stamped | beam.WindowInto(FixedWindows(6000))
        batches = numbers | "first" >> beam.ParDo(ToNumpy()) | "second" >> beam.ParDo(ToNumpy())
        after = batches | "third" >> beam.ParDo(ToNumpy())
        both = (after, batches | "fourth" >> beam.ParDo(ToNumpy())) | beam.Flatten()
        shuffled = both | "fifth" >> beam.ParDo(ToNumpy()) | beam.Reshuffle()
        _ = shuffled | "sixth" >> beam.ParDo(ToNumpy()) | "end" >> beam.ParDo(Ending())
    if runner_name in ("local", *IN_THIS_PROCESS):
        assert n <= sum(made) < 1.1 * n
        # The first element of a bundle decides where it goes.
        assert sum(size for size in exploded if size > 1) < 0.1 * n


class Item(NamedTuple):
    name: str
    price: int


ITEMS = [Item(f"n{i % 3}", i) for i in range(20)]


class OfRecords(beam.DoFn):
    def process_batch(self, batch: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
        yield batch.filter(pyarrow.compute.greater(batch["price"], 5))


class OfFrames(beam.DoFn):
    def process_batch(self, batch: pandas.DataFrame) -> Iterator[pandas.DataFrame]:
        yield batch[batch.price > 5].reset_index(drop=True)


@pytest.mark.parametrize("first", [OfRecords, OfFrames])
@pytest.mark.parametrize("second", [OfRecords, OfFrames])
@pytest.mark.parametrize("kind", [Item, dict, beam.Row])
def test_batches_of_records_have_the_fields_of_elements(pipeline: Any, first: type, second: type, kind: Any) -> None:
    elements = ITEMS if kind is Item else [kind(**item._asdict()) for item in ITEMS]
    with pipeline as p:
        made = p | beam.Create(elements).with_output_types(kind)
        once = made | "first" >> beam.ParDo(first()).with_output_types(kind)
        twice = once | beam.Reshuffle() | "second" >> beam.ParDo(second()).with_output_types(kind)
        check(elements[6:], twice)


def test_an_expression_takes_elements_of_frames_without_columns(pipeline: Any, tmp_path: Path) -> None:
    """Arrow would change some objects, so frames of objects are no columns; a sink of columns sees elements, too."""
    rows = [beam.Row(raw=b"%d" % i, at=Decimal(i)) for i in range(8)]
    with pipeline as p:
        made = p | beam.Create(rows).with_output_types(beam.Row) | beam.ParDo(UnchangedFrames())
        kept = made | beam.Filter(beam.col("raw") != b"3")
        check([row for row in rows if row.at != 3], kept)
        check([b"%d" % i for i in range(8)], made | beam.Map(beam.col("raw")))
        _ = made | beam.io.WriteToCsv(tmp_path / "rows.csv", shard_name_template="")
    assert 9 == len((tmp_path / "rows.csv").read_text().splitlines())


class UnchangedFrames(beam.DoFn):
    def process_batch(self, batch: pandas.DataFrame) -> Iterator[pandas.DataFrame]:
        yield batch


def test_batches_stand_beside_columns(pipeline: Any) -> None:
    """A source of columns, a batched DoFn, and an expression."""
    table = pyarrow.table({"name": [item.name for item in ITEMS], "price": [item.price for item in ITEMS]})
    with pipeline as p:
        kept = p | beam.Create(table) | beam.ParDo(OfRecords())
        doubled = kept | beam.Select("name", double=beam.col("price") * 2)
        check([beam.Row(name=item.name, double=2 * item.price) for item in ITEMS[6:]], doubled)


@pytest.mark.parametrize("is_of_arrays", [True, False])
def test_a_map_takes_elements_of_several_windows_as_one_batch(
    pipeline: Any, runner_name: str, is_of_arrays: bool
) -> None:
    """Each result has the timestamp and the window of the element at its place."""
    expected_sizes = {len(NUMBERS)} if runner_name == "local" else set(range(len(NUMBERS) + 1))

    def doubled(batch: numpy.ndarray) -> numpy.ndarray:
        assert len(batch) in expected_sizes
        return batch * 2

    @beam.DoFn.yields_batches
    def doubled_list(batch: list[int]) -> list[int]:
        assert len(batch) in expected_sizes
        return [2 * number for number in batch]

    with pipeline as p:
        table = pyarrow.table({"n": NUMBERS})
        rows = p | beam.Create(table) | beam.WithTimestamps("n") | beam.WindowInto(FixedWindows(7))
        numbers = rows | beam.Map(beam.col("n")).with_output_types(int)
        batches = numbers | "double" >> beam.Map(doubled if is_of_arrays else doubled_list)
        again = batches | "again" >> beam.Map(doubled).with_output_types(int)
        expected = [TestWindowedValue(4 * n, n, list(FixedWindows(7).assign_micros(n * 1_000_000))) for n in NUMBERS]
        check(expected, again, reify_windows=True)


def test_a_map_of_a_batch(pipeline: Any) -> None:
    """By its annotation, by the mark, and for the elements themselves if these are arrays."""

    def halved(batch: numpy.typing.NDArray[numpy.int64]) -> numpy.typing.NDArray[numpy.float64]:
        assert batch.ndim == 1
        return batch / 2

    @beam.DoFn.yields_batches
    def counted(batch: list[float], offset: float) -> list[float]:
        return [offset + number for number in batch]

    def length(array: numpy.ndarray) -> int:
        return len(array)

    with pipeline as p:
        made = p | beam.Create(NUMBERS)
        check([1 + number / 2 for number in NUMBERS], made | beam.Map(halved) | beam.Map(counted, 1))
        arrays = made | "arrays" >> beam.Map(numpy.arange).with_output_types(numpy.ndarray)
        check(NUMBERS, arrays | beam.Map(length))


class Twin(beam.DoFn):
    """A DoFn with all that a batched one may have, for elements and for batches."""

    def __init__(self, is_batched: bool) -> None:
        self.is_batched = is_batched

    def setup(self) -> None:
        self.is_set_up = True

    def start_bundle(self) -> None:
        self.seen = 0

    def process(self, element: int, factor: int, window: Any = beam.DoFn.WindowParam) -> Iterator[Any]:
        assert self.is_set_up
        self.seen += 1
        Metrics.counter("twin", "elements").inc()
        if element % 2:
            yield beam.pvalue.TaggedOutput("odd", (int(window.start), factor * element))
        else:
            yield int(window.start), factor * element


class BatchedTwin(Twin):
    process = beam.DoFn.process  # type: ignore[assignment]

    def process_batch(
        self, batch: numpy.ndarray, factor: int, window: Any = beam.DoFn.WindowParam, at: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Any]:
        assert self.is_set_up
        self.seen += len(batch)
        Metrics.counter("twin", "elements").inc(len(batch))
        odd, even = batch[batch % 2 == 1], batch[batch % 2 == 0]
        yield self.pairs(window, factor * even)
        yield beam.pvalue.TaggedOutput("odd", self.pairs(window, factor * odd))

    def pairs(self, window: Any, numbers: Any) -> list[tuple[int, int]]:
        return [(int(window.start), number) for number in numbers.tolist()]

    def get_output_batch_type(self, input_element_type: Any) -> Any:
        return list


@pytest.mark.parametrize("is_batched", [False, True])
def test_windows_side_inputs_tags_and_metrics(pipeline: Any, is_batched: bool) -> None:
    """And timestamps, which the outputs inherit, if they are few."""
    fn = BatchedTwin(True) if is_batched else Twin(False)
    with pipeline as p:
        factor = beam.pvalue.AsSingleton(p | "factor" >> beam.Create([3]))
        made = p | beam.Create(NUMBERS) | beam.Map(lambda n: beam.window.TimestampedValue(n, n))
        windowed = made | beam.WindowInto(SlidingWindows(20, 10))
        parts = windowed | beam.ParDo(fn, factor).with_outputs("odd", main="e")
        for parity, found in enumerate((parts.e, parts.odd)):
            expected = [
                TestWindowedValue((int(window.start), 3 * n), n, [window])
                for n in NUMBERS
                if n % 2 == parity
                for window in SlidingWindows(20, 10).assign_micros(n * 1_000_000)
            ]
            check(expected, found, reify_windows=True)
    counters = p.result.metrics().query(beam.metrics.MetricsFilter().with_name("elements"))["counters"]
    assert [80] == [counter.committed for counter in counters]


class FromBatches(beam.DoFn):
    """Yields an element for each batch; `process` is for batches of unknown size."""

    @beam.DoFn.yields_elements
    def process_batch(self, batch: list[int]) -> Iterator[int]:
        yield sum(batch)


class IntoBatches(beam.DoFn):
    @beam.DoFn.yields_batches
    def process(self, element: int) -> Iterator[numpy.ndarray]:
        yield numpy.arange(element)
        yield beam.window.TimestampedValue(numpy.array([element]), 7)

    def infer_output_type(self, input_element_type: Any) -> Any:
        return int


class Both(beam.DoFn):
    """The same for elements and for batches."""

    def process(self, element: int) -> Iterator[int]:
        yield from (element, -element)

    def process_batch(self, batch: numpy.ndarray) -> Iterator[numpy.ndarray]:
        yield batch
        yield -batch


def test_batches_are_made_of_elements_and_elements_of_batches(pipeline: Any) -> None:
    with pipeline as p:
        made = p | beam.Create([3, 1, 2])
        batches = made | beam.ParDo(IntoBatches())
        check([0, 1, 2, 3, 0, 1, 0, 1, 2], batches)
        total = batches | beam.ParDo(FromBatches()) | beam.CombineGlobally(sum)
        check([10], total)
        check([3, 1, 2, -3, -1, -2], made | beam.ParDo(Both()))


def test_finish_bundle_and_the_finalizer(pipeline: Any) -> None:
    """Elements of `finish_bundle` come after batches."""

    class Counting(beam.DoFn):
        def start_bundle(self) -> None:
            self.seen = 0

        def process_batch(self, batch: list[int], finalizer: Any = beam.DoFn.BundleFinalizerParam) -> Iterator[Any]:
            finalizer.register(lambda: None)
            self.seen += len(batch)
            return iter(())

        def finish_bundle(self) -> Iterator[Any]:
            yield WindowedValue(self.seen, beam.window.MIN_TIMESTAMP, [beam.window.GlobalWindow()])

    with pipeline as p:
        check([40], p | beam.Create(NUMBERS) | beam.ParDo(Counting()) | beam.CombineGlobally(sum))


class Failing(beam.DoFn):
    def process_batch(self, batch: numpy.ndarray) -> Iterator[numpy.ndarray]:
        if (batch == 13).any():
            raise ValueError("thirteen")
        yield batch


def test_an_error_names_the_step_and_the_users_line(pipeline: Any) -> None:
    _ = pipeline | beam.Create(NUMBERS) | "wrong" >> beam.ParDo(Failing())
    with pytest.raises(ValueError, match="thirteen") as raised:
        pipeline.run().wait_until_finish()
    text = "".join([str(raised.value), *getattr(raised.value, "__notes__", ())])
    assert "wrong" in text
    assert "test_batched_dofns.py" in text


def test_dead_letters_are_single_elements(pipeline: Any) -> None:
    with pipeline as p:
        good, bad = p | beam.Create(NUMBERS) | beam.ParDo(Failing()).with_exception_handling()
        check([number for number in NUMBERS if number != 13], good)
        check([13], bad | beam.Map(lambda letter: letter[0]))


class Wrong(beam.DoFn):
    def process_batch(self, batch: numpy.ndarray) -> Iterator[numpy.ndarray]:
        yield 3  # type: ignore[misc]


class Shorter(beam.DoFn):
    def process_batch(self, batch: numpy.ndarray) -> Iterator[numpy.ndarray]:
        yield batch[1:]


def shorter(batch: numpy.ndarray) -> numpy.ndarray:
    return batch[1:]


WRONG = {
    "type": (beam.ParDo(Wrong()), "a batch of the type ndarray was expected, got int 3"),
    "times": (beam.ParDo(Shorter()), "with several timestamps, so that theirs are unknown"),
    "map": (beam.Map(shorter), "expected as many"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_outputs_that_are_no_batch_of_the_declared_type(pipeline: Any, kind: str) -> None:
    transform, expected = WRONG[kind]
    stamped = beam.Map(lambda n: beam.window.TimestampedValue(n, n)).with_output_types(int)
    _ = pipeline | beam.Create(NUMBERS) | stamped | "wrong" >> transform
    with pytest.raises(PipelineError, match="wrong") as raised:
        pipeline.run().wait_until_finish()
    assert expected in str(raised.value)


def refused(kind: str) -> Any:
    """A transform that can't be built, behind elements of the type int."""

    class Stateful(ToNumpy):
        def process_batch(
            self, batch: Any, n: Any = beam.DoFn.StateParam(beam.userstate.CombiningValueStateSpec("n", sum))
        ) -> Any:
            yield batch

    class Keyed(ToNumpy):
        def process_batch(self, batch: numpy.ndarray, key: Any = beam.DoFn.KeyParam) -> Any:
            yield batch

    class Unannotated(beam.DoFn):
        def process_batch(self, batch):  # type: ignore[no-untyped-def]
            yield batch

    class NoIterator(beam.DoFn):
        def process_batch(self, batch: numpy.ndarray) -> numpy.ndarray:
            yield batch

    class OfText(beam.DoFn):
        def process_batch(self, batch: list[str]) -> Iterator[list[str]]:
            yield batch

    class OfFloats(beam.DoFn):
        def process_batch(self, batch: NumpyArray[float]) -> Iterator[numpy.ndarray]:
            yield batch

    class OfSets(beam.DoFn):
        def process_batch(self, batch: set[int]) -> Iterator[set[int]]:
            yield batch

    class Different(beam.DoFn):
        def process(self, element: int) -> Iterator[int]:
            yield element

        @beam.DoFn.yields_elements
        def process_batch(self, batch: list[int]) -> Iterator[str]:
            yield ""

    return beam.ParDo(locals()[kind]())


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("Stateful", "wrong: Stateful.*state"),
        ("Keyed", "wrong: Keyed.process_batch can't have"),
        ("Unannotated", "wrong: Unannotated.process_batch needs an annotation of its first parameter"),
        (
            "NoIterator",
            r"wrong: NoIterator: .*process_batch returns ndarray by its annotation; expected Iterator\[ndarray",
        ),
        (
            "OfText",
            r"wrong: the input batches of OfText: a batch of the type .* can't hold elements of the type int",
        ),
        (
            "OfFloats",
            r"wrong: the input batches of OfFloats: .*NumpyArray\[float64\] can't hold elements of the type int",
        ),
        (
            "OfSets",
            r"wrong: the input batches of OfSets: .*[sS]et\[int\] is no type of batches; expected list, numpy.ndarray",
        ),
        ("Different", "wrong: Different: it yields elements from both process and process_batch, of different types"),
        (
            "records",
            "wrong: the input batches of OfRecords: .*RecordBatch can't hold elements of the type int",
        ),
    ],
)
def test_what_does_not_fit_is_refused_when_the_pipeline_is_built(kind: str, message: str) -> None:
    made = beam.Pipeline() | beam.Create([("a", 1)] if kind == "Stateful" else NUMBERS)
    with pytest.raises((PipelineError, UnsupportedError), match=message):
        _ = made | "wrong" >> (beam.ParDo(OfRecords()) if kind == "records" else refused(kind))
