"""Where a pipeline's elements come from and where they go.

Any source or sink of one's own:
    Read, BoundedSource, UnboundedSource, UnboundedReader, EventTimeReader, EventTimes
    Write, Sink, SinkWriter, FileBasedSink (a format of one's own)

Files, for each format how it is read and how it is written:
    textio       ReadFromText, ReadFromTextWithFilename, ReadAllFromText, WriteToText
    jsonio       ReadFromJson, WriteToJson
    csvio        ReadFromCsv, WriteToCsv
    parquetio    ReadFromParquet, ReadFromParquetBatched, ReadAllFromParquet, WriteToParquet, ...
    avroio       ReadFromAvro, ReadAllFromAvro, WriteToAvro
    fileio       MatchFiles, MatchAll, ReadMatches, WriteToFiles: files themselves as elements

What has no end:
    growing_text         ReadContinuouslyFromText, ReadAllFromTextContinuously: files appended to, and new ones
    match_continuously   MatchContinuously: files as they turn up
    generate_sequence    GenerateSequence: numbers, at a rate
    socket_source        ReadFromSocket: lines over TCP
    sql_source           ReadFromSQL: rows as they are added to a table
    redis_source         ReadFromRedisStream
    (and PeriodicImpulse, among the transforms)

DataFrames of Spark, on its runners:
    spark_frames         FromSpark, ToSpark, FromSparkStream

Streams, to be written to:
    redis_stream_sink    WriteToRedisStream: an entry for each element

Tables and changelogs, which take retractions; everything above only appends:
    sqlite_sink     WriteToSQLite: a table in a file, one row for each key
    sql_sink        WriteToSQL: the same in PostgreSQL, or by a connection of one's own
    redis_sink      WriteToRedis: a text or a hash for each key
    changelog_sink  WriteToChangelog: what was added and what was taken back, line by line

How it is done, in reading order:
    filesystem   paths, local and through fsspec
    compression  compressed streams
    growing_text_source  whole lines of a file that grows
    line_blocks  whole lines from the middle of a file
    file_source  patterns to files to splits; text_source, json_source, csv_source, ...
    file_sink    two phases: staged, then committed by a commit_plan
    file_format  how values become bytes; text_format, json_format, csv_format, ...
    table_sink   the same two phases in a database: signed rows, and one of the committed_transactions
    table_rows   elements as rows; table_changes: their net effect, in SQL
    redis_sink   and in Redis: redis_changes, and their net effect; redis_server: where it is
    write_into   what a transform that writes into one sink is
    spark_rows   rows as Arrow has them, and elements; spark_schema: columns, from type hints
    sql_database where a database is and how to talk to it; sql_dialect: what each writes differently

None of the packages that only some formats need is imported before that format is used.
"""

from ..sdk.event_time_reader import EventTimeReader, EventTimes
from ..sdk.sink import Sink, SinkWriter
from ..sdk.source import BoundedSource
from ..sdk.unbounded_source import UnboundedReader, UnboundedSource
from ..transforms.read import Read
from . import avroio, csvio, fileio, jsonio, parquetio, textio, watermark_estimators
from .avroio import ReadAllFromAvro, ReadFromAvro, WriteToAvro
from .changelog_sink import WriteToChangelog
from .compression import CompressionTypes
from .csvio import ReadFromCsv, WriteToCsv
from .file_based_sink import FileBasedSink
from .filesystem import FileMetadata
from .generate_sequence import GenerateSequence
from .growing_text import ReadAllFromTextContinuously, ReadContinuouslyFromText
from .jsonio import ReadFromJson, WriteToJson
from .parquetio import (
    ReadAllFromParquet,
    ReadAllFromParquetBatched,
    ReadFromParquet,
    ReadFromParquetBatched,
    WriteToParquet,
    WriteToParquetBatched,
)
from .redis_sink import WriteToRedis
from .redis_source import ReadFromRedisStream, RedisStreamEntry
from .redis_stream_sink import WriteToRedisStream
from .socket_source import ReadFromSocket
from .spark_frames import FromSpark, FromSparkStream, ToSpark
from .sql_sink import WriteToSQL
from .sql_source import ReadFromSQL
from .sqlite_sink import WriteToSQLite
from .textio import ReadAllFromText, ReadFromText, ReadFromTextWithFilename, WriteToText
from .write import Write

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
