"""WriteToNats on a real server: messages of commits, once, and streams from one to another."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from servers.nats_server import NatsServer, Stream
from support.programs.running_program import wait_until
from support.runners.local_variants import EVERY_RUNNER
from support.runners.micro_batches import runner_of

import penstock as beam
from penstock.io import ReadFromNats, WriteToNats
from penstock.io.connections.waiting import stop_waiting, wait_again
from penstock.io.nats.write import Streams
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import PenstockError, RejectedRecordError, SinkError
from penstock.sdk.sink import LabelledSink
from penstock.testing.util import assert_that, equal_to

# Seconds: `OUTAGE=60 pytest tests/io/nats -k lost_connection` loses a connection for a minute.
OUTAGE = float(os.environ.get("OUTAGE", "0.3"))


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
def test_every_runner_writes_what_it_reads(stream: Stream, other_stream: Stream, make_pipeline: Any) -> None:
    """Bounded, there and back."""
    name = stream.name
    with make_pipeline() as p:
        write = WriteToNats(
            stream.url,
            lambda n: f"{name}.{'even' if n % 2 == 0 else 'odd'}",
            data=lambda n: b"%d" % n,
            headers=lambda n: {"tens": str(n // 10)},
        )
        _ = p | beam.Create(range(40)) | write
    with make_pipeline() as p:
        found = p | ReadFromNats(stream.url, stream.name, f"{stream.name}.even", bounded=True)
        both = found | beam.Map(lambda message: (int(message.data), message.headers["tens"]))
        assert_that(both, equal_to([(n, str(n // 10)) for n in range(0, 40, 2)]))


@pytest.mark.parametrize("runner", ["local", pytest.param("spark-microbatch", marks=pytest.mark.spark)])
def test_a_stream_goes_on_where_it_stopped(
    stream: Stream,
    other_stream: Stream,
    runner: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From stream to stream, stopped and started again: each message once."""
    monkeypatch.setattr("penstock.io.nats.acknowledging._ACK_WAIT", 1.0)
    written = 0
    for _ in range(2):
        made, options = runner_of(request, runner)
        p = beam.Pipeline(made, options=PipelineOptions([], checkpoint_dir=str(tmp_path / "kept"), **options))
        read = ReadFromNats(stream.url, stream.name, durable="copy")
        write = WriteToNats(stream.url, f"{other_stream.name}.n", data=lambda message: message.data)
        _ = p | read | beam.Reshuffle() | write
        result = p.run()
        stream.write(range(written, written + 20))
        written += 20
        wait_until(lambda n=written: len(other_stream.values()) >= n, "the messages were copied")
        # After the commit, which is seen before; a stop may come first.
        wait_until(lambda n=written: _acknowledged(stream) == n, "the durable consumer follows")
        result.stop_with_savepoint() if runner == "local" else result.cancel()
        assert list(range(written)) == sorted(other_stream.values())


def _acknowledged(stream: Stream) -> int:
    return int(stream.server.call(lambda js: js.consumer_info(stream.name, "copy")).ack_floor.stream_seq)


def test_a_repeated_commit_writes_no_message_twice(stream: Stream) -> None:
    """The server has their ids."""
    sink = LabelledSink(WriteToNats(stream.url, f"{stream.name}.n").sink, "WriteToNats")
    sink.prepare("run/1")
    writer = sink.sink.open_writer(sink.context("run/1", "unit"))
    writer.write(Bundle([b"1", b"2", b"1"]))
    token = writer.stage()
    assert [] == stream.values()
    for _ in range(3):
        sink.commit("run/1", [token, None])
    assert [1, 2, 1] == stream.values()


