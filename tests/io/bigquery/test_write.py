"""WriteToBigQuery: methods, dispositions, schemas, tables by element, rows that don't fit, and errors."""

from __future__ import annotations

import itertools
import logging
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from servers.bigquery_server import DATASET, PROJECT, BigQueryServer
from servers.gcs_server import BUCKET, GcsServer
from servers.refusing_proxy import HttpProxy
from support.runners.local_variants import EVERY_RUNNER

import penstock as beam
from penstock.io.bigquery.client import TableName, error_of, open_client
from penstock.io.bigquery.schemas import schema_of
from penstock.io.bigquery.sinks import StreamSink
from penstock.io.bigquery.tables import Target
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import PipelineError, SinkError, UnsupportedError
from penstock.sdk.sink import SinkContext
from penstock.testing.util import assert_that, equal_to

SCHEMA = "key:INTEGER,n:INTEGER"
ROWS = [{"key": key, "n": key} for key in range(3)]
OTHERS = [{"key": 7, "n": 8}]

methods = pytest.mark.parametrize("method", ["STORAGE_WRITE_API", "FILE_LOADS", "STREAMING_INSERTS"])


def written(rows: Any, name: Any, **arguments: Any) -> None:
    """Run a pipeline that writes rows."""
    table = name if callable(name) else f"{DATASET}.{name}"
    with beam.Pipeline() as p:
        _ = p | beam.Create(rows) | beam.io.WriteToBigQuery(table, **arguments)


def found(bigquery: BigQueryServer, name: str) -> Any:
    """The rows of a table, in the order of their keys."""
    return sorted(bigquery.rows(name), key=lambda row: row["key"])


@methods
def test_rows_are_appended_to_a_table_that_is_created(bigquery: BigQueryServer, name: str, method: str) -> None:
    written(ROWS, name, schema=SCHEMA, method=method)
    written(OTHERS, name, schema=SCHEMA, method=method, create_disposition="CREATE_NEVER")
    assert ROWS + OTHERS == found(bigquery, name)


@methods
@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
def test_every_runner_writes(
    bigquery: BigQueryServer, name: str, method: str, make_pipeline: Any, request: pytest.FixtureRequest
) -> None:
    if request.getfixturevalue("runner_name").startswith("spark"):
        request.getfixturevalue("spark").sparkContext.environment.update(bigquery.environment)
    rows = [{"key": key, "n": key % 7} for key in range(50)]
    with make_pipeline() as p:
        write = beam.io.WriteToBigQuery(f"{DATASET}.{name}", schema=SCHEMA, method=method)
        result = p | beam.Create([*rows, {"key": "x"}]) | beam.Reshuffle() | write
        assert_that(result.failed_rows | beam.combiners.Count.Globally(), equal_to([1]))
    assert rows == found(bigquery, name)


@methods
def test_a_schema_is_that_of_the_table(bigquery: BigQueryServer, name: str, method: str) -> None:
    bigquery.make(name, [("key", "INTEGER"), ("n", "INTEGER")])
    written(ROWS, name, method=method)
    assert ROWS == found(bigquery, name)


@methods
def test_rows_that_do_not_fit_are_outputs(bigquery: BigQueryServer, name: str, method: str) -> None:
    """And nothing else is lost."""
    wrong = [{"key": "x", "n": 1}, {"key": 1, "m": 2}]
    with beam.Pipeline() as p:
        result = (
            p
            | beam.Create([*ROWS, *wrong])
            | beam.io.WriteToBigQuery(f"{DATASET}.{name}", None, None, SCHEMA, method=method)
        )
        table = f"{PROJECT}:{DATASET}.{name}"
        rows: Any = wrong if method == "STORAGE_WRITE_API" else [(table, row) for row in wrong]
        assert_that(result.failed_rows, equal_to(rows), "rows")
        assert_that(result["FailedRows"], equal_to(rows), "by name")
        messages = result.failed_rows_with_errors | beam.Map(_message)
        assert_that(
            messages, equal_to(["column key: expected a INTEGER, got 'x'", "column m: the table has no such column"])
        )
    assert ROWS == found(bigquery, name)


def _message(failed: Any) -> str:
    return str(failed["error_message"] if isinstance(failed, dict) else failed[2][0]["message"])


