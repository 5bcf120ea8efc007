"""WriteToTable: the base class of the transforms that write into tables of a lakehouse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...sdk.pvalue import PCollection
from ...sdk.typehints.arrow_schema import schema_of
from ..sinks.write_into import WriteInto
from .sink import LakehouseSink
from .table import LakehouseTable

if TYPE_CHECKING:
    from ...sdk.static_types import Record  # noqa: F401 (in parameters of classes)


class WriteToTable(WriteInto["Record"]):
    """Base class of the transforms that write into a table of a lakehouse.

    The columns are those of `schema`, or else the fields of the elements' class, or else those of the table.
    """

    def __init__(
        self,
        table: LakehouseTable,
        schema: Any,
        key: str | Sequence[str] | None,
        partition_by: str | Sequence[str],
        create: bool,
        merge_schema: bool,
        target_file_size: int,
    ) -> None:
        import pyarrow

        name = type(self).__name__
        if schema is not None and not isinstance(schema, pyarrow.Schema):
            raise TypeError(f"{name}: schema must be a pyarrow.Schema, got {type(schema).__name__}")
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        partitions = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        for names, what in ((keys, "key"), (partitions, "partition_by")):
            unknown = [] if schema is None else [each for each in names if each not in schema.names]
            if schema is not None and unknown:
                raise ValueError(
                    f"{name}: {what} has {unknown[0]!r}, which isn't a column of the schema ({', '.join(schema.names)})"
                )
        super().__init__(LakehouseSink(table, schema, keys, partitions, create, merge_schema, target_file_size))

    def sink_for(self, pcoll: PCollection[Any]) -> Any:
        sink = super().sink_for(pcoll)
        sink.retracting = bool(pcoll.retracted_by)
        if sink.schema is None:
            try:
                sink.schema = schema_of(pcoll.hint)
            except TypeError:
                # A field without a type of Arrow: the table decides.
                sink.schema = None
        return sink
