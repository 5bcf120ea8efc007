"""WriteToPubSub on Google's test server."""

from __future__ import annotations

from typing import Any

import pytest
from servers.pubsub_server import PubsubServer
from support.runners.local_variants import EVERY_RUNNER

import penstock as beam
from penstock.io import PubsubMessage, ReadFromPubSub, WriteStringsToPubSub, WriteToPubSub
from penstock.io.pubsub.client import Resource
from penstock.sdk.errors import SinkError
from penstock.testing.util import assert_that, equal_to


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
def test_a_pipeline_on_each_runner_writes_each_message_once(
    pubsub: PubsubServer, name: str, make_pipeline: Any
) -> None:
    with make_pipeline() as p:
        _ = p | beam.Create([b"%d" % n for n in range(50)]) | WriteToPubSub(pubsub.topic(name))
    messages = pubsub.pull(name)
    assert list(range(50)) == sorted(int(message.data) for message in messages)
    assert 50 == len({message.attributes["penstock-id"] for message in messages})


def test_messages_have_attributes_times_and_keys(pubsub: PubsubServer, name: str) -> None:
    with beam.Pipeline() as p:
        message = PubsubMessage(b"click", {"user": "ann"}, ordering_key="ann")
        timed = p | beam.Create([message]) | beam.WithTimestamps(lambda _: 1.5)
        options = {"with_attributes": True, "id_label": "id", "timestamp_attribute": "at"}
        _ = timed | WriteToPubSub(pubsub.topic(name), **options)
    (found,) = pubsub.pull(name)
    assert ("1970-01-01T00:00:01.500000Z", "ann") == (found.attributes["at"], found.attributes["user"])
    assert ("ann", {"at", "user", "id"}) == (found.ordering_key, set(found.attributes))


def test_a_commit_that_is_repeated_is_read_once(pubsub: PubsubServer, name: str) -> None:
    """By the id of each message."""
    from penstock.sdk.elements.bundle import Bundle
    from penstock.sdk.sink import LabelledSink

    sink = LabelledSink(WriteToPubSub(pubsub.topic(name), id_label="id").sink, "Write")
    sink.prepare("one")
    writer = sink.sink.open_writer(sink.context("one", "unit"))
    writer.write(Bundle([b"1", b"2"]))
    staged = [writer.stage()]
    for _ in range(2):
        sink.commit("one", staged)
    sink.sink.close()
    with beam.Pipeline() as p:
        read = ReadFromPubSub(subscription=pubsub.subscription(name), id_label="id", max_read_time=1)
        assert_that(p | read, equal_to([b"1", b"2"]))


def test_texts_are_written(pubsub: PubsubServer, name: str) -> None:
    with beam.Pipeline() as p:
        _ = p | beam.Create(["größer"]) | WriteStringsToPubSub(pubsub.topic(name))
    assert ["größer".encode()] == [message.data for message in pubsub.pull(name)]


@pytest.mark.parametrize(
    ("elements", "options", "message"),
    [
        (["text"], {}, "expected bytes, got 'text'; encode it, or use with_attributes=True"),
        ([b"1"], {"with_attributes": True}, "expected a PubsubMessage, got b'1'"),
        ([b"1"], {"timestamp_attribute": "at"}, "an element has no event time for the attribute 'at'"),
    ],
)
def test_wrong_elements_are_refused(
    pubsub: PubsubServer, name: str, elements: list[Any], options: Any, message: str
) -> None:
    p = beam.Pipeline()
    _ = p | beam.Create(elements) | WriteToPubSub(pubsub.topic(name), **options)
    with pytest.raises(SinkError, match=message):
        p.run()
    assert [] == pubsub.pull(name)


def test_a_missing_topic_is_named(pubsub: PubsubServer) -> None:
    p = beam.Pipeline()
    _ = p | beam.Create([b"1"]) | WriteToPubSub(pubsub.topic("nothing"))
    with pytest.raises(SinkError, match="gcloud pubsub topics create nothing"):
        p.run()


def test_errors_of_rights_and_of_quotas_say_what_to_do() -> None:
    exceptions = pytest.importorskip("google.api_core.exceptions")
    topic = Resource.of("Send", "projects/shop/topics/orders", "topics")
    for error, said in (
        (exceptions.PermissionDenied("denied"), "role Pub/Sub Subscriber, or Publisher"),
        (exceptions.ResourceExhausted("too many"), "a quota of the project is exhausted"),
        (exceptions.NotFound("none"), "gcloud pubsub topics create orders"),
    ):
        assert said in str(topic.error("can't be written to", error, SinkError))