@methods
def test_a_table_is_chosen_by_its_element(bigquery: BigQueryServer, name: str, method: str) -> None:
    written(ROWS, lambda row: f"{DATASET}.{name}_{row['n'] % 2}", schema=SCHEMA, method=method)
    assert [ROWS[::2], ROWS[1::2]] == [found(bigquery, f"{name}_{number}") for number in range(2)]


def test_a_table_is_chosen_with_side_inputs_and_a_schema_by_the_table(bigquery: BigQueryServer, name: str) -> None:
    with beam.Pipeline() as p:
        dataset = beam.pvalue.AsSingleton(p | "Dataset" >> beam.Create([DATASET]))
        _ = (
            p
            | beam.Create(ROWS)
            | beam.io.WriteToBigQuery(
                lambda row, dataset: f"{dataset}.{name}",
                schema=lambda table: SCHEMA if table.endswith(name) else None,
                table_side_inputs=(dataset,),
            )
        )
    assert ROWS == found(bigquery, name)


@pytest.mark.parametrize(
    ("method", "disposition", "is_fixed"),
    [
        ("STREAMING_INSERTS", "WRITE_APPEND", False),
        ("STORAGE_WRITE_API", "WRITE_APPEND", True),
        ("STORAGE_WRITE_API", "WRITE_TRUNCATE", False),
        ("FILE_LOADS", "WRITE_APPEND", False),
        ("FILE_LOADS", "WRITE_TRUNCATE", True),
    ],
)
def test_a_schema_is_chosen_with_side_inputs(
    bigquery: BigQueryServer, name: str, method: str, is_fixed: bool, disposition: str
) -> None:
    """By the name that the function of the table has given."""
    first, second = (f"{DATASET}.{name}_{number}" for number in range(2))
    other = f"{PROJECT}:{first}" if is_fixed else second
    with beam.Pipeline(argv=["--parallelism=2"]) as p:
        schemas = p | "Schemas" >> beam.Create([(first, SCHEMA), (other, "key:INTEGER,word:STRING")])
        tables = p | "Tables" >> beam.Create([("n", first), ("word", second)])
        rows = ROWS if is_fixed else [*ROWS, {"key": 9, "word": "tea"}, {"key": "x", "word": "milk"}]
        result = (
            p
            | beam.Create(rows)
            | beam.Reshuffle()
            | beam.io.WriteToBigQuery(
                first if is_fixed else (lambda row, tables: tables["n" if "n" in row else "word"]),
                schema=lambda table, schemas: schemas[table],
                table_side_inputs=() if is_fixed else (beam.pvalue.AsDict(tables),),
                schema_side_inputs=(beam.pvalue.AsDict(schemas),),
                method=method,
                write_disposition=disposition,
            )
        )
        failed = result.failed_rows_with_errors | beam.combiners.Count.Globally()
        assert_that(failed, equal_to([0 if is_fixed else 1]))
    assert ROWS == found(bigquery, f"{name}_0")
    assert ([] if is_fixed else [{"key": 9, "word": "tea"}]) == found(bigquery, f"{name}_1")


@pytest.mark.parametrize("method", ["STORAGE_WRITE_API", "FILE_LOADS", "DEFAULT"])
@pytest.mark.parametrize("rows", [OTHERS, []], ids=["rows", "none"])
def test_rows_are_replaced_by_a_commit(bigquery: BigQueryServer, name: str, method: str, rows: Any) -> None:
    """Also by no rows."""
    written(ROWS, name, schema=SCHEMA)
    written(rows, name, schema=SCHEMA, method=method, write_disposition="WRITE_TRUNCATE")
    assert rows == found(bigquery, name)