def test_what_cannot_be_written_is_an_error(stream: Stream, nats_server: NatsServer) -> None:
    """Before the run for a missing stream; of the element for what doesn't fit."""

    def run(elements: list[Any], *arguments: Any, **options: Any) -> None:
        p = beam.Pipeline("local", options=PipelineOptions([]))
        _ = p | beam.Create(elements) | WriteToNats(stream.url, *arguments, **options)
        p.run().wait_until_finish()

    name = stream.name
    for arguments, options, said in (
        (("nowhere.n",), {}, r"WriteToNats: NATS at nats://\*\*\*@127.* has no stream for 'nowhere.n'; create it"),
        ((f"{name}.n",), {"stream": "missing"}, "has no stream for|has no stream 'missing'"),
        ((lambda _: "nowhere.n",), {}, "has no stream for 'nowhere.n'; create it"),
        ((lambda _: "a b",), {}, "expected a subject without wildcards and spaces, got 'a b'"),
        ((f"{name}.n",), {"data": str}, "expected bytes, got .*; data=... must return bytes"),
        ((f"{name}.n",), {"headers": lambda _: {"a": "b\nc"}}, "a header has a line break"),
    ):
        with pytest.raises(SinkError, match=said):
            run([b"1"], *arguments, **options)
    with pytest.raises(PenstockError, match="expected bytes, got 5; give a function to bytes by data=..."):
        run([5], f"{name}.n")
    with pytest.raises(RejectedRecordError, match="a message of 2000000 bytes .* max_payload permits 1048576"):
        run([b"x" * 2_000_000], f"{name}.n")
    assert [] == stream.values()


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
def test_a_message_that_its_stream_refuses_is_found_before_the_commit(
    nats_server: NatsServer, make_pipeline: Any
) -> None:
    """The stream's `max_msg_size`, in the error with the message; nothing is published."""
    small = Stream(nats_server, max_msg_size=400)
    p = make_pipeline()
    messages = p | beam.Create([b"1", b"x" * 500])
    _ = messages | "Writes" >> WriteToNats(small.url, f"{small.name}.n")
    with pytest.raises(RejectedRecordError, match=r"Writes: .*its stream accepts; max_msg_size permits 400; the mess"):
        p.run()
    assert [] == small.values()


def test_the_headers_of_a_message_count_as_the_server_counts_them(nats_server: NatsServer) -> None:
    """The largest one that fits is stored, and one byte more is refused."""
    small = Stream(nats_server, max_msg_size=400)
    sink = LabelledSink(
        WriteToNats(small.url, f"{small.name}.n", headers=lambda _: {"kind": "test"}, stream=small.name).sink,
        "WriteToNats",
    )
    streams = sink.sink.opened(sink.context("1"))
    largest = 400 - streams._size(b"", {"kind": "test"})
    with pytest.raises(RejectedRecordError, match="its stream accepts"):
        staged(sink, [b"1" * (largest + 1)])
    sink.commit("1", [staged(sink, [b"1" * largest])])
    assert 1 == small.count()


def test_a_message_that_the_stream_refuses_at_the_commit_fails_it_at_once(nats_server: NatsServer) -> None:
    """The stream has changed since the message was staged.  The client drops the server's answer."""
    small = Stream(nats_server, max_msg_size=100)
    sink = LabelledSink(WriteToNats(small.url, f"{small.name}.n").sink, "WriteToNats")
    token = ("id", [(f"{small.name}.n", b"1" * size, None) for size in (10, 500)])
    began = time.monotonic()
    with pytest.raises(RejectedRecordError, match=r"the stream refuses a message .*message size exceeds maximum"):
        sink.commit("1", [token])
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_message_that_is_larger_than_its_stream_is_found_before_the_commit(
    nats_server: NatsServer, storage: str
) -> None:
    """The server acknowledges it and drops it at once; one byte less is stored."""
    small = Stream(nats_server, max_bytes=400, storage=storage)
    sink = LabelledSink(WriteToNats(small.url, f"{small.name}.n").sink, "WriteToNats")
    with pytest.raises(RejectedRecordError, match=r"larger than its whole stream: .* max_bytes permits 400"):
        staged(sink, [b"1" * 400])
    streams = sink.sink.opened(sink.context("1"))
    largest = 400 - streams.limits[f"{small.name}.n"].besides - streams._size(b"", None)
    with pytest.raises(RejectedRecordError, match="larger than its whole stream"):
        staged(sink, [b"1" * (largest + 1)])
    sink.commit("1", [staged(sink, [b"1" * largest])])
    assert 1 == small.count()


