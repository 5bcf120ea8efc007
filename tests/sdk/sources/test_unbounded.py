"""Sources of a user's own: what the interface does for them."""

import pickle
from datetime import timedelta

import pytest
from support.pipelines.unbounded_readers import check_replay, elements, polled

import penstock as beam
from penstock.io import EventTimeReader, EventTimes, Read, UnboundedReader, UnboundedSource
from penstock.io.watermark_estimators import BoundedOutOfOrdernessWatermarkEstimator, MonotonicWatermarkEstimator
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import EndlessGroupError, SourceError, UnsupportedError
from penstock.sdk.sources.lag_sketch import PERCENTILES
from penstock.testing import TestStream
from penstock.windowing import Duration, Timestamp
from penstock.windowing.timestamp import MAX_MICROS, MIN_MICROS


class Listed(UnboundedSource):
    """Letters, one by one as they are asked for: the least that a source can be."""

    def __init__(self, letters):
        self.letters = letters

    def partitions(self):
        return ["all"]

    def open(self, partition, offset):
        return ListedReader(self.letters, offset or 0)


class ListedReader(UnboundedReader):
    def __init__(self, letters, position):
        self.letters = letters
        self.position = position

    def poll(self, max_elements, now):
        values = list(self.letters[self.position : self.position + max_elements])
        self.position += len(values)
        return Bundle(values, now.micros) if values else None

    def offset(self):
        return self.position

    def watermark(self, now):
        return now.micros


class Seconds(UnboundedSource):
    """Numbers that happened at those seconds."""

    def __init__(self, seconds, **times):
        self.seconds = seconds
        self.times = EventTimes.of("Seconds", float, *[times.get(n) for n in ("watermark_estimator", "idle_after")])

    def partitions(self):
        return [0]

    def open(self, partition, offset):
        return SecondsReader(self.seconds, self.times, offset or 0)


class SecondsReader(EventTimeReader):
    def __init__(self, seconds, times, position):
        super().__init__(times)
        self.seconds = seconds
        self.position = position

    def take(self, max_elements, now):
        stop = min(self.position + max_elements, len(self.seconds) if self.end is None else self.end)
        values = self.seconds[self.position : stop]
        self.position += len(values)
        return values, None

    def offset(self):
        return self.position

    def is_finished(self):
        return self.position == len(self.seconds) and self.seconds[-1] == "end"


DISORDERED = BoundedOutOfOrdernessWatermarkEstimator.default_provider(3)


def test_what_was_read_is_read_again_from_any_offset_and_in_micro_batches():
    """Also by a reader that doesn't know in advance how far to go."""
    assert list("abcde") == check_replay(Listed("abcde"), "all", 7)
    assert [5, 1, 9] == check_replay(Seconds([5, 1, 9], watermark_estimator=DISORDERED), 0, 7)


def test_a_micro_batch_is_limited_by_its_size_in_bytes_too():
    """A batch of large values ends after the step in which they came to the limit."""
    reader = Listed([f"{n:01000}" for n in range(2000)]).open("all", None)

    assert 256 == reader.admit(2000, 1000, Timestamp(0))
    assert 768 == reader.admit(2000, 300_000, Timestamp(0))
    assert 773 == reader.admit(5, 300_000, Timestamp(0))


def test_a_batch_whose_input_is_gone_when_it_is_run_again_says_so():
    """Rather than being a smaller batch."""
    for source in (Listed("ab"), Seconds([1, 2], watermark_estimator=DISORDERED)):
        reader = source.open(source.partitions()[0], 1)
        with pytest.raises(SourceError, match="planned up to offset 3 can be read up to 2 only"):
            list(reader.read_to(3, Timestamp(0)))


def test_the_watermark_of_elements_with_times_of_their_own_is_estimated_from_those():
    """And never goes back."""
    reader = Seconds([5, 9, 7, 8], watermark_estimator=DISORDERED).open(0, None)
    assert MIN_MICROS == reader.watermark(Timestamp(100))

    assert [(5, 5_000_000), (9, 9_000_000)] == elements(reader.poll(2, Timestamp(100)))
    assert 6_000_000 == reader.watermark(Timestamp(100))
    assert [7, 8] == polled(reader, 100)
    assert 6_000_000 == reader.watermark(Timestamp(200))


@pytest.mark.parametrize("second", [10**15, float("nan"), 1e300, "5"])
def test_a_time_that_is_none_is_an_error(second):
    """Of whatever kind: also whole seconds that are milliseconds, perhaps."""
    reader = SecondsReader([1, second], EventTimes(lambda value: value, DISORDERED), 0)

    with pytest.raises((ValueError, TypeError), match="expected a timestamp"):
        reader.poll(5, Timestamp(0))