@pytest.mark.parametrize("method", ["STORAGE_WRITE_API", "FILE_LOADS"])
@pytest.mark.parametrize("dispositions", [("WRITE_TRUNCATE", "WRITE_TRUNCATE"), ("WRITE_APPEND", "WRITE_TRUNCATE")])
def test_a_table_that_one_transform_replaces_is_refused_to_others(method: str, dispositions: tuple[str, str]) -> None:
    """Their rows would be lost, without a word.  Several may append."""
    p = beam.Pipeline()
    rows = p | beam.Create(ROWS)
    for label, other in (("First", "WRITE_APPEND"), ("Second", "WRITE_APPEND")):
        _ = rows | label >> beam.io.WriteToBigQuery("shop.both", schema=SCHEMA, method=method, write_disposition=other)
    _ = rows | "Third" >> beam.io.WriteToBigQuery(
        "shop.orders", schema=SCHEMA, method=method, write_disposition=dispositions[0]
    )
    with pytest.raises(PipelineError, match="^Fourth.*into BigQuery's shop.orders.*as Third.* does already.*Flatten"):
        _ = rows | "Fourth" >> beam.io.WriteToBigQuery(
            "shop.orders", schema=SCHEMA, method=method, write_disposition=dispositions[1]
        )


@pytest.mark.parametrize("method", ["STORAGE_WRITE_API", "FILE_LOADS"])
def test_rows_of_a_run_that_fails_are_not_there(bigquery: BigQueryServer, name: str, method: str) -> None:
    """And the table isn't truncated; no other table is left."""
    written(ROWS, name, schema=SCHEMA)
    p = beam.Pipeline()
    rows = p | beam.Create([1, 0]) | beam.Map(lambda n: {"key": 1 // n, "n": n})
    _ = rows | beam.io.WriteToBigQuery(
        f"{DATASET}.{name}", schema=SCHEMA, method=method, write_disposition="WRITE_TRUNCATE"
    )
    with pytest.raises(ZeroDivisionError):
        p.run()
    assert ROWS == found(bigquery, name)
    assert [] == bigquery.tables("penstock_")


class _Killed(BaseException):
    """The end of a process, in the middle of a commit."""


class _Requests:
    """Counts the requests of a commit, and kills the process before or after one of them.

    Args:
      point: twice the number of the request; odd for after it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, point: int) -> None:
        from google.cloud import bigquery
        from google.cloud.bigquery_storage_v1 import BigQueryWriteClient

        self._left = point
        for kind, name in ((bigquery.Client, "_call_api"), (BigQueryWriteClient, "batch_commit_write_streams")):
            monkeypatch.setattr(kind, name, self._counted(getattr(kind, name)))

    def _counted(self, call: Any) -> Any:
        def counted(*arguments: Any, **options: Any) -> Any:
            self._pass()
            answer = call(*arguments, **options)
            self._pass()
            return answer

        return counted

    def _pass(self) -> None:
        self._left -= 1
        if self._left == -1:
            raise _Killed


def _replacing(name: str, transaction: str) -> tuple[StreamSink, SinkContext, list[Any]]:
    """Return a sink that replaces the rows of a table by others, and what a worker has staged."""
    table = TableName(PROJECT, DATASET, name)
    sink = StreamSink(Target(table, schema=schema_of("Save", SCHEMA), disposition="WRITE_TRUNCATE"))
    context = SinkContext("Save", transaction)
    sink.prepare(context)
    tables = sink.opened(context)
    _, message = tables.message_class(table, tables.columns(table) or ())
    writer = sink.open_writer(SinkContext("Save", transaction, "worker"))
    writer.write(Bundle([(str(table), message(**row).SerializeToString()) for row in OTHERS]))
    return sink, context, [writer.stage()]


def test_a_replacement_that_is_killed_at_any_point_is_completed(
    bigquery: BigQueryServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers see the rows before it, or those after it, and no others; nothing is left of it."""
    for point in itertools.count():
        table = f"{name}_{point}"
        written(ROWS, table, schema=SCHEMA)
        sink, context, staged = _replacing(table, f"t{point}")
        assert ROWS == found(bigquery, table)
        was_killed = False
        with monkeypatch.context() as patched:
            _Requests(patched, point)
            try:
                sink.commit(context, staged)
            except _Killed:
                was_killed = True
        assert found(bigquery, table) in (ROWS, OTHERS)
        again = pickle.loads(pickle.dumps(sink))
        again.commit(context, staged)
        assert OTHERS == found(bigquery, table)
        assert [] == bigquery.tables("penstock_")
        if not was_killed:
            break
    assert point >= 8


def test_a_replacement_that_is_aborted_leaves_nothing(bigquery: BigQueryServer, name: str) -> None:
    written(ROWS, name, schema=SCHEMA)
    sink, context, _ = _replacing(name, "t")
    assert 1 == len(bigquery.tables("penstock_"))
    sink.abort(context)
    assert [] == bigquery.tables("penstock_")
    assert ROWS == found(bigquery, name)


@pytest.mark.parametrize("method", ["STORAGE_WRITE_API", "FILE_LOADS"])
def test_a_replaced_table_keeps_its_columns(bigquery: BigQueryServer, name: str, method: str) -> None:
    """A column that the schema doesn't have is NULL."""
    bigquery.make(name, [("key", "INTEGER"), ("n", "INTEGER"), ("note", "STRING")])
    written(OTHERS, name, method=method, write_disposition="WRITE_TRUNCATE")
    assert [{**OTHERS[0], "note": None}] == found(bigquery, name)


def test_rows_of_many_requests_are_written(
    bigquery: BigQueryServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than are unanswered at a time; of a stream, and of changes."""
    monkeypatch.setattr("penstock.io.bigquery.streams._REQUEST_BYTES", 100)
    rows = [{"key": key, "n": key} for key in range(1_000)]
    written(rows, name, schema=SCHEMA)
    assert rows == found(bigquery, name)
    written(rows[:300], f"{name}_changes", schema=SCHEMA, use_cdc_writes=True, primary_key=["key"])
    assert rows[:300] == found(bigquery, f"{name}_changes")


def test_jobs_are_told_to_what_follows(bigquery: BigQueryServer, name: str) -> None:
    """When their rows are in the tables; rows that don't fit are outputs, too."""
    rows = [*ROWS, {"key": "x", "n": 1}]
    with beam.Pipeline() as p:
        write = beam.io.WriteToBigQuery(
            lambda row: f"{DATASET}.{name}_{row['n'] % 2}", schema=SCHEMA, method="FILE_LOADS"
        )
        result = p | beam.Create(rows) | write
        seen = result.destination_load_jobid_pairs | beam.MapTuple(_seen)
        assert_that(seen, equal_to([("0", "DONE", 2), ("1", "DONE", 1)]), "jobs")
        assert_that(result.failed_rows, equal_to([(f"{PROJECT}:{DATASET}.{name}_1", rows[-1])]), "failed")
    assert [ROWS[::2], ROWS[1::2]] == [found(bigquery, f"{name}_{number}") for number in range(2)]


def _seen(table: str, job: Any) -> tuple[str, str, int]:
    """The table's number, the state of its job, and the number of its rows."""
    client = open_client("Seen")
    rows = client.list_rows(client.get_table(table.replace(":", ".")))
    return table[-1], client.get_job(job.jobId, project=job.projectId).state, len(list(rows))


def test_a_table_must_be_empty(bigquery: BigQueryServer, name: str) -> None:
    written(ROWS, name, schema=SCHEMA, write_disposition="WRITE_EMPTY")
    with pytest.raises(SinkError, match=f"{name} isn't empty"):
        written(OTHERS, name, schema=SCHEMA, write_disposition="WRITE_EMPTY")
    assert ROWS == found(bigquery, name)


def test_columns_are_found_out(bigquery: BigQueryServer, name: str) -> None:
    written(ROWS, name, schema="SCHEMA_AUTODETECT")
    assert ROWS == found(bigquery, name)


def test_a_table_is_partitioned_and_clustered(bigquery: BigQueryServer, name: str) -> None:
    parameters = {"timePartitioning": {"type": "DAY", "field": "day"}, "clustering": {"fields": ["n"]}}
    rows = [{"day": "2026-01-31", "n": 1}]
    written(rows, name, schema="day:DATE,n:INTEGER", additional_bq_parameters=parameters)
    table = bigquery.client().get_table(f"{PROJECT}.{DATASET}.{name}")
    assert ("day", ["n"]) == (table.time_partitioning.field, table.clustering_fields)


@pytest.mark.parametrize(
    ("method", "request_of_key"),
    [("STORAGE_WRITE_API", "/tables"), ("FILE_LOADS", "/jobs"), ("STREAMING_INSERTS", "/tables")],
)
def test_a_key_encrypts_what_is_made(
    bigquery: BigQueryServer, name: str, method: str, request_of_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table, and the result of a query."""
    proxy = HttpProxy(bigquery.url)
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", proxy.url)
    written(ROWS, name, schema=SCHEMA, method=method, kms_key="key/of/shop")
    query = f"SELECT key FROM `{DATASET}.{name}`"
    with beam.Pipeline() as p:
        _ = p | beam.io.ReadFromBigQuery(query=query, use_standard_sql=True, kms_key="key/of/result")
    proxy.close()
    with_key = [
        (each, key) for each, body in proxy.forwarded for key in (b"shop", b"result") if b"key/of/" + key in body
    ]
    assert [(True, b"shop"), (True, b"result")] == [
        (each.startswith("POST") and each.endswith(end), key)
        for (each, key), end in zip(with_key, (request_of_key, "/jobs"), strict=True)
    ]


def test_unknown_columns_are_ignored(bigquery: BigQueryServer, name: str) -> None:
    written([{"key": 1, "n": 2, "m": 3}], name, schema=SCHEMA, ignore_unknown_columns=True)
    assert [{"key": 1, "n": 2}] == found(bigquery, name)


def test_elements_are_lists_of_rows(bigquery: BigQueryServer, name: str) -> None:
    written([ROWS, OTHERS], name, schema=SCHEMA, with_batched_input=True)
    assert ROWS + OTHERS == found(bigquery, name)


def test_bytes_are_as_in_beam(bigquery: BigQueryServer, name: str) -> None:
    """In base64, but for the Storage Write API, if it is given."""
    for method, given in (("FILE_LOADS", b"/w=="), ("STORAGE_WRITE_API", b"\xff"), (None, "/w==")):
        written([{"raw": given}], name, schema="raw:BYTES", method=method)
    assert [{"raw": b"\xff"}] * 3 == bigquery.rows(name)


def test_files_are_staged_in_a_store(
    gcs_server: GcsServer, name: str, monkeypatch: pytest.MonkeyPatch, bigquery_of_store: BigQueryServer
) -> None:
    """And removed after their load."""
    from gcsfs.core import GCSFileSystem

    for server in (gcs_server, bigquery_of_store):
        for variable, value in server.environment.items():
            monkeypatch.setenv(variable, value)
    GCSFileSystem.clear_instance_cache()
    directory = f"gs://{BUCKET}/{name}"
    written(ROWS, name, schema=SCHEMA, method="FILE_LOADS", custom_gcs_temp_location=directory)
    assert ROWS == found(bigquery_of_store, name)
    assert [] == GCSFileSystem().find(directory)


@pytest.fixture
def bigquery_of_store(gcs_server: GcsServer) -> Iterator[BigQueryServer]:
    """A server that loads files from the store."""
    with BigQueryServer.running(STORAGE_EMULATOR_HOST=gcs_server.url) as server:
        yield server


# Changes


def test_rows_are_changed_by_their_key(bigquery: BigQueryServer, name: str) -> None:
    """As Beam gives changes; a change with a former number is dropped."""

    def change(kind: str, number: str, row: Any) -> Any:
        return {"row_mutation_info": {"mutation_type": kind, "change_sequence_number": number}, "record": row}

    arguments: Any = {"schema": SCHEMA, "method": "STORAGE_WRITE_API", "use_cdc_writes": True, "primary_key": ["key"]}
    written([change("UPSERT", "2", row) for row in ROWS], name, **arguments)
    changes = [
        change("DELETE", "3", ROWS[0]),
        change("UPSERT", "1", {"key": 1, "n": 9}),
        change("UPSERT", "4", {"key": 2, "n": 9}),
    ]
    written(changes, name, **arguments)
    assert [ROWS[1], {"key": 2, "n": 9}] == found(bigquery, name)


def test_a_change_is_that_of_a_function(bigquery: BigQueryServer, name: str) -> None:
    for kind in ("UPSERT", "DELETE"):
        written(
            ROWS[:2] if kind == "UPSERT" else ROWS[:1],
            name,
            schema=SCHEMA,
            use_cdc_writes=lambda row, kind=kind: {"mutation_type": kind},
            primary_key=["key"],
        )
    assert ROWS[1:2] == found(bigquery, name)


def test_changes_may_be_rows(bigquery: BigQueryServer, name: str) -> None:
    """Of Beam's classes, as its cross-language transform demands them."""
    changes = [
        beam.Row(row_mutation_info=beam.Row(mutation_type=kind, change_sequence_number=number), record=beam.Row(**row))
        for kind, number, row in (("UPSERT", "1", ROWS[0]), ("UPSERT", "2", ROWS[1]), ("DELETE", "3", ROWS[0]))
    ]
    written(changes, name, schema=SCHEMA, use_cdc_writes=True, primary_key=["key"])
    assert ROWS[1:2] == found(bigquery, name)


def test_a_row_without_its_key_is_an_error(bigquery: BigQueryServer, name: str) -> None:
    with pytest.raises(SinkError, match="column 'key' is part of the primary key"):
        written([{"n": 1}], name, schema=SCHEMA, use_cdc_writes=True, primary_key=["key"])


# Errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"method": "LOADS"}, "method must be one of"),
        ({"create_disposition": "CREATE"}, "create_disposition must be one of"),
        ({"write_disposition": "TRUNCATE"}, "write_disposition must be one of"),
        ({"insert_retry_strategy": "NEVER"}, "insert_retry_strategy must be one of"),
        ({"schema": "SCHEMA_AUTODETECT", "method": "STREAMING_INSERTS"}, "SCHEMA_AUTODETECT is for FILE_LOADS"),
        ({"method": "STREAMING_INSERTS", "write_disposition": "WRITE_TRUNCATE"}, "streaming inserts can't do"),
        ({"method": "STORAGE_WRITE_API", "write_disposition": "WRITE_EMPTY"}, "use FILE_LOADS"),
        ({"method": "FILE_LOADS", "use_cdc_writes": True, "primary_key": ["key"]}, "use_cdc_writes is for"),
        ({"use_cdc_writes": True}, "needs primary_key"),
        (
            {"use_cdc_writes": True, "primary_key": ["key"], "write_disposition": "WRITE_TRUNCATE"},
            "use_cdc_writes can't",
        ),
        ({"method": "FILE_LOADS", "custom_gcs_temp_location": "/tmp/x"}, "must begin with gs://"),
    ],
)
def test_wrong_arguments_are_named_when_the_pipeline_is_built(arguments: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"^WriteToBigQuery: .*{said}"):
        beam.io.WriteToBigQuery("shop.orders", **{"schema": SCHEMA, **arguments})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"method": "FILE_LOADS"}, "triggering_frequency"),
        ({"write_disposition": "WRITE_TRUNCATE", "method": "STORAGE_WRITE_API"}, "a stream makes many"),
    ],
)
def test_what_a_stream_can_not_do_is_named_when_the_pipeline_is_built(arguments: Any, said: str) -> None:
    p = beam.Pipeline()
    with pytest.raises(ValueError, match=f"^Save: .*{said}"):
        _ = (
            p
            | beam.io.GenerateSequence(0)
            | "Save" >> beam.io.WriteToBigQuery("shop.orders", schema=SCHEMA, **arguments)
        )


