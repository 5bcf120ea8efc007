"""A grouping of a bounded input whose windows have one result each: folded into cells, emitted at the end."""

from __future__ import annotations

from collections.abc import Iterator

from ....sdk.bundle import Bundle
from ..plan.fusion import Grouping
from ..shuffle.blocks import receive_block
from ..user_errors import Attribution, attributed, reraise
from ..windows.bounded_operator import Cells, WindowOperator
from ..windows.combining import Fold
from ..windows.spilled_groups import GroupSpill


class BoundedGrouping:
    """The window operator of such a grouping, for one range of keys after the other.

    Attributes:
      fold, cells: what stages fold into that run in the same place.
      output: the PCollection of its results.
    """

    def __init__(self, step: Grouping) -> None:
        self.fold = Fold(step.transform)
        self.fold.setup()
        (self.output,) = step.transform.outputs.values()
        self._operator = WindowOperator(self.fold)
        self._spill = GroupSpill(self._operator)

    @property
    def cells(self) -> Cells:
        return self._operator.cells

    def folded(self) -> None:
        """Hold everything until the input is complete."""

    def receive_block(self, block: bytes) -> int:
        """Merge a block of a shuffle, and return how many values or accumulators it has."""
        try:
            received = receive_block(self._operator, block)
            if self.fold.combine_fn is None:
                self._spill.received(received, len(block))
        except BaseException as error:
            reraise(attributed(error, Attribution(self.fold.label, None)))
        return received

    def finish(self) -> Iterator[Bundle]:
        """Yield the results of what has been received; then begin anew, for the next range of keys."""
        yield from self._operator.flush()
        self._spill.flushed()
