"""ReadFromMqtt on a real broker: messages of a session, each once if it has an id, whatever fails."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from servers.loopback_server import free_port, lasting_port
from servers.mosquitto import Mosquitto
from servers.severed import SeverableProxy
from support.programs.running_program import wait_until
from support.runners.local_variants import EVERY_RUNNER
from support.runners.micro_batches import runner_of

import penstock as beam
from penstock.io import MqttMessage, ReadFromMqtt, WriteToMqtt
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import MissingExtraError, SourceError, UnsupportedError
from penstock.testing.util import assert_that, equal_to
from penstock.windowing import Timestamp

# Seconds: `OUTAGE=60 pytest tests/io/mqtt -k lost_connection` loses a connection for a minute.
OUTAGE = float(os.environ.get("OUTAGE", "0.3"))
NOW = Timestamp(2_000_000_000)


def numbers(start: int, stop: int) -> list[bytes]:
    return [b"%d" % n for n in range(start, stop)]


def by_payload(message: MqttMessage) -> bytes:
    return message.payload


def source_of(read: Any) -> Any:
    """The source of a transform, as a pipeline on a streaming runner has it."""
    p = beam.Pipeline("local")
    _ = p | read
    (source,) = (t.primitive.source for t in p.graph().transforms if hasattr(t.primitive, "source"))
    return source


def polled(reader: Any, count: int) -> list[bytes]:
    """The next payloads of a reader, waited for; and those that come within a moment, if there should be none."""
    found: list[bytes] = []

    def has_come() -> bool:
        bundle = reader.poll(1000, NOW)
        found.extend(message.payload for message in (bundle.values if bundle is not None else []))
        return len(found) >= count

    if count:
        wait_until(has_come, f"{count} messages came")
    for _ in range(10):
        has_come()
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_a_bounded_read_on_each_runner(mosquitto: Mosquitto, topic: str, make_pipeline: Any, protocol: str) -> None:
    """The messages that are published while it reads; it takes none from a session."""
    stops = threading.Event()

    def publish() -> None:
        n = 0
        while not stops.wait(0.05):
            mosquitto.publish(f"{topic}/n", [b"%d" % n])
            n += 1

    publishing = threading.Thread(target=publish)
    publishing.start()
    try:
        with make_pipeline() as p:
            read = ReadFromMqtt(mosquitto.url, f"{topic}/+", max_num_records=5, protocol=protocol)
            found = p | read | beam.Map(lambda message: int(message.payload))
            count = found | beam.combiners.Count.Globally()
            assert_that(count, equal_to([5]))
    finally:
        stops.set()
        publishing.join()


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
def test_a_bounded_read_ends_after_a_time(mosquitto: Mosquitto, topic: str, make_pipeline: Any) -> None:
    """With a message that the broker has retained."""
    mosquitto.publish(topic, [b"kept"], retain=True)
    with make_pipeline() as p:
        read = ReadFromMqtt(mosquitto.url, topic, max_read_time=0.5)
        assert_that(p | read, equal_to([MqttMessage(topic, b"kept", 1, True, {})]))


def test_messages_that_no_checkpoint_covers_come_again(mosquitto: Mosquitto, topic: str) -> None:
    """To a reader at the position of the checkpoint, each once; also of those whose acknowledgement was lost."""
    source = source_of(ReadFromMqtt(mosquitto.url, topic, client_id=topic, id_fn=by_payload))
    reader = source.open("session", None)
    mosquitto.publish(topic, numbers(0, 10))
    assert numbers(0, 10) == polled(reader, 10)
    first = reader.offset()
    mosquitto.publish(topic, numbers(10, 15))
    assert numbers(10, 15) == polled(reader, 5)
    reader.close()
    # The first position is durable, and wasn't acknowledged.
    again = source.open("session", first)
    mosquitto.publish(topic, numbers(15, 18))
    assert numbers(10, 18) == polled(again, 8)
    assert 0 == again.backlog()
    again.acknowledge(again.offset())
    last = again.offset()
    again.close()
    mosquitto.publish(topic, numbers(18, 20))
    third = source.open("session", last)
    assert numbers(18, 20) == polled(third, 2)
    third.close()


def test_messages_without_ids_come_at_least_once(mosquitto: Mosquitto, topic: str) -> None:
    """Equal ones aren't dropped."""
    source = source_of(ReadFromMqtt(mosquitto.url, topic, client_id=topic))
    reader = source.open("session", None)
    mosquitto.publish(topic, [b"a", b"a", b"b"])
    assert [b"a", b"a", b"b"] == polled(reader, 3)
    position = reader.offset()
    reader.close()
    again = source.open("session", position)
    assert [b"a", b"a", b"b"] == polled(again, 3)
    again.close()


