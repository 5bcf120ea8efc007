"""ReadFromNats on a real server: messages by their sequences, each once, whatever fails."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import pytest
from nats.aio.subscription import Subscription
from nats.js.api import RetentionPolicy
from servers.loopback_server import free_port
from servers.nats_server import NatsServer, Stream
from support.programs.running_program import wait_until
from support.runners.local_variants import EVERY_RUNNER

import penstock as beam
from penstock.io import NatsMessage, ReadFromNats
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import MissingExtraError, SourceError
from penstock.testing.util import assert_that, equal_to
from penstock.windowing import Timestamp

NOW = Timestamp(2_000_000_000)


def source_of(read: Any) -> Any:
    """The source of a transform, as a pipeline on a streaming runner has it."""
    p = beam.Pipeline("local")
    _ = p | read
    (source,) = (t.primitive.source for t in p.graph().transforms if hasattr(t.primitive, "source"))
    return source


def values(reader: Any, count: int) -> list[int]:
    """The next numbers of a reader, waited for."""
    found: list[int] = []

    def polled() -> bool:
        bundle = reader.poll(1000, NOW)
        found.extend(int(message.data) for message in (bundle.values if bundle is not None else []))
        return len(found) >= count

    wait_until(polled, f"{count} messages came")
    return found


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
def test_messages_of_a_bounded_read_on_each_runner(stream: Stream, make_pipeline: Any) -> None:
    """All that there are, of the subjects that are asked for."""
    stream.write(range(50))
    stream.write(range(100, 103), "other")
    for subjects, expected in (
        (None, [*range(50), 100, 101, 102]),
        (f"{stream.name}.other", [100, 101, 102]),
        ([f"{stream.name}.n", f"{stream.name}.other"], [*range(50), 100, 101, 102]),
        (f"{stream.name}.none", []),
    ):
        with make_pipeline() as p:
            read = ReadFromNats(stream.url, stream.name, subjects, bounded=True)
            assert_that(p | read | beam.Map(lambda message: int(message.data)), equal_to(expected))


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
def test_a_number_of_messages_on_each_runner(stream: Stream, make_pipeline: Any) -> None:
    """The first ones."""
    stream.write(range(20))
    with make_pipeline() as p:
        read = ReadFromNats(stream.url, stream.name, max_num_records=5)
        assert_that(p | read | beam.Map(lambda message: int(message.data)), equal_to(list(range(5))))


def test_messages_have_all_that_the_stream_knows(stream: Stream) -> None:
    """And the time at which the server stored them, which the watermark follows."""

    async def publish(js: Any) -> Any:
        await js.publish(f"{stream.name}.n", b"5", headers={"kind": "tea"})
        return await js.get_msg(stream.name, 1)

    stored = stream.server.call(publish)
    reader = source_of(ReadFromNats(stream.url, stream.name)).open(">", None)
    try:
        bundles: list[Any] = []
        wait_until(lambda: bundles.append(reader.poll(10, NOW)) or bundles[-1] is not None, "the message came")
        (message,) = bundles[-1].values
        micros = message.micros
        assert NatsMessage(stream.name, 1, f"{stream.name}.n", b"5", {"kind": "tea"}, micros) == message
        assert abs(stored.time.timestamp() - micros / 1e6) < 0.001
        assert micros == reader.watermark(NOW)
    finally:
        reader.close()


def test_a_reader_resumes_at_each_offset(stream: Stream) -> None:
    """Polls, replays, and micro-batches give the same, also with other subjects and deleted ones between."""
    for n in range(0, 40, 4):
        stream.write(range(n, n + 3))
        stream.write([n], "other")
    stream.server.call(lambda js: js.delete_msg(stream.name, 2))
    source = source_of(ReadFromNats(stream.url, stream.name, f"{stream.name}.n"))
    (partition,) = source.partitions()
    reader = source.open(partition, None)
    first = values(reader, 29)
    assert [n for n in range(40) if n % 4 != 3 and n != 1] == first
    wait_until(lambda: reader.backlog() == 0, "the backlog is known")
    reader.close()
    planner, start, batches = source.open(partition, None), None, []
    while (end := planner.admit(7, None, NOW)) != start:
        worker = source.open(partition, start)
        batches.append([int(m.data) for bundle in worker.read_to(end, NOW) for m in bundle.values])
        assert end == worker.offset()
        worker.close()
        start = end
    planner.close()
    assert first == [value for batch in batches for value in batch]
    assert 7 == max(map(len, batches))


def test_a_closed_reader_leaves_no_task(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although its cancellation is lost, which happens when a message arrives at that moment."""
    original = Subscription.next_msg
    lost: list[BaseException] = []

    async def next_msg(self: Any, timeout: float) -> Any:
        try:
            return await original(self, timeout)
        except asyncio.CancelledError as error:
            if lost:
                raise
            lost.append(error)
            raise TimeoutError from None

    made = asyncio.new_event_loop
    loops: list[asyncio.AbstractEventLoop] = []

    def new_event_loop() -> asyncio.AbstractEventLoop:
        loops.append(made())
        return loops[-1]

    monkeypatch.setattr(Subscription, "next_msg", next_msg)
    monkeypatch.setattr(asyncio, "new_event_loop", new_event_loop)
    stream.write([1])
    reader = source_of(ReadFromNats(stream.url, stream.name)).open(">", None)
    assert [1] == values(reader, 1)
    reader.close()
    assert 1 == len(lost)
    # Their destruction would be logged.
    assert set() == {task for loop in loops for task in asyncio.all_tasks(loop)}


