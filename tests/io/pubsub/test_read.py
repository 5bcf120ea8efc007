"""ReadFromPubSub on Google's test server: each message once, whatever fails."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest
from servers.pubsub_server import PubsubServer
from support.programs.running_program import wait_until
from support.runners.local_variants import EVERY_RUNNER
from support.runners.micro_batches import runner_of

import penstock as beam
from penstock.io import PubsubMessage, ReadFromPubSub, ReadStringsFromPubSub
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import PipelineError, SourceError
from penstock.testing.util import assert_that, equal_to
from penstock.windowing import Timestamp

NOW = Timestamp.now()


def numbers(start: int, stop: int) -> list[bytes]:
    return [b"%d" % n for n in range(start, stop)]


def source_of(read: Any) -> Any:
    """The source of a transform, as a pipeline on a streaming runner has it."""
    p = beam.Pipeline("local")
    _ = p | read
    (source,) = (t.primitive.source for t in p.graph().transforms if hasattr(t.primitive, "source"))
    return source


def polled(reader: Any, count: int) -> list[Any]:
    """The next elements of a reader, waited for, in order."""
    found: list[Any] = []

    def has_come() -> bool:
        bundle = reader.poll(1000, NOW)
        found.extend(bundle.values if bundle is not None else [])
        return len(found) >= count

    wait_until(has_come, f"{count} messages came")
    return sorted(found, key=lambda data: int(data if isinstance(data, bytes) else data.data))


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
def test_a_bounded_read_on_each_runner(pubsub: PubsubServer, name: str, make_pipeline: Any, request: Any) -> None:
    if request.getfixturevalue("runner_name").startswith("spark"):
        request.getfixturevalue("spark").sparkContext.environment.update(pubsub.environment)
    pubsub.publish(name, numbers(0, 20))
    with make_pipeline() as p:
        read = p | ReadFromPubSub(subscription=pubsub.subscription(name), max_num_records=20)
        assert_that(read, equal_to(numbers(0, 20)))
    pulled: set[bytes] = set()
    wait_until(lambda: pulled.update(each.data for each in pubsub.pull(name)) or len(pulled) == 20, "they come again")


def test_a_run_in_batch_that_fails_loses_no_message(pubsub: PubsubServer, name: str) -> None:
    """The next one reads them."""
    pubsub.publish(name, numbers(0, 5))
    read = ReadFromPubSub(subscription=pubsub.subscription(name), max_num_records=5)
    p = beam.Pipeline()
    _ = p | read | beam.GroupBy(lambda _: 0) | beam.Map(lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        p.run()
    with beam.Pipeline() as p:
        assert_that(p | read, equal_to(numbers(0, 5)))


def test_messages_that_no_checkpoint_covers_come_again(pubsub: PubsubServer, name: str) -> None:
    """To a reader at the position of the checkpoint, each once; also of those whose acknowledgement was lost."""
    source = source_of(ReadFromPubSub(subscription=pubsub.subscription(name)))
    (partition,) = source.partitions()
    reader = source.open(partition, None)
    pubsub.publish(name, numbers(0, 10))
    assert numbers(0, 10) == polled(reader, 10)
    first = reader.offset()
    pubsub.publish(name, numbers(10, 15))
    assert numbers(10, 15) == polled(reader, 5)
    reader.close()
    # The first position is durable, and wasn't acknowledged.
    again = source.open(partition, first)
    pubsub.publish(name, numbers(15, 18))
    assert numbers(10, 18) == polled(again, 8)
    again.acknowledge(again.offset())
    again.close()
    # Those of the first position that had not come again by then.
    assert set(numbers(0, 10)) >= {each.data for each in pubsub.pull(name)}


def test_a_lease_that_has_ended_is_no_failure(
    pubsub: PubsubServer, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As a subscription with exactly-once delivery tells it: the messages come again, and are dropped."""
    from google.api_core.exceptions import FailedPrecondition

    source = source_of(ReadFromPubSub(subscription=pubsub.subscription(name)))
    (partition,) = source.partitions()
    reader = source.open(partition, None)
    pubsub.publish(name, numbers(0, 3))
    assert numbers(0, 3) == polled(reader, 3)

    def refuse(**request: Any) -> None:
        raise FailedPrecondition("Some acknowledgement ids in the request were invalid.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader._lease._client, "acknowledge", refuse)
        reader.acknowledge(reader.offset())
    assert "messages will come again, and are dropped: 400 Some acknowledgement ids" in caplog.text
    position = reader.offset()
    reader.close()
    again = source.open(partition, position)
    pubsub.publish(name, numbers(3, 4))
    assert numbers(3, 4) == polled(again, 1)
    again.close()


def test_a_topic_is_read_by_a_subscription_of_its_own(pubsub: PubsubServer, name: str) -> None:
    """Which a checkpoint has: a restart reads on."""
    source = source_of(ReadFromPubSub(topic=pubsub.topic(name)))
    (partition,) = source.partitions()
    reader = source.open(partition, None)
    pubsub.publish(name, numbers(0, 3))
    assert numbers(0, 3) == polled(reader, 3)
    position = reader.offset()
    reader.acknowledge(position)
    reader.close()
    pubsub.publish(name, numbers(3, 5))
    again = source.open(partition, position)
    assert numbers(3, 5) == polled(again, 2)
    again.close()
    assert numbers(0, 5) == sorted(message.data for message in pubsub.pull(name))


def test_a_bounded_read_removes_its_subscription(pubsub: PubsubServer, name: str) -> None:
    before = pubsub.subscriptions()
    with beam.Pipeline() as p:
        assert_that(p | ReadFromPubSub(topic=pubsub.topic(name), max_read_time=0.2), equal_to([]))
    assert before == pubsub.subscriptions()


def test_all_workers_of_a_run_know_its_subscription(pubsub: PubsubServer, name: str) -> None:
    """And two runs have two."""
    p = beam.Pipeline()
    _ = p | ReadFromPubSub(topic=pubsub.topic(name))
    (first,), (second,) = (
        [t.primitive.source for t in p.graph().transforms if hasattr(t.primitive, "source")] for _ in range(2)
    )
    sent = pickle.loads(pickle.dumps(first))
    assert first.partitions() == first.partitions() == sent.partitions()
    assert first.partitions() != second.partitions()


@pytest.mark.parametrize("runner", ["local", pytest.param("spark-microbatch", marks=pytest.mark.spark)])
def test_a_drained_run_removes_its_subscription(
    pubsub: PubsubServer, name: str, tmp_path: Any, runner: str, request: Any
) -> None:
    """And nothing that it has read is lost."""
    before = pubsub.subscriptions()
    made, flags = runner_of(request, runner)
    p = beam.Pipeline(made, options=PipelineOptions([], checkpoint_dir=str(tmp_path / "kept"), **flags))
    read = p | ReadFromPubSub(topic=pubsub.topic(name)) | beam.Map(bytes.decode)
    _ = read | beam.io.WriteToText(tmp_path / "out")
    result = p.run()
    wait_until(lambda: before != pubsub.subscriptions(), "it has subscribed")
    pubsub.publish(name, numbers(0, 10))

    def lines() -> list[bytes]:
        return sorted(line for file in tmp_path.glob("out*") for line in file.read_bytes().split())

    wait_until(lambda: len(lines()) >= 10, "the files have the messages")
    assert "DRAINED" == result.drain()
    assert before == pubsub.subscriptions()
    assert numbers(0, 10) == lines()


def test_messages_with_the_same_id_are_read_once(pubsub: PubsubServer, name: str) -> None:
    for data in numbers(0, 3):
        pubsub.publish(name, [data] * 2, click=f"click {data!r}")
    with beam.Pipeline() as p:
        read = ReadFromPubSub(subscription=pubsub.subscription(name), id_label="click", max_read_time=1)
        assert_that(p | read, equal_to(numbers(0, 3)))


def test_a_message_without_its_id_is_an_error(pubsub: PubsubServer, name: str) -> None:
    pubsub.publish(name, [b"1"], other="x")
    p = beam.Pipeline()
    _ = p | ReadFromPubSub(subscription=pubsub.subscription(name), id_label="click", max_num_records=1)
    with pytest.raises(SourceError, match=r"has no attribute 'click', which id_label names; it has \['other'\]"):
        p.run()


@pytest.mark.parametrize("text", ["1500", "1970-01-01T00:00:01.5Z"])
def test_attributes_have_the_event_time(pubsub: PubsubServer, name: str, text: str) -> None:
    pubsub.publish(name, [b"1"], at=text, user="ann")
    source = source_of(
        ReadFromPubSub(subscription=pubsub.subscription(name), timestamp_attribute="at", with_attributes=True)
    )
    reader = source.open(*source.partitions(), None)
    bundles: list[Any] = []
    wait_until(lambda: bundles.append(reader.poll(10, NOW)) or bundles[-1] is not None, "a message came")
    assert [1_500_000] == bundles[-1].timestamps
    (message,) = bundles[-1].values
    assert PubsubMessage(b"1", {"at": text, "user": "ann"}) == message
    assert message.message_id
    # As nothing is out of order by more.
    assert 1_500_000 - 10_000_000 == reader.watermark(NOW)
    reader.close()


def test_a_wrong_event_time_is_an_error(pubsub: PubsubServer, name: str) -> None:
    pubsub.publish(name, [b"1"], at="soon")
    p = beam.Pipeline()
    _ = p | ReadFromPubSub(subscription=pubsub.subscription(name), timestamp_attribute="at", max_num_records=1)
    with pytest.raises(
        SourceError, match="has 'soon' in the attribute 'at', which timestamp_attribute names; expected"
    ):
        p.run()


def test_the_event_time_is_that_of_publication(
    pubsub: PubsubServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the watermark follows the clock while nothing comes, and the server answers."""
    monkeypatch.setattr("penstock.io.pubsub.lease._LOOKS", 0.1)
    before = Timestamp.now()
    pubsub.publish(name, [b"1"])
    source = source_of(ReadFromPubSub(subscription=pubsub.subscription(name)))
    reader = source.open(*source.partitions(), None)
    bundles: list[Any] = []
    wait_until(lambda: bundles.append(reader.poll(10, NOW)) or bundles[-1] is not None, "a message came")
    assert before.micros <= bundles[-1].timestamps[0] <= Timestamp.now().micros
    later = Timestamp(micros=before.micros + 3600_000_000)
    assert reader.watermark(later) < before.micros
    lease = reader._lease
    lease.last_received -= 60
    wait_until(lambda: lease.last_answered > lease.last_received + 60, "the server is asked")
    found = reader.watermark(later)
    assert later.micros - 11_000_000 < found <= later.micros - 10_000_000
    with pubsub.hanging():
        answered = lease.last_answered
        much_later = Timestamp(micros=later.micros + 3600_000_000)
        found = reader.watermark(Timestamp(micros=much_later.micros + int(1e6 * (time.monotonic() - answered))))
        assert much_later.micros - 11_000_000 < found <= much_later.micros
    reader.close()


def test_the_watermark_waits_for_messages_that_are_not_yet_sent(
    pubsub: PubsubServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since the reader has as many as it may have without an acknowledgement."""
    monkeypatch.setattr("penstock.io.pubsub.lease._LOOKS", 0.1)
    pubsub.publish(name, numbers(0, 3))
    source = source_of(ReadFromPubSub(subscription=pubsub.subscription(name), max_in_flight=1, max_ids=10))
    reader = source.open(*source.partitions(), None)
    lease = reader._lease
    later = Timestamp(micros=NOW.micros + 3600_000_000)
    for _ in range(3):
        polled(reader, 1)
        lease.last_received -= 60
        before = time.monotonic()
        wait_until(lambda before=before: lease.last_answered > before, "the server is asked")
        assert reader.watermark(later) < later.micros - 60_000_000
        reader.acknowledge(reader.offset())
    wait_until(lambda: reader.watermark(later) > later.micros - 60_000_000, "nothing waits")
    reader.close()


@pytest.mark.parametrize("runner", ["local", pytest.param("spark-microbatch", marks=pytest.mark.spark)])
def test_a_stream_goes_on_from_its_checkpoint(
    pubsub: PubsubServer, name: str, tmp_path: Any, runner: str, request: Any
) -> None:
    """Each message is in the files once."""
    files = tmp_path / "out"

    def lines() -> list[bytes]:
        return sorted((line for file in tmp_path.glob("out*") for line in file.read_bytes().split()), key=int)

    for start in (0, 50):
        made, flags = runner_of(request, runner)
        p = beam.Pipeline(made, options=PipelineOptions([], checkpoint_dir=str(tmp_path / "kept"), **flags))
        read = p | ReadFromPubSub(subscription=pubsub.subscription(name)) | beam.Map(bytes.decode)
        _ = read | beam.io.WriteToText(files, ".txt")
        result = p.run()
        pubsub.publish(name, numbers(start, start + 50))
        wait_until(lambda start=start: len(lines()) >= start + 50, "the files have the messages")
        result.stop_with_savepoint() if runner == "local" else result.cancel()
    assert numbers(0, 100) == lines()
    # The last acknowledgements come after the commit, before which a cancelled run may end.
    assert runner != "local" or [] == pubsub.pull(name)


def lines_of(directory: Any) -> set[str]:
    return {line for file in directory.glob("out*") for line in file.read_text().split()}


def test_texts_are_read(pubsub: PubsubServer, name: str) -> None:
    pubsub.publish(name, ["größer".encode()])
    read = ReadStringsFromPubSub(subscription=pubsub.subscription(name))
    read._read = ReadFromPubSub(subscription=pubsub.subscription(name), max_num_records=1)
    with beam.Pipeline() as p:
        assert_that(p | read, equal_to(["größer"]))


def test_a_missing_subscription_is_named(pubsub: PubsubServer) -> None:
    p = beam.Pipeline()
    _ = p | ReadFromPubSub(subscription=pubsub.subscription("nothing"), max_num_records=1)
    with pytest.raises(SourceError, match="gcloud pubsub subscriptions create nothing"):
        p.run()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected either a topic or a subscription"),
        ({"topic": "a", "subscription": "b"}, "expected either a topic or a subscription"),
        ({"topic": "orders"}, "expected a path such as 'projects/PROJECT/topics/NAME', got 'orders'"),
        ({"subscription": "projects/p/topics/t"}, "expected a path such as 'projects/PROJECT/subscriptions/NAME'"),
        ({"topic": "projects/p/topics/t", "max_in_flight": 0}, "max_in_flight must be at least 1, got 0"),
        ({"topic": "projects/p/topics/t", "max_ids": 5}, "max_ids must be at least max_in_flight"),
        (
            {"subscription": "projects/p/subscriptions/s", "max_num_records": 20_000},
            "max_num_records must be at most max_in_flight, 10000, for a subscription",
        ),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReadFromPubSub(**options)


def test_two_readers_of_a_subscription_are_refused() -> None:
    p, read = beam.Pipeline(), ReadFromPubSub(subscription="projects/p/subscriptions/s")
    _ = p | "One" >> read
    with pytest.raises(PipelineError, match="give one of them another subscription"):
        _ = p | "Two" >> read
