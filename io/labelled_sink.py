"""LabelledSink: the base class of sinks that name what they keep at their target by the label of their transform."""

from __future__ import annotations

import copy
from typing import Any, Self

from ..sdk.sink import Sink


class LabelledSink(Sink[Any]):
    """A sink with the label of its transform.

    Two sinks of a pipeline may write to one target, so the names of staged output, of series and of tokens depend on
    the label.

    Attributes:
      transform: the full label of the transform; the name of a class before the sink is a part of a pipeline.
    """

    transform: str

    def labelled(self, label: str) -> Self:
        sink = copy.copy(self)
        sink.transform = label
        sink.is_labelled = True
        return sink
