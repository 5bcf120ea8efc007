"""The program of the server with BigQuery's API: bqemulator, mended where it differs from BigQuery.

`python -m servers.bigquery_emulator PORT GRPC_PORT PROJECT` serves until its input ends: REST on one port, the Storage
Read and Write APIs on the other.  A line of its input is "start" or "stop".  What is stored survives a stop, pending
streams included.

A used job id is refused, rows with a known insert id are dropped, files of JSON are loaded as rows of JSON are
inserted, a missing dataset is not found, rows of streams have nested columns, a stream that is committed already is
refused as such, and `_CHANGE_TYPE` changes rows by the primary key.
"""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import sys
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import bqemulator.server
import pyarrow as pa
import uvicorn
from bqemulator.api.app import create_app
from bqemulator.api.routes import tabledata, upload
from bqemulator.config import PersistenceMode, Settings
from bqemulator.grpc_api import write_servicer
from bqemulator.grpc_api.server import build_grpc_server
from bqemulator.jobs import executor
from bqemulator.storage import arrow_bridge, type_map
from bqemulator.storage.engine import DuckDBEngine
from bqemulator.storage.sql_identifiers import quoted_table_ref, register_name
from bqemulator.streaming import proto_deserializer
from google.cloud.bigquery_storage_v1 import types
from servers import bigquery_results

# The id of the job of a request, which the emulator forgets for uploads.
_job: ContextVar[str | None] = ContextVar("job", default=None)

# By table, its primary key, which the emulator forgets.
_keys: dict[tuple[str, str, str], Sequence[str]] = {}

# By table and key, the sequence numbers of the last changes.
_applied: dict[tuple[Any, ...], str] = {}

# The emulator has one connection to its database, which one request at a time may use.
_database = threading.Lock()
_has_database: ContextVar[bool] = ContextVar("has_database", default=False)

_MENDED = ("/jobs", "/insertAll", "/tables")


def serve(port: int, grpc_port: int, project: str) -> None:
    """Serve, and follow the commands of the input."""
    _mend()
    bqemulator.server.create_app = lambda context: _Mended(create_app(context), context)
    settings = Settings(
        persistence_mode=PersistenceMode.EPHEMERAL,
        rest_port=port,
        grpc_port=grpc_port,
        default_project_id=project,
        log_level="error",
    )
    server: Any = bqemulator.server.EmulatorServer(settings)

    # Handlers of gRPC run in its loop, and wait there for those of REST.
    rest, rpc = _loop(), _loop()
    bqemulator.server.build_grpc_server = lambda context: (_NoServer(), grpc_port)

    async def listen() -> None:
        if server._context is None:
            await server.start()
        else:
            app = _Mended(create_app(server._context), server._context)
            config = uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, lifespan="off", loop="none")
            server._fastapi_server = uvicorn.Server(config)
            server._fastapi_server.install_signal_handlers = lambda: None
            server._fastapi_task = asyncio.create_task(server._fastapi_server.serve())
            await server._wait_for_uvicorn_started(timeout=30)

    async def listen_rpc() -> None:
        server._grpc_server, _ = build_grpc_server(server._context)
        await server._grpc_server.start()

    async def close() -> None:
        server._fastapi_server.should_exit = server._fastapi_server.force_exit = True
        await server._fastapi_task

    async def close_rpc() -> None:
        await server._grpc_server.stop(None)

    commands = {"start": [(listen, rest), (listen_rpc, rpc)], "stop": [(close_rpc, rpc), (close, rest)]}
    for line in sys.stdin:
        for command, loop in commands[line.strip()]:
            asyncio.run_coroutine_threadsafe(command(), loop).result()
        print("done", flush=True)
    # DuckDB's threads aren't waited for.
    os._exit(0)


def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


class _NoServer:
    async def start(self) -> None:
        """Do nothing."""


