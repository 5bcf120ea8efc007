"""Batches: a batched DoFn applied to bundles, and the bundles of the batches that it yields.

The elements of a batch have one window, pane and sign; a bundle in which they vary is cut into several batches.  If
timestamps vary, an output batch has an element for each of the batch, at the same index.  A function of `Map` returns
such a batch always, so its batches aren't cut, unless it asks for something that their elements share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from ....sdk import graph
from ....sdk.columns.column_bundle import ColumnBundle
from ....sdk.dofn.batch_bundle import batch_of, bundle_of
from ....sdk.dofn.batched_dofn import BatchedDoFn, unwrapping
from ....sdk.dofn.dofn import DoFn
from ....sdk.elements.bundle import BUNDLE_SIZE, Bundle
from ....sdk.elements.defensive_copy import defensive_copy
from ....sdk.elements.element_wrappers import SPECIAL_TYPES, BatchOutput, TaggedOutput, unwrapped
from ....sdk.errors import PipelineError
from ....sdk.typehints.batch import BatchConverter
from ....windowing.timestamp import Timestamp
from ..kernels.descriptions import ParDoOperation
from ..user_errors import Attribution, attributed, reraise, shortened

# Parameters whose values the elements of a batch share.
_OF_ALL = frozenset({DoFn.TimestampParam, DoFn.WindowParam, DoFn.PaneInfoParam, DoFn.SignParam})

# An output without a batch: the elements that a DoFn has yielded in wrappers.
Wrapped = list[tuple[Any, int, Any, Any, int]]


class BatchOperation:
    """A DoFn with `process_batch`, ready to be called.

    Args:
      operation: the ParDo.
      arguments: returns the values of those arguments that are the same for a bundle, by their index.
    """

    def __init__(self, operation: ParDoOperation, arguments: Callable[[], Mapping[int, Any]]) -> None:
        fn = operation.fn
        assert isinstance(fn, BatchedDoFn)
        assert fn.taken is not None
        self.is_needed = fn.is_needed
        self.label = operation.label
        self._operation = operation
        self._arguments = arguments
        self._fn = fn
        self._taken = fn.taken
        markers = [argument.marker for argument in operation.batch_arguments]
        self._one_time = fn.gives_elements or DoFn.TimestampParam in markers
        # An element of the output has the properties of the one at its index.
        self._is_aligned = fn.maps and not operation.observes_window and _OF_ALL.isdisjoint(markers)

    def outputs(self, bundle: Bundle) -> Iterator[tuple[graph.Tag, Bundle | Wrapped]]:
        """Yield the outputs for the elements of a bundle, by tag: as bundles, or as wrapped elements.

        Raises `PipelineError` for an output that isn't a batch of the DoFn's type.
        """
        arguments = self._arguments()
        if self._is_aligned:
            yield from self._of_part(bundle, arguments)
            return
        for part in _parts(bundle, self._operation.observes_window, self._one_time):
            yield from self._of_part(part, arguments)

    def _of_part(self, part: Bundle, values: Mapping[int, Any]) -> Iterator[tuple[graph.Tag, Bundle | Wrapped]]:
        batch: Any = None
        try:
            batch = batch_of(part, self._taken)
            positional, keywords = self._call_arguments(part, batch, values)
            found = self._fn.call(*positional, **keywords)
            if self._fn.maps:
                found = (found,)
            if self._fn.gives_elements:
                yield from self._of_elements(found or (), part)
                return
            for output in found or ():
                yield self._of_batch(output, part)
        except BaseException as error:
            of = None if batch is None else shortened(batch)
            reraise(attributed(error, Attribution(self.label, of)))

    def _of_batch(self, output: Any, part: Bundle) -> tuple[graph.Tag, Bundle]:
        fn, tag = self._fn, None
        if type(output) is TaggedOutput:
            tag, output = output.tag, output.value
        # The DoFn may yield its batch again with other elements.
        output = defensive_copy(output)
        inner, _ = unwrapping(output)
        converter = fn.converter_of(inner)
        n, given = converter.get_length(inner), len(part)
        micros: Any = part.micros if isinstance(part, ColumnBundle) else part.timestamps
        windows: Any = part.assigned if isinstance(part, ColumnBundle) else part.windows
        pane, sign = part.panes, part.signs
        if inner is not output:
            micros, windows, pane = _stamped(output, part)
        elif n != given and (fn.maps or not isinstance(micros, int)):
            raise PipelineError(
                f"it returned {n} elements for a batch of {given}; expected as many"
                if fn.maps
                else f"it yielded a batch of {n} elements for one of {given} with several timestamps, so that theirs "
                "are unknown; ask for timestamp=DoFn.TimestampParam, with which a batch has one, or yield "
                "a TimestampedValue of a batch"
            )
        return tag, bundle_of(inner, converter, micros, windows, pane, sign)

    def _of_elements(self, outputs: Iterable[Any], part: Bundle) -> Iterator[tuple[graph.Tag, Bundle | Wrapped]]:
        properties = part.timestamps, part.windows, part.panes, part.signs
        plain: list[Any] = []
        wrapped: Wrapped = []
        for output in outputs:
            if type(output) in SPECIAL_TYPES:
                wrapped.append((defensive_copy(output), *properties))  # type: ignore[arg-type]
            else:
                plain.append(defensive_copy(output))
            if len(plain) + len(wrapped) >= BUNDLE_SIZE:
                yield None, Bundle(plain, *properties)
                yield None, wrapped
                plain, wrapped = [], []
        yield None, Bundle(plain, *properties)
        yield None, wrapped

    def _call_arguments(self, part: Bundle, batch: Any, values: Mapping[int, Any]) -> tuple[list[Any], dict[str, Any]]:
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for index, argument in enumerate(self._operation.batch_arguments):
            marker, value = argument.marker, argument.value
            if marker is DoFn.ElementParam:
                value = batch
            elif marker is DoFn.WindowParam:
                value = part.windows[0]
            elif marker is DoFn.TimestampParam:
                value = Timestamp.of_micros(part.timestamps)  # type: ignore[arg-type]
            elif marker is DoFn.PaneInfoParam:
                value = part.panes
            elif marker is DoFn.SignParam:
                value = part.signs
            elif index in values:
                value = values[index]
                if isinstance(argument.value, graph.SideInputArgument):
                    is_windowed = argument.value.index in self._operation.windowed_views
                    value = value(part.windows[0]) if is_windowed else value
            if argument.keyword is None:
                positional.append(value)
            else:
                keywords[argument.keyword] = value
        return positional, keywords


def _stamped(output: Any, part: Bundle) -> tuple[int, Any, Any]:
    """Return the timestamp, windows and pane of a batch that the DoFn has yielded in a wrapper."""
    at = part.timestamps
    first = at[0] if isinstance(at, list) else at
    _, micros, windows, pane = unwrapped(output, first, part.windows, part.panes)  # type: ignore[arg-type]
    return micros, windows, pane


def _parts(bundle: Bundle, by_window: bool, one_time: bool) -> Iterator[Bundle]:
    """Yield a bundle in parts of one tuple of windows, one pane and one sign.

    Args:
      by_window: yields an element once for each of its windows.
      one_time: parts have one timestamp, too.
    """
    others = [bundle.panes, bundle.signs, bundle.timestamps if one_time else 0]
    varying: list[list[Any]] = [column for column in others if type(column) is list]
    parts: Iterable[Bundle] = [bundle]
    if not varying and isinstance(bundle, ColumnBundle):
        parts = _of_windows(bundle) if bundle.has_several_windows else parts
    elif varying or type(bundle.windows) is list:
        if type(bundle.windows) is list:
            varying.insert(0, bundle.windows)
        indices: dict[Any, list[int]] = {}
        for i, key in enumerate(zip(*varying, strict=True)):
            indices.setdefault(key, []).append(i)
        parts = (_of_one(bundle, own, one_time) for own in indices.values())
    for part in parts:
        windows: Any = part.windows
        for own in [(window,) for window in windows] if by_window and len(windows) > 1 else [windows]:
            yield part if own is windows else _with(part, windows=own)


def _of_windows(bundle: ColumnBundle) -> Iterator[Bundle]:
    """Yield the elements of each window."""
    import numpy

    indices, known = bundle.assigned
    if (indices[1:] < indices[:-1]).any():
        order = numpy.argsort(indices, kind="stable")
        bundle, indices = bundle.taken(order), indices[order]
    starts = [0, *(numpy.flatnonzero(indices[1:] != indices[:-1]) + 1).tolist()]
    for start, stop in zip(starts, [*starts[1:], len(indices)], strict=True):
        yield _with(bundle.part(start, stop), windows=known[indices[start]])


def _of_one(bundle: Bundle, indices: list[int], one_time: bool) -> Bundle:
    """Return some elements of a bundle, which have equal windows, panes and signs."""
    if isinstance(bundle, ColumnBundle):
        import numpy

        bundle = bundle.taken(numpy.array(indices))
    else:
        columns = (bundle.values, bundle.timestamps, bundle.windows, bundle.panes, bundle.signs)
        bundle = Bundle(*([column[i] for i in indices] if type(column) is list else column for column in columns))  # type: ignore[arg-type]
    found = {name: column[0] for name in ("windows", "panes", "signs") if type(column := getattr(bundle, name)) is list}
    if one_time and type(bundle.timestamps) is list:
        found["timestamps"] = bundle.timestamps[0]
    return _with(bundle, **found)


def _with(bundle: Bundle, **properties: Any) -> Bundle:
    """Return a bundle with other properties, which all elements share."""
    columns = {name: getattr(bundle, name) for name in ("timestamps", "windows", "panes", "signs")} | properties
    if not isinstance(bundle, ColumnBundle):
        return Bundle(bundle.values, **columns)
    micros = properties.get("timestamps", bundle.micros)
    changed = bundle.with_times(micros, columns["windows"])
    changed.panes, changed.signs = columns["panes"], columns["signs"]
    return changed


def bundles_of(outputs: Iterable[tuple[BatchOutput, int, Any, Any, int]]) -> Iterator[Bundle]:
    """Yield the bundles of batches that a function of an element has yielded.

    Args:
      outputs: batches with the properties of their elements.  Successive small batches of equal properties
        are joined.
    """
    for (converter, *properties), same in groupby(outputs, lambda output: (output[0].converter, *output[1:])):
        joined: list[Any] = []
        length = 0
        for output, *_ in same:
            joined.append(output.batch)
            length += converter.get_length(output.batch)
            if length >= BUNDLE_SIZE:
                yield _joined(joined, converter, *properties)
                joined, length = [], 0
        if joined:
            yield _joined(joined, converter, *properties)


def _joined(batches: list[Any], converter: BatchConverter, *properties: Any) -> Bundle:
    return bundle_of(batches[0] if len(batches) == 1 else converter.combine_batches(batches), converter, *properties)
