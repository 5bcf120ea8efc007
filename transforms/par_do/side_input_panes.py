"""The panes that a view of a side input shows.

Source: Apache Beam Programming Guide, section 4.4.2: if a side input has several trigger firings, the value from the
latest one is used.
"""

from __future__ import annotations

from typing import Any

from ...sdk import graph, typehints
from ...sdk.dofn.arrangement import WHOLE, ArrangementDoFn, Constant
from ...sdk.dofn.dofn import DoFn, FlatMapDoFn
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import NOT_KNOWN, PCollection
from ...sdk.side_input_views import ContentsView, DictView, MultiMapView, PanesSeen, SingletonView
from ...sdk.side_inputs import AsSideInput
from ...sdk.user_code.serialization import Serialized
from ...triggers import AccumulationMode, DataLossReason, DefaultTrigger
from ..group_by_key import GroupByKey

_ACCUMULATING = AccumulationMode.ACCUMULATING


class LatestFiring(PTransform):
    """The elements in panes of the PCollection's own trigger, which no grouping has applied to them yet."""

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        keyed = pcoll | "Key" >> _Each(ArrangementDoFn((Constant(None), WHOLE), "Key"), Any)
        fired: PCollection[Any] = keyed | GroupByKey() | "Elements" >> _Each(FlatMapDoFn(_values), pcoll.hint)
        return fired


class _Each(PTransform):
    """The primitive of ParDo, whose module imports this one."""

    def __init__(self, fn: DoFn, element_type: Any) -> None:
        super().__init__()
        self.fn = fn
        self.element_type = element_type

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        pipeline = pcoll.pipeline
        primitive = graph.ParDo(Serialized((self.fn, (), {}), pipeline.full_label))
        return pipeline.add(primitive, [pcoll], pcoll.windowing, self.element_type)[None]


def _values(pair: tuple[None, Any]) -> Any:
    return pair[1]


def side_input(given: AsSideInput, number: int) -> graph.SideInput:
    """Return a PCollection with a view as the side input of a transform at this position.

    Elements with retractions, and those of one pane, are all shown.  Otherwise the latest pane of a window replaces the
    one before it.  Where keys have panes of their own, which is the output of a grouping and what dictionaries are made
    of, it is the latest pane of each key.  Where no grouping has applied the trigger, the view is a grouping itself.
    """
    pcoll: PCollection[Any] = given.pvalue
    view = given.view
    if pcoll.has_contents and not isinstance(view, (SingletonView, ContentsView)):
        view = ContentsView(view, type(given).__name__)
    if pcoll.windowing.accumulation_mode is AccumulationMode.RETRACTING:
        return graph.SideInput(pcoll.id, view, pcoll.windowing)
    trigger = pcoll.windowing.trigger
    if pcoll.is_bounded and isinstance(trigger, DefaultTrigger):
        return graph.SideInput(pcoll.id, view, pcoll.windowing)
    grouping = _grouping_before(pcoll)
    if grouping is not None:
        panes = PanesSeen.LATEST
        if not _is_global(grouping):
            if grouping is pcoll or isinstance(view, (DictView, MultiMapView)):
                panes = PanesSeen.LATEST_BY_KEY
            elif isinstance(trigger, DefaultTrigger) and not isinstance(view, SingletonView):
                # The late pane of a key doesn't replace what is there of others.
                panes = PanesSeen.ALL
        return graph.SideInput(pcoll.id, view, pcoll.windowing, panes)
    fires_once = trigger.may_lose_data(pcoll.windowing) != DataLossReason.NO_POTENTIAL_LOSS
    if pcoll.is_bounded or fires_once or isinstance(trigger, DefaultTrigger):
        return graph.SideInput(pcoll.id, view, pcoll.windowing)
    fired = pcoll | f"Latest firing {number}" >> LatestFiring()
    return graph.SideInput(fired.id, view, fired.windowing, PanesSeen.LATEST)


def _grouping_before(pcoll: PCollection[Any]) -> PCollection[Any] | None:
    """Return the output of the grouping whose panes the elements have."""
    pipeline, current = pcoll.pipeline, pcoll
    path: list[PCollection[Any]] = []
    while current.grouping is NOT_KNOWN:
        path.append(current)
        made = pipeline.producer(current)
        inputs = [pipeline.pcollection(id) for id in made.inputs]
        if isinstance(made.primitive, graph.Flatten) and current.windowing.accumulation_mode is _ACCUMULATING:
            # Beside accumulating panes there may be a default, which the next pane replaces.
            inputs = [each for each in inputs if _grouping_before(each) is not None]
        is_element_wise = isinstance(made.primitive, (graph.ParDo, graph.Flatten)) and len(inputs) == 1
        if not is_element_wise:
            current.grouping = current if isinstance(made.primitive, graph.GroupByKeyAndWindow) else None
        else:
            (current,) = inputs
    for passed in path:
        passed.grouping = current.grouping
    found: PCollection[Any] | None = current.grouping
    return found


def _is_global(grouping: PCollection[Any]) -> bool:
    """Return True if all elements have the key None, as in `CombineGlobally`."""
    return typehints.key_type(grouping.hint) in (None, type(None))
