"""Feedback: a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from ..sdk import graph
from ..sdk.dofn.dofn import DoFn
from ..sdk.elements.element_wrappers import TaggedOutput
from ..sdk.errors import PipelineError
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection
from ..triggers import DefaultTrigger
from ..windowing import GlobalWindows
from .par_do.pardo import ParDo

if TYPE_CHECKING:
    from ..sdk.static_results import Keeps

    T = TypeVar("T")

_AGAIN = "again"


class Feedback(PTransform):
    """A loop that feeds the outputs of `body` back to its input, until `until` returns true for them.

    Returns a `PCollection[T]`, as its input is.

    Elements keep their timestamps, windows and signs in the loop.  The watermark behind the head advances once no
    earlier element is in the loop, so transforms behind the loop can rely on it.  Fed-back elements may be late for
    groupings in the body; in the global window these need a trigger that fires before the end.

    Runs on `--runner=local`, which can recover in the middle of a loop.

    Args:
      body: a transform, or a function of a PCollection that applies several.
      until: a function from an output element of the body to True if the element leaves the loop.

    Source: ABS, section 4.3 (cyclic dataflows).

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     numbers = p | beam.Create([3, 50])
    ...     doubled = numbers | beam.Feedback(beam.Map(lambda n: 2 * n), until=lambda n: n >= 20)
    ...     _ = doubled | beam.Map(print)
    100
    24
    """

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]
        __ror__: Keeps  # type: ignore[assignment]

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

    def expand(self, pcoll: PCollection[T]) -> PCollection[T]:
        label = pcoll.pipeline.full_label
        head = pcoll | "Head" >> _Head()
        before = len(pcoll.pipeline.outline().transforms)
        output = head | self.body if isinstance(self.body, PTransform) else self.body(head)
        if not isinstance(output, PCollection):
            raise PipelineError(f"{label}: its body must return one PCollection, got {output!r}")
        _check(pcoll.pipeline.outline(), before, label)
        if output.windowing.window_fn != head.windowing.window_fn:
            raise PipelineError(
                f"{label}: its body changes the windows from {head.windowing.window_fn!r} to "
                f"{output.windowing.window_fn!r}; the output of the body must be windowed like its input"
            )
        parts = output | "Until" >> ParDo(_Until(self.until)).with_outputs(_AGAIN, main="done")
        parts[_AGAIN] | "Back" >> _Back(head.producer_label)
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
    """Raise `PipelineError` for a grouping in a loop that would wait for the end of the loop."""
    for transform in made.transforms[before:]:
        primitive = transform.primitive
        if not isinstance(primitive, graph.GroupByKeyAndWindow):
            continue
        windowing = primitive.windowing
        if isinstance(windowing.window_fn, GlobalWindows) and isinstance(windowing.trigger, DefaultTrigger):
            raise PipelineError(
                f"{transform.label}: it groups in the global window at the end of the input, but it is in the loop "
                f"{label}, which can't end before its outputs; give it a trigger that fires earlier, such as "
                "Repeatedly(AfterCount(1))"
            )
