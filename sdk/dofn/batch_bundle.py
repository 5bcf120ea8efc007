"""BatchBundle: elements as a batch of a batched DoFn, in the type that the DoFn has yielded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from ...persistence import restores
from ...triggers.pane import PANE_INFO_UNKNOWN, PaneInfo
from ...windowing.timestamp import MIN_MICROS
from ..columns.column_bundle import COLUMN_BUNDLE_SIZE, ColumnBundle, batch_of_stream, indexed, stream_of
from ..columns.column_elements import Elements, as_dicts, as_rows, as_values
from ..elements.bundle import GLOBAL_WINDOWS, Bundle, expanded, narrowed
from ..elements.defensive_copy import defensive_copies, defensive_copy
from ..elements.row import Row
from ..errors import ColumnError
from ..typehints.batch import BatchConverter, ListBatchConverter

# The functions that make elements with the fields of a record batch, by their type.
_RECORDS: dict[Any, Elements] = {Row: as_rows, dict: as_dicts}

# Bundles are joined up to this number of bytes.
_JOINED_BYTES = 8 << 20


class BatchBundle(ColumnBundle):
    """Elements as a batch.

    Args:
      converter: the converter of the batch's type.
      native: the batch; None if it is still in `columns`.
      columns: a `pyarrow.RecordBatch` of which the converter makes the batch when it is asked for.
      micros, assigned, panes, signs: as in `ColumnBundle`.

    >>> import numpy
    >>> converter = BatchConverter.from_typehints(element_type=int, batch_type=numpy.ndarray)
    >>> bundle = BatchBundle(converter, numpy.array([1, 2, 3]))
    >>> len(bundle), bundle.part(1, 3).native, bundle.values
    (3, array([2, 3]), [1, 2, 3])
    """

    __slots__ = ("converter",)

    def __init__(
        self,
        converter: BatchConverter,
        native: Any,
        columns: Any = None,
        micros: Any = MIN_MICROS,
        assigned: Any = GLOBAL_WINDOWS,
        panes: list[PaneInfo] | PaneInfo = PANE_INFO_UNKNOWN,
        signs: list[int] | int = 1,
    ) -> None:
        self.converter = converter
        self.micros = micros
        self.assigned = assigned
        self.panes = panes
        self.signs = signs
        self._rows = {"native": native, "columns": columns}

    def __len__(self) -> int:
        if self._rows["native"] is None:
            return int(self._rows["columns"].num_rows)
        return self.converter.get_length(self._rows["native"])

    @property
    def native(self) -> Any:
        """The batch."""
        if self._rows["native"] is None:
            self._rows["native"] = self.converter.of_columns(self._rows["columns"])
        return self._rows["native"]

    def has_type_of(self, converter: BatchConverter) -> bool:
        """Return True if `native` is of a converter's type of batches."""
        return type(self.converter) is type(converter) and self.converter.batch_type == converter.batch_type

    @property
    def batch(self) -> Any:
        """The batch as a `pyarrow.RecordBatch`.  Raises `ColumnError` for values that Arrow would change."""
        if self._rows["columns"] is None:
            self._rows["columns"] = self.converter.to_columns(self._rows["native"])
        return self._rows["columns"]

    @property
    def elements(self) -> Elements:  # type: ignore[override]
        """The function that makes elements of `batch`."""
        return elements_of(self.converter)

    @property
    def has_fields(self) -> bool:
        return self.converter.has_fields

    @property
    def has_columns(self) -> bool:
        try:
            return self.batch is not None
        except ColumnError:
            return False

    @property
    def values(self) -> list[Any]:  # type: ignore[override]
        """The elements."""
        if "values" not in self._rows:
            self._rows["values"] = list(self.converter.explode_batch(self.native))
        values: list[Any] = self._rows["values"]
        return values

    def in_columns(self) -> BatchBundle:
        """Return the bundle without the batch, but with its columns.  Raises `ColumnError` as `batch` does."""
        return self._like(None, self.batch, self)

    def unshared(self) -> BatchBundle:
        native, columns = self._rows["native"], self._rows["columns"]
        copied = self._like(defensive_copy(native), columns, self)
        if "values" in copied._rows:
            copied._rows["values"] = defensive_copies(copied._rows["values"])
        return copied

    def part(self, start: int, stop: int) -> BatchBundle:
        stop = min(stop, len(self))
        if self._rows["native"] is None:
            picked = super()._picked(None, lambda column: column[start:stop])
            return self._like(None, self.batch.slice(start, stop - start), picked)
        return self._picked(self.converter.part(self.native, start, stop), lambda column: column[start:stop])

    def where(self, mask: Any) -> BatchBundle:
        import numpy

        chosen = mask.fill_null(False).to_numpy(zero_copy_only=False)
        return self if chosen.all() else self.taken(numpy.flatnonzero(chosen))

    def taken(self, indices: Any) -> BatchBundle:
        positions: list[int] = indices.tolist()
        return self._picked(
            self.converter.take(self.native, indices),
            lambda column: [column[i] for i in positions] if type(column) is list else column[indices],
        )

    def _picked(self, batch: Any, pick: Callable[[Any], Any]) -> BatchBundle:
        picked = super()._picked(None, pick)
        return self._like(batch, None, picked)

    def with_times(self, micros: Any, assigned: Any) -> BatchBundle:
        changed = self._like(self._rows["native"], self._rows["columns"], self)
        changed.micros, changed.assigned = micros, assigned
        return changed

    def _like(self, native: Any, columns: Any, properties: ColumnBundle) -> BatchBundle:
        """Return a bundle with this type of batch, and the properties and elements of another bundle."""
        micros, assigned, panes, signs = properties.micros, properties.assigned, properties.panes, properties.signs
        made = BatchBundle(self.converter, native, columns, micros, assigned, panes, signs)
        if "values" in properties._rows:
            made._rows["values"] = properties._rows["values"]
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            return _restored, (stream_of(self.batch), self.converter, *self.sent_properties)
        except (ColumnError, ImportError):
            return Bundle, (self.values, self.timestamps, self.windows, self.panes, self.signs)

    def with_batch(self, batch: Any, elements: Elements) -> ColumnBundle:
        return ColumnBundle(batch, elements, self.micros, self.assigned, self.panes, self.signs)


