"""Tables with the results of queries, which bqemulator doesn't make: for the program of the server."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from bqemulator.api.routes import jobs
from bqemulator.catalog.models import DatasetMeta
from bqemulator.storage.sql_identifiers import quoted_schema

_handle = jobs._handle_query_job

# A name of a table in legacy SQL.
_LEGACY = re.compile(r"\[([\w-]+)[:.](\w+)\.(\w+)\]")


async def handle(
    project: str, job: str, config: dict[str, Any], *, dry_run: bool, ctx: Any, caller: Any, now: datetime
) -> Any:
    """Run a query's job, and keep its result in the table that it names, or in one of its own."""
    query = config["query"]
    if query.get("useLegacySql"):
        text = _LEGACY.sub(r"`\1.\2.\3`", query["query"])
        config = {**config, "query": {**query, "query": text, "useLegacySql": False}}
    others: dict[str, Any] = {"ctx": ctx, "caller": caller, "now": now}
    found = await _handle(project, job, config, dry_run=dry_run, **others)
    if dry_run or found.error_result is not None or found.statistics["query"].get("statementType") != "SELECT":
        return found
    table = query.get("destinationTable") or found.configuration["query"]["destinationTable"]
    found.configuration["query"]["destinationTable"] = table
    project, dataset, name = (table[key] for key in ("projectId", "datasetId", "tableId"))
    if ctx.catalog.get_dataset(project, dataset) is None:
        ctx.engine.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted_schema(project, dataset)}")
        ctx.catalog.create_dataset(
            DatasetMeta(project_id=project, dataset_id=dataset, creation_time=now, last_modified_time=now, etag="")
        )
    made = f"CREATE OR REPLACE TABLE `{project}.{dataset}.{name}` AS {config['query']['query']}"
    await _handle(project, f"{job}-table", {"query": {"query": made}}, dry_run=False, **others)
    return found


def mend() -> None:
    """Put it in the place of the emulator's function."""
    jobs._handle_query_job = handle