def test_more_are_in_flight_than_brokers_permit_by_themselves(mosquitto: Mosquitto, topic: str) -> None:
    """As many as the option says, before one is acknowledged."""
    source = source_of(ReadFromMqtt(mosquitto.url, topic, client_id=topic, id_fn=by_payload, max_in_flight=300))
    reader = source.open("session", None)
    mosquitto.publish(topic, numbers(0, 500))
    found = polled(reader, 300)
    assert numbers(0, 300) == found
    reader.acknowledge(reader.offset())
    assert numbers(300, 500) == polled(reader, 200)
    reader.close()


@pytest.mark.parametrize("seconds", [0.2, 0])
def test_a_connection_that_is_lost_doubles_nothing(
    mosquitto: Mosquitto, topic: str, caplog: pytest.LogCaptureFixture, seconds: float
) -> None:
    """While the process lives, not even without ids; it is said once, and that the broker answers again.

    Nor if it is lost again before the broker has repeated all messages.
    """
    with SeverableProxy.running(mosquitto.port, lasting_port()) as proxy:
        source = source_of(ReadFromMqtt(f"mqtt://127.0.0.1:{proxy.port}", topic, client_id=topic))
        reader = source.open("session", None)
        mosquitto.publish(topic, numbers(0, 10))
        assert numbers(0, 5) == _taken(reader, 5)
        position = reader.offset()
        for _ in range(2):
            caplog.clear()
            proxy.sever()
            wait_until(lambda: "doesn't answer" in caplog.text, "it is said")
            reader.acknowledge(position)
            proxy.join()
            wait_until(lambda: "answers again, after" in caplog.text, "it is said")
            time.sleep(seconds)
        mosquitto.publish(topic, numbers(10, 12))
        assert numbers(5, 12) == polled(reader, 7)
        reader.acknowledge(reader.offset())
        reader.close()
        wait_until(lambda: proxy.ends == 0, "the broker has read the acknowledgements")
        again = source.open("session", reader.offset())
        assert [] == polled(again, 0)
        again.close()


def _taken(reader: Any, count: int) -> list[bytes]:
    wait_until(lambda: reader.backlog() >= count, "messages came")
    return [message.payload for message in reader.poll(count, NOW).values]


def test_a_session_that_the_broker_has_lost(mosquitto: Mosquitto, topic: str, caplog: Any) -> None:
    """Is an error, since messages may be lost, unless the options say otherwise."""
    position = (3, b"")
    source = source_of(ReadFromMqtt(mosquitto.url, topic, client_id=topic))
    with pytest.raises(SourceError, match=rf"MQTT broker at .* has no session of '{topic}' any more, so messages may"):
        source.open("session", position)
    going_on = source_of(ReadFromMqtt(mosquitto.url, topic, client_id=topic, on_lost_session="continue"))
    reader = going_on.open("session", position)
    mosquitto.publish(topic, [b"1"])
    assert [b"1"] == polled(reader, 1)
    assert "reading goes on (on_lost_session='continue')" in caplog.text
    reader.close()


