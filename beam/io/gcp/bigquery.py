"""Beam's names of BigQuery beside those that penstock has: the write with Beam's parameters, and constants."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from ....io.bigquery.client import TableName
from ....io.bigquery.read import ReadAllFromBigQuery, ReadFromBigQuery, ReadFromBigQueryRequest
from ....io.bigquery.tables import AUTODETECT, Target
from ....io.bigquery.write import WriteResult
from ....io.bigquery.write import WriteToBigQuery as Write
from ....sdk.errors import UnsupportedError
from ....sdk.pvalue import PCollection
from ...options import GoogleCloudOptions
from .bigquery_schemas import RetryStrategy, TableReference, parse_table_schema_from_json
from .service_values import BigQueryDisposition

__all__ = [
    "MAX_INSERT_PAYLOAD_SIZE",
    "MAX_INSERT_RETRIES",
    "SCHEMA_AUTODETECT",
    "BigQueryDisposition",
    "BigQueryQueryPriority",
    "BigQuerySchemaUpdateOption",
    "BigQuerySink",
    "BigQuerySource",
    "BigQueryWriteFn",
    "ReadAllFromBigQuery",
    "ReadFromBigQuery",
    "ReadFromBigQueryRequest",
    "RetryStrategy",
    "TableReference",
    "WriteResult",
    "WriteToBigQuery",
    "parse_table_schema_from_json",
]

SCHEMA_AUTODETECT: Final = AUTODETECT
MAX_INSERT_RETRIES: Final = 10_000
MAX_INSERT_PAYLOAD_SIZE: Final = 9 << 20


class BigQueryWriteFn:
    """The names of the outputs of a write."""

    FAILED_ROWS: Final = "FailedRows"
    FAILED_ROWS_WITH_ERRORS: Final = "FailedRowsWithErrors"


class BigQueryQueryPriority:
    """How soon a query is run."""

    INTERACTIVE: Final = "INTERACTIVE"
    BATCH: Final = "BATCH"


class BigQuerySchemaUpdateOption(StrEnum):
    """What a load job may change in a table's schema."""

    ALLOW_FIELD_ADDITION = "ALLOW_FIELD_ADDITION"
    ALLOW_FIELD_RELAXATION = "ALLOW_FIELD_RELAXATION"


