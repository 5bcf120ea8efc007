"""Missing rights end a run at once, exhausted quotas are waited for: each names its transform."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from servers.bigquery_server import BigQueryServer
from servers.fixtures import bigquery as bigquery
from servers.fixtures import directory as directory
from servers.fixtures import gcs as gcs
from servers.fixtures import name as name
from servers.fixtures import pubsub as pubsub
from servers.gcs_server import GcsServer
from servers.pubsub_server import PubsubServer
from servers.refusing_proxy import GrpcProxy, HttpProxy, Refusals
from support.programs.running_program import wait_until

import penstock as beam
from penstock.io.files.filesystem import filesystem_for
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import PenstockError
from penstock.testing.util import assert_that, equal_to

ROWS = [{"key": number} for number in range(3)]
DENIED, EXHAUSTED = "PERMISSION_DENIED", "RESOURCE_EXHAUSTED"
FORBIDDEN, THROTTLED, QUOTA = (403, "accessDenied"), (403, "rateLimitExceeded"), (403, "quotaExceeded")
TOO_MANY = (429, "rateLimitExceeded")

_numbers = itertools.count()


@pytest.fixture
def table(bigquery: BigQueryServer) -> str:
    """A table with three rows."""
    made = bigquery.make(f"refused{next(_numbers)}", [("key", "INTEGER")])
    bigquery.client().insert_rows_json(made.replace(":", "."), ROWS)
    return made


@pytest.fixture
def rest(bigquery: BigQueryServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpProxy]:
    with closing(HttpProxy(bigquery.url)) as proxy:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", proxy.url)
        yield proxy


@pytest.fixture
def storage(bigquery: BigQueryServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[GrpcProxy]:
    with closing(GrpcProxy(f"127.0.0.1:{bigquery.grpc_port}")) as proxy:
        monkeypatch.setenv("BIGQUERY_STORAGE_EMULATOR_HOST", proxy.address)
        yield proxy


@pytest.fixture
def messages(pubsub: PubsubServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[GrpcProxy]:
    with closing(GrpcProxy(f"127.0.0.1:{pubsub.port}")) as proxy:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", proxy.address)
        yield proxy


@pytest.fixture
def objects(gcs: GcsServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpProxy]:
    with closing(HttpProxy(gcs.url)) as proxy:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.url)
        yield proxy


def denied(proxy: Refusals, requests: str, answer: Any, said: str, run: Callable[[], Any]) -> None:
    """A run whose requests are refused fails at once, with this text."""
    began = time.monotonic()
    with proxy.refusing(requests, answer), pytest.raises(PenstockError, match=said):
        run()
    assert proxy.refused
    # The client's own tries, and ours, are for other errors.
    assert time.monotonic() - began < 20


def waited_for(
    proxy: Refusals,
    requests: str,
    answer: Any,
    said: str,
    run: Callable[[], Any],
    log: pytest.LogCaptureFixture,
    times: int = 2,
) -> None:
    """A run whose first requests are refused says so, once, and succeeds."""
    with log.at_level(logging.WARNING), proxy.refusing(requests, answer, times):
        run()
    assert times == len(proxy.refused)
    assert [True] == [said in each for each in log.messages if "waiting for it" in each]


# BigQuery


def save(table: str, **arguments: Any) -> None:
    with beam.Pipeline() as p:
        _ = p | beam.Create(ROWS) | "Save" >> beam.io.WriteToBigQuery(table, schema="key:INTEGER", **arguments)


def read(**arguments: Any) -> None:
    with beam.Pipeline() as p:
        assert_that(p | "Load" >> beam.io.ReadFromBigQuery(**arguments), equal_to(ROWS))


OF_STREAMS = ["CreateWriteStream", "AppendRows", "FinalizeWriteStream", "BatchCommitWriteStreams"]


@pytest.mark.parametrize("requests", OF_STREAMS)
def test_streams_of_a_table(
    bigquery: BigQueryServer, storage: GrpcProxy, table: str, requests: str, caplog: pytest.LogCaptureFixture
) -> None:
    said = f"Save: BigQuery's {table} "
    denied(storage, requests, DENIED, f"{said}.*role", lambda: save(table, method="STORAGE_WRITE_API"))
    waited_for(storage, requests, EXHAUSTED, said, lambda: save(table, method="STORAGE_WRITE_API"), caplog)
    assert 6 == len(bigquery.rows(table.partition(".")[2]))


@pytest.mark.parametrize("method", ["STORAGE_WRITE_API", "FILE_LOADS", "STREAMING_INSERTS"])
@pytest.mark.parametrize("limit", [THROTTLED, QUOTA, TOO_MANY])
def test_a_table_before_the_run(
    bigquery: BigQueryServer, rest: HttpProxy, table: str, method: str, limit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    of = "GET .*/tables/"
    said = f"Save: BigQuery's {table} "

    def run() -> None:
        save(table, method=method)

    denied(rest, of, FORBIDDEN, f"{said}.*role", run)
    waited_for(rest, of, limit, said, run, caplog)
    assert 6 == len(bigquery.rows(table.partition(".")[2]))


@pytest.mark.parametrize(("method", "requests"), [("FILE_LOADS", "POST .*/jobs"), ("STREAMING_INSERTS", "/insertAll")])
@pytest.mark.parametrize("limit", [THROTTLED, QUOTA, TOO_MANY])
def test_loads_and_inserts(
    bigquery: BigQueryServer,
    rest: HttpProxy,
    table: str,
    method: str,
    requests: str,
    limit: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = f"Save: BigQuery's {table} "

    def run() -> None:
        save(table, method=method)

    denied(rest, requests, FORBIDDEN, f"{said}.*role", run)
    waited_for(rest, requests, limit, said, run, caplog)
    assert 6 == len(bigquery.rows(table.partition(".")[2]))


@pytest.mark.parametrize("method", ["STORAGE_WRITE_API", "FILE_LOADS", "STREAMING_INSERTS"])
def test_a_table_that_may_not_be_changed_is_named_before_the_run(
    bigquery: BigQueryServer, rest: HttpProxy, table: str, method: str
) -> None:
    write = "Save" >> beam.io.WriteToBigQuery(table, schema="key:INTEGER", method=method)
    p = beam.Pipeline()
    _ = p | beam.Create(ROWS) | beam.Map(_unreachable) | write
    rest.permissions = ["bigquery.tables.get"]
    with pytest.raises(PenstockError, match=f"Save: BigQuery's {table} .*permission bigquery.tables.updateData.*role"):
        p.run()
    rest.permissions.append("bigquery.tables.updateData")
    save(table, method=method)
    assert 6 == len(bigquery.rows(table.partition(".")[2]))


def test_files_of_load_jobs(
    bigquery: BigQueryServer, objects: HttpProxy, directory: str, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The right to write them is missing, and is named before the run."""

    def run() -> None:
        with beam.Pipeline() as p:
            write = beam.io.WriteToBigQuery(
                table, schema="key:INTEGER", method="FILE_LOADS", custom_gcs_temp_location=directory
            )
            _ = p | beam.Create(ROWS) | beam.Map(_unreachable) | "Save" >> write

    denied(objects, "POST .*/upload", FORBIDDEN, f"Save: {directory}.* can't be written to: .*", run)


