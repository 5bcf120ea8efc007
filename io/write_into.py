"""WriteInto: the base class of the transforms that write into a sink."""

from __future__ import annotations

from typing import Any

from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection, PDone
from ..transforms.write import Write


class WriteInto(PTransform):
    """Base class of the transforms that write into a sink.  Its errors name the transform's full label.

    Args:
      sink: a `LabelledSink`.
    """

    def __init__(self, sink: Any) -> None:
        super().__init__()
        self.sink = sink

    def expand(self, pcoll: PCollection[Any]) -> PDone:
        done: PDone = pcoll | Write(self.sink_for(pcoll))
        return done

    def sink_for(self, pcoll: PCollection[Any]) -> Any:
        """Return the sink for a PCollection."""
        return self.sink.labelled(pcoll.pipeline.full_label)

    def display_data(self) -> dict[str, Any]:
        shown: dict[str, Any] = self.sink.display_data()
        return shown
