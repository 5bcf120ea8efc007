"""A cluster that doesn't answer: streams wait for it, and say so."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from kafka.broker import KafkaBroker
from kafka.topics import Topic
from servers.loopback_server import free_port
from support.programs.running_program import wait_until

import penstock as beam
from penstock.io import ReadFromKafka, WriteToKafka
from penstock.io.kafka.client import Producer
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import SinkError, SourceError

# Seconds: `OUTAGE=60 pytest tests/io/kafka -k lost_connection` loses a connection for a minute.
OUTAGE = float(os.environ.get("OUTAGE", "1"))


def test_a_commit_without_an_answer_is_waited_for(
    topic: Topic,
    other_topic: Topic,
    broker: KafkaBroker,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A stream from topic to topic says it, and when the cluster answers again; then it goes on."""
    with broker.behind_a_proxy() as (address, proxy):
        severed = {"bootstrap.servers": address, "reconnect.backoff.max.ms": 200}
        flags = {"checkpoint_dir": str(tmp_path / "kept"), "checkpoint_interval": 0.1, "max_restarts": 0}
        p = beam.Pipeline("local", options=PipelineOptions([], **flags))
        _ = p | ReadFromKafka(topic.config, topic.name) | WriteToKafka(severed, other_topic.name)
        mute_in_the_first_commit(proxy, monkeypatch)
        result = p.run()
        try:
            # A single one is in one transaction, whose commit may be the last that gets through.
            topic.write([0])
            wait_until(lambda: other_topic.values() == [0], "the record was copied")
            proxy.sever()
            topic.write(range(1, 20))
            wait_until(lambda: "WriteToKafka: Kafka at" in caplog.text, "WriteToKafka says it")
            time.sleep(OUTAGE)
            assert [0] == other_topic.values()
            proxy.join()
            wait_until(lambda: other_topic.values() == list(range(20)), "the other records were copied")
            wait_until(lambda: "answers again, after" in caplog.text, "WriteToKafka says that it goes on")
        finally:
            result.cancel()
    said = [line for line in caplog.text.splitlines() if "WriteToKafka: Kafka at" in line]
    assert 1 <= sum("doesn't answer" in line for line in said) <= 2


def mute_in_the_first_commit(proxy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose the answer to the first commit, which takes effect; the client waits for it."""
    commit = Producer.commit_transaction

    def muted(producer: Producer, seconds: float) -> None:
        monkeypatch.setattr(Producer, "commit_transaction", commit)
        proxy.mute()
        commit(producer, seconds)

    monkeypatch.setattr(Producer, "commit_transaction", muted)


def test_a_cluster_that_is_not_there_is_said(
    topic: Topic, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once in the log; and after a while as the error of the run."""
    monkeypatch.setattr("penstock.io.kafka.client.REACHED_WITHIN", 1.0)
    nowhere = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    for build, kind in (
        (lambda p: p | ReadFromKafka(nowhere, topic.name), SourceError),
        (lambda p: p | beam.Create([(b"", b"")]) | WriteToKafka(nowhere, topic.name), SinkError),
    ):
        p = beam.Pipeline(options=PipelineOptions([], max_restarts=0))
        build(p)
        with pytest.raises(
            kind, match=r"Kafka at 127.0.0.1:\d+: .*; is a broker running there, and are 'bootstrap.serv"
        ):
            p.run().wait_until_finish()
        assert "doesn't answer (" in caplog.text


class AnswersLate:
    """A client whose commits end so many seconds after they began."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def produce(self) -> None:
        """It isn't called."""

    purge = produce

    def poll(self, seconds: float) -> int:
        return 0

    def commit_transaction(self, seconds: float) -> None:
        from confluent_kafka import KafkaError, KafkaException

        time.sleep(max(0.0, min(seconds, self._ends - time.monotonic())))
        if time.monotonic() < self._ends:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_a_commit_that_ends_soon_is_waited_for_though_the_program_is_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that doesn't is given up after two seconds; the next start finds out what became of it."""
    from confluent_kafka import KafkaException

    monkeypatch.setattr("penstock.io.connections.waiting._stopped_at", time.monotonic() - 60.0)
    Producer(AnswersLate(1.5), has_transactions=True).commit_transaction(60.0)
    began = time.monotonic()
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        Producer(AnswersLate(60.0), has_transactions=True).commit_transaction(60.0)
    assert 2.0 < time.monotonic() - began < 20
