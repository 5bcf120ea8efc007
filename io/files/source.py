"""FileSource, and the transforms that read files: `ReadFiles` for a pattern, `ReadAllFiles` for patterns as elements.

A pattern becomes files, files become byte ranges, ranges become splits of about the same size: a large file is cut, and
small files share a split.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import attrs

from ...frozen import frozen
from ...persistence import stored_as
from ...sdk.dofn.dofn import DoFn
from ...sdk.elements.bundle import BUNDLE_SIZE, Bundle
from ...sdk.elements.row import Row
from ...sdk.errors import SourceError, WorkingDirectoryError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.redaction import redacted, redacted_cause
from ...sdk.sources.bounded import BoundedSource
from ...sdk.type_variables import A
from ...sdk.typehints.schema import with_schema
from ...transforms.par_do.pardo import ParDo
from ...transforms.read import Read
from ...transforms.times.reshuffle import Reshuffle
from ...windowing.timestamp import Timestamp
from .compression import CompressionTypes
from .filesystem import (
    AnyPath,
    EmptyMatchTreatment,
    FileMetadata,
    absolute_path,
    filesystem_for,
    has_wildcard,
    join_path,
    path_string,
    split_path,
)

T = TypeVar("T")

# The size below which a split costs more to open than to read.
SMALLEST_SPLIT = 64 * 1024

# The number of files in which a field is looked for that the first file doesn't have.
_LOOKED_AT = 100

# The default size of the pieces that `ReadAllFiles` cuts a file into.
DESIRED_BUNDLE_SIZE = 64 * 1024 * 1024

# The number of values that make a bundle, and the number of bytes to collect for chunks with fewer values.
_ENOUGH = BUNDLE_SIZE // 4
_BUNDLE_BYTES = 1024 * 1024


@stored_as("file-range", 1)
@frozen
class FileRange:
    """The records of a file that start between two bytes of it.

    `stop` is None for the whole of a file that can't be cut, or whose size is unknown.

    Attributes:
      modified: the time of the last change in seconds since 1970; 0 if unknown.
    """

    path: str
    start: int = 0
    stop: int | None = None
    file_size: int = 0
    modified: float = attrs.field(default=0.0, eq=False, repr=False)

    @property
    def size(self) -> int:
        return self.file_size if self.stop is None else self.stop - self.start


FileSplit: TypeAlias = tuple[FileRange, ...]


class FileSource(BoundedSource[T]):
    """The files that match a pattern.  A subclass defines `read_range`.

    Args:
      pattern: a path, or one with `*`, `?`, `[...]` or `**`.
      compression_type: see `CompressionTypes`.
      min_bundle_size: the smallest size of a split in bytes; 0 for a default.
      transform: the name of the reading transform in errors.

    The order of elements and the ends of bundles depend on the files and the split alone.

    Attributes:
      compresses_itself: True for a format whose content is compressed, and the file isn't.
      empty_match_treatment: whether the pattern may match nothing; see `EmptyMatchTreatment`.
    """

    compresses_itself = False
    empty_match_treatment = EmptyMatchTreatment.DISALLOW

    def __init__(
        self,
        pattern: AnyPath,
        *,
        compression_type: str = CompressionTypes.AUTO,
        min_bundle_size: int = 0,
        transform: str = "",
    ) -> None:
        self.pattern = path_string(pattern)
        self.compression_type = compression_type
        self.min_bundle_size = min_bundle_size
        self.transform = transform or type(self).__name__
        CompressionTypes.resolve(compression_type, self.pattern)

    @abstractmethod
    def read_range(self, file_range: FileRange) -> Iterator[tuple[list[T], int]]:
        """Yield the values of one range, as lists with the number of bytes that they were read from."""

    def can_be_cut(self, path: str) -> bool:
        """Return whether a file can be read from the middle."""
        return CompressionTypes.resolve(self.compression_type, path) == CompressionTypes.UNCOMPRESSED

    def files(self) -> list[FileMetadata]:
        """Return the files, sorted by path.  Raises `SourceError` if there are none, and there must be some."""
        return matching_files(self.pattern, self.empty_match_treatment, self.transform)

    def element_type(self, files: Sequence[FileMetadata]) -> Any:
        """Return the type hint of the elements of files, with the fields that are known of the first file.

        Raises `SourceError` for columns to read that the first file doesn't have.
        """
        return Any

    def record_type(
        self, files: Sequence[FileMetadata], fields: Iterable[tuple[str, Any]], as_rows: bool, may_vary: bool
    ) -> Any:
        """Return the type hint of records with the fields of the first file.

        Args:
          may_vary: True if the records of other files may have other fields.
        """
        others = [file.path for file in files[1:]] if may_vary else []
        return with_schema(
            Row if as_rows else dict[str, Any], fields, partial(self.has_field, others) if others else None
        )

    def names_of(self, path: str) -> Sequence[str] | None:
        """Return the names of the fields of a file's elements; None if they are unknown."""
        return None

    def has_field(self, paths: Sequence[str], name: str) -> bool:
        """Return True if the elements of some of these files may have a field of this name."""
        known = map(self.names_of, paths[:_LOOKED_AT])
        return len(paths) > _LOOKED_AT or any(names is None or name in names for names in known)

    def estimate_size(self) -> int:
        return sum(file.size_in_bytes for file in self.files())

    def split(self, desired_splits: int) -> Sequence[FileSplit]:
        return self.splits_of(self.files(), desired_splits)

    def splits_of(self, files: Iterable[FileMetadata], desired_splits: int) -> list[FileSplit]:
        """Return splits of about the same size, which cover these files in this order."""
        files = list(files)
        total = sum(file.size_in_bytes for file in files)
        target = max(-(-total // max(desired_splits, 1)), self.min_bundle_size or SMALLEST_SPLIT)
        return _packed((piece for file in files for piece in self.ranges_of(file, target)), target)

    def ranges_of(self, file: FileMetadata, target: int) -> list[FileRange]:
        """Return a file cut into equal ranges of about `target` bytes, or whole if it can't be cut."""
        path, size, modified = file.path, file.size_in_bytes, file.last_updated_in_seconds
        if not size or not self.can_be_cut(path):
            return [FileRange(path, file_size=size, modified=modified)]
        pieces = max(round(size / target), 1)
        cuts = [size * i // pieces for i in range(pieces + 1)]
        return [FileRange(path, start, stop, size, modified) for start, stop in pairwise(cuts)]

    def identity(self) -> Mapping[str, Any]:
        return {"file_pattern": self.pattern, "compression_type": str(self.compression_type), **self.format_identity()}

    def format_identity(self) -> Mapping[str, Any]:
        """Return the settings that the number of a file's elements depends on."""
        return {}

    def check_split(self, split: FileSplit) -> None:
        for file_range in split:
            path = file_range.path
            found = matching_files(path, EmptyMatchTreatment.ALLOW, self.transform)
            now = (found[0].size_in_bytes, found[0].last_updated_in_seconds) if found else None
            if now != (file_range.file_size, file_range.modified):
                raise SourceError(
                    f"{self.transform}: {path!r} has changed since it was first read, and a checkpoint is "
                    f"in the middle of it: expected {_file(file_range.file_size, file_range.modified)}, found "
                    f"{_file(*now) if now else 'no such file'}. Restore the former file, or give another "
                    "--checkpoint_dir to read the new one"
                )

    def read_bundles(self, split: FileSplit) -> Iterator[Bundle]:
        return bundles_of(chunk for file_range in split for chunk in self.read_range(file_range))


def matching_files(pattern: str, empty_match_treatment: str, transform: str) -> list[FileMetadata]:
    """Return the matching files.  Raises `SourceError`, with a guess at the cause, if some must match and none do."""
    try:
        files = filesystem_for(pattern).match(pattern)
    except SourceError:
        raise
    except OSError as error:
        raise SourceError(f"{transform}: {pattern!r} can't be listed: {error.strerror or error}") from redacted_cause(
            error
        )
    if not files and not EmptyMatchTreatment.allow_empty_match(pattern, empty_match_treatment):
        raise SourceError(f"{transform}: no file matches {pattern!r}: {_why_nothing_matches(pattern)}")
    return files


def _file(size: int, modified: float) -> str:
    return f"{size} bytes" + (f", of {Timestamp(modified).to_rfc3339()}" if modified else "")


def bundles_of(chunks: Iterable[tuple[list[Any], int]]) -> Iterator[Bundle]:
    """Yield lists of values as bundles of at most `BUNDLE_SIZE`.  Long lists are cut evenly, short ones joined."""
    gathered: list[Any] = []
    gathered_bytes = 0
    for values, size in chunks:
        if gathered and (len(gathered) + len(values) > BUNDLE_SIZE or gathered_bytes + size > _BUNDLE_BYTES):
            yield Bundle(gathered)
            gathered, gathered_bytes = [], 0
        if len(values) > BUNDLE_SIZE:
            pieces = -(-len(values) // BUNDLE_SIZE)
            cuts = [len(values) * i // pieces for i in range(pieces + 1)]
            for start, stop in pairwise(cuts):
                yield Bundle(values[start:stop])
        elif not gathered and len(values) >= _ENOUGH:
            yield Bundle(values)
        else:
            gathered.extend(values)
            gathered_bytes += size
            if len(gathered) >= _ENOUGH:
                yield Bundle(gathered)
                gathered, gathered_bytes = [], 0
    if gathered:
        yield Bundle(gathered)


def _packed(ranges: Iterable[FileRange], target: int) -> list[FileSplit]:
    splits: list[FileSplit] = []
    current: list[FileRange] = []
    size = 0
    for piece in ranges:
        if current and size + piece.size > target:
            splits.append(tuple(current))
            current, size = [], 0
        current.append(piece)
        size += piece.size
    if current:
        splits.append(tuple(current))
    return splits


def _why_nothing_matches(pattern: str) -> str:
    fs = filesystem_for(pattern)
    try:
        absolute_path(pattern)
    except WorkingDirectoryError as error:
        return str(error)
    if fs.is_directory(pattern):
        return f"it is a directory; did you mean {join_path(pattern.rstrip('/'), '*')!r}?"
    directory, _name = split_path(pattern)
    if has_wildcard(directory):
        return "check the path; '*' stays within one directory, '**' crosses any number"
    if directory and not fs.is_directory(directory):
        return f"the directory {directory!r} does not exist"
    there = fs.match(join_path(directory, "*"))
    if not there:
        return f"the directory {directory or '.'!r} has no files in it"
    return f"the directory {directory or '.'!r} has {len(there)} files, such as {split_path(there[0].path)[1]!r}"


class ReadFiles(PTransform[PBegin, PCollection[A]]):
    """The elements of a file source, under the name of this transform.

    With `validate`, a pattern that matches nothing raises `SourceError` while the pipeline is built, and the fields of
    the first file are those of the elements' type.
    """

    def __init__(self, source: FileSource[Any], validate: bool = True, element_type: Any = Any) -> None:
        super().__init__()
        self.source = source
        if not validate:
            # As in Beam, files may be created later, or not at all.
            source.empty_match_treatment = EmptyMatchTreatment.ALLOW_IF_WILDCARD
        self.validate = validate
        self.element_type = element_type

    def expand(self, pbegin: PBegin) -> PCollection[A]:
        source = copy.copy(self.source)
        source.transform = pbegin.pipeline.full_label
        element_type = self.element_type
        if self.validate:
            files = source.files()
            if element_type is Any and self._output_hint is None:
                element_type = source.element_type(files)
        elements: PCollection[A] = pbegin | Read(source).with_output_types(element_type)
        return elements

    def display_data(self) -> dict[str, Any]:
        source = self.source
        # Of a format that compresses its content there is nothing to choose.
        compression = CompressionTypes.AUTO if source.compresses_itself else source.compression_type
        return {"file_pattern": redacted(source.pattern), "compression": compression}


class ReadAllFiles(PTransform[PCollection[Any], PCollection[A]]):
    """The elements of the files that match the patterns of its input.

    The files are cut, and the ranges are spread over the workers before they are read.  An input may also be a
    `FileMetadata` or a `ReadableFile`.

    Args:
      source: reads the files.  Its own pattern is ignored.
      desired_bundle_size: the number of bytes that a worker reads at once.
      empty_match_treatment: see `EmptyMatchTreatment`.
      with_filename: emits pairs of path and element.
    """

    def __init__(
        self,
        source: FileSource[Any],
        *,
        desired_bundle_size: int = DESIRED_BUNDLE_SIZE,
        empty_match_treatment: str = EmptyMatchTreatment.ALLOW_IF_WILDCARD,
        with_filename: bool = False,
        element_type: Any = Any,
    ) -> None:
        super().__init__()
        self.source = source
        self.desired_bundle_size = max(desired_bundle_size, source.min_bundle_size, 1)
        self.empty_match_treatment = empty_match_treatment
        self.with_filename = with_filename
        self.element_type = element_type

    def expand(self, pcoll: PCollection[Any]) -> PCollection[A]:
        source = copy.copy(self.source)
        source.transform = pcoll.pipeline.full_label
        expand = _ExpandIntoRanges(source, self.desired_bundle_size, self.empty_match_treatment)
        element_type = tuple[str, self.element_type] if self.with_filename else self.element_type  # type: ignore[name-defined]
        elements: PCollection[Any] = (
            pcoll
            | "Match" >> ParDo(expand)
            | Reshuffle()
            | "Read" >> ParDo(_ReadRange(source, self.with_filename)).with_output_types(element_type)
        )
        return elements


class _ExpandIntoRanges(DoFn):
    """A pattern to the ranges of the files that match it."""

    def __init__(self, source: FileSource[Any], size: int, empty_match_treatment: str) -> None:
        self._source = source
        self._size = size
        self._empty_match_treatment = empty_match_treatment

    def process(self, element: Any) -> Iterable[FileRange]:
        metadata = getattr(element, "metadata", element)
        pattern = getattr(metadata, "path", metadata)
        for file in matching_files(pattern, self._empty_match_treatment, self._source.transform):
            yield from self._source.ranges_of(file, self._size)


class _ReadRange(DoFn):
    """A range to its elements."""

    def __init__(self, source: FileSource[Any], with_filename: bool) -> None:
        self._source = source
        self._with_filename = with_filename

    def process(self, element: FileRange) -> Iterable[Any]:
        for values, _size in self._source.read_range(element):
            if self._with_filename:
                yield from [(element.path, value) for value in values]
            else:
                yield from values
