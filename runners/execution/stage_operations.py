"""What the operations of a fused stage are, once they are ready to be called."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from ...sdk import graph
from ...sdk.dofn import DoFn
from ...sdk.dofn_signature import Argument, bind
from ...windowing import GlobalWindows, WindowFn


@attrs.frozen
class ParDoOperation:
    """A ParDo, ready to be called.

    Attributes:
      label: its full label.
      fn: the worker's own copy of the DoFn.
      arguments: what its function is called with.
      windowed_views: indices of the side inputs whose view depends on the element's window.
      remembers: whether its outputs are kept, to be retracted as they were.
    """

    label: str
    fn: DoFn
    arguments: tuple[Argument, ...]
    windowed_views: frozenset[int] = frozenset()
    remembers: bool = False

    @property
    def decides_signs(self) -> bool:
        """Whether it sees the sign, and its outputs are no retractions unless it says so."""
        return any(argument.marker is DoFn.SignParam for argument in self.arguments)

    @property
    def observes_window(self) -> bool:
        """Whether an element in several windows has to be processed in each of them."""
        for argument in self.arguments:
            if argument.marker is DoFn.WindowParam:
                return True
            if isinstance(argument.value, graph.SideInputArgument) and argument.value.index in self.windowed_views:
                return True
        return False


@attrs.frozen
class WindowOperation:
    """An AssignWindows."""

    label: str
    window_fn: WindowFn


Operation: TypeAlias = ParDoOperation | WindowOperation


def operation_of(transform: graph.Transform) -> Operation:
    """The operation of a ParDo or an AssignWindows, with a copy of the DoFn for this worker alone."""
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
    return ParDoOperation(transform.label, fn, bind(fn, args, kwargs, transform.label), windowed, remembers)
