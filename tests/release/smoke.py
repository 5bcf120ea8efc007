"""A smoke test of an installed penstock: `python -I smoke.py [EXTRA...]`, anywhere but in the checkout.

It needs nothing but the release, and what the extras install.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import penstock as beam
from penstock.testing import TestPipeline, TestStream, assert_that, equal_to
from penstock.trigger import AccumulationMode, AfterCount, AfterWatermark

PROGRAM = """
import penstock as beam

with beam.Pipeline() as p:
    words = p | beam.Create(["to be", "or not to be"]) | beam.FlatMap(str.split)
    _ = words | beam.combiners.Count.PerElement() | beam.Map(print)
"""


class Sale(NamedTuple):
    """A record with declared fields."""

    item: str
    cups: int


SALES = [Sale("tea", 2), Sale("milk", 1), Sale("tea", 3)]


def printed(run: Callable[[], Any]) -> list[str]:
    """The lines that a call prints, sorted."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        run()
    return sorted(out.getvalue().splitlines())


def core(directory: pathlib.Path) -> None:
    """Windows, corrections, a stream that resumes, and the command line."""
    assert beam.__version__ == importlib.metadata.version("penstock")
    at = beam.window.TimestampedValue
    late = TestStream().add_elements([at(("a", 1), 5)]).advance_watermark_to(70).add_elements([at(("a", 2), 6)])
    with TestPipeline() as p:
        windows = beam.WindowInto(
            beam.window.FixedWindows(60),
            trigger=AfterWatermark(late=AfterCount(1)),
            accumulation_mode=AccumulationMode.RETRACTING,
            allowed_lateness=60,
        )
        sums = p | late.advance_watermark_to_infinity() | windows | beam.CombinePerKey(sum)
        assert_that(sums, equal_to([("a", 3)]))

    options = {"checkpoint_dir": str(directory / "checkpoints"), "parallelism": 2, "progress": False}
    for _ in range(2):  # the second start finds the first one complete
        with beam.Pipeline(options=beam.options.PipelineOptions(**options)) as p:
            numbers = p | beam.Create(range(100)) | beam.WithKeys(lambda n: n % 3) | beam.CombinePerKey(sum)
            _ = numbers | beam.Map(str) | beam.io.WriteToText(directory / "sums")
    lines = sorted(line for file in directory.glob("sums*") for line in file.read_text().splitlines())
    assert lines == ["(0, 1683)", "(1, 1617)", "(2, 1650)"], lines

    (directory / "words.py").write_text(PROGRAM)
    for command in (["run", "words.py"], ["graph", "words.py"], ["runners"], ["run", "--help"]):
        done = subprocess.run(
            [sys.executable, "-I", "-m", "penstock", *command],
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert command != ["run", "words.py"] or "('to', 2)" in done.stdout, done.stdout


def written_and_read(write: Any, read: Any, elements: Any = SALES) -> list[str]:
    """Write elements, and return what is read, as text."""
    with beam.Pipeline() as p:
        _ = p | beam.Create(elements) | write

    def reading() -> None:
        with beam.Pipeline() as p:
            _ = p | read() | beam.Map(print)

    return printed(reading)


def parquet(directory: pathlib.Path) -> None:
    write = beam.io.WriteToParquet(directory / "sales")
    found = written_and_read(write, lambda: beam.io.ReadFromParquet(str(directory / "sales*")))
    assert found == ["{'item': 'milk', 'cups': 1}", "{'item': 'tea', 'cups': 2}", "{'item': 'tea', 'cups': 3}"], found


def avro(directory: pathlib.Path) -> None:
    schema = {"type": "record", "name": "S", "fields": [{"name": "item", "type": "string"}]}
    write = beam.io.WriteToAvro(directory / "sales", schema)
    found = written_and_read(write, lambda: beam.io.ReadFromAvro(str(directory / "sales*")), [{"item": "tea"}])
    assert found == ["{'item': 'tea'}"], found


def zstd(directory: pathlib.Path) -> None:
    write = beam.io.WriteToText(directory / "text", file_name_suffix=".zst")
    found = written_and_read(write, lambda: beam.io.ReadFromText(str(directory / "text*")), ["tea"])
    assert found == ["tea"], found


def progress(directory: pathlib.Path) -> None:
    with beam.Pipeline(options=beam.options.PipelineOptions(progress=True)) as p:
        _ = p | beam.Create(range(10)) | beam.Map(str)


def sketches(directory: pathlib.Path) -> None:
    assert range(1, 102) | beam.combiners.ApproximateQuantiles.Globally(3) == [[1, 51, 101]]
    assert ["a", "b", "a"] | beam.combiners.ApproximateUnique.Globally(size=16) == [2]


def sql(directory: pathlib.Path) -> None:
    import sqlalchemy

    url = f"sqlite:///{directory / 'shop.db'}"
    database = sqlalchemy.create_engine(url)
    with database.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE sales (item TEXT PRIMARY KEY, cups INTEGER)"))
    with beam.Pipeline() as p:
        _ = p | beam.Create([Sale("tea", 2), Sale("milk", 1)]) | beam.io.WriteToSQL(url, "sales", key="item")
    with database.connect() as connection:
        found = sorted(map(tuple, connection.execute(sqlalchemy.text("SELECT item, cups FROM sales"))))
    assert found == [("milk", 1), ("tea", 2)], found


def sql_transform(directory: pathlib.Path) -> None:
    from penstock.transforms.sql import SqlTransform

    with TestPipeline() as p:
        query = SqlTransform("SELECT item, SUM(cups) AS cups FROM PCOLLECTION GROUP BY item")
        totals = p | beam.Create(SALES) | query | beam.Map(tuple)
        assert_that(totals, equal_to([("tea", 5), ("milk", 1)]))


def delta(directory: pathlib.Path) -> None:
    table = str(directory / "table")
    rows = [beam.Row(item="tea", cups=2)]
    found = written_and_read(beam.io.WriteToDelta(table), lambda: beam.io.ReadFromDelta(table), rows)
    assert found == ["Row(item='tea', cups=2)"], found


def async_(directory: pathlib.Path) -> None:
    async def answer(n: int) -> int:
        await asyncio.sleep(0)
        return n + 1

    with TestPipeline() as p:
        assert_that(p | beam.Create([1, 2]) | beam.AsyncMap(answer, retries=1, rate=100), equal_to([2, 3]))


def rocksdb(directory: pathlib.Path) -> None:
    import rocksdict

    assert rocksdict.Rdict(str(directory / "db")) is not None
    core(directory / "stream")


def encryption(directory: pathlib.Path) -> None:
    from penstock.utils.secret import RawSecret, Secret

    with TestPipeline() as p:
        groups = p | beam.Create([("tea", 1)]) | beam.GroupByEncryptedKey(RawSecret(Secret.generate_secret_bytes()))
        assert_that(groups, equal_to([("tea", [1])]))


def metrics(directory: pathlib.Path) -> None:
    with beam.Pipeline(options=beam.options.PipelineOptions(metrics_port=0)) as p:
        _ = p | beam.Create(range(10)) | beam.Map(str)


def tfrecord(directory: pathlib.Path) -> None:
    write = beam.io.tfrecordio.WriteToTFRecord(str(directory / "records"))
    found = written_and_read(write, lambda: beam.io.tfrecordio.ReadFromTFRecord(str(directory / "records*")), [b"tea"])
    assert found == ["b'tea'"], found


def dataframes(directory: pathlib.Path) -> None:
    from penstock.dataframe.convert import to_dataframe, to_pcollection

    with TestPipeline() as p:
        frame = to_dataframe(p | beam.Create(SALES))
        totals = to_pcollection(frame.groupby("item").agg(cups=("cups", "sum")), include_indexes=True) | beam.Map(tuple)
        assert_that(totals, equal_to([("tea", 5), ("milk", 1)]))


def connect(directory: pathlib.Path) -> None:
    from penstock.runners.spark import SparkBatchRunner

    if shutil.which("java") is None:
        print("no Java here: nothing is run over Spark Connect")
        return
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.remote("local[1]").getOrCreate()
    try:
        with beam.Pipeline(SparkBatchRunner(session)) as p:
            words = p | beam.Create(["to be", "or not"]) | beam.FlatMap(str.split)
            _ = words | beam.combiners.Count.Globally() | beam.Map(str) | beam.io.WriteToText(directory / "words")
    finally:
        session.stop()
    assert [path.read_text() for path in directory.glob("words*")] == ["4\n"]


def spark(directory: pathlib.Path) -> None:
    import pyspark

    assert pyspark.__version__.startswith("4.")
    if shutil.which("java") is None:
        print("no Java here: nothing is run on Spark")
        return
    (directory / "words.py").write_text(PROGRAM)
    command = [
        sys.executable,
        "-I",
        "-m",
        "penstock",
        "run",
        "words.py",
        "--runner=spark-batch",
        "--spark_master=local[1]",
    ]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # PySpark 4.0 has workers print where the driver logs.
    assert "('to', 2)" in done.stdout + done.stderr, done.stdout


def kafka(directory: pathlib.Path) -> None:
    servers = {"bootstrap.servers": "localhost:9092"}
    p = beam.Pipeline()
    _ = p | beam.io.ReadFromKafka(servers, "words") | beam.io.WriteToKafka(servers, "counts")
    import confluent_kafka

    assert confluent_kafka.Producer(servers) is not None


def kafka_registry(directory: pathlib.Path) -> None:
    assert beam.io.SchemaRegistry({"url": "http://localhost:8081"}) is not None


def postgres(directory: pathlib.Path) -> None:
    p = beam.Pipeline()
    _ = p | beam.io.ReadFromPostgresChanges("postgresql://ann@localhost/shop", "orders", "slot")


def redis(directory: pathlib.Path) -> None:
    p = beam.Pipeline()
    _ = p | beam.io.ReadFromRedisStream("redis://localhost", "clicks")


def iceberg(directory: pathlib.Path) -> None:
    import pyarrow

    lake = {"warehouse": str(directory / "lake")}
    schema = pyarrow.schema([("item", pyarrow.string()), ("cups", pyarrow.int64())])
    write = beam.io.WriteToIceberg("shop.sales", catalog_properties=lake, schema=schema)
    rows = [beam.Row(item="tea", cups=2)]
    found = written_and_read(write, lambda: beam.io.ReadFromIceberg("shop.sales", catalog_properties=lake), rows)
    assert found == ["Row(item='tea', cups=2)"], found


def mqtt(directory: pathlib.Path) -> None:
    p = beam.Pipeline()
    _ = p | beam.io.ReadFromMqtt("mqtt://localhost:1883", "sensors/#", client_id="smoke")


def nats(directory: pathlib.Path) -> None:
    p = beam.Pipeline()
    _ = p | beam.io.ReadFromNats("nats://localhost:4222", "clicks")


def draw(directory: pathlib.Path) -> None:
    from penstock.sdk.drawing.figure import figure_of
    from penstock.sdk.drawing.render import to_png
    from penstock.ui.notebook import StepByStep

    stream = StepByStep(beam.WindowInto(beam.window.FixedWindows(60)) | beam.CombinePerKey(sum))
    recording = stream.add_elements([beam.window.TimestampedValue(("a", 1), 5)]).advance_watermark_to(60).recording()
    assert recording is not None
    assert to_png(figure_of(recording)).startswith(b"\x89PNG")


def ui(directory: pathlib.Path) -> None:
    with beam.Pipeline(options=beam.options.PipelineOptions(ui_port=0)) as p:
        _ = p | beam.Create(range(10)) | beam.Map(str)


def s3(directory: pathlib.Path) -> None:
    import fsspec

    assert fsspec.get_filesystem_class("s3").protocol


def gcs(directory: pathlib.Path) -> None:
    import fsspec

    assert fsspec.get_filesystem_class("gs").protocol


def pubsub(directory: pathlib.Path) -> None:
    p = beam.Pipeline()
    _ = p | beam.io.ReadFromPubSub(subscription="projects/shop/subscriptions/orders")


def bigquery(directory: pathlib.Path) -> None:
    from google.cloud import bigquery, bigquery_storage_v1

    from penstock.io.bigquery.schemas import schema_of

    assert bigquery.Client
    assert bigquery_storage_v1.BigQueryWriteClient
    assert schema_of("Write", "n:INT64")


def enrichment(directory: pathlib.Path) -> None:
    import cachetools
    import httpx

    from penstock.io.enrichment_handlers import http

    assert all(module.__name__ for module in (cachetools, httpx, http))


BY_EXTRA = {
    "async": async_,
    "kafka-registry": kafka_registry,
    "sql-transform": sql_transform,
    **{
        check.__name__: check
        for check in (
            avro, bigquery, connect, dataframes, delta, draw, encryption, enrichment, gcs, iceberg, kafka,
            metrics, mqtt, nats, parquet, postgres, progress, pubsub, redis, rocksdb, s3, sketches, spark, sql,
            tfrecord, ui, zstd,
        )
    },
}  # fmt: skip


if __name__ == "__main__":
    for name in sys.argv[1:] or ["core"]:
        with tempfile.TemporaryDirectory(prefix="penstock-smoke-") as temporary:
            check = core if name == "core" else BY_EXTRA[name]
            check(pathlib.Path(temporary))
        print(f"{name}: ok")
