"""A ParDo of a splittable DoFn, as an unbounded source, or with the whole work on each element in one step."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from ...sdk import graph
from ...sdk.dofn.dofn import DoFn
from ...sdk.dofn.splittable_dofn import RestrictionTrackerView, SplittableSignature, splittable_signature
from ...sdk.elements.element_wrappers import Remainder, unwrapped
from ...sdk.errors import UnsupportedError
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.side_inputs import AsSideInput
from ...sdk.sources.bounded import ValuesSource
from ...sdk.sources.splittable_source import SplittableSource
from ...sdk.user_code.serialization import Serialized
from ...windowing.duration import Duration
from ...windowing.timestamp import Timestamp
from ..read import Read

# Seconds that deferred work of a stream waits for before it is tried again.
_MOMENT = 0.01


def read_of_splittable(
    fn: DoFn, args: tuple[Any, ...], kwargs: dict[str, Any], signature: SplittableSignature, pcoll: PCollection[Any]
) -> PCollection[Any]:
    """Return the outputs of an unbounded splittable DoFn.

    Raises `UnsupportedError` if its elements aren't known while the pipeline is built.
    """
    label = pcoll.pipeline.full_label
    producer = pcoll.pipeline.producer(pcoll)
    source = producer.primitive.source if isinstance(producer.primitive, graph.Read) else None
    if not isinstance(source, ValuesSource):
        raise UnsupportedError(
            f"{label}: {type(fn).__name__} has unbounded work on an element, which no runner supports "
            f"for elements that are known only in the run, as those of {producer.label}; apply it to Create or Impulse"
        )
    elements = [unwrapped(value)[:2] for value in source.values]
    read = Read(SplittableSource(Serialized((fn, args, kwargs), label), elements, label))
    outputs: PCollection[Any] = PBegin(pcoll.pipeline) | "Work" >> read
    return outputs


def check_arguments(args: Iterable[Any], label: str) -> None:
    """Raise `UnsupportedError` for side inputs."""
    if any(isinstance(value, AsSideInput) for value in args):
        raise UnsupportedError(f"{label}: a splittable DoFn can't have side inputs; have a step before it take them")


class WorkToTheEnd(DoFn):
    """A bounded splittable DoFn as an ordinary DoFn, which processes one restriction after another.

    Deferred work is done after the waiting time.

    In a stream it may return between two claims: the last output is then a `Remainder` with the unfinished work, with
    which `process` is called again.

    Attributes:
      most_claims: the number of claims after which it does so, as the runner says; None for never.
      claims: the number of claims that were made.
    """

    most_claims: int | None = None
    claims: int = 0

    def __init__(self, fn: DoFn, label: str) -> None:
        self.fn = fn
        self.label = label

    def setup(self) -> None:
        self.fn.setup()
        signature = splittable_signature(self.fn, self.label)
        assert signature is not None
        self.signature = signature

    def start_bundle(self) -> None:
        self.fn.start_bundle()

    def process(self, element: Any, *args: Any, timestamp: Any = DoFn.TimestampParam, **kwargs: Any) -> Iterable[Any]:
        provider, estimators = self.signature.provider, self.signature.estimator_provider
        if type(element) is Remainder:
            element, todo, state = element.element, deque(element.restrictions), element.state
        else:
            todo, state = deque(provider.split(element, provider.initial_restriction(element))), None
        while todo:
            restriction = todo.popleft()
            tracker = provider.create_tracker(restriction)
            view = RestrictionTrackerView(tracker, self.most_claims)
            estimator = None
            if estimators is not None:
                if state is None:
                    state = estimators.initial_estimator_state(element, restriction)
                estimator, state = estimators.create_watermark_estimator(state), None
            for output in self.signature.run(self.fn, element, args, kwargs, view, estimator):
                if estimator is not None:
                    estimator.observe_timestamp(Timestamp.of_micros(unwrapped(output, timestamp.micros)[1]))
                yield output
            tracker.check_done()
            self.claims += view.claims
            rest = view.rest
            if view.deferred is not None:
                rest, until = view.deferred
                self._wait(until)
            if rest is not None:
                todo.appendleft(rest)
                state = None if estimator is None else estimator.get_estimator_state()
                # In a stream, deferred work is tried again behind a short wait.
                if view.rest is not None or self.most_claims is not None:
                    yield Remainder(element, tuple(todo), state)
                    return

    def _wait(self, until: Timestamp | Duration | None) -> None:
        """Wait until the time that work is deferred to; in a stream for a moment, since a step is short."""
        if until is None:
            return
        begin = Timestamp.now()
        end = until if isinstance(until, Timestamp) else begin + until
        longest = None if self.most_claims is None else _MOMENT
        seconds = (end - Timestamp.now()).micros / 1_000_000
        if seconds > 0:
            time.sleep(seconds if longest is None else min(seconds, longest))

    def finish_bundle(self) -> Iterable[Any] | None:
        return self.fn.finish_bundle()

    def teardown(self) -> None:
        self.fn.teardown()

    def default_label(self) -> str:
        return self.fn.default_label()
