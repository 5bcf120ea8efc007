"""Which outputs of a primitive may be retracted, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from ...triggers import AccumulationMode
from ...windowing.duration import Duration
from .. import graph
from ..errors import UnsupportedError
from ..pvalue import PCollection
from ..windowing_strategy import WindowingStrategy


def with_retractions(
    primitive: graph.Primitive, inputs: Sequence[PCollection[Any]], is_bounded: bool, label: str
) -> tuple[graph.Primitive, str, Duration | None]:
    """Return a primitive that knows whether its inputs may be retracted, and what may retract its outputs.

    Returns the primitive, `PCollection.retracted_by` and `PCollection.retractable_for` of the outputs.
    """
    retracted_by = next((pcoll.retracted_by for pcoll in inputs if pcoll.retracted_by), "")
    retractable_for = _retractable_for(primitive, inputs)
    if retracted_by and isinstance(primitive, graph.GroupByKeyAndWindow):
        primitive = attrs.evolve(primitive, retracted=True)
    elif retracted_by and isinstance(primitive, graph.ParDo):
        primitive = attrs.evolve(primitive, retracted=True, retractable_for=retractable_for)
    if isinstance(primitive, graph.GroupByKeyAndWindow):
        retracted_by = _retracted_by_grouping(primitive.windowing, is_bounded, retracted_by, label)
    return primitive, retracted_by, retractable_for


def _retractable_for(primitive: graph.Primitive, inputs: Sequence[PCollection[Any]]) -> Duration | None:
    """Return how long after the end of its window an output may still be retracted; None without a limit.

    A grouping retracts no pane after the window has expired.  In other windows its results are not known any more.
    """
    if isinstance(primitive, graph.GroupByKeyAndWindow):
        return primitive.windowing.allowed_lateness
    if not isinstance(primitive, (graph.ParDo, graph.Flatten)):
        return None
    longest = None
    for pcoll in inputs:
        if pcoll.retracted_by:
            if pcoll.retractable_for is None:
                return None
            longest = pcoll.retractable_for if longest is None else max(longest, pcoll.retractable_for)
    return longest


def _retracted_by_grouping(windowing: WindowingStrategy, is_bounded: bool, retracted_by: str, label: str) -> str:
    """Return the label of the transform that may retract a grouping's results: the grouping, or its input's; else
    ""."""
    if retracted_by and windowing.accumulation_mode is not AccumulationMode.RETRACTING:
        raise UnsupportedError(
            f"{label}: {retracted_by} may retract its input, but it is in {windowing.accumulation_mode.name} mode, "
            "whose panes have no retractions; use AccumulationMode.RETRACTING for its windows too"
        )
    return label if windowing.panes_replace(is_bounded) else retracted_by
