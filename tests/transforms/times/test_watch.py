"""Polling a function for new results, each emitted once, until its termination."""

import pytest
from support.pipelines.unbounded_readers import check_replay, elements, polled

import penstock as beam
from penstock.io.watch import PollFn, TerminationCondition, after_total_of
from penstock.sdk.errors import PipelineError, UnsupportedError
from penstock.windowing import MAX_TIMESTAMP, Timestamp, TimestampedValue
from penstock.windowing.timestamp import MAX_MICROS, MIN_MICROS

# What there is to find, by element; where the pickled function looks too.
THERE: dict[str, list] = {}


def look(element):
    import sys

    return sys.modules["watched"].THERE[element]


@pytest.fixture(autouse=True)
def findable(monkeypatch):
    """A module that a function finds wherever it runs in this process."""
    import sys
    import types

    module = types.ModuleType("watched")
    module.THERE = THERE
    monkeypatch.setitem(sys.modules, "watched", module)
    THERE.clear()


def source(*values, **options):
    p = beam.Pipeline()
    p | beam.Create(list(values)) | beam.Watch(look, 10, **options)
    return next(t.primitive.source for t in p.graph().unbounded_reads())


def test_each_thing_is_given_once_when_it_is_first_found():
    """With the element that it was found for, at the time of the look."""
    THERE["a"] = [1, 2]
    reader = source("a").open(0, None)

    assert [(("a", 1), 100_000_000), (("a", 2), 100_000_000)] == elements(reader.poll(9, Timestamp(100)))
    THERE["a"] = [2, 3]
    assert [] == polled(reader, 109.9)
    assert [("a", 3)] == polled(reader, 110)
    assert not reader.is_finished()


def test_what_was_found_is_found_again_after_a_failure_and_in_micro_batches():
    """Also if it is gone."""
    THERE["a"] = [1, 2, 3]
    made = source("a")
    assert [("a", 1), ("a", 2), ("a", 3)] == check_replay(made, 0, 100)
    end = made.open(0, None).admit(2, None, Timestamp(100))
    THERE["a"] = [3, 4]

    (batch,) = made.open(0, None).read_to(end, Timestamp(100))
    assert [("a", 1), ("a", 2)] == batch.values
    assert [("a", 3), ("a", 4)] == [*polled(reader := made.open(0, end), 105), *polled(reader, 110)]


def test_it_ends_when_the_function_says_so_or_nothing_new_was_found_for_so_long():
    """Each element for itself."""
    THERE["a"] = beam.PollResult([1], is_complete=True)
    THERE["b"] = [1]
    made = source("a", "b", stop_after_quiet=15)
    a, b = made.open(0, None), made.open(1, None)

    assert [("a", 1)] == polled(a, 0)
    assert a.is_finished()
    assert MAX_MICROS == a.watermark(Timestamp(0))
    assert [[("b", 1)], [], []] == [polled(b, now) for now in (0, 10, 14)]
    assert not b.is_finished()
    b = made.open(1, b.offset())
    assert [] == polled(b, 20)
    assert b.is_finished()


def test_it_ends_after_a_time():
    """Counted from the first poll, also after a restore from a snapshot."""
    THERE["a"] = [1]
    made = source("a", termination=after_total_of(15))
    a = made.open(0, None)

    assert [[("a", 1)], []] == [polled(a, now) for now in (100, 110)]
    assert not a.is_finished()
    a = made.open(0, a.offset())
    assert [] == polled(a, 120)
    assert a.is_finished()
    with pytest.raises(TypeError, match=r"must be never\(\), .* or a TerminationCondition, got 15"):
        beam.Watch(look, 10, 15)


def test_results_are_made_as_in_beam():
    """By what they mean: in order, complete, or with a watermark."""
    THERE["a"] = beam.PollResult.incomplete([TimestampedValue(1, 7), TimestampedValue(2, 5)])
    made = source("a")
    reader = made.open(0, None)
    assert [("a", 1), ("a", 2)] == polled(reader, 100)
    assert 5_000_000 == reader.watermark(Timestamp(100))
    THERE["a"] = beam.PollResult.incomplete([2, 3], timestamp=11).with_watermark(9)
    assert [(("a", 3), 11_000_000)] == elements(reader.poll(9, Timestamp(110)))
    assert 9_000_000 == reader.watermark(Timestamp(110))
    THERE["a"] = beam.PollResult.complete([])
    assert [] == polled(reader, 120)
    assert reader.is_finished()


