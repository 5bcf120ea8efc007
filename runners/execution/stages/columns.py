"""Columns: the first operations of a stage, applied to a bundle as a whole.

Operations that understand columns come first in a stage: at one that has no other form, the plan begins another stage
if it can't be reached by columns.  They run on the bundles that arrive as columns; and on others, after a conversion,
if one of them has no other form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

from ....sdk import graph
from ....sdk.columns.column_bundle import ColumnBundle, column_properties
from ....sdk.columns.expressions import ColumnOperation, bundle_of_records
from ....sdk.dofn.batched_dofn import BatchedDoFn, BundleDoFn
from ....sdk.elements.bundle import Bundle
from ....windowing import WindowFn
from ....windowing.buckets import bucketing
from ..kernels.descriptions import Operation, ParDoOperation
from ..user_errors import guarded, guarded_items
from .batches import BatchOperation, Wrapped


class ColumnOperations:
    """The operations at the beginning of a stage that understand columns.

    Attributes:
      length: their number.
      needed: the number of those up to the last that has no other form.
    """

    def __init__(self, operations: Sequence[Operation], arguments: Callable[[int], Mapping[int, Any]]) -> None:
        forms = [(operation, _form(operation, partial(arguments, i))) for i, operation in enumerate(operations)]
        self._forms: list[tuple[str, Any]] = [
            (op.label, form) for op, form in takewhile(lambda pair: pair[1] is not None, forms)
        ]
        self.length = len(self._forms)
        needed = [i for i, (_, form) in enumerate(self._forms) if getattr(form, "is_needed", False)]
        self.needed = max(needed, default=-1) + 1

    def apply(
        self, bundle: Bundle, passed: Callable[[int, int, Any], None] | None = None
    ) -> Iterator[tuple[int, graph.Tag, Bundle | Wrapped]]:
        """Yield the elements behind the operations, each time with the number of operations that were applied.

        Args:
          passed: called with the index of each operation, the number of its elements, and their bundle.

        Raises `ColumnError`, and the errors of batched DoFns.
        """
        return self._apply(0, bundle, isinstance(bundle, ColumnBundle), passed)

    def _apply(
        self, index: int, bundle: Bundle, is_whole: bool, passed: Callable[[int, int, Any], None] | None
    ) -> Iterator[tuple[int, graph.Tag, Bundle | Wrapped]]:
        """Apply the operations from `index` on.

        Args:
          is_whole: False if only those are applied that are needed.
        """
        while index < (self.length if is_whole else self.needed) and len(bundle):
            label, form = self._forms[index]
            if isinstance(form, (BatchOperation, BundleDoFn)):
                if passed is not None:
                    passed(index, len(bundle), bundle)
                for tag, output in _outputs(label, form, bundle):
                    if tag is None and isinstance(output, Bundle):
                        yield from self._apply(index + 1, output, True, passed)
                    else:
                        yield index + 1, tag, output
                return
            if not _can_take(form, bundle):
                if index >= self.needed or not (isinstance(form, WindowFn) or form.is_needed):
                    break
                bundle = guarded(label, partial(as_columns, bundle))
            if passed is not None:
                passed(index, len(bundle), bundle)
            apply = partial(assigned, window_fn=form) if isinstance(form, WindowFn) else form.apply
            bundle, is_whole = guarded(label, partial(apply, bundle)), True
            index += 1
        yield index, None, bundle


def _outputs(
    label: str, form: BatchOperation | BundleDoFn, bundle: Bundle
) -> Iterator[tuple[graph.Tag, Bundle | Wrapped]]:
    outputs = form.outputs if isinstance(form, BatchOperation) else form.tagged_outputs
    return guarded_items(label, partial(outputs, bundle))


def _can_take(form: ColumnOperation | WindowFn, bundle: Bundle) -> bool:
    """Return True if an operation can be applied to a bundle as it is."""
    if not isinstance(bundle, ColumnBundle):
        return False
    return isinstance(form, WindowFn) or (form.takes(bundle) and bundle.has_columns)


def _form(operation: Operation, arguments: Callable[[], Mapping[int, Any]]) -> Any:
    """Return the form of an operation for whole bundles, or None."""
    if not isinstance(operation, ParDoOperation):
        return None if bucketing(operation.window_fn) is None else operation.window_fn
    if operation.remembers:
        return None
    form: ColumnOperation | BatchedDoFn | BundleDoFn | None = operation.fn.column_operation
    return BatchOperation(operation, arguments) if isinstance(form, BatchedDoFn) else form


def as_columns(bundle: Bundle) -> ColumnBundle:
    """Return a bundle of elements with named fields as columns.  Raises `ColumnError` for others."""
    columns = bundle_of_records(bundle.values)
    columns = ColumnBundle(columns.batch, columns.elements, *column_properties(bundle))
    return columns.with_values(bundle.values)


def assigned(bundle: ColumnBundle, window_fn: WindowFn) -> ColumnBundle:
    """Return a bundle with the windows of a function that looks at timestamps only.

    An element of several windows becomes one element for each of them first, as in the Dataflow Model's figure 3.
    """
    import numpy
    import pyarrow

    bundle = _exploded(bundle)
    micros = bundle.micros
    if isinstance(micros, int):
        windows = tuple(window_fn.assign_micros(micros))
        return bundle.with_times(micros, windows) if windows else bundle.part(0, 0)
    bucket_of = bucketing(window_fn)
    assert bucket_of is not None
    firsts, indices = _distinct(numpy.broadcast_to(bucket_of(micros), micros.shape))
    known = [tuple(window_fn.assign_micros(int(micros[first]))) for first in firsts]
    bundle = bundle.with_times(micros, (indices, known))
    is_in_any = numpy.array([bool(own) for own in known])
    return bundle if is_in_any.all() else bundle.where(pyarrow.array(is_in_any[indices]))


def _distinct(buckets: Any) -> tuple[Any, Any]:
    """Return the index of an element of each distinct bucket, and the index of each element's bucket among them."""
    import numpy

    n = len(buckets)
    least, most = buckets.min(), buckets.max()
    if not numpy.issubdtype(buckets.dtype, numpy.integer) or int(most) - int(least) > 4 * n:
        _, firsts, indices = numpy.unique(buckets, return_index=True, return_inverse=True)
        return firsts, indices
    # Without sorting.
    offsets = buckets - least
    positions = numpy.full(int(most) - int(least) + 1, -1)
    positions[offsets] = numpy.arange(n)
    there = numpy.flatnonzero(positions >= 0)
    firsts = positions[there]
    positions[there] = numpy.arange(len(there))
    return firsts, positions[offsets]


def _exploded(bundle: ColumnBundle) -> ColumnBundle:
    """Return a bundle with an element for each window of an element."""
    import numpy

    n = len(bundle)
    if bundle.has_several_windows:
        indices, known = bundle.assigned
        counts = numpy.array([len(own) for own in known])[indices]
    else:
        counts = numpy.full(n, len(bundle.assigned))
    return bundle if (counts == 1).all() else bundle.taken(numpy.repeat(numpy.arange(n), counts))
