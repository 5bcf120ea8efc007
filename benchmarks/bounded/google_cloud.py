"""(n) BigQuery, Pub/Sub and Google Cloud Storage, each against Google's client by hand on the same fake server.

CPU time without the server's, and without our start: the time that a pipeline of ten elements takes.  By hand rows are
written through one PENDING stream, in requests of a thousand rows, and read as Arrow; messages are published by the
client's futures, and received and acknowledged by its callback, of harness/pubsub_server.py.

Needs the extras bigquery, pubsub and gcs, and the servers of the tests (`make servers`).  `PENSTOCK_BENCHMARK_ROWS` is
the number of rows, messages and lines.
"""

from __future__ import annotations

import datetime
import itertools
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from harness import pubsub_server
from harness.keeping_sink import KeepingSink
from harness.timing import Ratio, compare

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

ROWS = int(os.environ.get("PENSTOCK_BENCHMARK_ROWS", "50000"))
START = 10
LIMIT = 1.5
RUNS = 3

SCHEMA = "id:INTEGER,item:STRING,price:FLOAT,is_paid:BOOLEAN,at:TIMESTAMP"
COLUMNS = [tuple(each.split(":")) for each in SCHEMA.split(",")]

_numbers = itertools.count()


def rows(count: int) -> list[dict[str, Any]]:
    """Orders."""
    at = datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)
    return [
        {
            "id": number,
            "item": f"item {number % 1000}",
            "price": number / 8,
            "is_paid": number % 2 == 0,
            "at": at + datetime.timedelta(seconds=number),
        }
        for number in range(count)
    ]


@contextmanager
def _servers() -> Iterator[tuple[Any, Any, Any]]:
    sys.path.append(str(Path(__file__).parents[2] / "tests"))
    from servers.bigquery_server import BigQueryServer, why_there_is_no_bigquery
    from servers.gcs_server import GcsServer
    from servers.pubsub_server import PubsubServer, why_there_is_no_pubsub

    if reason := why_there_is_no_bigquery() or why_there_is_no_pubsub():
        raise RuntimeError(reason)
    with ExitStack() as stack:
        found = tuple(stack.enter_context(kind.running()) for kind in (BigQueryServer, PubsubServer, GcsServer))
        for each in found:
            os.environ.update(each.environment)
        yield found  # type: ignore[misc]


# BigQuery


def _write_streams(bigquery: Any, given: Sequence[Any]) -> int:
    name = bigquery.make(f"ours{next(_numbers)}", COLUMNS)
    with beam.Pipeline() as p:
        _ = p | beam.Create(given) | beam.io.WriteToBigQuery(name, method="STORAGE_WRITE_API")
    return len(given)


def _write_streams_by_hand(bigquery: Any, given: Sequence[Any]) -> int:
    from google.cloud.bigquery_storage_v1 import types, writer

    from penstock.io.bigquery.client import open_write_client
    from penstock.io.bigquery.schemas import schema_of
    from penstock.io.bigquery.values import message_class

    name = bigquery.make(f"hand{next(_numbers)}", COLUMNS)
    project, _, table = name.partition(":")
    dataset, _, table = table.partition(".")
    parent = f"projects/{project}/datasets/{dataset}/tables/{table}"
    # As `protoc` makes them.
    descriptor, message = message_class(schema_of("Write", SCHEMA))
    client = open_write_client()
    stream = client.create_write_stream(
        parent=parent, write_stream=types.WriteStream(type_=types.WriteStream.Type.PENDING)
    )
    template = types.AppendRowsRequest(write_stream=stream.name)
    template.proto_rows = types.AppendRowsRequest.ProtoData(
        writer_schema=types.ProtoSchema(proto_descriptor=descriptor)
    )
    appended = writer.AppendRowsStream(client, template)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    futures = []
    for start in range(0, len(given), 1000):
        data = types.ProtoRows()
        for row in given[start : start + 1000]:
            each = message()
            each.id = row["id"]
            each.item = row["item"]
            each.price = row["price"]
            each.is_paid = row["is_paid"]
            each.at = (row["at"] - epoch) // datetime.timedelta(microseconds=1)
            data.serialized_rows.append(each.SerializeToString())
        request = types.AppendRowsRequest(
            write_stream=stream.name, offset=start, proto_rows=types.AppendRowsRequest.ProtoData(rows=data)
        )
        futures.append(appended.send(request))
    for future in futures:
        future.result()
    appended.close()
    client.finalize_write_stream(name=stream.name)
    request = types.BatchCommitWriteStreamsRequest(parent=parent, write_streams=[stream.name])
    client.batch_commit_write_streams(request)
    return len(given)