def test_a_partition_without_elements_for_so_long_is_idle_until_one_comes():
    """Idleness is declared, and counts from the last element."""
    seconds = [1]
    source = Seconds(seconds, watermark_estimator=DISORDERED, idle_after=10)
    reader = source.open(0, None)

    assert [1] == polled(reader, 100)
    assert [False, True] == [reader.is_idle(Timestamp(109.9)), reader.is_idle(Timestamp(110))]
    seconds.append(2)
    assert [2] == polled(reader, 111)
    assert [False, True] == [reader.is_idle(Timestamp(111)), reader.is_idle(Timestamp(121))]
    assert not Seconds([1], watermark_estimator=DISORDERED).open(0, None).is_idle(Timestamp(10**9))


def test_percentile_watermarks_run_ahead_of_the_watermark_and_end_with_it():
    """Half of the elements come after 10 seconds at most, so half of what happened 10 seconds ago is here."""
    seconds = [100 - lag for lag in range(20, 0, -1)]
    source = Seconds(seconds, watermark_estimator=BoundedOutOfOrdernessWatermarkEstimator.default_provider(50))
    reader = source.open(0, None)
    assert dict.fromkeys(PERCENTILES, MIN_MICROS) == reader.watermarks(Timestamp(100))
    reader.poll(100, Timestamp(100))

    watermarks = reader.watermarks(Timestamp(100))
    assert 49_000_000 == reader.watermark(Timestamp(100))
    assert 89_000_000 < watermarks[0.5] < 91_000_000
    assert 79_000_000 < watermarks[0.99] < 82_000_000
    assert sorted(watermarks.values(), reverse=True) == list(watermarks.values())

    finished = SecondsReader(["end"], EventTimes(), 1)
    assert dict.fromkeys(PERCENTILES, MAX_MICROS) == finished.watermarks(Timestamp(100))


def test_what_is_wrong_with_event_times_is_said_by_the_transform():
    """A function for timestamps without a word on their order; a class for a provider; no time to be idle."""
    with pytest.raises(ValueError, match="ReadThat: with a timestamp_fn give a watermark_estimator"):
        EventTimes.of("ReadThat", float, None, None)
    with pytest.raises(TypeError, match="ReadThat: watermark_estimator: expected a watermark estimator, .* got 5"):
        EventTimes.of("ReadThat", float, 5, None)
    with pytest.raises(TypeError, match=r"ReadThat: .* from a state alone .*give an instance, BoundedOutOfOrd.*\("):
        EventTimes.of("ReadThat", float, BoundedOutOfOrdernessWatermarkEstimator, None)
    with pytest.raises(ValueError, match="ReadThat: idle_after must be more than 0"):
        EventTimes.of("ReadThat", None, None, 0)


def test_what_is_read_from_an_unbounded_source_is_unbounded():
    """And so is whatever comes of it."""
    p = beam.Pipeline()
    letters = p | Read(Listed("abc"))

    assert not letters.is_bounded
    assert not (letters | beam.Map(str)).is_bounded
    assert "Read(Listed)" == letters.producer_label


def test_grouping_an_endless_input_without_windows_is_refused_as_the_group_would_never_be_complete():
    """Naming what has no end; windows, or a trigger, make it well, and a flag allows it."""
    p = beam.Pipeline()
    pairs = p | "Letters" >> Read(Listed("abc")) | beam.Map(lambda c: (c, 1))

    with pytest.raises(
        EndlessGroupError, match="Group: .* global windowing and a default trigger: Letters is unbounded"
    ):
        pairs | "Group" >> beam.GroupByKey()
    with pytest.raises(ValueError, match="Sum.*Letters is unbounded"):
        (pairs, p | beam.Create([("a", 1)])) | beam.Flatten() | "Sum" >> beam.CombinePerKey(sum)
    pairs | beam.WindowInto(beam.window.FixedWindows(5)) | "Windowed" >> beam.GroupByKey()
    early = beam.trigger.Repeatedly(beam.trigger.AfterCount(1))
    triggered = pairs | "Early" >> beam.WindowInto(
        beam.window.GlobalWindows(), trigger=early, accumulation_mode=beam.trigger.AccumulationMode.DISCARDING
    )
    triggered | "Triggered" >> beam.GroupByKey()

    allowed = beam.Pipeline(options=beam.options.PipelineOptions(allow_unsafe_triggers=True))
    allowed | Read(Listed("abc")) | beam.Map(lambda c: (c, 1)) | beam.GroupByKey()


