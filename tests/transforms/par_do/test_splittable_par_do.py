"""Splittable DoFns: stopped anywhere, taken up again, put off; each bit of work once."""

import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines.unbounded_readers import check_replay, elements, polled

import penstock as beam
from penstock.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from penstock.io.watermark_estimators import ManualWatermarkEstimator, MonotonicWatermarkEstimator
from penstock.sdk.dofn.splittable_dofn import RestrictionProgress, RestrictionTracker
from penstock.sdk.errors import PipelineError, UnsupportedError, UserCodeError
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.transforms.core import RestrictionProvider
from penstock.transforms.par_do.splittable_par_do import WorkToTheEnd
from penstock.windowing import Duration, Timestamp, TimestampedValue
from penstock.windowing.timestamp import MAX_MICROS, MIN_MICROS


class Numbers(RestrictionProvider):
    """All numbers below an element, in parts of four."""

    def initial_restriction(self, element):
        return OffsetRange(0, element)

    def create_tracker(self, restriction):
        return OffsetRestrictionTracker(restriction)

    def split(self, element, restriction):
        return restriction.split(4)


class Count(beam.DoFn):
    """Each number, and its negative, at that second."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element,
        factor=1,
        tracker=beam.DoFn.RestrictionParam(Numbers()),
        estimator=beam.DoFn.WatermarkEstimatorParam(MonotonicWatermarkEstimator.default_provider()),
    ):
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield TimestampedValue(position * factor, position)
            yield TimestampedValue(-position * factor, position)
            position += 1


class Ticks(beam.DoFn, RestrictionProvider):
    """A number each ten seconds, for ever nearly; it is its own provider, and says its own watermark."""

    def initial_restriction(self, element):
        return OffsetRange(element, 10**9)

    def create_tracker(self, restriction):
        return OffsetRestrictionTracker(restriction)

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element,
        tracker=beam.DoFn.RestrictionParam(),
        estimator=beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),
        put_off=Duration(10),
    ):
        position = tracker.current_restriction().start
        if tracker.try_claim(position):
            estimator.set_watermark(Timestamp(position * 10))
            yield TimestampedValue(position, position * 10)
        tracker.defer_remainder(put_off)
        assert not tracker.try_claim(position + 1)


def source(transform, *values):
    p = beam.Pipeline()
    p | beam.Create(list(values)) | "Work" >> transform
    return next(t.primitive.source for t in p.graph().unbounded_reads())


@given(number=st.integers(0, 13), step=st.integers(1, 5))
def test_work_that_is_stopped_anywhere_is_done_once(number, step):
    """A checkpoint keeps what isn't claimed; outputs of one position stay together."""
    made = source(beam.ParDo(Count(), 2), number)
    values = []
    for partition in made.partitions():
        reader, offset = made.open(partition, None), None
        while True:
            bundle = reader.poll(step, Timestamp(0))
            offset = pickle.loads(pickle.dumps(reader.offset()))
            if bundle is None:
                break
            assert len(bundle) <= step + 1
            values += bundle.values
            reader.close()
            reader = made.open(pickle.loads(pickle.dumps(partition)), offset)
        assert reader.is_finished()
        assert MAX_MICROS == reader.watermark(Timestamp(0))

    assert [sign * 2 * n for n in range(number) for sign in (1, -1)] == values


def test_it_is_read_again_from_any_offset_and_in_micro_batches():
    """Positions with two outputs each, two at a time."""
    made = source(beam.ParDo(Count()), 3)

    assert [0, 0, 1, -1, 2, -2] == check_replay(made, made.partitions()[0], 0)


def test_what_an_element_is_split_into_are_partitions():
    """Known by their numbers."""
    made = source(beam.ParDo(Count()), 6, 2)
    found = [(p.element_number, p.number, p.restriction) for p in made.partitions()]

    assert [(0, 0, OffsetRange(0, 4)), (0, 1, OffsetRange(4, 6)), (1, 0, OffsetRange(0, 2))] == found
    assert set(made.partitions()) == set(pickle.loads(pickle.dumps(made.partitions())))


def test_the_watermark_is_what_its_estimator_says():
    """Also after it was stopped."""
    made = source(beam.ParDo(Count()), 4)
    reader = made.open(made.partitions()[0], None)
    assert MIN_MICROS == reader.watermark(Timestamp(50))
    reader.poll(4, Timestamp(50))

    assert 1_000_000 == reader.watermark(Timestamp(50))
    assert 1_000_000 == made.open(made.partitions()[0], reader.offset()).watermark(Timestamp(50))


def test_what_is_put_off_goes_on_when_it_is_time():
    """For a while, also after a failure; the clock is the runner's."""
    made = source(beam.ParDo(Ticks()), 3)
    (partition,) = made.partitions()
    reader = made.open(partition, None)

    assert [(3, 30_000_000)] == elements(reader.poll(9, Timestamp(100)))
    assert 30_000_000 == reader.watermark(Timestamp(100))
    assert [] == polled(reader, 109.9)
    again = made.open(partition, pickle.loads(pickle.dumps(reader.offset())))
    assert [] == polled(again, 109.9)
    assert 30_000_000 == again.watermark(Timestamp(109.9))
    assert [4] == polled(again, 110)
    assert not again.is_finished()


def test_without_an_estimator_the_watermark_waits_until_all_is_done():
    """Its outputs have the element's time unless they say another."""

    class Plain(beam.DoFn):
        @beam.DoFn.unbounded_per_element()
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Numbers())):
            position = tracker.current_restriction().start
            while tracker.try_claim(position):
                yield position
                position += 1

    made = source(beam.ParDo(Plain()), TimestampedValue(2, 5))
    reader = made.open(made.partitions()[0], None)

    assert [(0, 5_000_000)] == elements(reader.poll(1, Timestamp(100)))
    assert 5_000_000 == reader.watermark(Timestamp(100))
    assert [1] == polled(reader, 100)
    assert MAX_MICROS == reader.watermark(Timestamp(100))