def _load(bigquery: Any, given: Sequence[Any]) -> int:
    name = bigquery.make(f"ours{next(_numbers)}", COLUMNS)
    with beam.Pipeline() as p:
        _ = p | beam.Create(given) | beam.io.WriteToBigQuery(name, method="FILE_LOADS")
    return len(given)


def _load_by_hand(bigquery: Any, given: Sequence[Any]) -> int:
    from google.cloud.bigquery import LoadJobConfig

    name = bigquery.make(f"hand{next(_numbers)}", COLUMNS)
    lines = [{**row, "at": row["at"].isoformat()} for row in given]
    config = LoadJobConfig(schema=bigquery.client().get_table(name.replace(":", ".")).schema)
    bigquery.client().load_table_from_json(lines, name.replace(":", "."), job_config=config).result()
    return len(given)


def _read(bigquery: Any, table: str) -> float:
    sink = KeepingSink()
    with beam.Pipeline() as p:
        read = p | beam.io.ReadFromBigQuery(table=table) | beam.Filter(_is_paid) | beam.Map(_price)
        _ = read | beam.CombineGlobally(sum) | beam.io.Write(sink)
    (found,) = sink.values()
    return float(found)


def _read_by_hand(bigquery: Any, table: str) -> float:
    from google.cloud.bigquery_storage_v1 import types

    from penstock.io.bigquery.client import open_read_client

    project, _, name = table.partition(":")
    dataset, _, name = name.partition(".")
    client = open_read_client()
    wanted = types.ReadSession(
        table=f"projects/{project}/datasets/{dataset}/tables/{name}", data_format=types.DataFormat.ARROW
    )
    session = client.create_read_session(parent=f"projects/{project}", read_session=wanted, max_stream_count=1)
    total = 0.0
    for stream in session.streams:
        for page in client.read_rows(stream.name).rows(session).pages:
            total += sum(_price(row) for row in page.to_arrow().to_pylist() if _is_paid(row))
    return total


def _is_paid(row: dict[str, Any]) -> bool:
    return bool(row["is_paid"])


def _price(row: dict[str, Any]) -> float:
    return float(row["price"])


# Pub/Sub


def _publish(pubsub: Any, name: str, data: Sequence[bytes]) -> int:
    with beam.Pipeline() as p:
        _ = p | beam.Create(data) | beam.io.WriteToPubSub(pubsub.topic(name))
    return len(data)


def _publish_by_hand(pubsub: Any, name: str, data: Sequence[bytes]) -> int:
    from google.cloud.pubsub_v1 import PublisherClient

    client = PublisherClient()
    futures = [client.publish(pubsub.topic(name), each, id=str(number)) for number, each in enumerate(data)]
    for future in futures:
        future.result()
    client.stop()
    return len(data)


class _Received:
    """So many messages of subscriptions, of a server that sends them as fast as it can."""

    def __init__(self, address: str, size: int) -> None:
        self.size = size
        os.environ["PUBSUB_EMULATOR_HOST"] = address

    def _subscription(self) -> str:
        return f"projects/penstock/subscriptions/s{next(_numbers)}-{self.size}"

    def ours(self) -> int:
        """A stream, until it has acknowledged all."""
        sink = KeepingSink()
        with tempfile.TemporaryDirectory() as directory:
            options = PipelineOptions([], checkpoint_dir=directory, checkpoint_interval=1)
            p = beam.Pipeline(options=options)
            read = beam.io.ReadFromPubSub(subscription=self._subscription())
            _ = p | read | beam.Map(len) | beam.ParDo(_UntilAll(self.size)) | beam.io.Write(sink)
            result = p.run()
            _UntilAll.all.wait()
            result.drain()
        _UntilAll.all.clear()
        return self.size

    def by_hand(self) -> int:
        from google.cloud.pubsub_v1 import SubscriberClient

        client, lengths, every = SubscriberClient(), [], threading.Event()

        def receive(message: Any) -> None:
            lengths.append(len(message.data))
            message.ack()
            if len(lengths) >= self.size:
                every.set()

        future = client.subscribe(self._subscription(), receive)
        every.wait()
        future.cancel()
        future.result()
        client.close()
        return self.size


