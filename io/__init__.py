"""Where a pipeline's elements come from and where they go.

Any source or sink of one's own:
    Read, BoundedSource, UnboundedSource, UnboundedReader, EventTimeReader, EventTimes
    Write, Sink, SinkWriter, FileBasedSink (a format of one's own)

Files, in `files/`:
    textio       ReadFromText, ReadFromTextWithFilename, ReadAllFromText, WriteToText
    jsonio       ReadFromJson, WriteToJson
    csvio        ReadFromCsv, WriteToCsv
    parquetio    ReadFromParquet, ReadFromParquetBatched, ReadAllFromParquet, WriteToParquet, ...
    avroio       ReadFromAvro, ReadAllFromAvro, WriteToAvro
    fileio       MatchFiles, MatchAll, MatchContinuously, ReadMatches, WriteToFiles: files themselves as elements
                 ReadContinuouslyFromText, ReadAllFromTextContinuously: growing files, and new ones
                 WriteToChangelog: additions and retractions, line by line

Unbounded sources:
    generate_sequence    GenerateSequence: numbers, at a rate
    socket_source        ReadFromSocket: lines over TCP
    sql/                 ReadFromSQL: rows as they are added to a table
    redis/               ReadFromRedisStream: entries of streams
    (and PeriodicImpulse, among the transforms)

DataFrames of Spark, on its runners:
    spark/               FromSpark, ToSpark, FromSparkStream

Tables, which take retractions, as WriteToChangelog does; everything else above only appends:
    sql/            WriteToSQLite: a table in a file, one row for each key
                    WriteToSQL: the same in PostgreSQL, or by a connection of one's own
    redis/          WriteToRedis: a text or a hash for each key
                    WriteToRedisStream: an entry of a stream for each element; it only appends

How it is done, in reading order:
    write_into   what a transform that writes into one sink is

None of the packages that only some formats need is imported before that format is used.
"""

from ..sdk import compat
from ..sdk.event_time_reader import EventTimeReader, EventTimes
from ..sdk.sink import Sink, SinkWriter
from ..sdk.source import BoundedSource
from ..sdk.unbounded_source import UnboundedReader, UnboundedSource
from ..transforms.read import Read
from . import watermark_estimators
from .files.avro import ReadAllFromAvro, ReadFromAvro, WriteToAvro
from .files.changelog import WriteToChangelog
from .files.compression import CompressionTypes
from .files.csv import ReadFromCsv, WriteToCsv
from .files.custom_sink import FileBasedSink
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
from .files.write import Write
from .generate_sequence import GenerateSequence
from .redis.sink import WriteToRedis
from .redis.source import ReadFromRedisStream, RedisStreamEntry
from .redis.stream_sink import WriteToRedisStream
from .socket_source import ReadFromSocket
from .spark.dataframes import FromSpark, FromSparkStream, ToSpark
from .sql.source import ReadFromSQL
from .sql.write import WriteToSQL, WriteToSQLite

# Beam's namespaces: `beam.io.textio.ReadFromText`.
avroio = compat.namespace("io.avroio")
csvio = compat.namespace("io.csvio")
fileio = compat.namespace("io.fileio")
filesystem = compat.namespace("io.filesystem")
jsonio = compat.namespace("io.jsonio")
parquetio = compat.namespace("io.parquetio")
textio = compat.namespace("io.textio")

__all__ = [
    "Read",
    "Write",
    "BoundedSource",
    "UnboundedSource",
    "UnboundedReader",
    "EventTimeReader",
    "EventTimes",
    "Sink",
    "SinkWriter",
    "FileBasedSink",
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
    "ReadFromRedisStream",
    "RedisStreamEntry",
    "WriteToSQLite",
    "WriteToSQL",
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
