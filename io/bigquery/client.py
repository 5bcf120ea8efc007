"""Google's clients of BigQuery, the names of tables, and errors in words.

Credentials are those of `google_credentials`.  With BIGQUERY_EMULATOR_HOST
in the environment there are none; BIGQUERY_STORAGE_EMULATOR_HOST is then the host and port of the Storage Read and
Write APIs, and port 9060 of the same host if that isn't given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar
from urllib.parse import urlsplit

import attrs

from ...frozen import frozen
from ...sdk.errors import PenstockError, SinkError, SourceError, missing_extra
from ...sdk.redaction import without_environment
from ...sdk.user_code.error_text import text_or_class
from ..connections.google_credentials import ADVICE, QUOTA_ADVICE, advice_on, credentials
from ..connections.lost_connections import LIMITS_OF_GOOGLE, is_lost, reasons_of
from ..connections.waiting import patiently

T = TypeVar("T")

# The longest wait for an answer, in seconds.  Calls aren't repeated by the client, silently.
TIMEOUT = 60.0

# How long a call waits for BigQuery before that is logged, in seconds.
SILENT = 30.0

# A project may belong to a domain: "example.com:shop".
_NAME = re.compile(
    r"(?:(?P<project>(?:[a-z0-9.-]+:)?[a-zA-Z0-9-]+)[:.])?(?P<dataset>\w+)\.(?P<table>[\w\-$ ]+)", re.ASCII
)


def package(needed_for: str) -> Any:
    """Import and return the client's package.  Raises `MissingExtraError`."""
    try:
        import_module("google.cloud.bigquery_storage_v1")
        return import_module("google.cloud.bigquery")
    except ImportError as error:
        raise missing_extra("google-cloud-bigquery", "bigquery", needed_for) from error


def exceptions() -> Any:
    """Return the module of the errors of Google's clients."""
    return import_module("google.api_core.exceptions")


@frozen
class TableName:
    """The name of a table.  Its text is 'project:dataset.table'.

    Attributes:
      project: None for the project of the credentials.
      table: with a decorator of a partition, such as "orders$20260101".

    >>> TableName.of("Read", "shop:sales.orders") == TableName.of("Read", "shop.sales.orders")
    True
    >>> str(TableName.of("Read", "sales.orders"))
    'sales.orders'
    """

    project: str | None
    dataset: str
    table: str

    @staticmethod
    def of(transform: str, given: Any, dataset: str | None = None, project: str | None = None) -> TableName:
        """Return the name of a table.  Raises `ValueError`, naming the transform.

        Args:
          given: 'project:dataset.table', 'project.dataset.table', 'dataset.table', 'table' if `dataset` is given, or
            an object with `projectId`, `datasetId` and `tableId`, such as Beam's, or `project`, `dataset_id` and
            `table_id`, such as Google's.
          dataset, project: those of a name without.
        """
        if isinstance(given, TableName):
            return given
        for names in (("projectId", "datasetId", "tableId"), ("project", "dataset_id", "table_id")):
            parts = [getattr(given, name, None) for name in names]
            if parts[2]:
                found = TableName(parts[0] or project, parts[1] or dataset or "", parts[2])
                break
        else:
            match = _NAME.fullmatch(given) if isinstance(given, str) else None
            if match is not None:
                found = TableName(match["project"] or project, match["dataset"], match["table"])
            elif isinstance(given, str) and dataset and re.fullmatch(r"[\w\-$ ]+", given):
                found = TableName(project, dataset, given)
            else:
                found = TableName(None, "", "")
        if not found.dataset:
            raise ValueError(
                f"{transform}: expected a table such as 'PROJECT:DATASET.TABLE' or 'DATASET.TABLE', got {given!r}"
            )
        return found

    def within(self, project: str) -> TableName:
        """Return the name with a project, which a name without has."""
        return self if self.project else attrs.evolve(self, project=project)

    @property
    def sql(self) -> str:
        """The name as SQL has it, with its project, and for `Client.get_table`."""
        return ".".join(part for part in (self.project, self.dataset, self.table) if part)

    @property
    def is_partition(self) -> bool:
        """True if the name has the decorator of a partition, which the Storage APIs don't take."""
        return "$" in self.table

    @property
    def path(self) -> str:
        """The name as the Storage APIs have it."""
        return f"projects/{self.project}/datasets/{self.dataset}/tables/{self.table.partition('$')[0]}"

    def __str__(self) -> str:
        return f"{self.project}:{self.dataset}.{self.table}" if self.project else f"{self.dataset}.{self.table}"


