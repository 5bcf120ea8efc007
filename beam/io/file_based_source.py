"""FileBasedSource: Beam's base class of a source of files with a format of the user's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from ...io.files.compression import CompressionTypes
from ...io.files.filesystem import path_string
from ...sdk.dofn.offset_range import OffsetRange
from ...sdk.options.value_provider import ValueProvider
from .bounded_source import BoundedSource, ConcatSource, SourceBundle
from .file_systems import FileSystems
from .range_trackers import OffsetRangeTracker, RangeTracker, UnsplittableRangeTracker


class FileBasedSource(BoundedSource):
    r"""Base class of sources that define how the records of a range of a file are read: `read_records`.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> class Lengths(FileBasedSource):
    ...     def read_records(self, file_name, offset_range_tracker):
    ...         with self.open_file(file_name) as file:
    ...             yield from map(len, file)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = path.write_text("one\nthree\n")
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.Read(Lengths(str(path), splittable=False)) | beam.Map(print)
    4
    6

    Args:
      file_pattern: a path, or one with wildcards.
      min_bundle_size: the smallest size of a split in bytes.
      compression_type: see `CompressionTypes`.  A compressed file isn't split.
      splittable: whether a file may be read by several ranges.  The tracker of a whole file has no end.
      validate: whether a pattern without files is an error when the source is made.
    """

    def __init__(
        self,
        file_pattern: str | ValueProvider,
        min_bundle_size: int = 0,
        compression_type: str = CompressionTypes.AUTO,
        splittable: bool = True,
        validate: bool = True,
    ) -> None:
        name = type(self).__name__
        if not isinstance(file_pattern, (str, ValueProvider)):
            raise TypeError(f"{name}: file_pattern must be a str or a ValueProvider, got {file_pattern!r}")
        if not CompressionTypes.is_valid_compression_type(compression_type):
            raise TypeError(f"{name}: compression_type must be one of CompressionTypes, got {compression_type!r}")
        self._pattern = file_pattern
        self._min_bundle_size = min_bundle_size
        self._compression_type = compression_type
        self._splittable = splittable
        self._files: ConcatSource | None = None
        if validate and (isinstance(file_pattern, str) or file_pattern.is_accessible()):
            pattern = path_string(file_pattern)
            if not FileSystems.match([pattern], [1])[0].metadata_list:
                raise OSError(f"{name}: No files found based on the file pattern {pattern}")

    @property
    def splittable(self) -> bool:
        """Whether a file may be read by several ranges."""
        return self._splittable

    def display_data(self) -> dict[str, Any]:
        return {"file_pattern": str(self._pattern), "compression": self._compression_type}

    def read_records(self, file_name: str, offset_range_tracker: RangeTracker) -> Iterable[Any]:
        """Yield the records of a file that start in a range of bytes, and claim their offsets."""
        raise NotImplementedError(f"{type(self).__name__}.read_records")

    def open_file(self, file_name: str) -> BinaryIO:
        """Open a file to read its decompressed bytes."""
        return FileSystems.open(file_name, compression_type=self._compression_type)

    def estimate_size(self) -> int | None:
        return self._concatenated().estimate_size()

    def split(
        self, desired_bundle_size: int, start_position: Any = None, stop_position: Any = None
    ) -> Iterator[SourceBundle]:
        return self._concatenated().split(desired_bundle_size, start_position, stop_position)

    def get_range_tracker(self, start_position: Any, stop_position: Any) -> RangeTracker:
        return self._concatenated().get_range_tracker(start_position, stop_position)

    def read(self, range_tracker: Any) -> Iterator[Any]:
        return self._concatenated().read(range_tracker)

    def _concatenated(self) -> ConcatSource:
        if self._files is None:
            [found] = FileSystems.match([path_string(self._pattern)])
            files = [(each.path, each.size_in_bytes) for each in found.metadata_list if each.size_in_bytes]
            self._files = ConcatSource([_File(self, path, size, self._can_be_cut(path)) for path, size in files])
        return self._files

    def _can_be_cut(self, path: str) -> bool:
        resolved = CompressionTypes.resolve(self._compression_type, path)
        return self.splittable and resolved == CompressionTypes.UNCOMPRESSED

    def __getstate__(self) -> dict[str, Any]:
        # Each split has the source: not with all files.
        return {**self.__dict__, "_files": None}


class _File(BoundedSource):
    """One file."""

    def __init__(self, source: FileBasedSource, path: str, size: int, can_be_cut: bool) -> None:
        self._source = source
        self._path = path
        self._size = size
        self._can_be_cut = can_be_cut

    def estimate_size(self) -> int:
        return self._size

    def split(
        self, desired_bundle_size: int, start_position: Any = None, stop_position: Any = None
    ) -> Iterator[SourceBundle]:
        start = start_position or 0
        stop = self._size if stop_position is None else stop_position
        if not self._can_be_cut:
            yield SourceBundle(stop - start, self, start, OffsetRangeTracker.OFFSET_INFINITY)
            return
        for part in OffsetRange(start, stop).split(desired_bundle_size, self._source._min_bundle_size):
            yield SourceBundle(part.stop - part.start, self, part.start, part.stop)

    def get_range_tracker(self, start_position: Any, stop_position: Any) -> RangeTracker:
        start = start_position or 0
        if not self._can_be_cut:
            stop = OffsetRangeTracker.OFFSET_INFINITY if stop_position is None else stop_position
            return UnsplittableRangeTracker(OffsetRangeTracker(start, stop))
        return OffsetRangeTracker(start, self._size if stop_position is None else stop_position)

    def read(self, range_tracker: RangeTracker) -> Iterable[Any]:
        return self._source.read_records(self._path, range_tracker)

    def default_output_coder(self) -> Any:
        return self._source.default_output_coder()
