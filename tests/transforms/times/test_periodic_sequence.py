"""Elements every so often, under Beam's names."""

import pytest
from support.pipelines.recording import Recording
from support.pipelines.unbounded_readers import check_replay, elements, polled
from support.runners.micro_batches import RunnerInThisProcess

import penstock as beam
from penstock.sdk.errors import UnsupportedError
from penstock.testing import assert_that, equal_to
from penstock.transforms.periodicsequence import ImpulseSeqGenDoFn, PeriodicImpulse, PeriodicSequence, RebaseMode
from penstock.transforms.times.periodic_sequence import ImpulseSource
from penstock.windowing import Duration, Timestamp
from penstock.windowing.timestamp import MAX_MICROS


def reader(*args, **options):
    return PeriodicImpulse(*args, **options).source.open(0, None)


def test_an_element_is_the_time_that_it_fires_at():
    """Up to, and without, the stop; none before its time, all at once that are due."""
    impulses = reader(10, 40, fire_interval=10)

    assert [] == polled(impulses, 9.9)
    assert [(10, 10_000_000), (20, 20_000_000)] == elements(impulses.poll(9, Timestamp(29)))
    # No earlier element will come, so that a side input's window of the interval is complete.
    assert 30_000_000 == impulses.watermark(Timestamp(29))
    assert [30] == polled(impulses, 100)
    assert impulses.is_finished()
    assert MAX_MICROS == impulses.watermark(Timestamp(100))
    assert [10, 20, 30] == check_replay(PeriodicImpulse(10, 40, 10).source, 0, 100, 1)


def test_without_a_start_it_starts_when_it_is_first_read():
    """And goes on from there after a failure."""
    source = PeriodicImpulse(fire_interval=10).source
    first = source.open(0, None)

    assert [5] == polled(first, 5)
    assert [15, 25] == polled(source.open(0, first.offset()), 27)


def test_data_comes_instead_of_times():
    """Over and over until the stop; without one, once."""
    with pytest.warns(UserWarning, match="3 elements are due until 30, and data has 2: not enough to span"):
        impulses = reader(0, 30, 10, data=["a", "b"])
    assert [("a", 0), ("b", 10_000_000), ("a", 20_000_000)] == elements(impulses.poll(9, Timestamp(100)))
    once = reader(0, fire_interval=10, data=["a", "b"])
    assert ["a", "b"] == polled(once, 100)
    assert once.is_finished()


def test_data_may_bring_its_own_event_times():
    """It comes when it is due all the same, and isn't repeated."""
    data = [(Timestamp(7), "a"), (Timestamp(3), "b")]

    assert [("a", 7_000_000), ("b", 3_000_000)] == elements(reader(0, 20, 10, data=data).poll(9, Timestamp(100)))
    with pytest.raises(ValueError, match="3 elements are due until 30, and data has 2: not enough to span"):
        PeriodicImpulse(0, 30, 10, data=data)


def test_elements_are_numbers_as_beams_are():
    """A start that is finer than a microsecond stays so; Timestamps and other times become seconds."""
    start = 1751135957.9754321
    numbers = polled(reader(start, start + 3, 1), start + 100)

    assert [start, start + 1, start + 2] == numbers
    assert {float} == set(map(type, numbers))
    assert [1.5, 3.5] == polled(reader(Timestamp(1.5), 5, Duration(2)), 100)
    assert [int, int] == list(map(type, polled(reader(0, 20, 10), 100)))


def test_with_a_stop_and_no_start_it_starts_when_it_is_first_read():
    """And keeps its end."""
    impulses = reader(stop_timestamp=40, fire_interval=10)

    assert [15, 25, 35] == [*polled(impulses, 15), *polled(impulses, 100)]
    assert impulses.is_finished()


def test_the_watermark_waits_for_the_earliest_of_the_elements_that_are_to_come():
    """The clock is far behind their event times, or ahead of them; it has nothing to do with these."""
    impulses = reader(0, fire_interval=10, data=[(Timestamp(s), s) for s in (7, 1000, 3, 2000)])
    watermarks = []
    for now in (0, 10, 20, 30):
        watermarks.append(impulses.watermark(Timestamp(now)))
        impulses.poll(9, Timestamp(now))

    assert [3_000_000, 3_000_000, 3_000_000, 2_000_000_000] == watermarks
    assert MAX_MICROS == impulses.watermark(Timestamp(30))


@pytest.mark.parametrize("runner", ["local", "spark-microbatch"])
def test_elements_with_event_times_of_their_own_are_grouped_in_their_windows(runner):
    """All but the first were late: the watermark went with the clock."""
    sink = Recording()
    p = beam.Pipeline(runner if runner == "local" else RunnerInThisProcess(available_now=False))
    impulses = p | PeriodicImpulse(data=[(Timestamp(i), i) for i in (1, 2, 3, 12, 5)], fire_interval=0.001)
    keyed = impulses | beam.WindowInto(beam.window.FixedWindows(10)) | beam.WithKeys(0)
    _ = keyed | beam.GroupByKey() | beam.MapTuple(lambda _, values: sorted(values)) | beam.io.Write(sink)
    p.run().wait_until_finish()

    assert [[1, 2, 3, 5], [12]] == sorted(change.value for change in sink.changes)


