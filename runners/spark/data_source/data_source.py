"""The class of the data source `penstock`, as Spark calls it in Python workers beside the driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import cloudpickle
from pyspark.sql.datasource import DataSource

from ....sdk.errors import OptionsError, PipelineError, UnsupportedError
from .decisions import Decisions
from .programs import Input, Output
from .reading import MOST_ROWS, BoundedReader, UnboundedReader
from .writing import BatchWriter, StreamWriter


class PenstockDataSource(DataSource):
    """The data source of one registration.

    Attributes:
      sources: by name, the transform, pickled, and the columns as DDL.
      sinks: by name, the transform, pickled.
      cores: the parallelism of Spark.
    """

    sources: ClassVar[Mapping[str, tuple[bytes, str | None]]] = {}
    sinks: ClassVar[Mapping[str, bytes]] = {}
    cores: ClassVar[int] = 1

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "penstock"

    def schema(self) -> str:
        """Return the columns of a source, derived from the type hint of its elements."""
        name = self._name(self.sources, "source")
        ddl = self.sources[name][1]
        if ddl is None:
            raise PipelineError(
                f"{name}: the elements' type hint doesn't say which columns there are; give them to the read, such as "
                '.schema("word string, n bigint")'
            )
        return ddl

    def reader(self, schema: Any) -> BoundedReader:
        """Return the reader of a bounded source."""
        source = self._source()
        if not source.is_bounded:
            raise UnsupportedError(f"{source.read_label}: its source is unbounded; read it by spark.readStream")
        return BoundedReader(source.program(schema), self.cores)

    def streamReader(self, schema: Any) -> UnboundedReader:
        """Return the reader of an unbounded source."""
        source = self._source()
        if source.is_bounded:
            raise UnsupportedError(f"{source.read_label}: its source is bounded; read it by spark.read")
        given = self.options.get("maxRowsPerBatch", str(MOST_ROWS))
        if not given.isdecimal() or int(given) < 1:
            raise OptionsError(f"option maxRowsPerBatch of {source.label!r}: expected at least 1, got {given!r}")
        return UnboundedReader(source, source.program(schema), int(given))

    def writer(self, schema: Any, overwrite: bool) -> BatchWriter:
        """Return the writer of a DataFrame."""
        return BatchWriter(self._output(schema, overwrite, 'mode("append")'))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """Return the writer of a streaming query."""
        output = self._output(schema, overwrite, 'outputMode("append") or "update"')
        return StreamWriter(output, Decisions(output.label, self.options))

    def _source(self) -> Input:
        name = self._name(self.sources, "source")
        return Input(name, cloudpickle.loads(self.sources[name][0]))

    def _output(self, schema: Any, overwrite: bool, instead: str) -> Output:
        name = self._name(self.sinks, "sink")
        if overwrite:
            raise UnsupportedError(f"{name}: a sink doesn't remove what it has published before; expected {instead}")
        return Output(name, cloudpickle.loads(self.sinks[name]), schema, self.options.get("timestamp"))

    def _name(self, registered: Mapping[str, Any], what: str) -> str:
        name = self.options.get("path", "")
        if name not in registered:
            known = ", ".join(map(repr, registered)) or f"no {what}"
            raise OptionsError(
                f"data source penstock: expected the name of a registered {what}, got {name!r}; register_data_source "
                f"was given {known}"
            )
        return name
