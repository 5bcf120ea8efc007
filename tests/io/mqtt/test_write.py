"""WriteToMqtt on a real broker: the messages of commits, at least once, each with its id."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from servers.mosquitto import Mosquitto
from support.programs.running_program import wait_until
from support.runners.local_variants import EVERY_RUNNER

import penstock as beam
from penstock.io import WriteToMqtt
from penstock.io.connections.waiting import stop_waiting, wait_again
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.spark import SparkMicroBatchRunner
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import SinkError
from penstock.sdk.sink import LabelledSink


def to_bytes(n: int) -> bytes:
    return b"%d" % n


class Subscriber:
    """What a subscriber gets."""

    def __init__(self, mosquitto: Mosquitto, topic: str) -> None:
        self.found: list[Any] = []
        self.client = mosquitto.client()
        subscribed: list[int] = []
        self.client.on_subscribe = lambda *_: subscribed.append(1)
        self.client.on_message = lambda client, userdata, message: self.found.append(message)
        self.client.subscribe(topic, 2)
        wait_until(lambda: subscribed, "it has subscribed")

    def payloads(self) -> list[tuple[str, bytes]]:
        return [(message.topic, message.payload) for message in self.found]

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
def subscriber(mosquitto: Mosquitto, topic: str) -> Any:
    made = Subscriber(mosquitto, f"{topic}/#")
    yield made
    made.close()


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
@pytest.mark.parametrize("qos", [1, 2])
def test_every_runner_writes(
    mosquitto: Mosquitto, topic: str, subscriber: Subscriber, make_pipeline: Any, qos: int
) -> None:
    """To topics by element, with ids that differ."""
    with make_pipeline() as p:
        write = WriteToMqtt(
            mosquitto.url, lambda n: f"{topic}/{n % 2}", payload=lambda n: b"%d" % n, qos=qos, retain=True
        )
        _ = p | beam.Create(range(50)) | write
    wait_until(lambda: len(subscriber.found) >= 50, "the messages came")
    assert sorted((f"{topic}/{n % 2}", b"%d" % n) for n in range(50)) == sorted(subscriber.payloads())
    assert {qos} == {message.qos for message in subscriber.found}
    assert 50 == len({dict(message.properties.UserProperty)["penstock-id"] for message in subscriber.found})


def test_a_run_leaves_no_connection_behind(mosquitto: Mosquitto, topic: str) -> None:
    """A connection has a thread, in the process that commits."""
    before = set(threading.enumerate())
    with beam.Pipeline("local") as p:
        _ = p | beam.io.GenerateSequence(0, 20, 100, 1) | WriteToMqtt(mosquitto.url, f"{topic}/n", payload=to_bytes)
    assert [] == [thread.name for thread in set(threading.enumerate()) - before if "mqtt" in thread.name]


def test_micro_batches_write(
    spark: Any, mosquitto: Mosquitto, topic: str, subscriber: Subscriber, tmp_path: Path
) -> None:
    """Each batch what it has."""
    options = PipelineOptions([], checkpoint_dir=str(tmp_path / "kept"))
    p = beam.Pipeline(SparkMicroBatchRunner(spark), options=options)
    _ = p | beam.io.GenerateSequence(0, 20, 100, 1) | WriteToMqtt(mosquitto.url, f"{topic}/n", payload=to_bytes)
    p.run().wait_until_finish()
    wait_until(lambda: len(subscriber.found) >= 20, "the messages came")
    assert sorted(map(to_bytes, range(20))) == sorted(payload for _, payload in subscriber.payloads())


def test_a_repeated_commit_doubles_messages_with_their_ids(
    mosquitto: Mosquitto, topic: str, subscriber: Subscriber
) -> None:
    """By which a reader drops them; nothing is published before the commit."""
    sink = LabelledSink(WriteToMqtt(mosquitto.url, f"{topic}/a").sink, "WriteToMqtt")
    sink.prepare("run/1")
    writer = sink.sink.open_writer(sink.context("run/1", "unit"))
    writer.write(Bundle([b"1", b"2"]))
    token = writer.stage()
    for _ in range(2):
        sink.commit("run/1", [token, None])
    wait_until(lambda: len(subscriber.found) >= 4, "the messages came")
    ids = [dict(message.properties.UserProperty)["penstock-id"] for message in subscriber.found]
    assert [b"1", b"2", b"1", b"2"] == [message.payload for message in subscriber.found]
    assert ids[:2] == ids[2:]
    assert ids[0] != ids[1]


def test_a_token_of_an_earlier_version_is_published(mosquitto: Mosquitto, topic: str, subscriber: Subscriber) -> None:
    """It had the messages themselves."""
    sink = LabelledSink(WriteToMqtt(mosquitto.url, f"{topic}/a").sink, "WriteToMqtt")
    sink.commit("run/1", [("a1b2", [(f"{topic}/a", b"1"), (f"{topic}/b", b"2")])])
    wait_until(lambda: len(subscriber.found) >= 2, "the messages came")
    assert [(f"{topic}/a", b"1"), (f"{topic}/b", b"2")] == subscriber.payloads()
    sink.close()


class LateAnswers:
    """Answers of a broker to messages, which come so many seconds after the first of them was published."""

    def __init__(self, *seconds: float) -> None:
        self._seconds = list(seconds)
        self._began = time.monotonic()
        self._count = 0

    def publish(self, client: Any, *arguments: Any) -> Any:
        """Take the place of the client's method."""
        number, self._count = self._count, self._count + 1
        delay = self._began + self._seconds[number] - time.monotonic()
        timer = threading.Timer(delay, lambda: client.on_publish(client, None, number, _SUCCESS, None))
        timer.daemon = True
        timer.start()
        return SimpleNamespace(mid=number)