# Clients


def emulator() -> tuple[str, str] | None:
    """Return the URL of an emulator, and the host and port of its Storage APIs; None for BigQuery itself."""
    host = os.environ.get("BIGQUERY_EMULATOR_HOST")
    if not host:
        return None
    url = host if "://" in host else f"http://{host}"
    storage = os.environ.get("BIGQUERY_STORAGE_EMULATOR_HOST") or f"{urlsplit(url).hostname}:9060"
    return url, storage


def open_client(needed_for: str, project: str | None = None, location: str | None = None) -> Any:
    """Return Google's client of tables and jobs.

    Args:
      needed_for: the transform.
      project: which jobs are run in; None for that of the credentials.
    """
    bigquery = package(needed_for)
    if (found := emulator()) is None:
        return bigquery.Client(project, credentials=credentials(), location=location)
    anonymous = import_module("google.auth.credentials").AnonymousCredentials()
    project = project or os.environ.get("GOOGLE_CLOUD_PROJECT") or "emulated"
    return bigquery.Client(project, credentials=anonymous, location=location, client_options={"api_endpoint": found[0]})


def open_read_client() -> Any:
    """Return Google's client of the Storage Read API."""
    return _storage_client("BigQueryReadClient", "big_query_read", "BigQueryReadGrpcTransport")


def open_write_client() -> Any:
    """Return Google's client of the Storage Write API."""
    return _storage_client("BigQueryWriteClient", "big_query_write", "BigQueryWriteGrpcTransport")


def _storage_client(client: str, service: str, transport: str) -> Any:
    storage = import_module("google.cloud.bigquery_storage_v1")
    kind = getattr(storage, client)
    if (found := emulator()) is None:
        return kind(credentials=credentials())
    transports = import_module(f"google.cloud.bigquery_storage_v1.services.{service}.transports")
    # Pending requests of a server that doesn't answer fail soon, and connections are made again soon.
    options = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_reconnect_backoff_ms", 1000),
    ]
    channel = import_module("grpc").insecure_channel(found[1], options)
    return kind(transport=getattr(transports, transport)(channel=channel))


# Errors

# Reasons of errors after which the same call, or another job, may succeed: limits, and failures of BigQuery's own.
LATER = LIMITS_OF_GOOGLE | {"backendError", "internalError", "jobBackendError", "jobInternalError"}


def may_answer(error: BaseException) -> bool:
    """Return True for an error of BigQuery that may answer later."""
    return is_lost(error) or not LATER.isdisjoint(reasons_of(error))


def waited_for(transform: str, table: TableName | str, call: Callable[[], T]) -> T:
    """Return the result of a call; wait for a service that doesn't answer, or limits requests."""
    return patiently(transform, f"BigQuery's {table}", call, may_answer=may_answer, silent=SILENT)


@contextmanager
def explained(
    transform: str, table: TableName | str, what: str, kind: type[SourceError] | type[SinkError] = SourceError
) -> Iterator[None]:
    """Convert the client's errors, except of lost connections, into `SourceError`s or `SinkError`s.

    Args:
      what: such as "can't be read".
    """
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        if is_lost(error):
            raise
        raise error_of(transform, table, what, error, kind) from None


def error_of(
    transform: str,
    table: TableName | str,
    what: str,
    error: BaseException,
    kind: type[SourceError] | type[SinkError] = SourceError,
) -> SourceError | SinkError:
    """Return the client's error in words, with what to do."""
    said = without_environment(text_or_class(error)).partition("\n")[0]
    advice = advice_on(error, _ADVICE) if LIMITS_OF_GOOGLE.isdisjoint(reasons_of(error)) else QUOTA_ADVICE
    return kind(f"{transform}: BigQuery's {table} {what}: {said}{advice}")


def advice_of_reason(reason: str | None) -> str:
    """Return what to do about the reason of a job's failure.

    >>> advice_of_reason("accessDenied").startswith("; do the credentials"), advice_of_reason("invalid")
    (True, '')
    """
    return QUOTA_ADVICE if reason in LIMITS_OF_GOOGLE else _RIGHTS if reason == "accessDenied" else ""


_RIGHTS = "; do the credentials have the roles BigQuery Data Editor, or Viewer, and BigQuery Job User?"
_ADVICE = ADVICE | {
    "Forbidden": _RIGHTS,
    "PermissionDenied": _RIGHTS,
    "NotFound": "; do the project, the dataset and the table exist?",
}