def test_a_partition_by_name_is_written_by_load_jobs(bigquery: BigQueryServer, name: str) -> None:
    """Streams are refused."""
    partition = f"shop.{name}$20260131"
    assert "FILE_LOADS" == beam.io.WriteToBigQuery(partition, schema=SCHEMA).display_data()["method"]
    with pytest.raises(ValueError, match="^WriteToBigQuery: .*names a partition.*use FILE_LOADS"):
        beam.io.WriteToBigQuery(partition, schema=SCHEMA, method="STORAGE_WRITE_API")
    with pytest.raises(SinkError, match="names a partition.*use FILE_LOADS"):
        written(ROWS, lambda row: partition, schema=SCHEMA)


def test_results_of_other_methods_are_refused_by_name() -> None:
    result = beam.Pipeline() | beam.Create(ROWS) | beam.io.WriteToBigQuery("shop.orders", schema=SCHEMA)
    for name in ("destination_load_jobid_pairs", "destination_file_pairs"):
        with pytest.raises(UnsupportedError, match=f"^WriteToBigQuery: {name} "):
            getattr(result, name)


def test_jobs_of_a_stream_are_refused_when_the_pipeline_is_built() -> None:
    rows = beam.Pipeline() | beam.io.GenerateSequence(0) | beam.Map(lambda n: {"key": n, "n": n})
    write = beam.io.WriteToBigQuery("shop.orders", schema=SCHEMA, method="FILE_LOADS", triggering_frequency=60)
    jobs = (rows | "Save" >> write).destination_load_jobid_pairs
    with pytest.raises(UnsupportedError, match="^Save.*load jobs of a stream run when a checkpoint is complete"):
        _ = jobs | beam.Map(print)


