"""Files as they turn up: each once, at the times when it is looked."""

import os
import pickle

import pytest
from support.pipelines.unbounded_readers import check_replay, polled

import penstock as beam
from penstock.io import ReadAllFromTextContinuously
from penstock.io.fileio import MatchContinuously
from penstock.sdk.errors import SourceError
from penstock.windowing import Timestamp
from penstock.windowing.timestamp import MAX_MICROS


@pytest.fixture
def touch(tmp_path):
    """Makes files, modified at a time."""

    def make(*names, modified=1000):
        for name in names:
            (tmp_path / name).write_text(name)
            os.utime(tmp_path / name, (modified, modified))

    return make


def source(directory, **options):
    return MatchContinuously(directory / "*.txt", **options).source


def names(files):
    return [os.path.basename(file.path) for file in files]


def test_a_file_comes_once_at_the_first_look_after_it_was_there(tmp_path, touch):
    """Looks are an interval apart, counted from the first."""
    reader = source(tmp_path, interval=10).open("all", None)
    touch("a.txt", "b.txt", "c.log")

    assert ["a.txt", "b.txt"] == names(polled(reader, 100, 1))
    touch("d.txt")
    assert [] == polled(reader, 109)
    assert ["d.txt"] == names(polled(reader, 110))
    touch("e.txt")
    # A look that was missed is made up for by one, and the next is when it would have been.
    assert ["e.txt"] == names(polled(reader, 135))
    touch("f.txt")
    assert [[], ["f.txt"]] == [names(polled(reader, now)) for now in (139, 140)]


def test_what_was_found_is_found_again_after_a_failure_and_in_micro_batches(tmp_path, touch):
    """Also if it is gone: the offset knows it."""
    touch("a.txt", "b.txt", "c.txt")
    made = source(tmp_path, interval=10)
    assert ["a.txt", "b.txt", "c.txt"] == names(check_replay(made, "all", 100, 2))

    planner = made.open("all", None)
    end = pickle.loads(pickle.dumps(planner.admit(2, None, Timestamp(100))))
    os.remove(tmp_path / "a.txt")
    touch("0.txt")
    (batch,) = made.open("all", None).read_to(end, Timestamp(100))
    assert ["a.txt", "b.txt"] == names(batch.values)
    assert ["c.txt", "0.txt"] == names([*polled(made.open("all", end), 105), *polled(made.open("all", end), 110)[1:]])


def test_a_file_that_was_modified_comes_again_if_that_is_asked_for(tmp_path, touch):
    """By its time of modification."""
    touch("a.txt")
    for wanted, match_updated_files in (([], False), (["a.txt"], True)):
        touch("a.txt", modified=1000)
        reader = source(tmp_path, interval=10, match_updated_files=match_updated_files).open("all", None)
        assert ["a.txt"] == names(polled(reader, 0))
        touch("a.txt", modified=2000)
        assert wanted == names(polled(reader, 10))
        assert [] == polled(reader, 20)


def test_without_deduplication_every_look_gives_all_and_can_not_be_repeated(tmp_path, touch):
    """Runners that replay their input refuse it."""
    touch("a.txt")
    made = source(tmp_path, interval=10, has_deduplication=False)
    reader = made.open("all", None)

    assert [["a.txt"], ["a.txt"]] == [names(polled(reader, now)) for now in (0, 10)]
    assert not made.replayable
    with pytest.raises(SourceError, match="without has_deduplication"):
        list(made.open("all", None).read_to(reader.offset(), Timestamp(0)))


def test_it_begins_and_ends_when_it_is_told_to(tmp_path, touch):
    """No look before the start, none at the stop."""
    touch("a.txt")
    reader = source(tmp_path, interval=10, start_timestamp=100, stop_timestamp=120).open("all", None)

    assert [[], ["a.txt"]] == [names(polled(reader, now)) for now in (99, 100)]
    assert [] == polled(reader, 110)
    assert reader.is_finished()
    touch("b.txt")
    assert [] == polled(reader, 130)
    assert MAX_MICROS == reader.watermark(Timestamp(130))


def test_whole_files_are_read_as_they_turn_up(tmp_path):
    """As a pipeline: it is unbounded, and its steps are matching and reading."""
    p = beam.Pipeline()
    lines = p | ReadAllFromTextContinuously(tmp_path / "*.txt", interval=5, apply_windowing=True, skip_header_lines=1)

    assert not lines.is_bounded
    assert beam.window.FixedWindows(5) == lines.windowing.window_fn
    with pytest.raises(ValueError, match="interval must be positive"):
        MatchContinuously("*", interval=0)


def test_with_a_cursor_files_before_the_newest_one_are_taken_as_seen(tmp_path, touch):
    """The offset has the files since the newest one of the listing before only."""
    touch("a.txt", modified=1000)
    touch("b.txt", modified=2000)
    made = source(tmp_path, interval=10, timestamp_cursor=True)
    reader = made.open("all", None)
    bundle = reader.poll(9, Timestamp(5000))
    assert (["a.txt", "b.txt"], [1_000_000_000, 2_000_000_000]) == (names(bundle.values), list(bundle.timestamps))
    assert 2_000_000_000 == reader.watermark(Timestamp(5000))
    touch("late.txt", modified=1500)
    touch("twin.txt", modified=2000)
    assert ["twin.txt"] == names(polled(reader, 5010))
    # Nothing was newer.
    assert 5_010_000_000 == reader.watermark(Timestamp(5010))
    touch("b.txt", modified=3000)
    assert ["b.txt"] == names(polled(reader, 5020))
    assert ["b.txt", "twin.txt"] == names(reader.offset()[2])
    assert [] == polled(made.open("all", reader.offset()), 5030)
    assert ["b.txt"] == names(polled(reader, 5030) or reader.offset()[2])


def test_with_a_cursor_files_are_found_again_in_micro_batches(tmp_path, touch):
    touch("a.txt", modified=1000)
    touch("b.txt", modified=2000)
    made = source(tmp_path, interval=10, timestamp_cursor=True)
    end = made.open("all", None).admit(9, None, Timestamp(5000))
    (batch,) = made.open("all", None).read_to(end, Timestamp(5000))
    assert (["a.txt", "b.txt"], [1_000_000_000, 2_000_000_000]) == (names(batch.values), list(batch.timestamps))


def test_a_cursor_needs_deduplication_and_times_of_modification(tmp_path, touch):
    touch("a.txt", modified=0)
    with pytest.raises(ValueError, match="requires has_deduplication=True"):
        source(tmp_path, timestamp_cursor=True, has_deduplication=False)
    reader = source(tmp_path, interval=10, timestamp_cursor=True).open("all", None)
    with pytest.raises(SourceError, match=r"needs times of modification, and .*a\.txt' has none"):
        reader.poll(9, Timestamp(5000))
