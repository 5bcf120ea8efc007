"""JsonSource: the values of files with one JSON value on each line, or with one array of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ..sdk.coders.coder import shortened
from ..sdk.errors import SourceError
from .compression import CompressionTypes, naming_the_file, open_for_reading
from .file_source import FileRange
from .filesystem import AnyPath
from .text_source import TextSource


class JsonSource(TextSource):
    r"""The values of JSON files, as `json.loads` gives them: mostly dicts.

    With `lines`, a file has one value on each line, and blank lines mean nothing; without,
    a file is one array, whose items are the elements, or one value.

    What is no JSON raises `SourceError`, with the file and the line.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.jsonl")
    >>> _ = path.write_text('{"a": 1}\n{"a": null}\n')
    >>> source = JsonSource(path)
    >>> [bundle.values for split in source.split(1) for bundle in source.read_bundles(split)]
    [[{'a': 1}, {'a': None}]]
    """

    def __init__(
        self,
        pattern: AnyPath,
        *,
        lines: bool = True,
        compression_type: str = CompressionTypes.AUTO,
        transform: str = "ReadFromJson",
    ) -> None:
        super().__init__(pattern, compression_type=compression_type, transform=transform)
        self.lines = lines

    def format_identity(self) -> Mapping[str, Any]:
        return {"lines": self.lines}

    def can_be_cut(self, path: str) -> bool:
        return self.lines and super().can_be_cut(path)

    def read_range(self, file_range: FileRange) -> Iterator[tuple[list[Any], int]]:
        if not self.lines:
            yield self._whole(file_range.path)
            return
        decode = msgspec.json.Decoder().decode
        for offset, data, _terminated in self.blocks(file_range):
            lines = data.split(b"\n")
            try:
                yield [decode(line) for line in lines if line.strip()], len(data)
            except (msgspec.DecodeError, UnicodeDecodeError):
                yield self._decoded_one_by_one(file_range.path, offset, lines), len(data)

    def _decoded_one_by_one(self, path: str, offset: int, lines: list[bytes]) -> list[Any]:
        """The same by `json`, which takes a little more (NaN, say) and tells what is wrong."""
        values = []
        for line in lines:
            if line.strip():
                try:
                    values.append(json.loads(line))
                except ValueError as error:
                    number = self.line_number(path, offset)
                    raise SourceError(
                        f"{self.transform}: {path!r}, line {number}, is not JSON: {error}: {shortened(line)}"
                    ) from error
            offset += len(line) + 1
        return values

    def _whole(self, path: str) -> tuple[list[Any], int]:
        with naming_the_file(path, self.compression_type), open_for_reading(path, self.compression_type) as file:
            data = file.read()
        try:
            value = json.loads(data)
        except ValueError as error:
            raise SourceError(f"{self.transform}: {path!r} is not JSON: {error}") from error
        return value if isinstance(value, list) else [value], len(data)