class _Mended:
    """The emulator's application, which refuses used job ids, and drops rows with known insert ids."""

    def __init__(self, app: Any, context: Any) -> None:
        self._app = app
        self._context = context
        self._inserted: dict[str, set[str]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(None, _database.acquire)
        _has_database.set(True)
        try:
            await self._handle(scope, receive, send)
        finally:
            _database.release()

    async def _handle(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or scope["method"] != "POST" or not path.endswith(_MENDED):
            await self._app(scope, receive, send)
            return
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if path.endswith("/insertAll"):
            body, errors = self._insertable(path, body)
            if errors:
                await _answer(send, 200, {"kind": "bigquery#tableDataInsertAllResponse", "insertErrors": errors})
                return
        elif path.endswith("/tables"):
            project, _, dataset, _ = path.split("/")[-4:]
            if self._context.catalog.get_dataset(project, dataset) is None:
                message = f"Not found: Dataset {project}:{dataset}"
                await _answer(
                    send, 404, {"error": {"code": 404, "message": message, "errors": [{"reason": "notFound"}]}}
                )
                return
            table = json.loads(body)
            if key := table.get("tableConstraints", {}).get("primaryKey", {}).get("columns"):
                _keys[tuple(table["tableReference"][name] for name in ("projectId", "datasetId", "tableId"))] = key
        elif self._is_used(path, body):
            error = {"code": 409, "message": "Already Exists: Job", "errors": [{"reason": "duplicate"}]}
            await _answer(send, 409, {"error": error})
            return
        scope["headers"] = [(k, v) for k, v in scope["headers"] if k != b"content-length"]
        scope["headers"].append((b"content-length", str(len(body)).encode()))
        is_given = False

        async def again() -> Any:
            nonlocal is_given
            if is_given:
                return await receive()
            is_given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, send)

    def _is_used(self, path: str, body: bytes) -> bool:
        # The first part of an upload is the job, too.
        start = body.find(b"{")
        job, _ = json.JSONDecoder().raw_decode(body[start:].decode("utf-8", "replace"))
        id = job.get("jobReference", {}).get("jobId")
        _job.set(id)
        project = path.partition("/projects/")[2].partition("/")[0]
        return id is not None and self._context.catalog.get_job(project, id) is not None

    def _insertable(self, path: str, body: bytes) -> tuple[bytes, list[Any]]:
        """Return a request without rows that are known, and the errors of a request that is refused."""
        project, _, dataset, _, table = path.split("/")[-6:-1]
        request = json.loads(body)
        known = self._inserted.setdefault(path, set())
        rows = [row for row in request.get("rows", ()) if row.get("insertId") not in known]
        meta = self._context.catalog.get_table(project, dataset, table)
        errors = []
        if meta is not None:
            columns = tabledata._build_arrow_schema(tabledata._fields_raw_from_schema(meta.schema_.fields))
            names = {field.name for field in meta.schema_.fields}
            for number, row in enumerate(rows):
                unknown = row["json"].keys() - names
                _, found = tabledata._partition_rows_for_insert([row], columns)
                if unknown and not request.get("ignoreUnknownValues"):
                    errors.append({"index": number, "errors": [_no_such_field(min(unknown))]})
                elif found:
                    errors.append({**found[0], "index": number})
        bad = {error["index"] for error in errors}
        if bad and not request.get("skipInvalidRows"):
            stopped = [{"reason": "stopped", "location": "", "debugInfo": "", "message": ""}]
            return body, errors + [{"index": n, "errors": stopped} for n in range(len(rows)) if n not in bad]
        known.update(row["insertId"] for row in rows if row.get("insertId"))
        return json.dumps({**request, "rows": rows}).encode(), []


def _no_such_field(name: str) -> dict[str, str]:
    return {"reason": "invalid", "location": name, "debugInfo": "", "message": f"no such field: {name}."}


async def _answer(send: Any, status: int, content: Any) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})


# What is put into the emulator's modules


def _mend() -> None:
    bigquery_results.mend()
    # DuckDB has 38 digits at most.
    type_map._BQ_TO_DUCKDB["BIGNUMERIC"] = "DECIMAL(38, 18)"
    of_scalar = tabledata._bq_type_to_arrow

    def of_decimal(name: str) -> Any:
        return pa.decimal128(38, 18) if name.upper() == "BIGNUMERIC" else of_scalar(name)

    tabledata._bq_type_to_arrow = of_decimal
    upload._PERMITTED_MEDIA_CONTENT_TYPES += ("*/*",)
    made = upload._new_job_id
    upload._new_job_id = lambda: _job.get() or made()
    executor._load_path_into_target = _load
    executor._resolve_uri = _resolved
    write_servicer._table_arrow_schema = _columns
    proto_deserializer.proto_rows_to_arrow_table = write_servicer.proto_rows_to_arrow_table = _decoded
    fetch_arrow = DuckDBEngine.fetch_arrow

    def fetched(*arguments: Any) -> Any:
        with _the_database():
            return fetch_arrow(*arguments)

    DuckDBEngine.fetch_arrow = fetched
    handler = write_servicer.BigQueryWriteHandler
    handler._flush_to_target = _flush
    commit = handler._handle_batch_commit_write_streams

    def committed(self: Any, request: bytes, context: Any) -> Any:
        answer = types.BatchCommitWriteStreamsResponse.deserialize(commit(self, request, context))
        for error in answer.stream_errors:
            stream = self._manager.get(error.entity)
            if stream is not None and stream.state == "COMMITTED":
                error.code = types.StorageError.StorageErrorCode.STREAM_ALREADY_COMMITTED
        return types.BatchCommitWriteStreamsResponse.serialize(answer)

    handler._handle_batch_commit_write_streams = committed


