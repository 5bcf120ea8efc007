"""A server with the APIs of BigQuery on loopback: bqemulator's, in a process and an environment of its own."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from servers.commanded_server import CommandedServer
from servers.loopback_server import free_port

# Made by install.sh.
_ENVIRONMENT = pathlib.Path(__file__).parents[2] / ".bigquery" / "venv"

PROJECT = "penstock"
DATASET = "shop"


def why_there_is_no_bigquery() -> str | None:
    """Return the missing prerequisite, or None."""
    try:
        import google.cloud.bigquery
        import google.cloud.bigquery_storage_v1  # noqa: F401
    except ImportError:
        return "google-cloud-bigquery or google-cloud-bigquery-storage is not installed"
    if not (_ENVIRONMENT / "installed").exists():
        return "bqemulator is not installed (make servers)"
    return None


class BigQueryServer(CommandedServer):
    """The server, from a test.

    Attributes:
      grpc_port: where the Storage Read and Write APIs listen.
      environment: the environment variables of its clients.
    """

    def __init__(self, **environment: str) -> None:
        self.grpc_port = free_port()
        program = str(_ENVIRONMENT / "bin" / "python")
        super().__init__(
            "servers.bigquery_emulator", str(self.grpc_port), PROJECT, python=program, environment=environment
        )
        self.environment = {
            "BIGQUERY_EMULATOR_HOST": self.url,
            "BIGQUERY_STORAGE_EMULATOR_HOST": f"127.0.0.1:{self.grpc_port}",
            "GOOGLE_CLOUD_PROJECT": PROJECT,
        }

    @staticmethod
    @contextmanager
    def running(**environment: str) -> Iterator[BigQueryServer]:
        """A server with an empty dataset."""
        server = BigQueryServer(**environment)
        try:
            server.command("start")
            server.client().create_dataset(DATASET)
            yield server
        finally:
            server.close()

    def client(self) -> Any:
        """Return Google's client of it, past a proxy."""
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import bigquery

        options = {"api_endpoint": self.url}
        return bigquery.Client(PROJECT, credentials=AnonymousCredentials(), client_options=options)

    def make(self, name: str, schema: Sequence[tuple[str, str]]) -> str:
        """Make a table with columns of these names and types; return its name."""
        from google.cloud import bigquery

        columns = [bigquery.SchemaField(*column) for column in schema]
        self.client().create_table(bigquery.Table(f"{PROJECT}.{DATASET}.{name}", columns))
        return f"{PROJECT}:{DATASET}.{name}"

    def tables(self, beginning: str = "") -> list[str]:
        """Return the names of the tables that begin with a text."""
        found = self.client().list_tables(f"{PROJECT}.{DATASET}")
        return sorted(each.table_id for each in found if each.table_id.startswith(beginning))

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table; none of one that there isn't."""
        from google.api_core.exceptions import NotFound

        client = self.client()
        try:
            table = client.get_table(f"{PROJECT}.{DATASET}.{name}")
        except NotFound:
            return []
        return [dict(row) for row in client.list_rows(table)]