def test_a_stream_that_is_full_is_waited_for(nats_server: NatsServer, caplog: pytest.LogCaptureFixture) -> None:
    """It answers, and the log says so; once it has room, the rest is stored."""
    full = Stream(nats_server, max_msgs=2, discard="new")
    sink = LabelledSink(WriteToNats(full.url, f"{full.name}.n").sink, "WriteToNats")
    token = staged(sink, [b"1", b"2", b"3", b"4"])
    with ThreadPoolExecutor() as pool:
        committed = pool.submit(sink.commit, "1", [token])
        wait_until(lambda: "can't do it yet (the stream has no room for a message" in caplog.text, "the log says it")
        assert [1, 2] == full.values()
        nats_server.call(lambda js: js.purge_stream(full.name))
        committed.result(20)
    assert [3, 4] == full.values()


@pytest.mark.parametrize("is_to_stop", [False, True], ids=["time", "signal"])
def test_a_stream_that_stays_full_fails_the_commit(
    nats_server: NatsServer, is_to_stop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a minute, and soon when a signal asks the program to stop; the error names the limits."""
    monkeypatch.setattr("penstock.io.connections.waiting.WAITS_WHILE_BUSY", 60.0 if is_to_stop else 0.5)
    full = Stream(nats_server, max_msgs=1, discard="new")
    sink = LabelledSink(WriteToNats(full.url, f"{full.name}.n").sink, "WriteToNats")
    token = staged(sink, [b"1", b"2"])
    expected = (
        r"transaction '1' can't be published: .*the stream has no room for a message for '.*': maximum messages "
        r"exceeded; delete messages, or raise its limits \(max_msgs, max_bytes\)$"
    )
    if is_to_stop:
        stop_waiting()
        expected = f"{expected}|the program was asked to stop$"
    began = time.monotonic()
    try:
        with pytest.raises(SinkError, match=expected):
            sink.commit("1", [token])
    finally:
        wait_again()
    assert time.monotonic() - began < 20


def test_a_commit_that_waits_for_a_server_ends_when_the_program_is_to_stop(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    """As a signal asks it to."""
    sink = LabelledSink(WriteToNats("nats://127.0.0.1:1", f"{stream.name}.n").sink, "WriteToNats")
    with ThreadPoolExecutor() as pool:
        committed = pool.submit(sink.commit, "1", [("id", [(f"{stream.name}.n", b"1", None)])])
        try:
            wait_until(lambda: "doesn't answer" in caplog.text, "the commit waits")
            assert not committed.done()
            stop_waiting()
            with pytest.raises(SinkError, match="transaction '1' can't be published"):
                committed.result(20)
        finally:
            wait_again()


def test_a_commit_goes_on_while_the_server_answers_though_the_program_is_to_stop(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes longer than a server that doesn't answer is waited for."""
    publish = Streams._publish

    async def slowly(streams: Streams, js: Any, messages: Any) -> None:
        await asyncio.sleep(0.5)
        await publish(streams, js, messages)

    monkeypatch.setattr(Streams, "_publish", slowly)
    monkeypatch.setattr("penstock.io.nats.write._AT_ONCE", 1)
    sink = LabelledSink(WriteToNats(stream.url, f"{stream.name}.n").sink, "WriteToNats")
    token = staged(sink, [b"%d" % n for n in range(8)])
    stop_waiting()
    try:
        sink.commit("1", [token])
    finally:
        wait_again()
    assert list(range(8)) == stream.values()


def staged(sink: Any, messages: list[bytes]) -> Any:
    sink.prepare("1")
    writer = sink.sink.open_writer(sink.context("1", "unit"))
    writer.write(Bundle(messages))
    return writer.stage()
