"""Streams and jobs whose answers are lost, late or errors, from clients that a test plays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.io.bigquery.client import TableName
from penstock.io.bigquery.schemas import Column
from penstock.io.bigquery.sinks import run_once
from penstock.io.bigquery.streams import RowStream
from penstock.io.bigquery.tables import Tables, Target
from penstock.sdk.errors import RejectedRecordError, SinkError

TABLE = TableName("shop", "sales", "orders")
COLUMNS = (Column("n", "INTEGER"),)


def _answer(code: int = 0, message: str = "", row_errors: Sequence[Any] = ()) -> Any:
    return SimpleNamespace(error=SimpleNamespace(code=code, message=message), row_errors=row_errors)


class PlayedClient:
    """A client of the Storage Write API, whose connections give the answers of a script.

    Attributes:
      offsets: of the requests, by connection.
    """

    def __init__(self, *connections: Sequence[Any]) -> None:
        self._connections = list(connections)
        self.offsets: list[list[int]] = []
        self.rows: dict[int, int] = {}

    def create_write_stream(self, **given: Any) -> Any:
        return SimpleNamespace(name="streams/1")

    def append_rows(self, requests: Iterator[Any], **given: Any) -> Iterator[Any]:
        offsets: list[int] = []
        self.offsets.append(offsets)
        for answer in self._connections.pop(0):
            request = next(requests)
            offsets.append(request.offset)
            if isinstance(answer, BaseException):
                raise answer
            if answer.error.code == 0:
                self.rows[request.offset] = len(request.proto_rows.rows.serialized_rows)
            yield answer

    def finalize_write_stream(self, **given: Any) -> Any:
        return SimpleNamespace(row_count=sum(self.rows.values()))


def _stream(client: PlayedClient) -> RowStream:
    tables = Tables("Save", Target(TABLE))
    tables._write_client = client
    return RowStream(tables, TABLE, COLUMNS)


@pytest.fixture(autouse=True)
def _small_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows each."""
    monkeypatch.setattr("penstock.io.bigquery.streams._REQUEST_BYTES", 4)


def test_what_is_not_acknowledged_is_sent_again_with_its_offsets() -> None:
    """A request that had its effect is refused then, and counts once."""
    client = PlayedClient([_answer(), ConnectionResetError()], [_answer(6), _answer()])
    client.rows[2] = 2
    stream = _stream(client)
    for n in range(1, 7):
        stream.add_fields({"n": n})
    stream.finish()
    assert [[0, 2], [2, 4]] == client.offsets
    assert 6 == stream.rows


def test_a_server_that_is_busy_is_asked_again() -> None:
    client = PlayedClient([_answer(8, "too many")], [_answer()])
    stream = _stream(client)
    stream.add_fields({"n": 1})
    stream.finish()
    assert [[0], [0]] == client.offsets


def test_a_row_that_is_refused_is_named() -> None:
    stream = _stream(PlayedClient([_answer(3, "errors", [SimpleNamespace(index=1, message="n is too large")])]))
    for n in (7, 8):
        stream.add_fields({"n": n})
    with pytest.raises(
        RejectedRecordError, match=r"^Save: BigQuery's shop:sales.orders refuses .*n: 8.*n is too large"
    ):
        stream.finish()


def test_another_error_is_not_waited_for() -> None:
    stream = _stream(PlayedClient([_answer(9, "the stream is finalized")]))
    stream.add_fields({"n": 1})
    with pytest.raises(SinkError, match="can't be written to: the stream is finalized"):
        stream.finish()


def test_rows_that_are_missing_at_the_end_are_an_error() -> None:
    client = PlayedClient([_answer(6)])
    stream = _stream(client)
    stream.add_fields({"n": 1})
    with pytest.raises(SinkError, match="has 0 rows of 1"):
        stream.finish()


# Jobs


def _job(reason: str | None, state: str = "DONE") -> Any:
    error = None if reason is None else {"reason": reason, "message": f"it was {reason}"}
    return SimpleNamespace(state=state, error_result=error, errors=[error] if error else [])


def _run(*jobs: Any, known: Any = None) -> tuple[str, list[str]]:
    """Run jobs one after the other; an exception is raised.  Return the id of the last, and those that were begun."""
    begun: list[str] = []
    waiting = list(jobs)

    def begin(id: str) -> Any:
        begun.append(id)
        job = waiting.pop(0)
        if isinstance(job, BaseException):
            raise job
        return job

    tables = Tables("Save", Target(TABLE))
    tables._client = SimpleNamespace(
        get_dataset=lambda *_, **__: SimpleNamespace(location="EU"),
        get_job=lambda id, project, location, **_: known if location == "EU" else None,
    )
    return run_once(tables, TABLE, "job", "can't be loaded", begin), begun


def test_a_job_that_fails_for_a_reason_of_bigquery_is_tried_again() -> None:
    assert ("job_1", ["job_0", "job_1"]) == _run(_job("backendError"), _job(None))


def test_a_job_whose_id_is_used_is_not_run_again() -> None:
    """It is looked up where its dataset is."""
    exceptions = pytest.importorskip("google.api_core.exceptions")
    assert ("job_0", ["job_0"]) == _run(exceptions.Conflict("Already Exists"), known=_job(None))


def test_a_job_that_fails_because_of_its_rows_is_an_error() -> None:
    with pytest.raises(SinkError, match=r"shop:sales.orders: can't be loaded: job job_0: invalid: it was invalid$"):
        _run(_job("invalid"))


def test_a_job_is_waited_for() -> None:
    job = _job(None, "RUNNING")
    job.reload = lambda **_: setattr(job, "state", "DONE")
    assert ("job_0", ["job_0"]) == _run(job)
