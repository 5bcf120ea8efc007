"""Sources and sinks.

files/      text, JSON, CSV, Parquet and Avro; files as elements; growing files; changelogs
sql/        ReadFromSQL, WriteToSQL, WriteToSQLite
kafka/      ReadFromKafka, WriteToKafka
mqtt/       ReadFromMqtt, WriteToMqtt
pubsub/     ReadFromPubSub, WriteToPubSub
bigquery/   ReadFromBigQuery, ReadAllFromBigQuery, WriteToBigQuery
nats/       ReadFromNats, WriteToNats: streams of JetStream
cdc/        FromDebezium, ReadFromPostgresChanges: the changes of tables, with retractions
delta/      ReadFromDelta, ReadFromDeltaChanges, WriteToDelta
iceberg/    ReadFromIceberg, ReadFromIcebergChanges, WriteToIceberg
lakehouse/  what both have: staged rows, commits that a table knows, changes by key
redis/      ReadFromRedisStream, WriteToRedis, WriteToRedisStream
spark/      FromSpark, FromSparkStream, ToSpark: DataFrames, on Spark's runners
socket.py             ReadFromSocket: lines over TCP
generate_sequence.py  GenerateSequence: whole numbers, all at once or at a rate

Read and Write take any source and sink: a BoundedSource, an UnboundedSource (EventTimeReader and EventTimes help to
write one), a Sink with its SinkWriter, or a FileBasedSink.

Sinks only append, except for tables, WriteToRedis and WriteToChangelog, which take retractions, too.

connections/           servers, stores, lost connections and waits: what connectors share
sinks/                 transactions, staged records and dead letters: what their sinks share
records.py             fields of dicts, Rows, named tuples and dataclasses
first_elements.py      the first elements of unbounded sources, for bounded reads
optional_package.py    packages that only some formats need, imported when such a format is used
avro_types.py          Avro's types as those of columns
enrichment_handlers/   handlers of `Enrichment`
record_types.py        declared types of records

Names at Beam's paths, for type checkers (at run time `sdk/names/namespaces.py` has them):

avroio.py              Avro files
fileio.py              files
parquetio.py           Parquet files
restriction_trackers.py restrictions of splittable DoFns
textio.py              text files
watermark_estimators.py watermark estimators
"""

from typing import TYPE_CHECKING, Any

from ..persistence import lazily_stored
from ..sdk.elements.bundle import Bundle
from ..sdk.names.lazy_imports import lazy_names
from ..sdk.sink import Sink, SinkContext, SinkSpec, SinkWriter
from ..sdk.sources.bounded import BoundedSource
from ..sdk.sources.event_time_reader import EventTimeReader, EventTimes
from ..sdk.sources.unbounded import UnboundedReader, UnboundedSource
from ..transforms.read import Read
from ..transforms.write import Write

if TYPE_CHECKING:
    from .bigquery.read import ReadAllFromBigQuery, ReadFromBigQuery, ReadFromBigQueryRequest
    from .bigquery.write import WriteToBigQuery
    from .cdc.debezium import FromDebezium
    from .cdc.postgres import ReadFromPostgresChanges
    from .delta.read import ReadFromDelta, ReadFromDeltaChanges
    from .delta.write import WriteToDelta
    from .files.avro import ReadAllFromAvro, ReadFromAvro, WriteToAvro
    from .files.changelog import WriteToChangelog
    from .files.compression import CompressionTypes
    from .files.csv import ReadFromCsv, WriteToCsv
    from .files.filesystem import FileMetadata
    from .files.growing_text import ReadAllFromTextContinuously, ReadContinuouslyFromText
    from .files.json import ReadFromJson, WriteToJson
    from .files.parquet import (
        ReadAllFromParquet,
        ReadAllFromParquetBatched,
        ReadFromParquet,
        ReadFromParquetBatched,
        WriteToParquet,
        WriteToParquetBatched,
    )
    from .files.text import ReadAllFromText, ReadFromText, ReadFromTextWithFilename, WriteToText
    from .generate_sequence import GenerateSequence
    from .iceberg.read import ReadFromIceberg, ReadFromIcebergChanges
    from .iceberg.write import WriteToIceberg
    from .kafka.read import ReadFromKafka
    from .kafka.records import KafkaHeader, KafkaRecord
    from .kafka.registry.schema_registry import SchemaRegistry
    from .kafka.write import WriteToKafka
    from .mqtt.messages import MqttMessage
    from .mqtt.read import ReadFromMqtt
    from .mqtt.write import WriteToMqtt
    from .nats.messages import NatsMessage
    from .nats.read import ReadFromNats
    from .nats.write import WriteToNats
    from .pubsub.messages import PubsubMessage
    from .pubsub.read import ReadFromPubSub, ReadStringsFromPubSub
    from .pubsub.write import WriteStringsToPubSub, WriteToPubSub
    from .redis.sink import WriteToRedis
    from .redis.source import ReadFromRedisStream, RedisStreamEntry
    from .redis.stream_sink import WriteToRedisStream
    from .socket import ReadFromSocket
    from .spark.dataframes import FromSpark, FromSparkStream, ToSpark
    from .sql.source import ReadFromSQL
    from .sql.write import WriteToSQL, WriteToSQLite