@restores("batch-bundle", 1)
def _restored(stream: bytes, converter: BatchConverter, *properties: Any) -> BatchBundle:
    return BatchBundle(converter, None, batch_of_stream(stream), *properties)


def elements_of(converter: BatchConverter) -> Elements:
    """Return the function that makes elements of a record batch."""
    if converter.has_fields and converter.element_type in _RECORDS:
        return _RECORDS[converter.element_type]
    return converter.elements


def batch_of(bundle: Bundle, converter: BatchConverter) -> Any:
    """Return the elements of a bundle as a batch of a type, without making elements where that is possible.

    Raises `ColumnError`, `TypeError` and what else the libraries raise for elements that can't be in such a batch.
    """
    if isinstance(converter, ListBatchConverter):
        return bundle.values
    if isinstance(bundle, BatchBundle) and bundle.has_type_of(converter):
        return bundle.native
    is_of_values = isinstance(bundle, BatchBundle) or getattr(bundle, "elements", None) is as_values
    if (
        isinstance(bundle, ColumnBundle)
        and bundle.has_fields is converter.has_fields
        and (bundle.has_fields or is_of_values)
    ):
        try:
            return converter.of_columns(bundle.batch)
        except ColumnError:
            pass
    return converter.produce_batch(bundle.values)


def bundle_of(batch: Any, converter: BatchConverter, micros: Any, windows: Any, panes: Any, signs: Any) -> Bundle:
    """Return a batch as a bundle.

    Args:
      micros: event times in microseconds: a list, a NumPy array, or an int for all.
      windows: those of all elements, a list of those of each, or as in `ColumnBundle`.
    """
    if isinstance(converter, ListBatchConverter):
        if len(windows) == 2 and isinstance(windows[1], list) and not isinstance(windows, list):
            windows = [windows[1][index] for index in windows[0].tolist()]
        return Bundle(batch, micros if isinstance(micros, (int, list)) else micros.tolist(), windows, panes, signs)
    if isinstance(windows, list):
        windows = indexed(windows)
    if isinstance(micros, list):
        import numpy

        micros = numpy.array(micros, numpy.int64)
    return BatchBundle(converter, batch, None, micros, windows, panes, signs)


def joined(bundles: Iterable[Bundle]) -> Iterator[Bundle]:
    """Yield the elements of bundles, those of the same columns in fewer bundles.

    >>> import pyarrow
    >>> parts = [ColumnBundle(pyarrow.record_batch({"n": [n]}), as_rows, n) for n in (1, 2)]
    >>> [(bundle.values, bundle.timestamps) for bundle in joined(parts)]
    [([Row(n=1), Row(n=2)], [1, 2])]
    """
    waiting: dict[Any, list[ColumnBundle]] = {}
    sizes: dict[Any, tuple[int, int]] = {}
    for bundle in bundles:
        if not isinstance(bundle, ColumnBundle):
            yield bundle
            continue
        maker = bundle.converter if isinstance(bundle, BatchBundle) else bundle.elements
        schema = bundle.batch.schema
        kind = maker, tuple(schema.names), tuple(schema.types)
        waiting.setdefault(kind, []).append(bundle)
        number, size = sizes.get(kind, (0, 0))
        sizes[kind] = number, size = number + len(bundle), size + bundle.batch.nbytes
        if number >= COLUMN_BUNDLE_SIZE or size >= _JOINED_BYTES:
            yield _joined(waiting.pop(kind))
            del sizes[kind]
    yield from map(_joined, waiting.values())


def _joined(bundles: list[ColumnBundle]) -> ColumnBundle:
    import numpy
    import pyarrow

    first = bundles[0]
    if len(bundles) == 1:
        return first
    (batch,) = pyarrow.Table.from_batches([bundle.batch for bundle in bundles]).combine_chunks().to_batches()
    times = [bundle.micros for bundle in bundles]
    micros = first.micros
    if any(not isinstance(own, int) or own != micros for own in times):
        micros = numpy.concatenate([numpy.broadcast_to(bundle.micros, len(bundle)) for bundle in bundles])
    assigned = first.assigned
    if any(bundle.has_several_windows or bundle.assigned != assigned for bundle in bundles):
        positions: dict[Any, int] = {}
        indices = []
        for bundle in bundles:
            own, known = bundle.assigned if bundle.has_several_windows else (0, [bundle.assigned])
            numbers = numpy.array([positions.setdefault(windows, len(positions)) for windows in known])
            indices.append(numpy.broadcast_to(numbers[own], len(bundle)))
        assigned = numpy.concatenate(indices), list(positions)
    panes = narrowed(list(chain.from_iterable(expanded(bundle.panes, len(bundle)) for bundle in bundles)))
    signs = narrowed(list(chain.from_iterable(expanded(bundle.signs, len(bundle)) for bundle in bundles)))
    if isinstance(first, BatchBundle):
        return BatchBundle(first.converter, None, batch, micros, assigned, panes, signs)
    return ColumnBundle(batch, first.elements, micros, assigned, panes, signs)
