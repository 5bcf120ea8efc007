"""ReadFromJson and WriteToJson: one element for each JSON value."""

from __future__ import annotations

from .compression import CompressionTypes
from .file_sink import FileSink
from .filesystem import AnyPath
from .json_format import JsonFormat
from .json_source import JsonSource
from .read_files import ReadFiles
from .write import WriteFiles


class ReadFromJson(ReadFiles):
    r"""The values of the JSON files that match a pattern: a dict for each object.

    With `lines`, one value on each line; without, one array a file.  Raises `SourceError`
    when the pattern matches nothing, or a line is no JSON.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "people.jsonl")
    >>> _ = path.write_text('{"name": "Ada"}\n{"name": "Grace"}\n')
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.ReadFromJson(path) | beam.Map(print)
    {'name': 'Ada'}
    {'name': 'Grace'}
    """

    def __init__(
        self,
        path: AnyPath,
        *,
        lines: bool = True,
        compression_type: str = CompressionTypes.AUTO,
        validate: bool = True,
    ) -> None:
        super().__init__(
            JsonSource(path, lines=lines, compression_type=compression_type, transform=type(self).__name__), validate
        )


class WriteToJson(WriteFiles):
    r"""One JSON object for each record, on a line of its own, or one array a file.

    See `FileSink` and `JsonFormat`.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([{"name": "Ada"}]) | beam.io.WriteToJson(directory / "people")
    >>> [(path.name, path.read_text()) for path in directory.iterdir()]
    [('people-00000-of-00001', '{"name":"Ada"}\n')]
    """

    def __init__(
        self,
        path: AnyPath,
        *,
        lines: bool = True,
        num_shards: int = 0,
        file_name_suffix: str = "",
        shard_name_template: str | None = None,
        compression_type: str = CompressionTypes.AUTO,
        skip_if_empty: bool = False,
    ) -> None:
        super().__init__(
            FileSink(
                path,
                JsonFormat(lines),
                file_name_suffix=file_name_suffix,
                num_shards=num_shards,
                shard_name_template=shard_name_template,
                compression_type=compression_type,
                skip_if_empty=skip_if_empty,
                transform=type(self).__name__,
            )
        )