def test_a_session_has_one_reader(mosquitto: Mosquitto, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second pipeline and the first one take it over from each other, until one says so."""
    monkeypatch.setattr("penstock.io.mqtt.client._OFTEN", 2)
    source = source_of(ReadFromMqtt(mosquitto.url, topic, client_id=topic))
    first = source.open("session", None)
    second = source.open("session", None)

    said: dict[Any, str] = {}

    def is_refused() -> bool:
        for reader in (first, second):
            try:
                reader.poll(1, NOW)
            except SourceError as error:
                said[reader] = str(error)
        return bool(said)

    wait_until(is_refused, "a reader says it")
    ((refused, text),) = said.items()
    assert "another connection has taken over the session of this client id" in text
    mosquitto.publish(topic, [b"1"])
    assert [b"1"] == polled(second if refused is first else first, 1)
    first.close()
    second.close()


@pytest.mark.parametrize(
    ("runner", "qos"), [("local", 1), ("local", 2), pytest.param("spark-microbatch", 1, marks=pytest.mark.spark)]
)
def test_a_stream_goes_on_where_it_stopped(
    mosquitto: Mosquitto, topic: str, other_topic: str, tmp_path: Path, runner: str, qos: int, request: Any
) -> None:
    """From topic to topic, stopped and started again; another pipeline reads what the first one has written."""
    reader = source_of(ReadFromMqtt(mosquitto.url, other_topic, client_id=other_topic)).open("session", None)
    mosquitto.publish(topic, [])
    source_of(ReadFromMqtt(mosquitto.url, topic, client_id=topic)).open("session", None).close()
    found: list[bytes] = []
    for start in (0, 20):
        mosquitto.publish(topic, numbers(start, start + 10))
        made, flags = runner_of(request, runner)
        p = beam.Pipeline(made, options=PipelineOptions([], checkpoint_dir=str(tmp_path / "kept"), **flags))
        read = ReadFromMqtt(mosquitto.url, topic, client_id=topic, id_fn=by_payload)
        write = WriteToMqtt(mosquitto.url, other_topic, payload=by_payload, qos=qos)
        _ = p | read | beam.Reshuffle() | write
        result = p.run()
        mosquitto.publish(topic, numbers(start + 10, start + 20))
        found += polled(reader, 20)
        result.stop_with_savepoint() if runner == "local" else result.cancel()
    found += polled(reader, 0)
    reader.close()
    assert list(range(40)) == sorted(map(int, found))


def test_batches_refuse_it_by_name(mosquitto: Mosquitto, topic: str, spark: Any) -> None:
    """An unbounded session can't be read to an end."""
    from penstock.runners.spark import SparkBatchRunner

    p = beam.Pipeline(SparkBatchRunner(spark_session=spark))
    _ = p | ReadFromMqtt(mosquitto.url, topic, client_id=topic)
    with pytest.raises(UnsupportedError, match="ReadFromMqtt"):
        p.run()


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("localhost:1883", "a"), {}, "expected a URL such as 'mqtt://localhost:1883'"),
        (("http://ann:secret@localhost", "a"), {}, r"got 'http://\*\*\*@localhost'"),
        (("mqtt://localhost", []), {}, "expected filters of topics"),
        (("mqtt://localhost", "a/#/b"), {}, "expected filters of topics .*, got 'a/#/b'"),
        (("mqtt://localhost", "a"), {}, "give a client_id, which names the session"),
        (("mqtt://localhost", "a"), {"client_id": ""}, "client_id must be a text, got ''"),
        (("mqtt://localhost", "a"), {"client_id": "c", "max_in_flight": 70_000}, "max_in_flight must be from 1 to"),
        (("mqtt://localhost", "a"), {"client_id": "c", "protocol": "4"}, "protocol must be '5' or '3.1.1', got '4'"),
        (("mqtt://localhost", "a"), {"client_id": "c", "on_lost_session": "skip"}, "must be 'fail' or 'continue'"),
        (("mqtt://localhost", "a"), {"client_id": "c", "password": "secret"}, "a password needs a username"),
        (("mqtt://localhost", "a"), {"client_id": "c", "tls": {}}, "tls needs a URL with 'mqtts://'"),
        (("mqtts://localhost", "a"), {"tls": {"ca_file": "/nowhere"}}, "the files of tls can't be read"),
        (("mqtt://localhost", "a"), {"max_read_time": -1}, "max_read_time must be more than 0, got -1"),
    ],
)
def test_bad_options_are_refused_when_the_pipeline_is_built(arguments: Any, options: dict[str, Any], said: str) -> None:
    """With the name of the transform, and without secrets."""
    with pytest.raises(ValueError, match=f"ReadFromMqtt: .*{said}") as raised:
        ReadFromMqtt(*arguments, **options)
    assert "secret" not in str(raised.value)


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the pipeline is built."""
    monkeypatch.setitem(sys.modules, "paho.mqtt.client", None)
    with pytest.raises(MissingExtraError, match=r"penstock\[mqtt\]"):
        ReadFromMqtt("mqtt://localhost", "a", client_id="c")


def test_a_broker_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """At once in the log; and after a while as the error of the run."""
    monkeypatch.setattr("penstock.io.mqtt.client.REACHED_WITHIN", 1.0)
    caplog.set_level(logging.WARNING)
    p = beam.Pipeline("local", options=PipelineOptions([], max_restarts=0))
    _ = p | ReadFromMqtt(f"mqtt://127.0.0.1:{free_port()}", "a", client_id="c")
    with pytest.raises(
        SourceError, match=r"MQTT broker at mqtt://127.0.0.1:\d+: no answer for 1 s .*; is a broker runn"
    ):
        p.run().wait_until_finish()
    assert "doesn't answer (" in caplog.text