@methods
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"create_disposition": "CREATE_NEVER"}, "there is no table .*CREATE_NEVER"),
        ({}, "no schema to create it with"),
    ],
)
def test_a_missing_table_is_named_before_the_run(
    bigquery: BigQueryServer, name: str, method: str, arguments: Any, said: str
) -> None:
    p = beam.Pipeline()
    write = beam.io.WriteToBigQuery(f"{DATASET}.{name}", method=method, **arguments)
    _ = p | beam.Create(ROWS) | beam.Map(_unreachable) | write
    with pytest.raises(SinkError, match=f"^WriteToBigQuery.*{said}"):
        p.run()


@methods
def test_a_missing_dataset_is_named_before_the_run(bigquery: BigQueryServer, name: str, method: str) -> None:
    p = beam.Pipeline()
    write = beam.io.WriteToBigQuery(f"missing.{name}", schema=SCHEMA, method=method)
    _ = p | beam.Create(ROWS) | beam.Map(_unreachable) | "Save" >> write
    with pytest.raises(SinkError, match=f"^Save.*BigQuery's {PROJECT}:missing.{name} can't be written to: .*dataset"):
        p.run()


def _unreachable(row: Any) -> Any:
    raise AssertionError("the run has started")


@methods
@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("key:STRING", "column 'key' .*has the type INTEGER; the schema says STRING"),
        ("key:INTEGER,m:INTEGER", "has no column 'm'"),
        ([{"name": "key", "type": "INTEGER", "mode": "REPEATED"}], "has the mode"),
        ("n:INTEGER", "column 'key' .*is REQUIRED, and the schema doesn't have it"),
    ],
)
def test_a_wrong_schema_is_named_before_the_run(
    bigquery: BigQueryServer, name: str, method: str, schema: Any, said: str
) -> None:
    bigquery.make(name, [("key", "INTEGER", "REQUIRED"), ("n", "INTEGER")])  # type: ignore[list-item]
    p = beam.Pipeline()
    write = beam.io.WriteToBigQuery(f"{DATASET}.{name}", schema=schema, method=method)
    _ = p | beam.Create(ROWS) | beam.Map(_unreachable) | write
    with pytest.raises(SinkError, match=f"^WriteToBigQuery.*{said}"):
        p.run()