class _UntilAll(beam.DoFn):
    """Drops elements, and tells when there were so many."""

    all = threading.Event()

    def __init__(self, count: int) -> None:
        self.left = count

    def process(self, element: int) -> None:
        self.left -= 1
        if not self.left:
            _UntilAll.all.set()


# Google Cloud Storage


def _write_lines(lines: Sequence[str]) -> int:
    with beam.Pipeline() as p:
        path = f"gs://lake/ours{next(_numbers)}"
        _ = p | beam.Create(lines) | beam.io.WriteToText(path)
    return len(lines)


def _write_lines_by_hand(lines: Sequence[str]) -> int:
    with _bucket().blob(f"hand{next(_numbers)}").open("w") as file:
        for line in lines:
            file.write(f"{line}\n")
    return len(lines)


def _read_lines(path: str) -> int:
    sink = KeepingSink()
    with beam.Pipeline() as p:
        read = p | beam.io.ReadFromText(f"gs://lake/{path}") | beam.Map(len)
        _ = read | beam.CombineGlobally(sum) | beam.io.Write(sink)
    (found,) = sink.values()
    return int(found)


def _read_lines_by_hand(path: str) -> int:
    with _bucket().blob(path).open() as file:
        return sum(len(line.rstrip("\n")) for line in file)


def _bucket() -> Any:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client

    return Client("penstock", AnonymousCredentials()).bucket("lake")


def run() -> Iterator[Ratio]:
    given, few = rows(ROWS), rows(START)
    data, few_data = [b"message %d" % number for number in range(ROWS)], [b"message"] * START
    lines, few_lines = [f"line {number} of the file" for number in range(10 * ROWS)], ["line"] * START
    with _servers() as (bigquery, pubsub, _):

        def compared(what: str, ours: Any, by_hand: Any, start_up: Any) -> Ratio:
            return compare(f"(n) {what}", ours, by_hand, LIMIT, start_up=start_up, warm_up=1, runs=RUNS)

        yield compared(
            "BigQuery: rows into a stream",
            lambda: _write_streams(bigquery, given),
            lambda: _write_streams_by_hand(bigquery, given),
            lambda: _write_streams(bigquery, few),
        )
        yield compared(
            "BigQuery: rows of a load job",
            lambda: _load(bigquery, given),
            lambda: _load_by_hand(bigquery, given),
            lambda: _load(bigquery, few),
        )
        table, small = bigquery.make("orders", COLUMNS), bigquery.make("few", COLUMNS)
        for name, of in ((table, given), (small, few)):
            with beam.Pipeline() as p:
                _ = p | beam.Create(of) | beam.io.WriteToBigQuery(name)
        yield compared(
            "BigQuery: rows of a table",
            lambda: _read(bigquery, table),
            lambda: _read_by_hand(bigquery, table),
            lambda: _read(bigquery, small),
        )
        name = pubsub.make("orders")
        yield compared(
            "Pub/Sub: messages published",
            lambda: _publish(pubsub, name, data),
            lambda: _publish_by_hand(pubsub, name, data),
            lambda: _publish(pubsub, name, few_data),
        )
        yield compared(
            "Storage: lines written",
            lambda: _write_lines(lines),
            lambda: _write_lines_by_hand(lines),
            lambda: _write_lines(few_lines),
        )
        for path, of_path in (("lines", lines), ("few", few_lines)):
            _bucket().blob(path).upload_from_string("\n".join(of_path))
        yield compared(
            "Storage: lines read",
            lambda: _read_lines("lines"),
            lambda: _read_lines_by_hand("lines"),
            lambda: _read_lines("few"),
        )
        with pubsub_server.running() as address:
            full, small_one = _Received(address, ROWS), _Received(address, START)
            yield compared("Pub/Sub: messages received", full.ours, full.by_hand, small_one.ours)