def test_the_watermark_is_what_the_function_says_once_its_outputs_are_given():
    """Without a word it stays where it is."""
    THERE["a"] = beam.PollResult([TimestampedValue(1, 5), TimestampedValue(2, 7)], watermark=Timestamp(9))
    made = source("a")
    reader = made.open(0, None)
    reader.poll(1, Timestamp(100))
    assert MIN_MICROS == reader.watermark(Timestamp(100))
    assert [(("a", 2), 7_000_000)] == elements(reader.poll(1, Timestamp(100)))

    assert 9_000_000 == reader.watermark(Timestamp(100)) == made.open(0, reader.offset()).watermark(Timestamp(0))


def test_outputs_can_be_told_apart_by_a_key():
    """The first of each counts."""
    THERE["a"] = [{"id": 1, "n": 1}, {"id": 1, "n": 2}]

    assert [("a", {"id": 1, "n": 1})] == polled(source("a", output_key_fn=lambda d: d["id"]).open(0, None), 0)


def test_what_is_no_list_and_what_is_no_input_of_its_are_refused():
    """By name; also an interval that is none."""
    THERE["a"] = "text"
    expected = "Watch: expected its function to return a PollResult or a list, got 'text'"
    with pytest.raises(PipelineError, match=expected):
        polled(source("a").open(0, None), 0)
    with pytest.raises(ValueError, match="poll_interval must be more than 0"):
        beam.Watch(look, 0)
    with pytest.raises(UnsupportedError, match="Watch: .* known only in the run, as those of Map"):
        beam.Pipeline() | beam.Create([1]) | beam.Map(lambda x: x) | beam.Watch(look, 1)


def test_with_a_cursor_outputs_before_the_latest_one_are_taken_as_seen():
    """Offsets have the outputs since the latest one of the poll before only."""
    THERE["a"] = [TimestampedValue("x", 10), TimestampedValue("y", 20)]
    made = source("a", timestamp_cursor=True, allowed_lateness=5)
    reader = made.open(0, None)
    assert [("a", "x"), ("a", "y")] == polled(reader, 100)
    THERE["a"] += [TimestampedValue("early", 14), TimestampedValue("late", 15), TimestampedValue("z", 30)]
    assert [("a", "late"), ("a", "z")] == polled(reader, 110)
    assert ["y", "late", "z"] == [value for _, value, _ in reader.offset().seen]
    assert [] == polled(reader, 120)
    assert ["z"] == [value for _, value, _ in reader.offset().seen]
    with pytest.raises(ValueError, match="allowed_lateness must not be negative"):
        source("a", timestamp_cursor=True, allowed_lateness=-1)


def test_the_outputs_have_the_type_that_the_function_is_annotated_with():
    def poll(element: str) -> beam.PollResult[tuple[str, float]]:
        return beam.PollResult.complete([])

    class Letters(PollFn):
        def default_output_coder(self):
            return beam.coders.StrUtf8Coder()

    p = beam.Pipeline()
    words = p | beam.Create(["a"])
    assert tuple[str, tuple[str, float]] == (words | beam.Watch(poll, 1)).element_type
    assert tuple[str, str] == (words | "L" >> beam.Watch(Letters(), 1)).element_type
    given = beam.Watch(look, 1, output_coder=beam.coders.VarIntCoder())
    assert tuple[str, int] == (words | "G" >> given).element_type
    assert MAX_TIMESTAMP == beam.PollResult.complete(["a"]).watermark
    with pytest.raises(ValueError, match="deterministic"):
        words | "K" >> beam.Watch(look, 1, output_key_coder=beam.coders.PickleCoder())


class AfterPolls(TerminationCondition):
    """Ends two polls after the last new output."""

    def for_new_input(self, now, element):
        return [element, now, 0]

    def on_seen_new_output(self, now, state):
        return [*state[:2], 0]

    def on_poll_complete(self, state):
        return [*state[:2], state[2] + 1]

    def can_stop_polling(self, now, state):
        return state[2] > 2


def test_a_condition_of_the_user_ends_the_polling_of_an_element():
    """Its state is in the offset."""
    THERE["a"] = [1]
    made = source("a", termination=AfterPolls())
    reader = made.open(0, None)
    assert [("a", 1)] == polled(reader, 100)
    assert ["a", Timestamp(100), 1] == reader.offset().state
    reader = made.open(0, reader.offset())
    finished = []
    for now in 110, 120:
        polled(reader, now)
        finished.append(reader.is_finished())
    assert [False, True] == finished
    with pytest.raises(TypeError, match="or a TerminationCondition, got 5"):
        source("a", termination=5)
    with pytest.raises(TypeError, match="stop_after_quiet isn't for a condition of the user"):
        source("a", termination=AfterPolls(), stop_after_quiet=5)