def test_an_error_of_rights_and_of_quotas_says_what_to_do() -> None:
    exceptions = pytest.importorskip("google.api_core.exceptions")
    table = TableName("shop", "sales", "orders")
    denied = error_of("Save", table, "can't be written to", exceptions.Forbidden("Access Denied"), SinkError)
    assert "Save: BigQuery's shop:sales.orders can't be written to: 403 Access Denied; do the credentials" in str(
        denied
    )
    exhausted = exceptions.Forbidden("too many", errors=[{"reason": "quotaExceeded"}])
    throttled = exceptions.TooManyRequests("too many"), exceptions.ResourceExhausted("too many")
    for error in (exhausted, *throttled):
        assert "a quota of the project is exhausted" in str(error_of("Save", table, "can't be written to", error))


def test_streaming_inserts_say_that_they_are_at_least_once(
    bigquery: BigQueryServer, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        written(ROWS, name, schema=SCHEMA, method="STREAMING_INSERTS")
    assert any("WriteToBigQuery: streaming inserts are at least once" in each for each in caplog.messages)


def test_a_commit_of_streams_that_are_gone_says_what_to_do(bigquery: BigQueryServer, name: str) -> None:
    table = TableName(PROJECT, DATASET, name)
    bigquery.make(name, [("key", "INTEGER")])
    staged = [[(str(table), f"{table.path}/streams/0123456789abcdef", 1)]]
    with pytest.raises(SinkError, match="STREAM_NOT_FOUND.*start from an earlier savepoint"):
        StreamSink(Target(table)).commit(SinkContext("Save", "t"), staged)
