"""Entries of a stream of a real Redis: each element once, and all that a commit adds at once."""

import itertools
import pickle

import pytest

import penstock as beam
from penstock.io import WriteToRedisStream
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import SinkError
from penstock.sdk.sink import LabelledSink
from penstock.testing import ScriptedSource

_numbers = itertools.count()


class Stream:
    """A stream of a test's own."""

    def __init__(self, server):
        self.url = server.url
        self.client = server.client()
        self.name = f"written{next(_numbers)}"

    def sink(self, **options):
        return LabelledSink(WriteToRedisStream(self.url, self.name, **options).sink, "WriteToRedisStream")

    def stage(self, sink, transaction, values):
        writer = pickle.loads(pickle.dumps(sink.sink)).open_writer(sink.context(transaction, "unit"))
        writer.write(Bundle(values))
        return writer.stage()

    def found(self):
        return [fields for _, fields in self.client.xrange(self.name)]


def numbered(n):
    """Return the content of an entry."""
    return {"n": n}


@pytest.fixture
def stream(redis_server):
    return Stream(redis_server)


def test_entries_are_added_by_the_commit_once_and_in_their_order(stream):
    """Before it there are none, and a second one adds none."""
    sink = stream.sink()
    sink.prepare("1")
    token = stream.stage(sink, "1", [{"n": 1, "gone": None}, {"n": 2, "name": "ann"}, {"n": 1}])
    before = stream.found()
    for _ in range(2):
        sink.commit("1", [token])
    assert ([], [{"n": "1"}, {"n": "2", "name": "ann"}, {"n": "1"}]) == (before, stream.found())


def test_an_entry_may_have_more_fields_than_others_together(stream):
    """It is in its place among the others."""
    sink = stream.sink()
    sink.prepare("1")
    entries = [{"n": 1}, {f"field {n}": n for n in range(10_000)}, {"n": 2}]
    sink.commit("1", [stream.stage(sink, "1", entries)])
    assert [{name: str(value) for name, value in entry.items()} for entry in entries] == stream.found()


def test_an_aborted_transaction_adds_nothing(stream):
    """A writer that goes on with it gets an error."""
    sink = stream.sink()
    sink.prepare("1")
    token = stream.stage(sink, "1", [{"n": 1}])
    sink.abort("1")
    with pytest.raises(SinkError, match="staged changes of transaction '1' are gone"):
        sink.commit("1", [token])
    assert [] == stream.found()


def test_a_function_says_what_is_in_an_entry_and_old_ones_are_let_go(stream):
    """About as many as were asked for are kept: Redis lets go of whole nodes."""
    sink = stream.sink(fields=numbered, max_length=100)
    sink.prepare("1")
    sink.commit("1", [stream.stage(sink, "1", list(range(1000)))])
    found = stream.found()
    assert 100 <= len(found) < 1000
    assert {"n": "999"} == found[-1]


def test_what_is_no_record_or_no_stream_is_refused(stream):
    """By name."""
    sink = stream.sink()
    sink.prepare("1")
    with pytest.raises(SinkError, match=r"WriteToRedisStream: expected records, such as a dict or a Row, got 7"):
        stream.stage(sink, "1", [7])
    stream.client.set(stream.name, "text")
    with pytest.raises(SinkError, match="holds a string; expected a stream"):
        sink.prepare("2")


@pytest.mark.parametrize("delivery", ["barriers", "strong"])
def test_a_stream_into_a_stream(stream, delivery, tmp_path):
    """Every element once, by either way of being exactly once."""
    flags = [f"--delivery={delivery}", "--parallelism=2", "--workers=1", f"--checkpoint_dir={tmp_path}"]
    parts = [[beam.window.TimestampedValue(n, n) for n in range(start, 60, 2)] for start in range(2)]
    with beam.Pipeline(options=PipelineOptions([*flags, "--checkpoint_interval=0.05"])) as p:
        _ = (
            p
            | beam.io.Read(ScriptedSource(parts))
            | beam.Map(lambda n: {"n": n})
            | WriteToRedisStream(stream.url, stream.name)
        )
    assert sorted(range(60)) == sorted(int(entry["n"]) for entry in stream.found())