def test_each_element_may_have_a_window_of_its_own():
    """As long as the interval."""
    windowed = beam.Pipeline() | PeriodicImpulse(0, 30, 10, apply_windowing=True)

    assert beam.window.FixedWindows(10) == windowed.windowing.window_fn
    assert not windowed.is_bounded


def test_what_can_not_be_is_said_when_it_is_made():
    """Intervals and ends."""
    with pytest.raises(ValueError, match="fire_interval must be more than 0 seconds, got 0"):
        PeriodicImpulse(fire_interval=0)
    with pytest.raises(ValueError, match="it would stop at 5 before it starts at 6"):
        PeriodicImpulse(6, 5)
    with pytest.raises(ValueError, match="at least one element"):
        PeriodicImpulse(data=[])


def test_sequences_may_be_elements_of_create():
    """One for each, all together; elements that only turn up in the run are refused."""
    p = beam.Pipeline()
    created = p | beam.Create([(0, 20, 10), (5, 6, 1)])
    assert not (created | PeriodicSequence()).is_bounded

    sources = [transform.primitive.source for transform in p.graph().unbounded_reads()]
    assert [[0, 10], [5]] == [polled(source.open(0, None), 100) for source in sources]
    with pytest.raises(UnsupportedError, match="Late: .*is known only in the run, as those of Map"):
        created | beam.Map(lambda x: x) | "Late" >> PeriodicSequence()


@pytest.mark.parametrize(("rebase", "stop"), [(RebaseMode.REBASE_NONE, 20), (RebaseMode.REBASE_START, MAX_MICROS)])
def test_the_start_may_be_the_present(rebase, stop):
    """Of a sequence that would begin in the past."""
    before = Timestamp.now()
    stop = Timestamp.of_micros(MAX_MICROS) if stop == MAX_MICROS else stop
    source = PeriodicImpulse(10, stop, 1, rebase=rebase).source
    assert (source.begin == 10_000_000) is (rebase is RebaseMode.REBASE_NONE)
    assert (source.begin >= before.micros) is (rebase is RebaseMode.REBASE_START)


def test_the_stop_may_be_moved_with_the_start():
    """The duration stays the same."""
    source = PeriodicImpulse(10, 30, 1, rebase=RebaseMode.REBASE_ALL).source
    assert 20_000_000 == source.stop - source.begin
    assert source.begin > 10_000_000
    assert MAX_MICROS == PeriodicImpulse(10, rebase=RebaseMode.REBASE_ALL).source.stop


def test_a_sequence_is_not_applied_to_the_pipeline():
    with pytest.raises(TypeError, match="PeriodicSequence: expected a PCollection of .*, got the pipeline"):
        _ = beam.Pipeline() | beam.PeriodicSequence()


def test_a_dofn_of_sequences_emits_what_is_due_and_defers_the_rest():
    """As Beam's: times, or listed elements, with the watermark at the latest."""
    begin = int(float(Timestamp.now())) - 3

    with beam.Pipeline() as p:
        times = p | beam.Create([(begin, begin + 2, 1)]) | beam.ParDo(ImpulseSeqGenDoFn())
        seconds = times | beam.Map(lambda due, at=beam.DoFn.TimestampParam: (due - begin, float(at) - begin))
        assert_that(seconds, equal_to([(0, 0.0), (1, 1.0)]), "Times")
        words = (
            p | "From" >> beam.Create([(begin, begin + 4, 1)]) | "Listed" >> beam.ParDo(ImpulseSeqGenDoFn(["a", "b"]))
        )
        assert_that(words, equal_to(["a", "a", "b", "b"]), "Words")


def test_a_dofn_of_sequences_needs_data():
    with pytest.raises(ValueError, match="data must hold at least one element"):
        ImpulseSeqGenDoFn([])


def test_of_impulses_that_are_due_only_the_newest_may_be_read() -> None:
    """After a downtime, and when the elements of a micro-batch are read again."""
    source = ImpulseSource(None, MAX_MICROS, 10, None, newest_only=True)
    reader = source.open(0, None)
    found = [reader.poll(100, Timestamp(seconds)) for seconds in (1_000, 1_009, 1_010, 1_057, 1_058, 1_060)]
    assert [[1_000.0], None, [1_010.0], [1_050.0], None, [1_060.0]] == [each and each.values for each in found]
    begin = (1, Timestamp(1_000).micros)
    again = source.open(0, begin)
    assert [[1_050.0]] == [each.values for each in again.read_to((6, begin[1]), Timestamp(5_000))]
