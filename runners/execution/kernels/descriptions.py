"""Descriptions of kernels: the operations of a stage, and the fold at its end."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from ....frozen import frozen
from ....sdk import graph
from ....sdk.combine_fn import CombineFn
from ....sdk.dofn.batched_dofn import BatchedDoFn
from ....sdk.dofn.dofn import DoFn
from ....sdk.dofn.signature import Argument, bind
from ....windowing import GlobalWindows, WindowFn
from ....windowing.timestamp_combiner import TimestampCombiner


@frozen
class ParDoOperation:
    """A ParDo, ready to be called.

    Attributes:
      label: its full label.
      fn: the worker's own copy of the DoFn.
      arguments: the arguments of its function.
      windowed_views: indices of the side inputs whose view depends on the element's window.
      remembers: True if its outputs are recorded, to be retracted unchanged.
      batch_arguments: the arguments of its function of a batch.
    """

    label: str
    fn: DoFn
    arguments: tuple[Argument, ...]
    windowed_views: frozenset[int] = frozenset()
    remembers: bool = False
    batch_arguments: tuple[Argument, ...] = ()

    @property
    def decides_signs(self) -> bool:
        """Return True if it receives the sign; then its outputs are retractions only if it says so."""
        return any(argument.marker is DoFn.SignParam for argument in self.arguments)

    @property
    def observes_window(self) -> bool:
        """Return True if an element in several windows has to be processed in each of them."""
        for argument in (*self.arguments, *self.batch_arguments):
            if argument.marker is DoFn.WindowParam:
                return True
            if isinstance(argument.value, graph.SideInputArgument) and argument.value.index in self.windowed_views:
                return True
        return False


@frozen
class WindowOperation:
    """An AssignWindows."""

    label: str
    window_fn: WindowFn


Operation: TypeAlias = ParDoOperation | WindowOperation


def operation_of(transform: graph.Transform) -> Operation:
    """Return the operation of a ParDo or an AssignWindows, with a copy of the DoFn for this worker alone."""
    primitive = transform.primitive
    if isinstance(primitive, graph.AssignWindows):
        return WindowOperation(transform.label, primitive.windowing.window_fn)
    assert isinstance(primitive, graph.ParDo)
    assert primitive.fn is not None
    fn, args, kwargs = primitive.fn.load()
    windowed = frozenset(
        i for i, s in enumerate(primitive.side_inputs) if not isinstance(s.windowing.window_fn, GlobalWindows)
    )
    remembers = primitive.retracted and not fn.deterministic
    of_batch: tuple[Argument, ...] = ()
    if isinstance(fn.column_operation, BatchedDoFn):
        of_batch = fn.column_operation.batch_arguments(args, kwargs, transform.label)
    return ParDoOperation(transform.label, fn, bind(fn, args, kwargs, transform.label), windowed, remembers, of_batch)


@frozen
class FoldOperation:
    """The fold at the end of a stage.

    Attributes:
      label: the grouping's full label.
      combine_fn: its combiner; None for values collected in lists.
      combiner: the timestamp combiner.
      window_fn: the grouping's window function.
      counts: True if accumulators are pairs of the combiner's accumulator and the number of its elements.
      merging: True if elements stay unfolded until their windows have merged.
    """

    label: str
    combine_fn: CombineFn[Any, Any, Any] | None
    combiner: TimestampCombiner
    window_fn: WindowFn
    counts: bool = False
    merging: bool = attrs.field(init=False)

    @merging.default
    def _merging(self) -> bool:
        return self.window_fn.is_merging

    @property
    def stamped(self) -> bool:
        """Return whether the timestamp combiner looks at the timestamps of elements."""
        return self.combiner is not TimestampCombiner.OUTPUT_AT_EOW

    @property
    def pending_width(self) -> int:
        """Return the number of entries of `CellTable.pending` for each element, for windows that merge by overlap."""
        return 4 if self.stamped else 3