# By name, the module that is imported when the name is used: few programs need more than two.
_LAZY = {
    "FromDebezium": "cdc.debezium",
    "ReadFromPostgresChanges": "cdc.postgres",
    "ReadFromDelta": "delta.read",
    "ReadFromDeltaChanges": "delta.read",
    "WriteToDelta": "delta.write",
    "ReadAllFromAvro": "files.avro",
    "ReadFromAvro": "files.avro",
    "WriteToAvro": "files.avro",
    "WriteToChangelog": "files.changelog",
    "CompressionTypes": "files.compression",
    "ReadFromCsv": "files.csv",
    "WriteToCsv": "files.csv",
    "FileMetadata": "files.filesystem",
    "ReadAllFromTextContinuously": "files.growing_text",
    "ReadContinuouslyFromText": "files.growing_text",
    "ReadFromJson": "files.json",
    "WriteToJson": "files.json",
    "ReadAllFromParquet": "files.parquet",
    "ReadAllFromParquetBatched": "files.parquet",
    "ReadFromParquet": "files.parquet",
    "ReadFromParquetBatched": "files.parquet",
    "WriteToParquet": "files.parquet",
    "WriteToParquetBatched": "files.parquet",
    "ReadAllFromText": "files.text",
    "ReadFromText": "files.text",
    "ReadFromTextWithFilename": "files.text",
    "WriteToText": "files.text",
    "GenerateSequence": "generate_sequence",
    "ReadFromIceberg": "iceberg.read",
    "ReadFromIcebergChanges": "iceberg.read",
    "WriteToIceberg": "iceberg.write",
    "ReadFromKafka": "kafka.read",
    "KafkaHeader": "kafka.records",
    "KafkaRecord": "kafka.records",
    "SchemaRegistry": "kafka.registry.schema_registry",
    "WriteToKafka": "kafka.write",
    "MqttMessage": "mqtt.messages",
    "ReadFromMqtt": "mqtt.read",
    "WriteToMqtt": "mqtt.write",
    "NatsMessage": "nats.messages",
    "ReadFromNats": "nats.read",
    "WriteToNats": "nats.write",
    "ReadAllFromBigQuery": "bigquery.read",
    "ReadFromBigQuery": "bigquery.read",
    "ReadFromBigQueryRequest": "bigquery.read",
    "WriteToBigQuery": "bigquery.write",
    "PubsubMessage": "pubsub.messages",
    "ReadFromPubSub": "pubsub.read",
    "ReadStringsFromPubSub": "pubsub.read",
    "WriteStringsToPubSub": "pubsub.write",
    "WriteToPubSub": "pubsub.write",
    "WriteToRedis": "redis.sink",
    "ReadFromRedisStream": "redis.source",
    "RedisStreamEntry": "redis.source",
    "WriteToRedisStream": "redis.stream_sink",
    "ReadFromSocket": "socket",
    "FromSpark": "spark.dataframes",
    "FromSparkStream": "spark.dataframes",
    "ToSpark": "spark.dataframes",
    "ReadFromSQL": "sql.source",
    "WriteToSQL": "sql.write",
    "WriteToSQLite": "sql.write",
}

