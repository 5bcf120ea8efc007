"""Feedback: a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..sdk import graph
from ..sdk.dofn import DoFn
from ..sdk.element_wrappers import TaggedOutput
from ..sdk.errors import PipelineError
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection
from ..triggers import DefaultTrigger
from ..windowing import GlobalWindows
from .pardo import ParDo

_AGAIN = "again"


class Feedback(PTransform):
    """Has what `body` puts out come back to it, again and again, until `until` says that it is done.

    Elements keep their timestamps, windows and signs on the way around.  The watermark behind the
    head moves on when nothing that is earlier is in the loop any more, so what follows the loop
    can rely on it.  Groupings in the body see elements that come back as late as they are: in the global
    window they need a trigger that fires before the end.

    Runs on `--runner=local`; a run can be recovered in the middle of a loop.

    Args:
      body: a transform, or a function of a PCollection that applies several.
      until: of each element that the body puts out, whether it leaves the loop.

    Source: ABS, section 4.3 (cyclic dataflows).

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     numbers = p | beam.Create([3, 50])
    ...     doubled = numbers | beam.Feedback(beam.Map(lambda n: 2 * n), until=lambda n: n >= 20)
    ...     _ = doubled | beam.Map(print)
    100
    24
    """

    def __init__(
        self,
        body: PTransform | Callable[[PCollection[Any]], PCollection[Any]],
        until: Callable[[Any], bool],
    ) -> None:
        super().__init__()
        if not isinstance(body, PTransform) and not callable(body):
            raise TypeError(f"Feedback: expected a transform or a function of a PCollection, got {body!r}")
        if not callable(until):
            raise TypeError(f"Feedback: expected a function of an element in `until`, got {until!r}")
        self.body = body
        self.until = until

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        label = pcoll.pipeline.full_label
        head = pcoll | "Head" >> _Head()
        before = len(pcoll.pipeline.outline().transforms)
        output = head | self.body if isinstance(self.body, PTransform) else self.body(head)
        if not isinstance(output, PCollection):
            raise PipelineError(f"{label}: its body must give one PCollection, got {output!r}")
        _check(pcoll.pipeline.outline(), before, label)
        if output.windowing.window_fn != head.windowing.window_fn:
            raise PipelineError(
                f"{label}: its body changes the windows from {head.windowing.window_fn!r} to "
                f"{output.windowing.window_fn!r}; what comes back must be windowed like what comes in"
            )
        parts = output | "Until" >> ParDo(_Until(self.until)).with_outputs(_AGAIN, main="done")
        parts[_AGAIN] | "Back" >> _Back(head.producer)
        done: PCollection[Any] = parts.done
        return done


class _Head(PTransform):
    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        return pcoll.pipeline.add(graph.Feedback(), [pcoll], pcoll.windowing, Any)[None]


class _Back(PTransform):
    def __init__(self, head: str) -> None:
        super().__init__()
        self._head = head

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        pcoll.pipeline.add(graph.Feedback(self._head), [pcoll], pcoll.windowing, tags=())
        return pcoll


class _Until(DoFn):
    def __init__(self, until: Callable[[Any], bool]) -> None:
        self._until = until

    def process(self, element: Any) -> Iterator[Any]:
        yield element if self._until(element) else TaggedOutput(_AGAIN, element)


def _check(made: graph.Graph, before: int, label: str) -> None:
    """Raise `PipelineError` for a grouping in a loop that would wait for the end of what can't end before it."""
    for transform in made.transforms[before:]:
        primitive = transform.primitive
        if not isinstance(primitive, graph.GroupByKeyAndWindow):
            continue
        windowing = primitive.windowing
        if isinstance(windowing.window_fn, GlobalWindows) and isinstance(windowing.trigger, DefaultTrigger):
            raise PipelineError(
                f"{transform.label}: it groups in the global window when the input has ended, but it is in the loop "
                f"{label}, which ends only when nothing comes out of it; give it a trigger that fires before, such as "
                "Repeatedly(AfterCount(1))"
            )