@contextmanager
def _the_database() -> Iterator[None]:
    if _has_database.get():
        yield
        return
    with _database:
        token = _has_database.set(True)
        try:
            yield
        finally:
            _has_database.reset(token)


def _columns(meta: Any) -> Any:
    return tabledata._build_arrow_schema(tabledata._fields_raw_from_schema(meta.schema_.fields))


def _insert(context: Any, meta: Any, table: Any) -> None:
    target = quoted_table_ref(meta.project_id, meta.dataset_id, meta.table_id)
    name = register_name(f"__bqemu_mend_{os.urandom(6).hex()}")
    selected = tabledata._build_insert_select(list(meta.schema_.fields), name)
    context.engine.connection.register(name, table)
    try:
        context.engine.execute(f"INSERT INTO {target} SELECT {selected} FROM {name}")
    finally:
        context.engine.connection.unregister(name)


def _load(path: str, job: Any, context: Any) -> None:
    if job.source_format not in ("NEWLINE_DELIMITED_JSON", "JSON"):
        executor._LOAD_FORMAT_HANDLERS[job.source_format](path, job.target_ref, context)
        return
    meta = context.catalog.get_table(job.project_id, job.dataset_id, job.table_id)
    known = {field.name for field in meta.schema_.fields}
    rows = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    for row in rows:
        if not job.raw_config.get("ignoreUnknownValues") and (unknown := row.keys() - known):
            raise ValueError(f"No such field: {min(unknown)}.")
        for field in meta.schema_.fields:
            if field.type == "JSON" and field.name in row:
                row[field.name] = json.dumps(row[field.name])
    _insert(context, meta, tabledata.bq_rows_to_arrow([{"json": row} for row in rows], _columns(meta)))


_resolve_uri = executor._resolve_uri


def _resolved(uri: str, context: Any) -> str:
    store = os.environ.get("STORAGE_EMULATOR_HOST")
    if store is None or not uri.startswith("gs://"):
        return str(_resolve_uri(uri, context))
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    url = f"{store}/storage/v1/b/{bucket}/o/{urllib.parse.quote(name, safe='')}?alt=media"
    path = pathlib.Path(context.upload_sessions._staging_dir) / os.urandom(8).hex()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(urllib.request.urlopen(url).read())
    return str(path)


def _decoded(decoder: Any, serialized: Sequence[bytes], target: Any) -> Any:
    # With nested columns; and `_CHANGE_TYPE`, which isn't a column, as metadata.
    rows = [decoder.decode(raw) for raw in serialized]
    arrays = [
        pa.array(
            [arrow_bridge._coerce_to_arrow_value(row.get(each.name), each.type, field=each) for row in rows], each.type
        )
        for each in target
    ]
    table = pa.Table.from_arrays(arrays, schema=target)
    if "_CHANGE_TYPE" in decoder.field_names:
        changes = [[row.get("_CHANGE_TYPE"), row.get("_CHANGE_SEQUENCE_NUMBER")] for row in rows]
        table = table.replace_schema_metadata({b"changes": json.dumps(changes).encode()})
    return table


def _flush(self: Any, stream: Any, rows: Any) -> None:
    with _the_database():
        meta = self._ctx.catalog.get_table(stream.project_id, stream.dataset_id, stream.table_id)
        changes = (rows.schema.metadata or {}).get(b"changes")
        if changes is None:
            _insert(self._ctx, meta, rows)
        else:
            _change(self._ctx, meta, rows, json.loads(changes))
        self._ctx.snapshots.record_change(stream.project_id, stream.dataset_id, stream.table_id)


def _change(context: Any, meta: Any, rows: Any, changes: Any) -> None:
    target = quoted_table_ref(meta.project_id, meta.dataset_id, meta.table_id)
    keys = _keys[meta.project_id, meta.dataset_id, meta.table_id]
    for number, (kind, sequence) in enumerate(changes):
        row = rows.slice(number, 1)
        values = [row.column(key)[0].as_py() for key in keys]
        if _applied.get((target, *values), "") > (sequence or ""):
            continue
        _applied[target, *values] = sequence or ""
        condition = " AND ".join(f'"{key}" = ?' for key in keys)
        context.engine.execute(f"DELETE FROM {target} WHERE {condition}", values)
        if kind == "UPSERT":
            _insert(context, meta, row)


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
