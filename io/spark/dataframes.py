"""DataFrames as inputs and outputs: `FromSpark`, `FromSparkStream` for an unbounded one, and `ToSpark`."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

from ...sdk import graph
from ...sdk.columns.column_bundle import ColumnBundle
from ...sdk.columns.column_elements import as_rows
from ...sdk.elements.bundle import Bundle
from ...sdk.elements.row import Row
from ...sdk.errors import PipelineError, SourceError, UnsupportedError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection, PDone
from ...sdk.spark_interfaces import Block, BoundedFrame, FrameSink, HasFrames, UnboundedFrame
from ...sdk.typehints.schema import with_schema
from ...sdk.user_code.serialization import dumps
from ...sdk.windowing_strategy import DEFAULT_WINDOWING
from ...transforms.write import Write
from ...windowing import Duration
from ...windowing.timestamp import MIN_MICROS, Timestamp
from .arrow_rows import Packer, arrow_schema, pyarrow, rows_of, timestamps_of
from .schema import schema_of

# Spark's sources in separate packages, with the coordinates of the package before Spark's version.
_PACKAGES = {"kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13", "avro": "org.apache.spark:spark-avro_2.13"}


# The types of Arrow of those of Spark that expressions are checked for.
_ARROW_TYPES = {
    "boolean": "bool",
    "byte": "int8",
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "date": "date32[day]",
}


class FromSpark(PTransform[PBegin, PCollection[Row]]):
    """A DataFrame's rows as `Row`s, read in Spark's tasks.

    Returns a `PCollection[Row]`.

    For `--runner=spark-batch`, and for a bounded side of a pipeline on `--runner=spark-microbatch`.
    Structs are `Row`s, arrays lists, maps dictionaries; a timestamp is a `datetime` in UTC.

    >>> import penstock as beam
    >>> def people(spark):
    ...     return spark.read.parquet("people.parquet")
    >>> p = beam.Pipeline(runner="spark-batch")
    >>> names = p | beam.io.FromSpark(people, timestamp="born") | beam.Map(lambda person: person.name)

    Args:
      frame: the DataFrame, or a function from a session to the DataFrame, for a program that lets the runner start
        Spark.
      timestamp: the column of the event times: timestamps, dates, or numbers of seconds since 1970.  Without it the
        event times are `MIN_TIMESTAMP`.
    """

    def __init__(self, frame: Any, timestamp: str | None = None) -> None:
        super().__init__()
        _check(frame, "FromSpark", is_streaming=False)
        self.source = DataFrameSource(frame, timestamp)

    def expand(self, pbegin: PBegin) -> Any:
        return _read(pbegin, self.source, is_bounded=True)


class FromSparkStream(PTransform[PBegin, PCollection[Row]]):
    """The rows of a streaming DataFrame as `Row`s, from any source of Spark, such as files or Kafka.

    Returns a `PCollection[Row]`.

    For `--runner=spark-microbatch`.  A Structured Streaming query decides the content of each batch, and stores its
    checkpoint within `--checkpoint_dir`.

    >>> import penstock as beam
    >>> def clicks(spark):
    ...     return spark.readStream.schema("at timestamp, page string").json("clicks/")
    >>> p = beam.Pipeline(runner="spark-microbatch")
    >>> pages = p | beam.io.FromSparkStream(clicks, timestamp="at", watermark=60) | beam.Map(lambda row: row.page)

    Args:
      frame: the DataFrame, such as `spark.readStream...load()`, or a function from a session to the DataFrame.  It may
        have all of Spark's stateless operations.
      timestamp: the column of the event times: timestamps, dates, or numbers of seconds since 1970.
      watermark: the delay, in seconds or as a `Duration`, of the watermark behind the greatest event time of all
        earlier batches, as in Spark's `withWatermark`; or a function from that time and the processing time to the
        watermark, all of them `Timestamp`s.  The watermark never goes back.
    """

    def __init__(
        self,
        frame: Any,
        timestamp: str,
        watermark: float | Duration | Callable[[Timestamp, Timestamp], Timestamp] = 0,
    ) -> None:
        super().__init__()
        _check(frame, "FromSparkStream", is_streaming=True)
        if not isinstance(timestamp, str):
            raise TypeError(f"FromSparkStream: timestamp: expected the name of a column, got {timestamp!r}")
        if not callable(watermark):
            watermark = Duration.of(watermark)
            if watermark.micros < 0:
                raise ValueError(f"FromSparkStream: watermark: expected 0 or more seconds, got {watermark!r}")
        self.source = DataFrameStream(frame, timestamp, watermark)

    def expand(self, pbegin: PBegin) -> Any:
        return _read(pbegin, self.source, is_bounded=False)


class ToSpark(PTransform):
    """Elements as the rows of a DataFrame, which exists once the pipeline has run.

    Takes a `PCollection[T]` of records.

    For `--runner=spark-batch`.  The rows don't go through the driver: they stay in the executors, on their disks when
    memory is short, until the garbage collectors of Python and of the JVM have removed the pipeline and the DataFrames
    made of them, or the session ends.  A session that the runner has started keeps running until
    `frame.sparkSession.stop()`.  A server of Spark Connect has the last plans of a session in a cache, 16 by default,
    and with them the rows that they read.

    >>> import penstock as beam
    >>> p = beam.Pipeline(runner="spark-batch")
    >>> totals = p | beam.Create([("a", 1), ("b", 2)]) | beam.io.ToSpark("word string, n bigint")

    After `p.run()`, `totals.dataframe()` returns the DataFrame.

    Args:
      schema: the DataFrame's schema, as DDL or a `StructType`.  Without it, the schema is derived from the elements'
        type hint: a named tuple, a dataclass, an attrs class or a tuple (with the columns `_1`, `_2`, ...).
    """

    def __init__(self, schema: Any = None) -> None:
        super().__init__()
        self.schema = schema

    def expand(self, pcoll: PCollection[Any]) -> ToSparkResult:
        label = pcoll.pipeline.full_label
        schema = schema_of(pcoll.hint) if self.schema is None else self.schema
        if schema is None:
            raise PipelineError(
                f"{label}: the elements' type hint doesn't say which columns there are; give a schema, such as "
                'ToSpark("word string, n bigint"), or have the transform before it declare a named tuple'
            )
        if not pcoll.is_bounded:
            raise UnsupportedError(
                f"{label}: its input has no end, and a DataFrame is complete; write to a table or files"
            )
        if pcoll.retracted_by:
            raise UnsupportedError(
                f"{label}: a DataFrame can't retract rows, but {pcoll.retracted_by} may retract its input; "
                "use AccumulationMode.ACCUMULATING"
            )
        pcoll | "Rows" >> Write(DataFrameSink(schema, label))
        return ToSparkResult(pcoll.pipeline, label)


class ToSparkResult(PDone):
    """The output of `ToSpark`."""

    def __init__(self, pipeline: Any, label: str) -> None:
        super().__init__(pipeline)
        self._label = label

    def dataframe(self) -> Any:
        """Return the DataFrame, in the session that the pipeline ran in.

        Raises `PipelineError` before the pipeline has run.
        """
        result: Any = self.pipeline.result
        if not isinstance(result, HasFrames):
            raise PipelineError(f"{self._label}: there is no DataFrame before the pipeline has run; call p.run() first")
        return result.frame(f"{self._label}/Rows")


# Sources and sinks for the runners


class _WithFrame:
    """Base of sources with a DataFrame, or a function that makes it.  It stays on the driver, and isn't pickled."""

    # A DataFrame, or `_Made`.
    _frame: Any
    _timestamp: str | None
    _label = ""

    def frame(self, session: Any) -> Any:
        """Return the DataFrame."""
        if not isinstance(self._frame, _Made):
            frame = self._frame
        else:
            frame = _opened(self._label, self._frame.make, session)
            _check(frame, self._label, is_streaming=isinstance(self, UnboundedFrame))
        if self._timestamp is not None and self._timestamp not in frame.columns:
            raise SourceError(
                f"{self._label}: the DataFrame has no column {self._timestamp!r}; it has {', '.join(frame.columns)}"
            )
        return frame

    def read_bundles(self, split: Block) -> Iterator[Bundle]:
        """Yield the rows of a block."""
        pa = pyarrow()
        schema = pa.ipc.read_schema(pa.py_buffer(split.schema))
        batch = pa.ipc.read_record_batch(pa.py_buffer(split.rows), schema)
        if not batch.num_rows:
            return
        micros = MIN_MICROS if self._timestamp is None else timestamps_of(batch, self._timestamp, self._label)
        if any(map(pa.types.is_nested, schema.types)):
            # Fields of a struct are Rows within the elements, but not within the elements of other columns.
            yield Bundle(rows_of(batch), micros if isinstance(micros, int) else micros.tolist())
        else:
            yield ColumnBundle(batch, as_rows, micros)

    @property
    def element_type(self) -> Any:
        """The type hint of the elements, with the fields of the DataFrame if they are known."""
        if self._frame is None or isinstance(self._frame, _Made):
            return Row
        return with_schema(Row, [(f.name, _ARROW_TYPES.get(f.dataType.typeName())) for f in self._frame.schema.fields])

    @property
    def gives_columns(self) -> bool:
        """Whether the columns of the DataFrame are known, and none is nested."""
        if self._frame is None or isinstance(self._frame, _Made):
            return False
        return not any(field.dataType.typeName() in ("array", "map", "struct") for field in self._frame.schema.fields)

    def labelled(self, label: str) -> Any:
        """Return a copy for a transform with this full label."""
        labelled = copy.copy(self)
        labelled._label = label
        return labelled

    def __copy__(self) -> Any:
        # Without `__getstate__`, which drops the DataFrame.
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_frame": None}