class Letters(beam.DoFn):
    """Bounded work on words that turn up anywhere."""

    def process(self, word, tracker=beam.DoFn.RestrictionParam(Numbers()), put_off=False):
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield position
            if put_off:
                tracker.defer_remainder(Duration(0.3))
            position += 1


def test_work_that_is_bounded_is_done_to_the_end_on_any_runner():
    """In all its parts, with the windows and times of the elements."""
    with TestPipeline() as p:
        windowed = p | beam.Create([TimestampedValue(6, 1), TimestampedValue(1, 11)])
        numbers = windowed | beam.WindowInto(beam.window.FixedWindows(10)) | beam.Map(int) | beam.ParDo(Letters())
        seen = numbers | beam.Map(lambda n, w=beam.DoFn.WindowParam: (n, w.start))
        assert_that(seen, equal_to([*((n, 0) for n in range(6)), (0, 10)]))
        assert numbers.is_bounded


def test_bounded_work_that_is_deferred_is_done_later():
    """After the waiting time, on any runner."""
    begin = time.monotonic()
    assert [0, 1, 2] == [3] | beam.ParDo(Letters(), put_off=True)
    assert time.monotonic() - begin > 0.6


def test_a_stream_does_not_wait_for_deferred_work():
    """The rest is processed later."""
    work = WorkToTheEnd(Letters(), "Work")
    work.setup()
    work.most_claims = 10
    *_, remainder = work.process(3, put_off=True, timestamp=Timestamp(0))
    assert (OffsetRange(1, 3),) == remainder.restrictions
    work.most_claims = None
    assert [1, 2] == list(work.process(remainder, timestamp=Timestamp(0)))


def test_work_that_was_left_lying_is_an_error():
    """A restriction that was neither claimed nor deferred."""

    class Lazy(beam.DoFn):
        def process(self, word, tracker=beam.DoFn.RestrictionParam(Numbers())):
            return ()

    with pytest.raises(UserCodeError, match="from 0 to 3 was not claimed"):
        [3] | beam.ParDo(Lazy())


def test_what_a_splittable_dofn_can_not_have_is_refused_by_name():
    """While the pipeline is built."""
    p = beam.Pipeline()
    numbers = p | beam.Create([1])

    class Windowed(beam.DoFn):
        def process(self, e, t=beam.DoFn.RestrictionParam(Numbers()), w=beam.DoFn.WindowParam):
            pass

    class Missing(beam.DoFn):
        def process(self, e, t=beam.DoFn.RestrictionParam()):
            pass

    class OnlyEstimates(beam.DoFn):
        def process(self, e, t=beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())):
            pass

    with pytest.raises(UnsupportedError, match="Work: Count has unbounded work on an element.*those of Map"):
        numbers | beam.Map(int) | "Work" >> beam.ParDo(Count())
    with pytest.raises(UnsupportedError, match="ParDo.Windowed.: a splittable DoFn can't have DoFn.WindowParam"):
        numbers | beam.ParDo(Windowed())
    with pytest.raises(UnsupportedError, match="can't have side inputs"):
        numbers | beam.ParDo(Letters(), put_off=beam.pvalue.AsList(numbers))
    with pytest.raises(UnsupportedError, match="has one output"):
        numbers | beam.ParDo(Letters()).with_outputs("a")
    with pytest.raises(PipelineError, match="expected a RestrictionProvider"):
        numbers | beam.ParDo(Missing())
    with pytest.raises(PipelineError, match="but no RestrictionParam"):
        numbers | beam.ParDo(OnlyEstimates())


@given(st.integers(-3, 3), st.integers(0, 9), st.lists(st.integers(1, 3), max_size=4), st.floats(0, 0.9))
def test_a_split_leaves_all_numbers_to_one_side_or_the_other(start, size, gaps, fraction):
    """Claimed positions stay; no position is lost, and none is on both sides."""
    tracker = OffsetRestrictionTracker(OffsetRange(start, start + size))
    assert isinstance(tracker, RestrictionTracker)
    position = start - 1
    for gap in gaps:
        position += gap
        if not tracker.try_claim(position):
            break
    split = tracker.try_split(fraction)
    kept, rest = split or (tracker.current_restriction(), OffsetRange(start + size, start + size))

    assert (start, kept.stop, start + size) == (kept.start, rest.start, rest.stop)
    assert kept.stop > min(position, start + size - 1)
    assert kept == tracker.current_restriction()
    progress = tracker.current_progress()
    assert kept.size() == progress.completed + progress.remaining
    with pytest.raises(ValueError, match=f"expected {max(position + 1, start)} or more"):
        tracker.try_claim(max(position, start - 1))


def test_progress_is_work_or_a_share():
    """Not both."""
    assert (0.25, 0.75) == (RestrictionProgress(fraction=0.25).completed_work, RestrictionProgress(0.25).remaining_work)
    assert 0.25 == RestrictionProgress(completed=1, remaining=3).fraction_completed
    nothing = RestrictionProgress(completed=0, remaining=0)
    assert (1, 0) == (nothing.fraction_completed, nothing.fraction_remaining)
    for arguments in ({}, {"completed": 1}, {"fraction": 2}, {"fraction": 0.5, "completed": 1}):
        with pytest.raises(ValueError, match="RestrictionProgress"):
            RestrictionProgress(**arguments)
