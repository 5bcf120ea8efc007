"""The registration of the data source `penstock` in a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ....sdk.errors import UnsupportedError, missing_extra
from ....sdk.ptransform import PTransform
from ....sdk.user_code.serialization import dumps, local_modules_by_value
from ..remote import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_data_source(
    session: SparkSession,
    sources: Mapping[str, PTransform] | None = None,
    sinks: Mapping[str, PTransform] | None = None,
) -> None:
    """Register the data source `penstock` in a session, with sources and sinks of this program by name.

    `spark.read.format("penstock").load(NAME)` is the DataFrame of a bounded source, `spark.readStream` that of an
    unbounded one.  `df.write.format("penstock").mode("append").save(NAME)` writes rows into a sink, which publishes
    them once all tasks have succeeded.  `df.writeStream.format("penstock").start(NAME)` publishes each batch exactly
    once; the query needs the option `checkpointLocation`, a directory that penstock can write to as well.

    The transforms may have further steps that process each element by itself, as `beam.Map`.  They go to the executors
    of this session; nothing else is unpickled.  A later call replaces the registration.  Needs PySpark 4 with pyarrow
    and pandas (`penstock[dataframes]`), and works over Spark Connect as well.

    Options of a read: `maxRowsPerBatch`, the most elements of a batch of a stream (1,000,000).  Option of a write:
    `timestamp`, the column of the event times.

    >>> import penstock as beam
    >>> from penstock.runners.spark import register_data_source
    >>> def program(spark):
    ...     clicks = beam.io.GenerateSequence() | beam.Map(lambda n: (n, f"page {n % 3}"))
    ...     pages = beam.Map(lambda row: row.page) | beam.io.WriteToText("pages")
    ...     register_data_source(spark, sources={"clicks": clicks}, sinks={"pages": pages})
    ...     rows = spark.readStream.format("penstock").schema("n bigint, page string").load("clicks")
    ...     return rows.writeStream.format("penstock").option("checkpointLocation", "state").start("pages")

    Args:
      session: a session, classic or of Spark Connect.
      sources: transforms that read.  Elements become rows by the schema that the read gives, or by their type hint, as
        in `ToSpark`.
      sinks: transforms that write.  Their elements are `Row`s, as of `FromSpark`.

    Raises `UnsupportedError` for a transform that Spark can't run so: one with a grouping, a side input or several
    sources, or whose source can't be read again.
    """
    try:
        import pyspark.sql.datasource  # noqa: F401
    except ImportError:
        raise missing_extra("pyspark", "spark", "The data source penstock") from None
    from ..remote_jobs import default_parallelism
    from .programs import Input

    if is_remote(session):
        cores = default_parallelism(session)
    else:
        cores = session.sparkContext.defaultParallelism
    with local_modules_by_value():
        inputs = {name: (dumps(each, name), Input(name, each)) for name, each in (sources or {}).items()}
        outputs = {name: dumps(_checked(name, each), name) for name, each in (sinks or {}).items()}
    kind = registered_class({name: (data, each.schema) for name, (data, each) in inputs.items()}, outputs, cores)
    session.dataSource.register(kind)


def _checked(name: str, transform: Any) -> PTransform:
    if not isinstance(transform, PTransform):
        raise UnsupportedError(f"{name}: expected a transform that writes, got {transform!r}")
    return transform


def registered_class(sources: Mapping[str, tuple[bytes, str | None]], sinks: Mapping[str, bytes], cores: int) -> Any:
    """Return the class to register, which is pickled with the sources and sinks.

    Args:
      sources: by name, the transform, pickled, and the columns as DDL.
      sinks: by name, the transform, pickled.
      cores: the parallelism of Spark.
    """
    from .data_source import PenstockDataSource

    members = {"sources": dict(sources), "sinks": dict(sinks), "cores": cores}
    # Without a module of its own, the class is pickled by value.
    return type("Registered", (PenstockDataSource,), members | {"__module__": "__main__"})
