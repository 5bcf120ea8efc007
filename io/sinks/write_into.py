"""WriteInto: the base class of the transforms that write into a sink."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ...sdk.type_variables import A
from ...transforms.write import WriteAs


class WriteInto(PTransform[PCollection[A], Any]):
    """Base class of the transforms that write elements of type A into a sink.

    Its errors name the transform's full label.

    Args:
      sink: the sink.
    """

    def __init__(self, sink: Any) -> None:
        super().__init__()
        self.sink = sink

    if TYPE_CHECKING:
        # The class says what it takes, not `expand`.
        _expands: None  # type: ignore[assignment]

    # `Any` for type checkers, so that `_ = ... | Write(...)` fits the other assignments to `_`.
    def expand(self, pcoll: PCollection[Any]) -> Any:
        return pcoll | WriteAs(self.sink_for(pcoll), pcoll.pipeline.full_label)

    def sink_for(self, pcoll: PCollection[Any]) -> Any:
        """Return a sink of its own for a PCollection."""
        return copy.copy(self.sink)

    def display_data(self) -> dict[str, Any]:
        shown: dict[str, Any] = self.sink.display_data()
        return shown