def test_a_test_stream_ends_and_so_may_be_grouped_without_windows():
    """It is no source without an end, though it is unbounded."""
    p = beam.Pipeline()

    assert not (p | TestStream().add_elements([("a", 1)]) | beam.GroupByKey()).is_bounded


@pytest.mark.parametrize("runner", ["spark-batch"])
def test_a_runner_that_reads_to_the_end_refuses_what_has_none(runner):
    """Before anything starts, naming the transform and a runner that supports it."""
    p = beam.Pipeline(runner)
    p | "Letters" >> Read(Listed("abc"))

    with pytest.raises(UnsupportedError, match="Letters: .*is unbounded.*--runner=local"):
        p.run()


def test_a_partition_is_not_idle_because_the_clock_was_set_forward():
    """Only elapsed time counts: an idle partition doesn't hold the watermark, and its elements would be late."""
    reader = Seconds([1], watermark_estimator=DISORDERED, idle_after=60).open(0, None)
    reader.poll(10, Timestamp(1_000))
    reader.time_jumped(3_600_000_000)

    assert not reader.is_idle(Timestamp(4_600))
    assert not reader.is_idle(Timestamp(4_659))
    assert reader.is_idle(Timestamp(4_660))


@pytest.mark.parametrize(
    "estimator",
    [
        BoundedOutOfOrdernessWatermarkEstimator(2),
        BoundedOutOfOrdernessWatermarkEstimator(timedelta(seconds=2)),
        BoundedOutOfOrdernessWatermarkEstimator.default_provider(2),
        MonotonicWatermarkEstimator,
        MonotonicWatermarkEstimator(None),
        MonotonicWatermarkEstimator.default_provider(),
    ],
)
def test_an_estimator_or_its_class_stands_for_its_provider(estimator):
    """Each reader has one of its own, and one that goes on in a state goes on there."""
    times = EventTimes(float, estimator)
    provider = pickle.loads(pickle.dumps(times.estimator))
    first, second = (
        provider.create_watermark_estimator(provider.initial_estimator_state(None, None)) for _ in range(2)
    )
    first.observe_timestamp(Timestamp(10))
    again = provider.create_watermark_estimator(first.get_estimator_state())

    assert second.current_watermark() is None
    assert (8 if "Bounded" in repr(estimator) else 10) == first.current_watermark() == again.current_watermark()


def test_event_times_without_an_estimator_are_refused():
    """By the clock all that is historical would be late; also where a source of one's own asks for them."""
    with pytest.raises(ValueError, match=r"EventTimes: with a timestamp_fn give an estimator too, which says how far"):
        EventTimes(timestamp_fn=float)
    with pytest.raises(TypeError, match="EventTimes: estimator: expected a watermark estimator, its class"):
        EventTimes(estimator=5)
    with pytest.raises(ValueError, match="EventTimes: idle_after must be more than 0 seconds, got 0"):
        EventTimes(idle_after=0)
    assert [5_000_000] * 3 == [EventTimes(idle_after=span).idle_micros for span in (5, Duration(5), timedelta(0, 5))]


def test_an_estimator_of_a_splittable_dofn_is_checked_where_it_is_given():
    """An estimator will do, and what is none is refused."""
    given = beam.DoFn.WatermarkEstimatorParam(MonotonicWatermarkEstimator(None)).watermark_estimator_provider
    assert given.create_watermark_estimator(None).current_watermark() is None
    with pytest.raises(TypeError, match=r"DoFn.WatermarkEstimatorParam: expected a watermark estimator, its class"):
        beam.DoFn.WatermarkEstimatorParam(5)


class MarkedReader(ListedReader):
    """Letters between markers, which `poll` passes without an element."""

    def poll(self, max_elements, now):
        if self.letters[self.position : self.position + 1] == "-":
            self.position += 1
            return None
        return super().poll(1, now)


def test_a_batch_may_end_behind_records_that_give_no_elements():
    """The offset moves with them, and the batch is read again up to there; a cut input is an error all the same."""
    read = []
    position = 0
    for _ in range(4):
        end = MarkedReader("ab--c-", position).admit(10, None, Timestamp(0))
        read.append([bundle.values for bundle in MarkedReader("ab--c-", position).read_to(end, Timestamp(0))])
        position = end
    assert ([[["a"], ["b"]], [], [["c"]], []], 6) == (read, position)
    with pytest.raises(SourceError, match="planned up to offset 6 can be read up to 5 only"):
        list(MarkedReader("ab--c", 4).read_to(6, Timestamp(0)))