_SUCCESS = SimpleNamespace(is_failure=False)


@pytest.mark.parametrize("stops_answering", [False, True])
def test_a_commit_goes_on_while_the_broker_answers_though_the_program_is_to_stop(
    mosquitto: Mosquitto, topic: str, stops_answering: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may take longer than a broker that doesn't answer is waited for."""
    sink = LabelledSink(WriteToMqtt(mosquitto.url, f"{topic}/a").sink, "WriteToMqtt")
    sink.prepare("run/1")
    writer = sink.sink.open_writer(sink.context("run/1", "unit"))
    writer.write(Bundle([b"%d" % n for n in range(8)]))
    token = writer.stage()
    began = time.monotonic()
    answers = LateAnswers(*[600 if stops_answering and n > 3 else n / 2 for n in range(8)])
    monkeypatch.setattr("paho.mqtt.client.Client.publish", lambda *given: answers.publish(*given))
    stop_waiting()
    try:
        if stops_answering:
            with pytest.raises(SinkError, match="transaction 'run/1' can't be published: .*: no answer for [2-9] s"):
                sink.commit("run/1", [token])
        else:
            sink.commit("run/1", [token])
    finally:
        wait_again()
        sink.close()
    assert 3.4 < time.monotonic() - began < 20


def test_what_cannot_be_written_is_an_error(mosquitto: Mosquitto, topic: str, subscriber: Subscriber) -> None:
    """Of the element, with the label of the transform."""
    for element, arguments, options, said in (
        (5, (topic,), {}, "WriteToMqtt: expected bytes, got 5; give a function to bytes by payload=..."),
        (5, (topic,), {"payload": str}, "expected bytes, got '5'; payload must return bytes"),
        (b"1", (lambda _: "a/#",), {}, "expected a topic without wildcards, got 'a/#'"),
    ):
        p = beam.Pipeline("local", options=PipelineOptions([]))
        _ = p | beam.Create([element]) | WriteToMqtt(mosquitto.url, *arguments, **options)
        with pytest.raises(SinkError, match=said):
            p.run().wait_until_finish()
    assert [] == subscriber.found


def test_bad_options_are_refused_when_the_pipeline_is_built() -> None:
    """With the name of the transform."""
    for arguments, options, said in (
        (("mqtt://localhost", "a/+"), {}, "expected a topic without wildcards, or a function, got 'a/[+]'"),
        (("mqtt://localhost", "a"), {"qos": 0}, "qos must be 1 or 2, got 0: with 0 messages may be lost"),
    ):
        with pytest.raises(ValueError, match=f"WriteToMqtt: {said}"):
            WriteToMqtt(*arguments, **options)
    with pytest.raises(TypeError, match="WriteToMqtt: payload must be a function"):
        WriteToMqtt("mqtt://localhost", "a", payload="b")  # type: ignore[arg-type]