# Namespaces, which the package above sets: `beam.io.textio.ReadFromText`.
if TYPE_CHECKING:
    from . import avroio as avroio
    from . import fileio as fileio
    from . import parquetio as parquetio
    from . import textio as textio
    from . import watermark_estimators as watermark_estimators
csvio: Any
filesystem: Any
filesystems: Any
iobase: Any
jsonio: Any
tfrecordio: Any

__all__ = [
    "Read",
    "Write",
    "BoundedSource",
    "UnboundedSource",
    "UnboundedReader",
    "Bundle",
    "EventTimeReader",
    "EventTimes",
    "Sink",
    "SinkContext",
    "SinkSpec",
    "SinkWriter",
    "ReadFromText",
    "ReadFromTextWithFilename",
    "ReadAllFromText",
    "WriteToText",
    "ReadFromJson",
    "WriteToJson",
    "ReadFromCsv",
    "WriteToCsv",
    "ReadFromParquet",
    "ReadFromParquetBatched",
    "ReadAllFromParquet",
    "ReadAllFromParquetBatched",
    "WriteToParquet",
    "WriteToParquetBatched",
    "ReadFromAvro",
    "ReadAllFromAvro",
    "WriteToAvro",
    "ReadContinuouslyFromText",
    "ReadAllFromTextContinuously",
    "GenerateSequence",
    "ReadFromSocket",
    "ReadFromSQL",
    "FromSpark",
    "FromSparkStream",
    "ToSpark",
    "FromDebezium",
    "ReadFromDelta",
    "ReadFromDeltaChanges",
    "ReadFromPostgresChanges",
    "ReadFromIceberg",
    "ReadFromIcebergChanges",
    "ReadFromKafka",
    "KafkaHeader",
    "KafkaRecord",
    "SchemaRegistry",
    "ReadFromMqtt",
    "MqttMessage",
    "ReadFromNats",
    "NatsMessage",
    "ReadAllFromBigQuery",
    "ReadFromBigQuery",
    "ReadFromBigQueryRequest",
    "ReadFromPubSub",
    "ReadStringsFromPubSub",
    "PubsubMessage",
    "ReadFromRedisStream",
    "RedisStreamEntry",
    "WriteToSQLite",
    "WriteToSQL",
    "WriteToDelta",
    "WriteToIceberg",
    "WriteToKafka",
    "WriteToMqtt",
    "WriteToNats",
    "WriteToBigQuery",
    "WriteToPubSub",
    "WriteStringsToPubSub",
    "WriteToRedis",
    "WriteToRedisStream",
    "WriteToChangelog",
    "CompressionTypes",
    "FileMetadata",
    "avroio",
    "csvio",
    "fileio",
    "jsonio",
    "parquetio",
    "textio",
    "watermark_estimators",
]

# By tag, the modules with stored types that `import penstock` doesn't import.
lazily_stored(
    __name__,
    {
        "postgres-changes-offset": "cdc.postgres_log",
        "postgres-table": "cdc.postgres_tables",
        "row-change": "cdc.row_change",
        "latest-sequenced-row": "cdc.sequenced_rows",
        "sequenced-change": "cdc.sequenced_rows",
        "file-metadata": "files.filesystem",
        "readable-file": "files.matching",
        "staged-file": "files.sinks.staged_file",
        "file-range": "files.source",
        "kafka-range": "kafka.bounded",
        "kafka-header": "kafka.records",
        "kafka-record": "kafka.records",
        "kafka-partition": "kafka.source",
        "mqtt-message": "mqtt.messages",
        "nats-range": "nats.bounded",
        "nats-message": "nats.messages",
        "pubsub-message": "pubsub.messages",
        "redis-stream-entry": "redis.source",
    },
)

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _LAZY)


def __dir__() -> list[str]:
    return sorted({*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__"})