@pytest.mark.parametrize(
    "arguments",
    [{"method": "FILE_LOADS"}, {"method": "STORAGE_WRITE_API", "write_disposition": "WRITE_TRUNCATE"}],
)
def test_the_right_to_run_jobs_is_named_before_the_run(
    bigquery: BigQueryServer, rest: HttpProxy, table: str, arguments: Any
) -> None:
    def run() -> None:
        with beam.Pipeline() as p:
            write = beam.io.WriteToBigQuery(table, schema="key:INTEGER", **arguments)
            _ = p | beam.Create(ROWS) | beam.Map(_unreachable) | "Save" >> write

    denied(rest, "POST .*/jobs", FORBIDDEN, f"Save: BigQuery's {table} can't be written to by jobs: .*Job User", run)


@pytest.mark.parametrize("requests", ["CreateReadSession", "ReadRows"])
def test_reads(
    bigquery: BigQueryServer, storage: GrpcProxy, table: str, requests: str, caplog: pytest.LogCaptureFixture
) -> None:
    said = f"Load: BigQuery's {table}"
    denied(storage, requests, DENIED, f"{said} can't be read.*role", lambda: read(table=table))
    waited_for(storage, requests, EXHAUSTED, said, lambda: read(table=table), caplog)


@pytest.mark.parametrize("limit", [THROTTLED, QUOTA, TOO_MANY])
def test_queries(
    bigquery: BigQueryServer, rest: HttpProxy, table: str, limit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    query = f"SELECT key FROM `{table.replace(':', '.')}`"

    def run() -> None:
        read(query=query, use_standard_sql=True)

    denied(rest, "POST .*/jobs", FORBIDDEN, "Load: BigQuery's query is refused.*role", run)
    waited_for(rest, "POST .*/jobs", limit, "Load: BigQuery's query", run, caplog)


@pytest.mark.parametrize("what", ["write", "read"])
def test_a_server_that_keeps_connections_and_answers_nothing_is_logged_once(
    bigquery: BigQueryServer, table: str, what: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While a call waits for it."""
    monkeypatch.setattr("penstock.io.bigquery.client.SILENT", 0.5)
    runs = {"write": lambda: save(table, method="STORAGE_WRITE_API"), "read": lambda: read(table=table)}
    running = threading.Thread(target=runs[what])
    with caplog.at_level(logging.WARNING):
        with bigquery.hanging():
            running.start()
            wait_until(lambda: "doesn't answer" in caplog.text, "nothing is logged")
        running.join(60)
    label = {"write": "Save", "read": "Load"}[what]
    waits = [each for each in caplog.messages if each.startswith(f"{label}: BigQuery's {table} doesn't answer")]
    assert 1 == len(waits)
    assert any(each.startswith(f"{label}: BigQuery's {table} answers again, after ") for each in caplog.messages)


# Pub/Sub


@pytest.mark.parametrize("requests", ["GetTopic", "Publish$"])
def test_messages_are_published(
    pubsub: PubsubServer, messages: GrpcProxy, name: str, requests: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = pubsub.topic(name)

    def run() -> None:
        with beam.Pipeline() as p:
            _ = p | beam.Create([b"tea"]) | "Send" >> beam.io.WriteToPubSub(topic)

    denied(messages, requests, DENIED, f"Send: Pub/Sub's {topic} can't be .*role", run)
    waited_for(messages, requests, EXHAUSTED, f"Send: Pub/Sub's {topic}", run, caplog)
    assert [b"tea"] == [each.data for each in pubsub.pull(name)]


@pytest.mark.parametrize("requests", ["GetSubscription", "StreamingPull"])
def test_messages_are_received(
    pubsub: PubsubServer, messages: GrpcProxy, name: str, requests: str, caplog: pytest.LogCaptureFixture
) -> None:
    subscription = pubsub.subscription(name)
    pubsub.publish(name, [b"tea"])

    def run() -> None:
        with beam.Pipeline() as p:
            read = beam.io.ReadFromPubSub(subscription=subscription, max_num_records=1)
            assert_that(p | "Receive" >> read, equal_to([b"tea"]))

    denied(messages, requests, DENIED, f"Receive: Pub/Sub's {subscription} can't be read.*role", run)
    waited_for(messages, requests, EXHAUSTED, f"Receive: Pub/Sub's {subscription}", run, caplog)


def _send(topic: str) -> None:
    with beam.Pipeline() as p:
        _ = p | beam.Create([b"tea"]) | beam.Map(_unreachable) | "Send" >> beam.io.WriteToPubSub(topic)


def _receive(path: str) -> None:
    kind = "topic" if "/topics/" in path else "subscription"
    with beam.Pipeline() as p:
        _ = p | "Receive" >> beam.io.ReadFromPubSub(**{kind: path}, max_num_records=1)


def _unreachable(element: Any) -> Any:
    raise AssertionError("the run has started")


@pytest.mark.parametrize(
    ("run", "path", "permission"),
    [
        (_send, PubsubServer.topic, "pubsub.topics.publish"),
        (_receive, PubsubServer.topic, "pubsub.topics.attachSubscription"),
        (_receive, PubsubServer.subscription, "pubsub.subscriptions.consume"),
    ],
)
def test_a_missing_permission_is_named_before_the_run(
    pubsub: PubsubServer, messages: GrpcProxy, name: str, run: Any, path: Any, permission: str
) -> None:
    messages.permissions = ["pubsub.topics.get"]
    with pytest.raises(PenstockError, match=f"(Send|Receive): Pub/Sub's .*the permission {permission}.*role"):
        run(path(pubsub, name))


def test_an_account_that_may_not_look_may_publish_and_receive(
    pubsub: PubsubServer, messages: GrpcProxy, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one with the roles Publisher and Subscriber, and none else."""
    monkeypatch.setattr("penstock.io.pubsub.lease._LOOKS", 0.1)
    messages.permissions = ["pubsub.topics.publish", "pubsub.subscriptions.consume"]
    read = beam.io.ReadFromPubSub(subscription=pubsub.subscription(name), max_num_records=1)
    with messages.refusing("GetTopic|GetSubscription", DENIED):
        back = threading.Timer(1, pubsub.publish, (name, [b"milk"]))
        back.start()
        with beam.Pipeline() as p:
            assert_that(p | read, equal_to([b"milk"]))
        with beam.Pipeline() as p:
            _ = p | beam.Create([b"tea"]) | beam.io.WriteToPubSub(pubsub.topic(name))
    back.join()
    assert [b"milk", b"tea"] == sorted(each.data for each in pubsub.pull(name))


# Objects


async def _at_once(_: float) -> None:
    """Return."""


def write(directory: str) -> None:
    with beam.Pipeline() as p:
        _ = p | beam.Create(["tea"]) | "Write" >> beam.io.WriteToText(f"{directory}/out")


def load(directory: str) -> None:
    with beam.Pipeline() as p:
        assert_that(p | "Lines" >> beam.io.ReadFromText(f"{directory}/out*"), equal_to(["tea"]))


@pytest.mark.parametrize(
    ("run", "requests", "said"),
    [(write, "POST .*/upload", "Write.*gs://lake"), (load, "GET .*alt=media", "Lines.*gs://lake")],
)
def test_objects(
    gcs: GcsServer,
    objects: HttpProxy,
    directory: str,
    run: Any,
    requests: str,
    said: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Its client tries six times before it tells, for half a minute otherwise.
    monkeypatch.setattr("gcsfs.retry.asyncio", SimpleNamespace(sleep=_at_once))
    write(directory)
    denied(objects, requests, FORBIDDEN, said, lambda: run(directory))
    limited = "object store: gs://lake limits requests"
    waited_for(objects, requests, TOO_MANY, limited, lambda: run(directory), caplog, times=7)


def test_checkpoints(gcs: GcsServer, objects: HttpProxy, directory: str) -> None:
    def run() -> None:
        options = PipelineOptions(checkpoint_dir=f"{directory}/kept", checkpoint_interval=0.2)
        with beam.Pipeline(options=options) as p:
            _ = p | beam.io.GenerateSequence(0, 10) | beam.Map(str) | beam.io.WriteToText(f"{directory}/out")

    denied(objects, "POST .*/upload", FORBIDDEN, f"{directory}/kept", run)
    assert not filesystem_for(directory).match(f"{directory}/**")
