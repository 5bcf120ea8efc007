"""UnboundedSource with Beam's interface: readers that start, advance, and mark their position."""

import pytest

import penstock as beam
from penstock.beam.io.unbounded_source import (
    CheckpointMark,
    ReadFromUnboundedSource,
    UnboundedCountingSource,
    UnboundedReader,
    UnboundedSource,
)
from penstock.sdk.adapters import as_source
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.windowing import MAX_TIMESTAMP, FixedWindows
from penstock.windowing.timestamp import MAX_MICROS, Timestamp


class Slow(UnboundedReader):
    """A record whenever one is put into `queue`."""

    def __init__(self, queue):
        self.queue, self.moves, self.closed = queue, [], False

    def start(self):
        self.moves.append("start")
        return self._next()

    def advance(self):
        self.moves.append("advance")
        return self._next()

    def _next(self):
        self.current = self.queue.pop(0) if self.queue else None
        return self.current is not None

    def get_current(self):
        return self.current

    def get_current_timestamp(self):
        return Timestamp(5)

    def get_watermark(self):
        return Timestamp(5)

    def get_checkpoint_mark(self):
        return Failing()

    def close(self):
        self.closed = True


class Failing(CheckpointMark):
    def finalize_checkpoint(self):
        raise OSError("the queue is gone")


class Queue(UnboundedSource):
    def __init__(self, reader):
        self.reader = reader

    def split(self, desired_num_splits, options=None):
        return [self]

    def create_reader(self, options, checkpoint_mark):
        return self.reader

    def get_checkpoint_mark_coder(self):
        return beam.coders.PickleCoder()


def opened(source, offset=None):
    converted = as_source(source).source
    return converted.open(converted.partitions()[0], offset)


def test_records_are_read_in_parts_and_windows_until_the_source_ends():
    with TestPipeline() as p:
        numbers = p | beam.io.Read(UnboundedCountingSource(6, is_splittable=True))
        assert not numbers.is_bounded
        sums = numbers | beam.WindowInto(FixedWindows(100)) | beam.CombineGlobally(sum).without_defaults()
        assert_that(sums, equal_to([15]))
        assert_that(
            p | ReadFromUnboundedSource(UnboundedCountingSource(20), max_records_per_bundle=3), equal_to(range(20))
        )


def test_the_elements_have_the_type_of_the_sources_coder():
    class Named(UnboundedCountingSource):
        def default_output_coder(self):
            return beam.coders.StrUtf8Coder()

    p = beam.Pipeline()
    assert str is (p | "a" >> beam.io.Read(Named(1))).element_type
    assert str is (p | "b" >> ReadFromUnboundedSource(Named(1))).element_type


def test_a_reader_goes_on_behind_the_mark_of_an_offset():
    reader = opened(UnboundedCountingSource(5))
    assert [0, 1, 2] == reader.poll(3, Timestamp(0)).values
    offset = reader.offset()
    assert offset == reader.offset()
    later = opened(UnboundedCountingSource(5), offset)
    assert offset == later.offset()
    assert [3, 4] == later.poll(9, Timestamp(0)).values
    assert (True, MAX_MICROS) == (later.is_finished(), later.watermark(Timestamp(0)))
    assert opened(UnboundedCountingSource(5), later.offset()).is_finished()


def test_marks_are_finalized_once_and_in_order_when_a_checkpoint_is_durable():
    log = []
    reader = opened(UnboundedCountingSource(9, finalize_log=log))
    offsets = []
    for _ in range(3):
        reader.poll(2, Timestamp(0))
        offsets.append(reader.offset())
    assert [] == log
    reader.acknowledge(offsets[1])
    reader.acknowledge(offsets[1])
    assert [1, 3] == log
    reader.acknowledge(offsets[2])
    assert [1, 3, 5] == log


def test_a_mark_that_fails_to_finalize_is_logged(caplog):
    reader = opened(Queue(Slow(["a"])))
    reader.poll(1, Timestamp(0))
    reader.acknowledge(reader.offset())
    assert "Failing.finalize_checkpoint failed" in caplog.text


def test_a_reader_without_records_is_asked_again_after_the_interval():
    slow = Slow([])
    reader = opened(Queue(slow))
    assert reader.poll(9, Timestamp(0)) is None
    slow.queue.append("a")
    assert reader.poll(9, Timestamp(0.9)) is None
    assert ["a"] == reader.poll(9, Timestamp(1)).values
    assert ["start", "advance", "advance"] == slow.moves
    assert 5_000_000 == reader.watermark(Timestamp(1))
    reader.close()
    assert slow.closed


def test_a_micro_batch_is_read_again_up_to_its_mark():
    planning, reading = opened(UnboundedCountingSource(9)), opened(UnboundedCountingSource(9))
    end = planning.admit(4, None, Timestamp(0))
    assert [0, 1, 2, 3] == [value for bundle in reading.read_to(end, Timestamp(0)) for value in bundle.values]


def test_the_last_record_is_emitted_before_the_watermark_reaches_the_end():
    class Last(Slow):
        def get_watermark(self):
            return MAX_TIMESTAMP

    reader = opened(Queue(Last(["a"])))
    assert ["a"] == reader.poll(1, Timestamp(0)).values
    assert not reader.is_finished()
    assert reader.poll(1, Timestamp(0)) is None
    assert reader.is_finished()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("text",), TypeError, "expected an UnboundedSource"),
        ((UnboundedCountingSource(1), -1), ValueError, "poll_interval must be 0 seconds or more"),
        ((UnboundedCountingSource(1), 1, 0), ValueError, "max_records_per_bundle must be 1 or more"),
        ((UnboundedCountingSource(1), 1, 1, 0), ValueError, "max_read_time_seconds must be more than 0"),
    ],
)
def test_wrong_arguments_are_errors(arguments, error, message):
    with pytest.raises(error, match=f"ReadFromUnboundedSource: {message}"):
        ReadFromUnboundedSource(*arguments)