class WriteToBigQuery(Write):
    """Rows into tables of BigQuery, with Beam's parameters; see `penstock.io.WriteToBigQuery`.

    Names of tables without a project get the pipeline's option `--project`.

    Args:
      batch_size, max_file_size, max_partition_size, max_files_per_bundle, use_at_least_once, validate,
      temp_file_format, with_auto_sharding, num_storage_api_streams, max_retries, max_insert_payload_size,
      num_streaming_keys, expansion_service, type_overrides: Beam's; have no effect.
      test_client, big_lake_configuration: not supported.
      schema_update_options: of load jobs, as `schemaUpdateOptions` of `additional_bq_parameters`.
      Others are those of `penstock.io.WriteToBigQuery`.

    >>> WriteToBigQuery("shop:sales.orders", method=WriteToBigQuery.Method.FILE_LOADS).display_data()
    {'table': 'shop:sales.orders', 'method': 'FILE_LOADS'}
    """

    class Method:
        """How rows are written."""

        DEFAULT: Final = "DEFAULT"
        STREAMING_INSERTS: Final = "STREAMING_INSERTS"
        FILE_LOADS: Final = "FILE_LOADS"
        STORAGE_WRITE_API: Final = "STORAGE_WRITE_API"

    def __init__(
        self,
        table: Any,
        dataset: str | None = None,
        project: str | None = None,
        schema: Any = None,
        create_disposition: str = BigQueryDisposition.CREATE_IF_NEEDED,
        write_disposition: str = BigQueryDisposition.WRITE_APPEND,
        kms_key: str | None = None,
        batch_size: int | None = None,
        max_file_size: int | None = None,
        max_partition_size: int | None = None,
        max_files_per_bundle: int | None = None,
        test_client: Any = None,
        custom_gcs_temp_location: Any = None,
        method: str | None = None,
        insert_retry_strategy: str | None = None,
        additional_bq_parameters: Any = None,
        table_side_inputs: Any = None,
        schema_side_inputs: Any = None,
        triggering_frequency: float | None = None,
        use_at_least_once: bool = False,
        validate: bool = True,
        temp_file_format: str | None = None,
        ignore_insert_ids: bool = False,
        with_auto_sharding: bool = False,
        num_storage_api_streams: int = 0,
        ignore_unknown_columns: bool = False,
        load_job_project_id: str | None = None,
        max_retries: int = MAX_INSERT_RETRIES,
        max_insert_payload_size: int = MAX_INSERT_PAYLOAD_SIZE,
        num_streaming_keys: int = 500,
        use_cdc_writes: Any = False,
        primary_key: list[str] | None = None,
        expansion_service: Any = None,
        big_lake_configuration: Mapping[str, Any] | None = None,
        type_overrides: Mapping[str, Any] | None = None,
        schema_update_options: list[str] | None = None,
        with_batched_input: bool = False,
    ) -> None:
        for argument, given in (("test_client", test_client), ("big_lake_configuration", big_lake_configuration)):
            if given is not None:
                raise UnsupportedError(f"WriteToBigQuery: {argument} isn't supported{_INSTEAD[argument]}")
        if schema_update_options:
            options = [BigQuerySchemaUpdateOption(option).value for option in schema_update_options]
            additional_bq_parameters = {**(additional_bq_parameters or {}), "schemaUpdateOptions": options}
        super().__init__(
            table,
            dataset,
            project,
            schema,
            create_disposition,
            write_disposition,
            method,
            kms_key,
            custom_gcs_temp_location,
            insert_retry_strategy,
            additional_bq_parameters,
            table_side_inputs or (),
            schema_side_inputs or (),
            triggering_frequency,
            ignore_unknown_columns,
            load_job_project_id,
            with_batched_input,
            use_cdc_writes,
            primary_key,
            ignore_insert_ids,
        )

    def expand(self, pcoll: PCollection[Any]) -> WriteResult:
        project = pcoll.pipeline.options.view_as(GoogleCloudOptions).project
        if project and not self.written.project:
            self.written = _of_project(self.written, project)
        return super().expand(pcoll)


_INSTEAD = {
    "test_client": "; set BIGQUERY_EMULATOR_HOST to the address of a server for tests",
    "big_lake_configuration": "; write the table by beam.io.WriteToIceberg",
}


def _of_project(target: Target, project: str) -> Target:
    table: TableName | None = target.table
    return attrs.evolve(target, project=project, table=table and table.within(project))


def BigQuerySink(*args: Any, **kwargs: Any) -> WriteToBigQuery:
    """Return the write that has replaced Beam's sink, which `beam.io.Write` takes.

    Args: those of `WriteToBigQuery`.
    """
    return WriteToBigQuery(*args, **kwargs)


def BigQuerySource(
    table: Any = None,
    dataset: str | None = None,
    project: str | None = None,
    query: Any = None,
    validate: bool = False,
    coder: Any = None,
    use_standard_sql: bool = False,
    flatten_results: bool = True,
    kms_key: str | None = None,
    use_dataflow_native_source: bool = False,
) -> ReadFromBigQuery:
    """Return the read that has replaced Beam's source, which `beam.io.Read` takes.

    Args: those of `ReadFromBigQuery`; `use_dataflow_native_source` has no effect.
    """
    return ReadFromBigQuery(
        table=table,
        dataset=dataset,
        project=project,
        query=query,
        validate=validate,
        coder=coder,
        use_standard_sql=use_standard_sql,
        flatten_results=flatten_results,
        kms_key=kms_key,
        use_json_exports=True,
    )
