"""Sources without an end in whole pipelines on the local runner: until they end, or are told to."""

import socket
import time

import pytest

import penstock as beam
from penstock.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from penstock.options.pipeline_options import PipelineOptions
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.transforms.core import RestrictionProvider
from penstock.windowing import Duration, FixedWindows, TimestampedValue

PATIENCE = 180.0


class Note(beam.DoFn):
    """Passes elements on, and notes each in a file, for the test to see that it has come."""

    def __init__(self, path):
        self.path = path

    def process(self, element):
        with open(self.path, "a") as file:
            file.write(f"{element}\n")
        yield element


class Running:
    """A pipeline that counts what a source gives until it is drained."""

    def __init__(self, directory, read, to_text):
        self.noted = directory / "noted"
        self.counts = directory / "counts"
        self.noted.touch()
        p = beam.Pipeline(options=PipelineOptions(checkpoint_interval=0.05, allow_unsafe_triggers=True))
        texts = p | read | beam.Map(to_text) | beam.ParDo(Note(str(self.noted)))
        counts = texts | beam.combiners.Count.PerElement()
        # Complete when the pipeline is drained.
        counts | beam.MapTuple("{}: {}".format) | beam.io.WriteToText(self.counts)
        self.result = p.run()

    def wait_for(self, *texts):
        """Until all of these, and no others, have come."""
        deadline = time.monotonic() + PATIENCE
        while sorted(texts) != sorted(self.noted.read_text().splitlines()):
            assert time.monotonic() < deadline, self.noted.read_text()
            if self.result.state not in ("RUNNING", "UNKNOWN"):
                self.result.wait_until_finish()
            time.sleep(0.005)

    def drained(self):
        """Drain the run and return the counts."""
        assert "DRAINED" == self.result.drain()
        files = self.counts.parent.glob("counts*")
        return sorted(line for file in files for line in file.read_text().splitlines())


@pytest.mark.parametrize("parallelism", [1, 2])
def test_numbers_at_a_rate_are_summed_in_their_windows(parallelism):
    """All of them are due, so they come at once; the watermark closes the windows."""
    with TestPipeline(options=PipelineOptions(parallelism=parallelism)) as p:
        numbers = p | beam.io.GenerateSequence(0, 1000, 100, 1, start_time=0, partitions=3)
        sums = numbers | beam.WindowInto(FixedWindows(5)) | beam.WithKeys(lambda n: n % 2) | beam.CombinePerKey(sum)
        expected = [(odd, sum(range(start + odd, start + 500, 2))) for start in (0, 500) for odd in (0, 1)]
        assert_that(sums, equal_to(expected))


def test_impulses_have_windows_of_their_own():
    """One in each."""
    with TestPipeline() as p:
        impulses = p | beam.PeriodicImpulse(0, 100, 10, apply_windowing=True)
        sizes = impulses | beam.WithKeys(0) | beam.GroupByKey() | beam.MapTuple(lambda _, values: len(list(values)))
        assert_that(sizes, equal_to([1] * 10))


def test_whole_files_are_read_as_they_turn_up(tmp_path):
    """Until it stops looking; they are spread by a shuffle in between."""
    (tmp_path / "a.txt").write_text("x\ny\n")
    (tmp_path / "b.txt").write_text("z\n")
    now = time.time()
    with TestPipeline() as p:
        lines = p | beam.io.ReadAllFromTextContinuously(
            tmp_path / "*.txt", interval=0.05, start_timestamp=now, stop_timestamp=now + 0.06
        )
        assert_that(lines, equal_to(["x", "y", "z"]))


def test_entries_that_are_added_are_read_until_it_is_drained_and_trimmed_with_checkpoints(tmp_path, redis_server):
    """Entries in a durable checkpoint needn't be kept."""
    client = redis_server.client()
    client.xadd("drained", {"item": "tea"})
    read = beam.io.ReadFromRedisStream(redis_server.url, "drained", trim=True)
    running = Running(tmp_path, read, lambda entry: entry.fields["item"])
    running.wait_for("tea")
    deadline = time.monotonic() + PATIENCE
    while client.xlen("drained"):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    client.xadd("drained", {"item": "tea"})
    running.wait_for("tea", "tea")

    assert ["tea: 2"] == running.drained()


def test_a_socket_is_read_until_the_server_closes_it():
    """All lines, and the end of the input is the end of the pipeline."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        p = TestPipeline(blocking=False)
        lines = p | beam.io.ReadFromSocket(*server.getsockname(), at_most_once=True)
        windowed = lines | beam.WindowInto(FixedWindows(10**9))
        assert_that(windowed | beam.combiners.Count.PerElement(), equal_to([("x", 2), ("y", 1)]))
        result = p.run()
        connection, _ = server.accept()
        connection.sendall(b"x\ny\nx\n")
        connection.close()
        assert "DONE" == result.wait_until_finish()


class Numbers(RestrictionProvider):
    """All numbers below an element."""

    def initial_restriction(self, element):
        return OffsetRange(0, element)

    def create_tracker(self, restriction):
        return OffsetRestrictionTracker(restriction)


class OneByOne(beam.DoFn):
    """A number at a time, and then a pause."""

    @beam.DoFn.unbounded_per_element()
    def process(self, element, tracker=beam.DoFn.RestrictionParam(Numbers())):
        position = tracker.current_restriction().start
        if tracker.try_claim(position):
            yield TimestampedValue(position, position)
            tracker.defer_remainder(Duration(0.001))


def test_a_splittable_dofn_goes_on_until_its_work_is_done():
    """It puts off what is left again and again; the watermark waits for it."""
    with TestPipeline() as p:
        numbers = p | beam.Create([TimestampedValue(6, 0)]) | beam.ParDo(OneByOne())
        sums = numbers | beam.WindowInto(FixedWindows(3)) | beam.WithKeys(0) | beam.CombinePerKey(sum)
        assert_that(sums, equal_to([(0, 3), (0, 12)]))
