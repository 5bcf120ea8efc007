"""Reading files: a pattern that is known when the pipeline is built, or patterns that are elements."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from ..sdk.dofn import DoFn
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PBegin, PCollection
from ..sdk.redaction import redacted
from ..transforms.pardo import ParDo
from ..transforms.read import Read
from ..transforms.reshuffle import Reshuffle
from .file_source import FileRange, FileSource, matching_files
from .filesystem import EmptyMatchTreatment

# How much of a file whose name comes as an element is read as one, unless said otherwise.
DESIRED_BUNDLE_SIZE = 64 * 1024 * 1024


class ReadFiles(PTransform):
    """The elements of a file source, under the name of this transform.

    With `validate`, a pattern that matches nothing raises `SourceError` when the pipeline
    is built.
    """

    def __init__(self, source: FileSource[Any], validate: bool = True, element_type: Any = Any) -> None:
        super().__init__()
        self.source = source
        self.validate = validate
        self.element_type = element_type

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        source = copy.copy(self.source)
        source.transform = pbegin.pipeline.full_label
        if self.validate:
            source.validate()
        elements: PCollection[Any] = pbegin | Read(source).with_output_types(self.element_type)
        return elements

    def display_data(self) -> dict[str, Any]:
        return {"file_pattern": redacted(self.source.pattern)}


class ReadAllFiles(PTransform):
    """The elements of the files that match patterns, which are its input.

    The files are cut, and the pieces spread over the workers before they are read.
    An input may also be a `FileMetadata` or a `ReadableFile`.

    Args:
      source: how to read; its own pattern means nothing.
      desired_bundle_size: how many bytes a worker reads at once.
      empty_match_treatment: see `EmptyMatchTreatment`.
      with_filename: give pairs of path and element.
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

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
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