def test_where_reading_begins(stream: Stream) -> None:
    """At the first or the last message, at a sequence, at a time, or where a durable consumer has been."""
    stream.write(range(10))

    def start(**options: Any) -> int:
        reader = source_of(ReadFromNats(stream.url, stream.name, **options)).open(">", None)
        try:
            return reader.offset()
        finally:
            reader.close()

    times = [stream.server.call(lambda js, n=n: js.get_msg(stream.name, n)).time.timestamp() for n in (4, 5)]
    assert 1 == start()
    assert 11 == start(start="latest")
    assert 4 == start(start=4)
    assert 5 == start(start=Timestamp(sum(times) / 2))
    assert 1 == start(start=Timestamp(0))
    assert 11 == start(start=Timestamp.now() + 60)


def test_a_durable_consumer_follows_the_checkpoints(nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a stream that keeps messages only until it has acknowledged them; a new reader begins behind it."""
    monkeypatch.setattr("penstock.io.nats.acknowledging._ACK_WAIT", 1.0)
    stream = Stream(nats_server, retention=RetentionPolicy.INTEREST)
    source = source_of(ReadFromNats(stream.url, stream.name, durable="shop"))
    source.partitions()
    stream.write(range(1200))
    reader = source.open(">", None)
    assert list(range(1200)) == values(reader, 1200)
    assert 1200 == len(stream.server.messages(stream.name))
    # What follows a checkpoint isn't acknowledged with it.
    reader.acknowledge(1101)
    wait_until(lambda: stream.values() == list(range(1100, 1200)), "the messages of the checkpoint were removed")
    reader.acknowledge(1151)
    wait_until(lambda: stream.values() == list(range(1150, 1200)), "those of the next checkpoint were, too")
    reader.close()
    again = source.open(">", None)
    assert 1151 == again.offset()
    assert list(range(1150, 1200)) == values(again, 50)
    # Those that were delivered to another consumer process are delivered again.
    again.acknowledge(1201)
    wait_until(lambda: stream.values() == [], "all were removed")
    again.close()


def test_messages_that_were_removed_before_they_were_read(nats_server: NatsServer, caplog: Any) -> None:
    """Fail the run, at once or while it reads; or are left out, with an error in the log."""
    stream = Stream(nats_server, max_msgs=5)
    stream.write(range(20))
    source = source_of(ReadFromNats(stream.url, stream.name))
    reader = source.open(">", 3)
    with pytest.raises(
        SourceError, match="to have message 3, but messages before 16 were removed, 13 or fewer of them"
    ):
        values(reader, 1)
    reader.close()
    with pytest.raises(SourceError, match="to have message 30, but its last message is 20: was it deleted"):
        values(source.open(">", 30), 1)
    going_on = source_of(ReadFromNats(stream.url, stream.name, on_lost_messages="continue")).open(">", 3)
    assert [15, 16, 17, 18, 19] == values(going_on, 5)
    assert "reading goes on at 16 (on_lost_messages='continue')" in caplog.text
    going_on.close()


def test_a_stream_that_cannot_be_read_is_refused_before_the_run(nats_server: NatsServer) -> None:
    """A missing one, a work queue, and one that keeps messages for durable consumers only."""
    queue = Stream(nats_server, retention=RetentionPolicy.WORK_QUEUE)
    interest = Stream(nats_server, retention=RetentionPolicy.INTEREST)
    for name, said in (
        ("missing", r"ReadFromNats: NATS at nats://\*\*\*@127.0.0.1:\d+ has no stream 'missing'; create it"),
        (queue.name, "is a work queue, which removes messages"),
        (interest.name, "has the retention 'interest', .*; name one by durable=..."),
    ):
        p = beam.Pipeline("local", options=PipelineOptions([], max_restarts=0))
        _ = p | ReadFromNats(nats_server.url, name)
        with pytest.raises(SourceError, match=said):
            p.run().wait_until_finish()


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("localhost:4222", "s"), {}, "expected URLs such as 'nats://localhost:4222'"),
        (("nats://localhost", "a.b"), {}, "stream must be a name without spaces, .*, got 'a.b'"),
        (("nats://localhost", "s", "a..b"), {}, "subjects must be filters such as 'orders.*', got 'a..b'"),
        (("nats://localhost", "s", ["a.*", "a.b"]), {}, r"both the subjects 'a.\*' and 'a.b', and would be read twice"),
        (("nats://localhost", "s"), {"start": "first"}, "start must be 'earliest', 'latest', a sequence"),
        (("nats://localhost", "s"), {"on_lost_messages": "skip"}, "must be 'fail' or 'continue', got 'skip'"),
        (("nats://localhost", "s"), {"password": "secret"}, "a password needs a user"),
        (("nats://localhost", "s"), {"max_num_records": 0}, "max_num_records must be more than 0, got 0"),
        (("nats://localhost", "s"), {"durable": "d", "bounded": True}, "a bounded read has no checkpoints"),
        (("nats://localhost", "s"), {"tls": {"cafile": "a"}}, "tls has ca_file, cert_file, key_file; got 'cafile'"),
        (("nats://localhost", "s"), {"tls": {"ca_file": "/nowhere"}}, "the files of tls can't be read"),
    ],
)
def test_bad_options_are_refused_when_the_pipeline_is_built(arguments: Any, options: dict[str, Any], said: str) -> None:
    """With the name of the transform, and without secrets."""
    with pytest.raises(ValueError, match=f"ReadFromNats: .*{said}") as raised:
        ReadFromNats(*arguments, **options)
    assert "secret" not in str(raised.value)


def test_credentials_are_text() -> None:
    """Named in the error."""
    with pytest.raises(TypeError, match="ReadFromNats: token must be text, got int"):
        ReadFromNats("nats://localhost", "s", token=5)  # type: ignore[arg-type]


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the pipeline is built."""
    monkeypatch.setitem(sys.modules, "nats", None)
    with pytest.raises(MissingExtraError, match=r"penstock\[nats\]"):
        ReadFromNats("nats://localhost", "s")


def test_a_server_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """At once in the log; and after a while as the error of the run."""
    monkeypatch.setattr("penstock.io.nats.client.called.__defaults__", (SourceError, 0.3))
    caplog.set_level(logging.WARNING)
    p = beam.Pipeline("local", options=PipelineOptions([], max_restarts=0))
    _ = p | ReadFromNats(f"nats://127.0.0.1:{free_port()}", "s")
    with pytest.raises(
        SourceError, match=r"NATS at nats://127.0.0.1:\d+: .*; is a server with JetStream running there"
    ):
        p.run().wait_until_finish()
    assert "doesn't answer (" in caplog.text