class _Made:
    """A function that makes a DataFrame."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make


class DataFrameSource(_WithFrame, BoundedFrame):  # type: ignore[override]
    """A DataFrame as a source."""

    def __init__(self, frame: Any, timestamp: str | None) -> None:
        self._frame = _Made(frame) if _is_function(frame) else frame
        self._timestamp = timestamp


class DataFrameStream(_WithFrame, UnboundedFrame):  # type: ignore[override]
    """A streaming DataFrame as a source."""

    def __init__(self, frame: Any, timestamp: str, watermark: Any) -> None:
        self._frame = _Made(frame) if _is_function(frame) else frame
        self._timestamp = timestamp
        self._watermark = watermark

    def watermark(self, newest: Timestamp, now: Timestamp) -> Timestamp:
        if isinstance(self._watermark, Duration):
            return Timestamp.of_micros(newest.micros - self._watermark.micros)
        found = self._watermark(newest, now)
        if not isinstance(found, Timestamp):
            raise TypeError(f"{self._label}: watermark: expected the function to return a Timestamp, got {found!r}")
        return found


class DataFrameSink(FrameSink):
    """Elements that become a DataFrame."""

    def __init__(self, schema: Any, label: str) -> None:
        self._schema = schema
        self._label = label

    def schema(self, session: Any) -> Any:
        try:
            return session.createDataFrame([], self._schema).schema
        except Exception as error:
            raise PipelineError(f"{self._label}: {self._schema!r} isn't a schema that Spark knows: {error}") from error

    def packer(self, schema: Any) -> Callable[[list[Any]], bytes]:
        return Packer(arrow_schema(schema, self._label), self._label)


def _read(pbegin: PBegin, source: Any, is_bounded: bool) -> PCollection[Any]:
    label = pbegin.pipeline.full_label
    source = source.labelled(label)
    dumps(source, label)
    primitive = graph.Read(source)
    return pbegin.pipeline.add(primitive, [], DEFAULT_WINDOWING, source.element_type, is_bounded=is_bounded)[None]


def _is_function(frame: Any) -> bool:
    return callable(frame) and not hasattr(frame, "schema")


def _check(frame: Any, name: str, is_streaming: bool) -> None:
    if _is_function(frame):
        return
    if is_streaming and type(frame).__module__.startswith("pyspark.sql.connect"):
        raise UnsupportedError(
            f"{name}: the DataFrame is one of Spark Connect, whose server calls the function for each batch, and not "
            "this process; leave SPARK_REMOTE unset, and run the program by spark-submit, or read from a source of "
            "penstock's"
        )
    if not hasattr(frame, "isStreaming") or not hasattr(frame, "schema"):
        raise TypeError(f"{name}: expected a DataFrame, or a function that makes one of a SparkSession; got {frame!r}")
    if frame.isStreaming and not is_streaming:
        raise UnsupportedError(f"{name}: the DataFrame is a stream; read it by FromSparkStream")
    if not frame.isStreaming and is_streaming:
        raise UnsupportedError(
            f"{name}: the DataFrame isn't a stream (spark.readStream makes one); read it by FromSpark"
        )


def _opened(label: str, make: Callable[[Any], Any], session: Any) -> Any:
    """Return the DataFrame that a function makes.  Raises an error that names the package of a missing data source."""
    try:
        return make(session)
    except Exception as error:
        missing = re.search(r"Failed to find data source: (\w+)", str(error))
        package = _PACKAGES.get(missing.group(1).lower()) if missing else None
        if missing is None or package is None:
            raise
        raise SourceError(
            f"{label}: Spark has no data source {missing.group(1)!r}: its package isn't on the class path. Give it "
            f"when Spark starts: --spark_conf=spark.jars.packages={package}:{session.version}, or spark-submit "
            f"--packages {package}:{session.version}"
        ) from error
